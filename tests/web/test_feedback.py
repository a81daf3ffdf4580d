"""Feedback on answers: a thumb with a word is kept, exported, brought back, and counted."""

import json
from pathlib import Path
from typing import Any

from recollect import Client
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.client_cli.conftest import Recollect
from tests.web.conftest import Browsing, Stage, axe, wait
from tests.web.test_actions import exported

KEY = "page.feedback"


def kept(stage: Stage, conversation_id: str) -> dict[str, Any]:
    """Return what is kept of answers, by turn, without the times."""
    metadata = stage.client.conversations.get(conversation_id).metadata
    of_turns = {key: value for key, value in metadata.items() if key.startswith(f"{KEY}.")}
    assert (KEY in metadata) is bool(of_turns)
    return {
        key.removeprefix(f"{KEY}."): {name: it for name, it in value.items() if name != "time"}
        for key, value in of_turns.items()
    }


def test_a_thumb_is_kept_with_its_word_and_taken_back(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Rated", "the lighthouse", "the harbour")
    page = window.tab(f"/c/{it}", ".message")
    second = page.locator(".message.assistant").last
    assert page.locator(".message.user [aria-label='A good answer']").count() == 0
    second.hover()
    second.get_by_label("A bad answer").click()
    page.wait_for_selector(".feedback input:focus")
    assert kept(stage, it) == {"2": {"rating": "down"}}
    page.keyboard.type("It is closed <b>today</b>")
    page.keyboard.press("Enter")
    page.wait_for_selector(".feedback-word >> text=It is closed <b>today</b>")
    assert kept(stage, it) == {"2": {"rating": "down", "comment": "It is closed <b>today</b>"}}
    assert axe(page) == []
    # another tab sees it, and one thumb is in place of the other
    other = window.tab(f"/c/{it}", ".feedback-word")
    second.get_by_label("A good answer").click()
    page.wait_for_selector(".feedback input:focus")
    page.keyboard.press("Escape")
    other.wait_for_selector(".feedback-word", state="detached")
    pressed = other.locator(".message [aria-pressed=true]")
    assert pressed.get_attribute("aria-label") == "A good answer"
    assert kept(stage, it) == {"2": {"rating": "up"}}
    second.get_by_label("A good answer").click()
    wait(
        page,
        "!document.querySelector('.message [aria-label=\"A good answer\"][aria-pressed=true]')",
    )
    assert kept(stage, it) == {}
    page.close()
    other.close()


def test_the_word_to_an_answer_goes_with_a_message_of_its_turn(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Taken away", "the lighthouse", "the harbour")
    values = {f"{KEY}.{turn}": {"rating": "down", "comment": f"word {turn}"} for turn in (1, 2)}
    stage.client.conversations.update_metadata(it, {KEY: True, **values})
    page = window.tab(f"/c/{it}", ".feedback-word >> text=word 2")
    page.locator(".message.user").last.hover()
    page.locator(".message.user").last.get_by_label("Take its text away").click()
    page.click("dialog button >> text=Redact")
    page.wait_for_selector(".feedback-word >> text=word 2", state="detached")
    page.wait_for_selector("dialog >> text=1 message was redacted")
    assert kept(stage, it) == {"1": {"rating": "down", "comment": "word 1"}}
    assert b"word 2" not in b"".join(
        path.read_bytes() for path in stage.settings.data_dir.rglob(f"{it}.jsonl")
    )
    page.close()


def test_feedback_is_exported_and_comes_back(
    stage: Stage, window: Browsing, tmp_path: Path
) -> None:
    it = stage.conversation("Exported", "the lighthouse")
    value = {"rating": "up", "comment": "short", "time": "2026-11-28T10:00:00Z"}
    stage.client.conversations.update_metadata(it, {KEY: True, f"{KEY}.1": value})
    page = window.tab(f"/c/{it}", ".feedback-word")
    markdown = exported(page, "Markdown")
    lines = exported(page, "for recollect import")
    page.close()
    assert "*Marked as a good answer: short*" in markdown
    metadata = [json.loads(line).get("metadata") for line in lines.splitlines()]
    assert {KEY: True, f"{KEY}.1": value} in metadata
    file = tmp_path / "exported.jsonl"
    file.write_text(lines)
    values = {"listen": "127.0.0.1:0", "data_dir": tmp_path / "other"}
    another = app.start(Settings.load(None, values))
    with Client(another.address) as client:
        assert Recollect(another.address)("import", str(file)).code == 0
        (brought,) = client.conversations.list()
        assert brought.metadata[f"{KEY}.1"] == value
    another.stop()


def test_insights_count_feedback_with_its_words(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Counted", "one", "two", "three")
    page = window.tab(f"/c/{it}", ".message")
    answers = page.locator(".message.assistant")
    for index, label in enumerate(("A good answer", "A bad answer", "A good answer")):
        answers.nth(index).hover()
        answers.nth(index).get_by_label(label).click()
        page.wait_for_selector(".feedback input:focus")
        page.keyboard.type(f"word {index}")
        page.keyboard.press("Enter")
        page.wait_for_selector(f".feedback-word >> text=word {index}")
    old = {"rating": "down", "comment": "long ago", "time": "2020-01-01T00:00:00Z"}
    stage.client.conversations.update_metadata(it, {f"{KEY}.9": old})
    page.goto(f"{window.bridge.origin}/insights?range=7d")
    card = page.locator(".card", has_text="Feedback on answers")
    card.locator("li >> text=word 1").wait_for()
    texts = card.inner_text()
    assert "long ago" not in texts
    items = card.locator("li span", has_text="Counted").all_inner_texts()
    words = [item.split(" Counted")[0] for item in items]
    assert words == ["word 2", "word 1", "word 0"]
    assert axe(page) == []
    card.locator("a", has_text="Turn 2").click()
    page.wait_for_selector("[data-target=true] >> text=two")
    page.close()
