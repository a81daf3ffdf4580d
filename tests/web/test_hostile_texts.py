"""Texts and addresses that nobody expects: the page shows them, and they do nothing else."""

import re

import pytest
from recollect import Attachment, EmailOrigin, Message, Party, ToolCall

from tests.web.conftest import TOO_WIDE, Browsing, Stage, visit, wait

HOSTILE = [
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">",
    "</title></textarea><svg onload=alert(1)>{{7*7}}${7*7}",
    "javascript:alert(1)",
    "\u202egnp.exe \u2066left\u2069 \u200fright\u200e",
    "שלום עולם العربية",
    "👩‍👩‍👧‍👦🏳️‍🌈 e\u0301\u0301\u0301\u0301 Z̷̡̛a̷͙͒l̵͉͠g̶̳̈o̸̜͝",
    "\x01\x1b[31mred\x7f\u0085\ufeff",
    "x" * 200,
]


def test_hostile_texts_are_text(stage: Stage, window: Browsing) -> None:
    ids = []
    for number, text in enumerate(HOSTILE):
        line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "", text)
        party = Party(contact=f"{number}-{line}"[:300], contact_name=text[:250])
        it = stage.client.conversations.create(
            f"hostile{number}", participants=[line[:250] or "x"], party=party
        )
        stage.client.conversations.append_turn(
            it.id,
            [
                Message.user(text, sender=line[:250],
                             attachments=[Attachment(text[:200] or "a/b", text)]),
                Message.assistant(
                    "```\n" + text, thinking_text=text, tool_calls=[ToolCall("1", text[:250], text)]
                ),
                Message.tool(text, tool_call_id="1"),
            ],
        )  # fmt: skip
        stage.client.conversations.rename(it.id, line[:80] or "x")
        stage.client.conversations.record_abbreviation(it.id, text)
        stage.client.recall.set_anchor(f"hostile{number}", text, source=(it.id, 2))
        ids.append(it.id)
    page = window.tab(f"/c/{ids[0]}?details=1")
    for identity, text in zip(ids, HOSTILE, strict=True):
        visit(page, f"/c/{identity}?details=1")
        wait(page, _SHOWS, text)
        for fold in page.query_selector_all(".fold summary"):
            fold.click()
        page.wait_for_selector(".anchors")
        assert page.evaluate("document.title").endswith("· Recollect")
        # nothing is wider than the screen, and no direction leaks out of a text
        assert page.evaluate(TOO_WIDE) == []
        assert page.query_selector("main img, main script, main iframe") is None
        titles = page.evaluate(
            "[...document.querySelectorAll('h1, .row-title')].map((it) => it.textContent).join('')"
        )
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f]", titles)
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_name_of_a_third_party_hides_neither_its_time_nor_its_marks(
    stage: Stage, window: Browsing, width: int
) -> None:
    address = f"{'very-long-' * 6}address@subdomain.example.org"
    origin = EmailOrigin(message_id="long", subject="A subject that goes on " * 9)
    stage.client.channels.receive("email", "long", "Hello", sender=address, origin=origin)
    page = window.tab("/third-parties", ".people-rows a")
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate(_CUT_IN_ROWS) == []
    assert page.evaluate("document.querySelector('.people-rows time').offsetWidth > 0")
    page.close()


_CUT_IN_ROWS = """() => {
  const edge = document.querySelector('.people-rows').getBoundingClientRect().right
  return [...document.querySelectorAll('.people-rows :is(a, time, .mark)')]
    .filter((it) => it.getBoundingClientRect().right > edge).map((it) => it.outerHTML.slice(0, 80))
}"""
"""The beginnings of the elements in the list of third parties that its edge cuts."""

_SHOWS = "(text) => document.querySelector('.message.user .text')?.textContent === text"


HOSTILE_ADDRESSES = [
    "/c/nothing",
    "/c/conv-01HQ0000000000000000000000",
    "/c/%ff%fe",
    "/third-parties/%ff",
    "/c/<script>",
    "/nothing",
    "/search?q=%00&from=x&to=9999-99-99",
    "/search?q=x&channel=%20&person=" + "p" * 300,
]


def test_hostile_addresses_say_what_is_wrong(window: Browsing) -> None:
    page = window.tab()
    for path in HOSTILE_ADDRESSES:
        page.goto(window.bridge.origin + path)
        page.wait_for_selector(".state:not(.loading)")
        assert page.inner_text("main .state").strip(), path
    page.close()


def test_a_title_has_as_many_characters_as_the_server_takes_not_units_of_utf_16(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Short")
    page = window.tab(f"/c/{it}", "h1 button")
    page.click("h1 button")
    page.wait_for_selector(".rename input:focus")
    page.keyboard.insert_text("x" * 81)
    page.keyboard.press("Enter")
    problem = page.wait_for_selector(".rename-problem").inner_text()
    assert problem == "has 81 characters; 1 to 80 are allowed"
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("🙂" * 80)
    page.keyboard.press("Enter")
    page.wait_for_selector(".rename", state="detached")
    assert stage.client.conversations.get(it).title == "🙂" * 80
    page.close()
