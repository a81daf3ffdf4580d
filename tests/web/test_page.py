"""The page in a real browser."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from recollect import Message, Role

from tests.web.conftest import Browsing, Stage, axe

STATIC = Path(__file__).parents[2] / "client/src/recollect/web/static"
ROWS = "[data-list] .row-link"


def test_what_is_said_anywhere_appears_without_a_reload(stage: Stage, window: Browsing) -> None:
    page = window.tab()
    it = stage.client.conversations.create("web")
    stage.client.conversations.append_turn(it.id, [Message.user("Is the disk full?")])
    page.click(f"#row-{it.id}")
    page.wait_for_selector("text=Is the disk full?")
    stage.client.conversations.append_turn(it.id, [Message.assistant("By 97 %.")])
    page.wait_for_selector("text=By 97 %.")
    stage.client.conversations.rename(it.id, "The disk")
    page.wait_for_selector(f"#row-{it.id} >> text=The disk")
    page.wait_for_selector("h1 >> text=The disk")
    page.close()


def test_what_is_written_on_the_page_is_stored(stage: Stage, window: Browsing) -> None:
    page = window.tab()
    page.keyboard.press("n")
    page.fill("textarea", "From the page")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=From the page")
    newest = next(iter(stage.client.conversations.list()))
    stored = stage.client.conversations.load(newest.id).messages
    assert [(it.role, it.content) for it in stored] == [(Role.USER, "From the page")]
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_shuts_anybody_out(stage: Stage, window: Browsing, theme: Any, width: int) -> None:
    it = stage.client.conversations.create("web")
    stage.client.conversations.append_turn(it.id, [Message.user("Hi"), Message.assistant("Hello")])
    page = window.tab()
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_selector(ROWS)
    assert axe(page) == []
    page.click(f"#row-{it.id}")
    page.wait_for_selector("text=Hello")
    assert axe(page) == []
    page.close()


def test_the_bundle_stays_small() -> None:
    first = ["page.js", "page.css", "worker.js", "hub.js"]
    size = sum(len(gzip.compress((STATIC / "assets" / it).read_bytes(), 9)) for it in first)
    assert size < 90_000
