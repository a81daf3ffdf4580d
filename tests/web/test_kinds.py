"""The page for each kind of token: what it offers, and that nothing it offers is refused."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from recollect import Client, Message
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.credentials.conftest import grant, tokens_of
from tests.web.conftest import Bridge, Browsing, choose, visit


class Signing(NamedTuple):
    """A page that asks for a token, and the tokens of each kind."""

    window: Browsing
    secrets: dict[str, str]
    conversation: str


class Offer(NamedTuple):
    """Views and controls that the page offers to a kind of token."""

    views: set[str]
    served: set[str]
    """The views of the server, among which links lead from one to the other."""
    writes: bool
    manages: bool
    answers: bool


READING = {"Search", "Insights", "Profile", "Third parties"}
SERVED = {"Health", "Tokens", "Audit", "Backups"}
OFFERS = {
    "reader": Offer(READING, set(), writes=False, manages=False, answers=False),
    "panel": Offer(READING, set(), writes=False, manages=True, answers=True),
    "brain": Offer(READING, set(), writes=True, manages=True, answers=True),
    "admin": Offer(READING | {"Server"}, SERVED, writes=True, manages=True, answers=True),
    "admin of all": Offer(
        READING | {"Server"}, SERVED | {"Settings"}, writes=True, manages=True, answers=True
    ),
}


@pytest.fixture(scope="module")
def signing(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signing]:
    """Start a server that asks for tokens, with a conversation and a third party."""
    folder = tmp_path_factory.mktemp("kinds") / "data"
    values = {"listen": "127.0.0.1:0", "data_dir": folder, "auth": "required"}
    server = app.start(Settings.load(None, values))
    tokens = tokens_of(folder, system_clock)
    grants = {kind: grant(kind) for kind in OFFERS if kind != "admin of all"}
    grants["admin of all"] = grant("admin", "*")
    secrets = {kind: tokens.create(it)[1] for kind, it in grants.items()}
    secrets["gateway"] = tokens.create(grant("gateway"))[1]
    with Client(server.address, token=secrets["admin"]) as client:
        it = client.conversations.create(
            "web", messages=[Message.user("The lighthouse"), Message.assistant("By nine.")]
        ).id
        client.channels.add_owner_identity("whatsapp", "+4917012345678")
        client.channels.receive("whatsapp", "m-1", "Shall I?", sender="+351912000100")
    secrets["project"] = tokens.create(grant("project", conversation_id=it))[1]
    bridge = Bridge(server.address)
    window = Browsing(browser, bridge)
    yield Signing(window, secrets, it)
    window.context.close()
    bridge.stop()
    server.stop()
    assert window.problems == []


@pytest.mark.parametrize("kind", OFFERS)
def test_a_token_is_offered_what_it_may_do_and_nothing_else(signing: Signing, kind: str) -> None:
    offer = OFFERS[kind]
    window, it = signing.window, signing.conversation
    page = window.tab(wait=".gate form")
    refused = refusals(page)
    page.fill("input[type=password]", signing.secrets[kind])
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#row-{it}")
    assert set(page.locator("nav.sections a").all_inner_texts()) == offer.views
    assert (page.locator("[aria-label='New conversation']").count() > 0) == offer.writes
    visit(page, f"/c/{it}?details=1")
    page.wait_for_selector(".details .facts")
    assert (page.locator("textarea").count() > 0) == offer.writes
    for control in ("Rename", "Edit topics"):
        assert (page.locator(f"main [aria-label='{control}']").count() > 0) == offer.manages
    assert (page.locator(".details >> text=Archive").count() > 0) == offer.manages
    for control in ("Go on from here in a copy", "Take its text away…", "A good answer"):
        assert (page.locator(f"main [aria-label='{control}']").count() > 0) == offer.writes
    page.click("main [aria-label='More actions']")
    page.wait_for_selector("[role=menu] >> text=Export…")
    assert (page.locator("[role=menu] >> text=Delete…").count() > 0) == offer.writes
    page.keyboard.press("Escape")
    page.fill(".context-form input", "lighthouse")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tier")
    # one that may be closed comes behind one that is open, which shows no refusal
    parts = {
        "/settings": ("Settings", ".setting"),
        "/search?q=lighthouse": ("Search", ".result"),
        "/health": ("Health", ".overall"),
        "/tokens": ("Tokens", ".token"),
        "/audit": ("Audit", ".audit .filters"),
        "/backups": ("Backups", ".backups .now"),
        "/insights": ("Insights", ".tiles"),
        "/third-parties": ("Third parties", ".people-rows a"),
    }
    for path, (name, shown) in parts.items():
        visit(page, path)
        if name in offer.views | offer.served:
            page.wait_for_selector(shown)
            if name in offer.served:
                assert set(page.locator("nav.tabs a").all_inner_texts()) == offer.served
        else:
            page.wait_for_selector("text=Your token does not allow this view.")
            assert "It takes the scope admin" in page.inner_text("main")
    page.click(".people-rows a")
    page.wait_for_selector(".said")
    assert (page.locator(".question-form input").count() > 0) == offer.answers
    assert (page.locator(".trust button").count() > 0) == offer.answers
    assert (page.locator(".exchange [aria-label='Delete…']").count() > 0) == offer.writes
    assert (page.locator(".said [aria-label^='Take its text']").count() > 0) == offer.writes
    # a token for one space has no space to choose
    assert page.locator(".space-button").count() == (kind == "admin of all")
    assert refused == []
    sign_out(page)


def refusals(page: Any) -> list[str]:
    """Return a list that takes the addresses of calls that are refused from now on."""
    refused: list[str] = []

    def note(answer: Any) -> None:
        if answer.status == 403:
            refused.append(answer.url)

    page.on("response", note)
    return refused


def sign_out(page: Any) -> None:
    choose(page, "Sign out")
    page.wait_for_selector(".gate form")
    page.close()


@pytest.mark.parametrize("kind", ["gateway", "project"])
def test_a_token_for_less_than_a_space_sees_no_more_than_that(signing: Signing, kind: str) -> None:
    window, it = signing.window, signing.conversation
    page = window.tab(wait=".gate form")
    page.fill("input[type=password]", signing.secrets[kind])
    page.keyboard.press("Enter")
    page.wait_for_selector(".shell")
    refused = refusals(page)
    assert page.locator("nav.sections a").count() == 0
    for key in ("n", "/"):
        page.keyboard.press(key)
    if kind == "gateway":
        page.wait_for_selector("text=Your token may read no conversations.")
        assert page.locator("[role=alert], .banner, .filter-bar").count() == 0
    else:
        page.click(f"#row-{it}")
        page.wait_for_selector("textarea")
        page.goto(f"{window.bridge.origin}/insights")
        page.wait_for_selector("text=Your token does not allow this view.")
        assert refused == []
    other = window.tab()
    sign_out(page)
    other.wait_for_selector(".gate form")  # every tab is signed out
    other.close()
