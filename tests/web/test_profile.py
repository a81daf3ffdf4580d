"""The view of what is known of the person: statements with their sources, and their removal."""

from collections.abc import Iterator

import pytest
from recollect import Client, Message
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.waiting import until
from tests.web.conftest import TOO_WIDE, Bridge, Browsing, Stage, axe

FACT, WISH = "I am allergic to hazelnuts.", "Always answer me in French."


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Start a server that embeds, and its page, over an empty folder."""
    folder = tmp_path_factory.mktemp("web") / "data"
    settings = Settings.load(
        None, {"listen": "127.0.0.1:0", "data_dir": folder, "embedder": "onnx"}
    )
    server = app.start(settings)
    bridge = Bridge(server.address)
    with Client(server.address) as client:
        yield Stage(server, bridge, client, settings)
    bridge.stop()
    server.stop()


def texts(stage: Stage) -> set[str]:
    return {it.text for it in stage.client.recall.get_profile().statements}


def test_what_is_known_is_shown_with_its_source_and_taken_away(
    stage: Stage, window: Browsing
) -> None:
    page = window.tab("/profile", ".profile >> text=Nothing is known yet")
    assert page.locator("main a", has_text="Say it now").count() == 1
    assert axe(page) == []
    there = stage.client.conversations.create("web")
    stage.client.conversations.append_turn(there.id, [Message.user(f"{FACT} {WISH}")])
    stage.client.recall.set_anchor("name", "Alex", source=(there.id, 2))
    until(lambda: texts(stage) == {FACT, WISH})
    page.reload()
    page.wait_for_selector(".statements li")
    headings = page.eval_on_selector_all(".profile h2", "all => all.map((it) => it.textContent)")
    assert headings == ["How to answer", "Health and diet", "Set by agents"]
    assert "name: Alex" in page.inner_text(".profile")
    assert axe(page) == []
    assert page.evaluate(TOO_WIDE) == []
    # the source: its conversation, with the words marked
    assert there.id in str(page.get_attribute(f".statements li:has-text('{FACT}') a", "href"))
    # it is asked once, and stays if the answer is no
    row = f".statements li:has-text('{FACT}')"
    page.click(f"{row} button")
    page.click(f"{row} >> text=Cancel")
    assert texts(stage) == {FACT, WISH}
    page.click(f"{row} button")
    page.click(f"{row} >> text=Take away")
    page.wait_for_selector(row, state="detached")
    assert texts(stage) == {WISH}
    page.click(".statements li:has-text('name: Alex') button")
    page.click(".statements li:has-text('name: Alex') >> text=Take away")
    page.wait_for_selector("text=Set by agents", state="detached")
    assert stage.client.recall.list_anchors() == ()
    page.close()
