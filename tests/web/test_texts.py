"""What a message holds: lists, tables and quotations in both directions of writing."""

from typing import Any

import pytest
from recollect import Message

from tests.web.conftest import TOO_WIDE, Browsing, Stage, axe

ARABIC = """أهلا بك

1. أول عنصر في القائمة
2. ثاني عنصر: English first
3. ثالث عنصر

> اقتباس من شخص ما

| الاسم | العدد |
|---|---|
| علي | 7 |
"""


def answer(stage: Stage, text: str) -> str:
    """Store a conversation whose last message is an answer with this text."""
    messages = [Message.user("Show it"), Message.assistant(text)]
    return stage.client.conversations.create("web", messages=messages).id


def box(page: Any, selector: str) -> dict[str, float]:
    """Return where an element stands."""
    found: dict[str, float] = page.locator(selector).first.bounding_box()
    return found


@pytest.mark.parametrize("width", [1280, 390])
def test_what_is_written_from_right_to_left_is_laid_out_so(
    stage: Stage, window: Browsing, width: int
) -> None:
    page = window.tab(f"/c/{answer(stage, ARABIC)}", ".markdown table")
    page.set_viewport_size({"width": width, "height": 800})
    numbers = page.evaluate("""() => {
      const list = document.querySelector('.markdown ol');
      const style = getComputedStyle(list);
      return [style.direction, parseFloat(style.paddingRight), parseFloat(style.paddingLeft)];
    }""")
    assert numbers == ["rtl", 24, 0]  # the numbers stand in the padding
    column, item = box(page, ".assistant .markdown"), box(page, ".markdown li")
    assert item["x"] + item["width"] + 24 <= column["x"] + column["width"] + 1
    quote = "getComputedStyle(document.querySelector('.markdown blockquote'))"
    assert page.evaluate(f"[{quote}.borderRightWidth, {quote}.borderLeftWidth]") == ["3px", "0px"]
    first, second = box(page, ".markdown th >> nth=0"), box(page, ".markdown th >> nth=1")
    assert first["x"] > second["x"]
    table, region = box(page, ".markdown table"), box(page, ".markdown .table")
    assert abs(table["x"] + table["width"] - region["x"] - region["width"]) < 1
    assert page.evaluate(TOO_WIDE) == []
    assert axe(page) == []
    page.close()


def test_what_is_written_from_left_to_right_stays_so_beside_it(
    stage: Stage, window: Browsing
) -> None:
    text = "1. one: אחת\n2. two\n\n> quoted\n\n| a | b |\n|---|---|\n| שלום | 2 |"
    page = window.tab(f"/c/{answer(stage, text)}", ".markdown table")
    for part in ("ol", "blockquote", "table"):
        direction = f"getComputedStyle(document.querySelector('.markdown {part}')).direction"
        assert page.evaluate(direction) == "ltr", part
    cell = "getComputedStyle(document.querySelector('.markdown td')).direction"
    assert page.evaluate(cell) == "rtl"
    page.close()
