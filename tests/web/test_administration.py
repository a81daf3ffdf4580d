"""The views of who administers: tokens, what they did, and backups."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from recollect import Client, Message, Unauthenticated
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.buckets import KEY, SECRET, s3_store
from tests.credentials.conftest import grant, tokens_of
from tests.web.conftest import COLOURS, TOO_WIDE, Bridge, Browsing, axe, visit, wait

WALL = "The wall"
"""The note of a token that only reads."""


class Guarded(NamedTuple):
    """A page of a server that asks for tokens, signed in as its administrator."""

    window: Browsing
    address: str
    client: Client
    wall: str
    """The secret of a token that only reads."""
    backups: Path


@pytest.fixture(scope="module")
def guarded(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Start a server with a token that was used, and sign its administrator in."""
    folder = tmp_path_factory.mktemp("guarded")
    values: dict[str, object] = {
        "listen": "127.0.0.1:0",
        "data_dir": folder / "data",
        "auth": "required",
        "backup_dir": folder / "backups",
    }
    server = app.start(Settings.load(None, values))
    _, secret = tokens_of(folder / "data", system_clock).create(grant("admin", "*"))
    bridge = Bridge(server.address)
    window = Browsing(browser, bridge)
    with Client(server.address, token=secret) as client:
        client.conversations.create("web", messages=[Message.user("The lighthouse")])
        wall = client.admin.create_token("reader", note=WALL).secret
        with Client(server.address, token=wall) as reader:
            assert len(list(reader.conversations.list())) == 1
        page = window.tab(wait=".gate form")
        page.fill("input[type=password]", secret)
        page.keyboard.press("Enter")
        page.wait_for_selector(".shell")
        page.close()
        yield Guarded(window, server.address, client, wall, folder / "backups")
    window.context.close()
    bridge.stop()
    server.stop()
    assert window.problems == []


def test_each_token_says_what_it_allows_and_when_it_was_used(guarded: Guarded) -> None:
    page = guarded.window.tab("/tokens", ".token")
    row = page.locator(".token", has_text=WALL)
    assert row.locator(".badge").all_inner_texts() == ["Reading (reader)"]
    assert row.locator(".token-may").inner_text() == (
        "read conversations; search and recall; read third parties"
    )
    row.locator(".token-facts a").wait_for()
    facts = row.locator(".token-facts dd").all_inner_texts()
    assert (facts[0], facts[2]) == ("the space default", "never")
    own = page.locator(".token", has=page.locator("text=yours"))
    assert "Everything (admin)" in own.inner_text()
    assert "every space" in own.inner_text()
    row.locator(".token-facts a").click()  # leads to what it did
    page.wait_for_selector(".audit tbody tr")
    assert set(page.locator(".audit tbody th").all_inner_texts()) == {WALL}
    page.close()


def test_a_token_is_made_shown_this_once_and_revoked(guarded: Guarded) -> None:
    page = guarded.window.tab("/tokens", ".token")
    page.click("text=New token")
    page.fill("dialog [placeholder='Who or what holds it']", "Kim’s reader")
    page.select_option("dialog select >> nth=0", "custom")
    page.check("dialog >> text=read conversations")
    page.fill("dialog [aria-describedby=token-spaces-hint]", "Not a space!")
    page.click("text=Make the token")
    page.wait_for_selector("dialog [role=alert]")
    page.fill("dialog [aria-describedby=token-spaces-hint]", "default")
    page.click("text=Make the token")
    secret = page.wait_for_selector(".secret").inner_text()
    with Client(guarded.address, token=secret) as kim:
        assert len(list(kim.conversations.list())) == 1
    assert axe(page) == []
    page.click("text=I have it")
    page.wait_for_selector("dialog[open]", state="detached")
    row = page.locator(".token", has_text="Kim’s reader")
    row.wait_for()
    assert secret not in page.content()
    row.locator("button").click()
    page.wait_for_selector("dialog >> text=Calls with it fail from now on")
    page.wait_for_selector("dialog >> text=It was used last on")
    assert axe(page) == []
    page.click("dialog >> text=Cancel")
    row.locator("button").click()
    page.click("dialog .danger")
    row.locator("[data-tone=danger] >> text=revoked").wait_for()
    assert row.locator("button").count() == 0
    with Client(guarded.address, token=secret) as kim, pytest.raises(Unauthenticated):
        list(kim.conversations.list())
    page.reload()
    page.wait_for_selector(".token")
    assert page.locator(".token", has_text="Kim’s reader").count() == 0
    page.check("text=Ended ones too")
    page.locator(".token", has_text="Kim’s reader").wait_for()
    page.close()


def test_the_audit_counts_who_read_and_who_changed_what(guarded: Guarded) -> None:
    with Client(guarded.address, token=guarded.wall) as wall:
        assert wall.recall.search("lighthouse").results
        with pytest.raises(Exception, match="scope"):
            wall.conversations.create("web")
    page = guarded.window.tab("/audit", ".audit tbody tr")

    def rows() -> set[tuple[str, str]]:
        names = page.locator(".audit tbody th").all_inner_texts()
        methods = page.locator(".audit tbody td:nth-child(2)").all_inner_texts()
        return set(zip(names, methods, strict=True))

    page.select_option("select[name=token]", label=WALL)
    wait(
        page,
        "() => new Set([...document.querySelectorAll('.audit tbody th')].map((it) => it.innerText)).size === 1",
    )
    assert rows() == {
        (WALL, "ConversationService.List reads"),
        (WALL, "RecallService.Search reads"),
        (WALL, "ConversationService.Create changes"),
    }
    refused = page.locator("tr", has_text="ConversationService.Create")
    assert "1 refused" in refused.inner_text()
    page.select_option("select[name=what]", "changes")
    page.wait_for_selector("text=RecallService.Search", state="detached")
    assert rows() == {(WALL, "ConversationService.Create changes")}
    page.select_option("select[name=what]", "reads")
    page.fill(".audit [type=search]", "recall")
    page.wait_for_selector("text=1 call with 1 token")
    assert rows() == {(WALL, "RecallService.Search reads")}
    page.fill(".audit [type=search]", "nothing is called like this")
    page.wait_for_selector("text=No call is counted for this.")
    page.close()


def test_a_backup_is_made_and_says_what_it_holds(guarded: Guarded) -> None:
    page = guarded.window.tab("/backups", ".backups .now")
    page.wait_for_selector(f".facts:has-text('{guarded.backups}')")  # the setting
    page.fill(".now input", "Not A Name")
    page.click(".now button")
    page.wait_for_selector(".backups [role=alert]")
    page.fill(".now input", "before-the-move")
    page.click(".now button")
    page.wait_for_selector(".backups [role=status] dd")
    path = guarded.backups / "before-the-move"
    assert path.is_dir()
    facts = page.locator(".backups [role=status] dd").all_inner_texts()
    assert facts[:3] == [str(path), "default", "1"]
    command = f"recollect-server restore {path} --data-dir NEW"
    page.wait_for_selector(f".steps ~ figure pre:has-text('{command}')")  # it was listed since
    assert page.locator(".backups [role=alert]").count() == 0
    assert page.locator(".backups dl[role]").count() == 0  # a role would take the list's own away
    assert axe(page) == []
    page.close()


def test_the_backups_are_listed_newest_first_with_what_restores_each(guarded: Guarded) -> None:
    folder = guarded.backups
    older = guarded.client.admin.backup(name="older")
    guarded.client.admin.backup(name="newer")
    os.utime(folder / "older" / "backup.json", (1_700_000_000, 1_700_000_000))
    (folder / "recollect-20200101t000000z").mkdir()
    page = guarded.window.tab("/backups", ".backup")
    names = page.locator(".backup strong").all_inner_texts()
    assert names[-2:] == ["older", "recollect-20200101t000000z"]
    assert names.index("newer") < names.index("older")
    row = page.locator(".backup", has_text="older")
    assert row.locator(".backup-facts dd").all_inner_texts()[2:] == ["1", "default"]
    row.locator("summary").click()
    assert (
        row.locator("pre").inner_text() == f"recollect-server restore {older.path} --data-dir NEW"
    )
    interrupted = page.locator(".backup", has_text="20200101")
    assert interrupted.locator(".badge").all_inner_texts() == ["not complete"]
    assert interrupted.locator("summary").count() == 0
    assert axe(page) == []
    page.fill(".now input", "the-newest")
    page.click(".now button")
    page.locator(".backup strong >> text=the-newest").wait_for()  # without a reload
    page.close()


def test_a_server_without_a_folder_for_backups_says_what_to_set(window: Browsing) -> None:
    page = window.tab("/backups", ".backups .now")
    page.click(".now button")
    page.wait_for_selector("[role=alert]")
    assert "set backup_dir" in page.inner_text("[role=alert]")
    page.wait_for_selector("p.hint >> text=set backup_dir")  # nor has it any to list
    page.close()


@pytest.fixture
def copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Bridge, Path, str]]:
    """Start a server whose backups are copied to a bucket, and return its page, its folder of
    backups and the URL of the bucket, which has two complete copies.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with s3_store(tmp_path / "s3") as url:
        for name in ("recollect-20260101t000000z", "recollect-20260301t123456z"):
            (tmp_path / "s3/backups" / name).mkdir()
            (tmp_path / "s3/backups" / name / "backup.json").write_text("{}")
        values = {
            "listen": "127.0.0.1:0",
            "data_dir": tmp_path / "data",
            "backup_dir": tmp_path / "my backups",
            "backup_url": f"{url}/backups",
        }
        server = app.start(Settings.load(None, values))
        bridge = Bridge(server.address)
        yield bridge, tmp_path / "my backups", f"{url}/backups"
        bridge.stop()
        server.stop()


def test_the_copies_in_the_bucket_are_listed_with_what_brings_each_back(
    browser: Any, copying: tuple[Bridge, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge, folder, url = copying
    window = Browsing(browser, bridge)
    page = window.tab("/backups", "h2 >> text=Copies in the bucket")
    card = page.locator(".card", has_text="Copies in the bucket")
    card.locator("strong").first.wait_for()
    names = card.locator("strong").all_inner_texts()
    assert names == ["recollect-20260301t123456z", "recollect-20260101t000000z"]
    card.locator("summary").first.click()
    flags = f"--backup-dir '{folder}' --backup-url {url}"
    fetch = f"recollect-server backups fetch {names[0]} {flags}"
    assert card.locator("pre").first.inner_text() == fetch
    assert card.locator("pre").last.inner_text() == f"recollect-server backups upload {flags}"
    assert axe(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    assert (axe(page), page.evaluate(TOO_WIDE)) == ([], [])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    page.reload()
    card.locator("text=does not match the signature").wait_for()  # and the folder is listed
    page.locator(".card p.hint >> text=There is none yet.").wait_for()
    page.close()
    window.context.close()
    assert window.problems == []


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_views_of_administrators_shut_nobody_out(guarded: Guarded, width: int) -> None:
    guarded.client.admin.backup(name=f"at-{width}")
    page = guarded.window.tab()
    page.set_viewport_size({"width": width, "height": 800})
    for path, part in (
        ("/tokens?ended=1", ".token-facts a"),
        ("/audit", ".audit tbody tr"),
        ("/backups", ".backup"),
    ):
        page.emulate_media(color_scheme="light")
        visit(page, path)
        page.wait_for_selector(part)
        assert axe(page) == [], path
        page.emulate_media(color_scheme="dark")
        assert axe(page, COLOURS) == [], path
        assert page.evaluate(TOO_WIDE) == [], path
    page.close()


@pytest.fixture
def unguarded(browser: Any, tmp_path: Path) -> Iterator[tuple[Browsing, Client]]:
    """Start a server without tokens for one test, and open a window of it."""
    server = app.start(
        Settings.load(None, {"listen": "127.0.0.1:0", "data_dir": tmp_path / "data"})
    )
    bridge = Bridge(server.address)
    window = Browsing(browser, bridge)
    with Client(server.address) as client:
        yield window, client
    window.context.close()
    bridge.stop()
    server.stop()
    assert window.problems == []


def test_the_first_token_is_not_lost_though_the_page_needs_one_from_then_on(
    unguarded: tuple[Browsing, Client],
) -> None:
    window, client = unguarded
    page = window.tab("/tokens", ".tokens .empty")
    page.wait_for_selector("text=From the first token on everybody needs one")
    page.click("text=New token")
    page.wait_for_selector("dialog >> text=It is the first one")
    page.select_option("dialog select >> nth=0", "admin")
    page.fill("dialog [aria-describedby=token-spaces-hint]", "*")
    page.click("text=Make the token")
    secret = page.wait_for_selector(".secret").inner_text()
    with pytest.raises(Unauthenticated):
        client.conversations.create("web")
    # the page is refused too, whatever it asks for meanwhile
    page.wait_for_selector(".banner", state="attached")
    with page.expect_response("**/WhoAmI") as refusal:
        page.evaluate("document.querySelector('.banner button').click()")
    assert refusal.value.status == 401
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.inner_text(".secret") == secret
    page.click("text=I have it")
    page.fill("input[type=password]", secret)
    page.keyboard.press("Enter")
    page.wait_for_selector(".token >> text=yours")
    # and an own token that is revoked signs its page out
    page.locator(".token button").click()
    page.wait_for_selector("dialog >> text=you are signed out")
    page.click("dialog .danger")
    page.wait_for_selector(".gate form")
    page.close()
