"""The page for everybody: as axe judges it, at twice its size, without motion, in both themes."""

import pytest
from recollect import Message, ToolCall

from tests.web.conftest import COLOURS, ROW, TOO_WIDE, Browsing, Stage, axe, choose, visit, wait


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_shuts_anybody_out(stage: Stage, window: Browsing, width: int) -> None:
    it = stage.conversation("Open to all", "the lighthouse")
    call = Message.assistant(thinking_text="Hm", tool_calls=[ToolCall("1", "look", "{}")])
    stage.client.conversations.append_turn(it, [Message.user("And the tool?"), call])
    page = window.tab()
    page.set_viewport_size({"width": width, "height": 800})
    for path, awaited in (
        ("/", ROW),
        (f"/c/{it}", ".fold"),
        (f"/c/{it}?details=1", ".details .facts"),
        ("/search", "[role=search]"),
        ("/search?q=lighthouse", ".result"),
        ("/c/nothing", "main .state.empty"),
        ("/?named=nothing-has-this-name", ".conversations .empty"),
    ):
        visit(page, path)
        page.wait_for_selector(awaited)
        page.emulate_media(color_scheme="light")
        assert axe(page) == [], path
        page.emulate_media(color_scheme="dark")
        assert axe(page, COLOURS) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    visit(page, f"/c/{it}?details=1")
    page.fill(".context-form input", "the lighthouse")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tier a")
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert axe(page) == []
    page.close()


def test_a_page_at_twice_its_size_is_usable(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Twice the size", "the lighthouse")
    page = window.tab()
    page.set_viewport_size({"width": 640, "height": 400})  # 1280 x 800 at 200 %
    views = {
        "/": (ROW, "[data-list]", 3 * 56),
        f"/c/{it}": (".message", ".transcript", 120),
        "/search?q=lighthouse": (".result", ".search-scroll", 200),
        "/insights": (".chart", ".page-body", 200),
        "/settings": (".setting", ".page-body", 200),
        "/health": (".overall", ".page-body", 200),
        "/third-parties": (".people-list", ".people-list", 200),
        "/tokens": (".tokens .empty", ".page-body", 200),
        "/audit": (".audit .empty", ".page-body", 200),
        "/backups": (".backups .now", ".page-body", 200),
    }
    for path, (shown, part, least) in views.items():
        visit(page, path)
        page.wait_for_selector(shown)
        box = page.locator(part).bounding_box()
        assert page.evaluate(TOO_WIDE) == [], path
        assert box["height"] >= least, path
    page.close()


def test_nothing_moves_for_who_asks_for_that(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Still", "the lighthouse")
    page = window.tab(f"/c/{it}", ".message")
    page.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.publish_delta(it, "d1", 0, "By nine")
    page.wait_for_selector("[data-draft=d1]")
    wait(page, "document.getAnimations().length > 0")
    page.emulate_media(reduced_motion="reduce")
    wait(page, "document.getAnimations().length === 0")
    assert "By nine" in page.inner_text("[data-draft=d1]")
    page.close()


def test_forced_colours_leave_what_only_a_colour_says(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Chosen", "the lighthouse")
    stage.conversation("Of another channel", "the lighthouse", channel="cli")
    page = window.tab(f"/c/{it}", ".message")
    page.wait_for_selector(".live-live", state="attached")
    page.emulate_media(forced_colors="active")
    [canvas] = page.evaluate(_BACKGROUNDS, "body")
    unread = stage.conversation("Unread", "the lighthouse")
    page.wait_for_selector(f"#row-{unread} .unread")
    assert canvas not in page.evaluate(_BACKGROUNDS, ".live .dot, .unread")
    underlined = (
        "getComputedStyle(document.querySelector('.row [aria-current]')).textDecorationLine"
    )
    assert page.evaluate(underlined) == "underline"
    visit(page, "/insights")
    page.wait_for_selector(".legend .swatch")
    assert len({canvas, *page.evaluate(_BACKGROUNDS, ".legend .swatch")}) == 3
    page.close()


_BACKGROUNDS = """(selector) => [...document.querySelectorAll(selector)]
    .map((it) => getComputedStyle(it).backgroundColor)"""


def test_a_theme_is_chosen_by_hand(window: Browsing) -> None:
    page = window.tab()
    page.emulate_media(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    choose(page, "Theme: dark")
    assert page.evaluate(background) != light
    page.reload()
    page.click(".account")
    assert page.inner_text("[role=menu] [aria-checked=true]").startswith("Theme: dark")
    assert axe(page) == []
    page.click("[role=menu] >> text=Theme: as the system")
    assert page.evaluate(background) == light
    page.close()
