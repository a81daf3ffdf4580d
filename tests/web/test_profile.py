"""The view of what is known of the person: statements with their sources, and their removal."""

from collections.abc import Iterator

import pytest
from recollect import AnchorSource, Client, Message
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
    page.click(f"{row} [title='Take away']")
    page.click(f"{row} >> text=Cancel")
    assert texts(stage) == {FACT, WISH}
    page.click(f"{row} [title='Take away']")
    page.click(f"{row} >> text=Take away")
    page.wait_for_selector(row, state="detached")
    assert texts(stage) == {WISH}
    page.click(".statements li:has-text('name: Alex') [title='Take away']")
    page.click(".statements li:has-text('name: Alex') >> text=Take away")
    page.wait_for_selector("text=Set by agents", state="detached")
    assert stage.client.recall.list_anchors() == ()
    page.close()


def test_what_is_known_is_corrected_in_place_by_keyboard(stage: Stage, window: Browsing) -> None:
    recall, conversations = stage.client.recall, stage.client.conversations
    there = conversations.create("web", messages=[Message.user("My sister Mira lives in Ghent.")])
    recall.set_anchor("city", "Porto", confidence=0.6)
    until(lambda: "My sister Mira lives in Ghent." in texts(stage))
    page = window.tab("/profile", ".statements li:has-text('Ghent')")
    page.press(".statements li:has-text('Ghent') [title=Correct]", "Enter")
    page.wait_for_selector(".statements input:focus")
    assert axe(page) == []
    page.keyboard.press("Escape")  # nothing changes
    page.wait_for_selector(".statements li:has-text('Ghent') [title=Correct]:focus")
    page.keyboard.press("Enter")
    page.wait_for_selector(".statements input:focus")
    page.keyboard.press("Control+a")
    page.keyboard.type("My sister Mira lives in Bruges.")
    page.keyboard.press("Enter")
    section = "section[aria-label='People and animals'] li"
    page.wait_for_selector(f"{section} >> text=My sister Mira lives in Bruges.")
    page.wait_for_selector(f"{section}:has-text('Ghent')", state="detached")
    assert "Corrected here" in page.inner_text(section)
    assert "My sister Mira lives in Ghent." not in texts(stage)
    corrected = {it.key: it for it in recall.list_anchors()}["profile.people"]
    assert (corrected.confidence, corrected.source) == (1.0, AnchorSource(there.id, 2))
    # it is what agents read, and where it was said stays as it was
    assert "Mira lives in Bruges" in recall.build_context(message="Where is Mira?").rendered
    assert "Ghent" in conversations.load(there.id).messages[0].content
    # a fact of an agent keeps its key; one that was corrected is corrected again in its place
    for old, new in (("city: Porto", "Braga"), ("lives in Bruges", "Mira lives in Liège.")):
        page.click(f".statements li:has-text('{old}') [title=Correct]")
        page.fill(".statements input", new)
        page.keyboard.press("Enter")
        page.wait_for_selector(f".statements li >> text={new}")
    anchors = {it.key: it.value for it in recall.list_anchors()}
    assert anchors == {"city": "Braga", "profile.people": "Mira lives in Liège."}
    assert (axe(page), page.evaluate(TOO_WIDE)) == ([], [])
    page.close()
    for key in anchors:
        recall.delete_anchor(key)


def test_a_correction_that_is_refused_keeps_what_was_typed(stage: Stage, window: Browsing) -> None:
    stage.client.recall.set_anchor("city", "Porto")
    page = window.tab("/profile", ".statements li:has-text('city: Porto')")
    page.route("**/*.RecallService/SetAnchor", lambda it: it.abort())
    page.click(".statements li:has-text('city: Porto') [title=Correct]")
    page.fill(".statements input", "Braga")
    page.keyboard.press("Enter")
    page.wait_for_selector(".notice")
    assert page.input_value(".statements input") == "Braga"
    page.unroute("**/*.RecallService/SetAnchor")
    page.press(".statements input", "Enter")
    page.wait_for_selector(".statements li >> text=city: Braga")
    page.close()
    stage.client.recall.delete_anchor("city")
