"""The page while servers die, and with tokens: what a browser may see, and what it never holds."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Message
from recollect_server.domain.time import system_clock

from tests.crash.load import process
from tests.credentials.conftest import grant, tokens_of
from tests.waiting import until
from tests.web.conftest import Bridge, Browsing, Stage, choose


@pytest.fixture
def stopping() -> Iterator[list[Bridge]]:
    """Stop bridges at the end of a test."""
    bridges: list[Bridge] = []
    yield bridges
    for bridge in bridges:
        bridge.stop()


@pytest.mark.parametrize("worker", [True, False], ids=["shared worker", "one tab leads"])
def test_tabs_miss_nothing_while_the_server_is_killed(
    browser: Any, tmp_path: Path, stopping: list[Bridge], worker: bool
) -> None:
    data = tmp_path / "data"
    with process(data) as first:
        bridge = Bridge(first.target)
        stopping.append(bridge)
        with Client(first.target) as client:
            it = client.conversations.create("web").id
            client.conversations.append_turn(it, [Message.user("m 1")])
        window = Browsing(browser, bridge)
        if not worker:
            window.context.add_init_script("delete globalThis.SharedWorker")
        reading: set[str] = set()
        window.context.on("request", lambda it: reading.add(it.url))
        for event in ("requestfinished", "requestfailed"):
            window.context.on(event, lambda it: reading.discard(it.url))
        tabs = [window.tab(f"/c/{it}", wait="text=m 1") for _ in range(2)]
        for tab in tabs:
            tab.wait_for_selector(".live-live", state="attached")
            for _ in range(3):  # what is read once the stream stands is on its way now
                tab.evaluate("new Promise(requestAnimationFrame)")
        reads = "/List", "/ListTopics", "/Load"
        until(lambda: not any(it.endswith(reads) for it in reading) or tabs[0].wait_for_timeout(20))
        first.kill()
    read_again: list[str] = []
    for tab in tabs:
        tab.on("request", lambda it: read_again.append(it.url.rsplit("/", 1)[1]))
        tab.wait_for_selector(".banner >> text=Not connected")
    with process(data, listen=first.target) as second, Client(second.target) as client:
        # said before the page is back: it comes by the cursor
        for number in range(2, 6):
            client.conversations.append_turn(it, [Message.user(f"m {number}")])
        for tab in tabs:
            tab.wait_for_selector(".live-live", state="attached")
            tab.wait_for_selector("text=m 5")
        tabs[0].close()  # without a worker the other tab leads now
        for number in range(6, 9):
            client.conversations.append_turn(it, [Message.user(f"m {number}")])
        tabs[1].wait_for_selector("text=m 8")
        shown = tabs[1].locator(".message .text").all_inner_texts()
        assert shown == [f"m {number}" for number in range(1, 9)]
        # the stream, and the tab that leads next, went on where they were: nothing was read anew
        assert not {"List", "Load"} & set(read_again)
        assert tabs[1].locator(f"#row-{it}").count() == 1
        streams = client.conversations.list()  # the server answers others too
        assert next(iter(streams)).id == it
    window.context.close()
    assert window.problems == []


def test_tabs_take_another_worker_where_theirs_ended(
    browser: Any, window: Browsing, stage: Stage
) -> None:
    """A browser ends workers, for want of memory or as a tab joins one; no event says so."""
    it = stage.conversation("Worker", "before")
    tabs = [window.tab(f"/c/{it}", wait="text=before >> nth=0") for _ in range(2)]
    for tab in tabs:
        tab.wait_for_selector(".live-live", state="attached")
    devtools = browser.new_browser_cdp_session()
    targets = devtools.send("Target.getTargets")["targetInfos"]
    workers = [it for it in targets if it["type"] == "shared_worker"]
    [worker] = [it for it in workers if it["url"].startswith(window.bridge.origin)]
    assert devtools.send("Target.closeTarget", {"targetId": worker["targetId"]})["success"]
    stage.client.conversations.append_turn(it, [Message.user("said while nobody listened")])
    for tab in tabs:
        tab.wait_for_selector("text=said while nobody listened")
    stage.client.conversations.append_turn(it, [Message.user("said to another worker")])
    for tab in tabs:
        tab.wait_for_selector("text=said to another worker")
        tab.close()


def test_a_page_signs_in_and_shows_what_its_token_allows(
    browser: Any, tmp_path: Path, stopping: list[Bridge]
) -> None:
    data = tmp_path / "data"
    tokens = tokens_of(data, system_clock)
    with process(data, "", "127.0.0.1:0", "--auth", "required") as server:
        brain, admin = (tokens.create(grant(kind)) for kind in ("brain", "admin"))
        reader_token, reader = tokens.create(grant("custom", scopes=("conversations.read",)))
        with Client(server.target, token=brain[1]) as client:
            it = client.conversations.create("web").id
            client.conversations.append_turn(it, [Message.user("only for readers")])
        bridge = Bridge(server.target)
        stopping.append(bridge)
        window = Browsing(browser, bridge)
        page = window.tab(wait=".gate form")
        page.fill("input[type=password]", "rcl_wrong")
        page.click("text=Sign in >> nth=-1")
        page.wait_for_selector(".gate [role=alert]")
        page.fill("input[type=password]", reader)
        page.keyboard.press("Enter")
        page.click(f"#row-{it}")
        page.wait_for_selector("text=only for readers")
        # it may read: no search, no writing, no renaming
        page.wait_for_selector("text=Your token may read, not write.")
        assert page.locator("nav a >> text=Search").count() == 0
        assert page.locator("[aria-label=Rename], [aria-label='New conversation']").count() == 0
        page.goto(f"{bridge.origin}/search")
        page.wait_for_selector("text=Your token does not allow this view.")
        # no script can read the token or the cookie
        held = page.evaluate(
            "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])"
        )
        assert reader.split("_")[-1] not in held
        assert "recollect-web" not in held
        # when the token ends, so does what the page may see
        tokens.revoke(reader_token.id)
        page.wait_for_selector(".banner, .gate form")
        page.goto(f"{bridge.origin}/c/{it}")
        page.wait_for_selector(".gate form")
        page.fill("input[type=password]", brain[1])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav a >> text=Search")
        choose(page, "Sign out")
        page.wait_for_selector(".gate form")
        assert window.problems == []
        window.context.close()
    assert admin


def test_another_browser_needs_another_address(
    browser: Any, tmp_path: Path, stopping: list[Bridge]
) -> None:
    with process(tmp_path / "data") as server:
        bridge = Bridge(server.target)
        stopping.append(bridge)
        window = Browsing(browser, bridge)
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{bridge.origin}/#key={bridge.keys[0]}")
        page.wait_for_selector("text=This browser is not signed in")
        assert "#" not in page.url
        page.goto(f"{bridge.origin}/?again#key={bridge.keys[-1]}")
        page.wait_for_selector(".shell")
        context.close()
        window.context.close()


def test_a_browser_stays_signed_in_and_its_page_goes_on_where_the_bridge_restarts(
    browser: Any, tmp_path: Path, stopping: list[Bridge]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    with process(tmp_path / "data") as server, Client(server.target) as client:
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}
        bridge = Bridge(server.target, listen, **state)
        window = Browsing(browser, bridge)
        it = client.conversations.create("web", messages=[Message.user("Before")]).id
        page = window.tab(f"/c/{it}", ".shell .live-live")
        bridge.stop()
        page.fill(".composer textarea", "Said while it was away")
        page.keyboard.press("Enter")
        page.wait_for_selector(".composer .error")
        again = Bridge(server.target, listen, **state)
        stopping.append(again)
        page.wait_for_selector(".shell .live-live")
        client.conversations.append_turn(it, [Message.user("After the restart")])
        page.wait_for_selector(".message >> text=After the restart")
        # What was not sent is there to be sent, without the failure of before.
        page.wait_for_selector(".composer .error", state="detached")
        assert page.input_value(".composer textarea") == "Said while it was away"
        [key] = (tmp_path / "state/recollect").iterdir()
        assert key.stat().st_mode & 0o077 == 0
        # A cookie of another key opens nothing.
        again.stop()
        key.write_bytes(bytes(32))
        other = Bridge(server.target, listen, **state)
        stopping.append(other)
        page.reload()
        page.wait_for_selector("text=This browser is not signed in")
        window.context.close()


def test_a_page_without_a_server_says_so(
    browser: Any, tmp_path: Path, stopping: list[Bridge]
) -> None:
    with process(tmp_path / "data") as server:
        target = server.target
    bridge = Bridge(target)
    stopping.append(bridge)
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{bridge.origin}/#key={bridge.keys[0]}")
    page.wait_for_selector("text=The Recollect server cannot be reached")
    with process(tmp_path / "data", listen=target):
        page.wait_for_selector(".shell")
    until(lambda: not page.query_selector(".shell .live-live"))
    assert page.is_visible(".shell")  # what was read stays
    context.close()
