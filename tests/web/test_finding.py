"""Finding words: in a conversation, and from a search to where they stand in one."""

from typing import Any

from recollect import Message, ToolCall

from tests.waiting import until
from tests.web.conftest import Browsing, Stage, axe, wait

MARKED = """(name) => [...CSS.highlights.get(name)].map((it) => it.toString())"""
"""The words that a browser draws a mark over, of one kind of marks."""
IN_SIGHT = """() => [...CSS.highlights.get('current')].some((it) => {
  const box = it.getBoundingClientRect();
  const frame = document.querySelector('.transcript').getBoundingClientRect();
  const code = it.startContainer.parentElement.closest('pre')?.getBoundingClientRect() ?? frame;
  return box.height && box.top >= Math.max(frame.top, code.top) - 1
    && box.bottom <= Math.min(frame.bottom, code.bottom) + 1;
})"""
"""True if the place that finding has come to is on the screen."""


def find(page: Any, words: str, status: str) -> None:
    """Look for words in the conversation that is shown, and wait for what is said of them."""
    if not page.query_selector(".find input"):
        page.focus(".transcript")
        page.keyboard.press("f")
    page.fill(".find input", words)
    page.wait_for_selector(f".find-hit >> text=/^{status}$/")


BACK_TWICE = """() => {
  const key = {key: "Enter", shiftKey: true, bubbles: true, cancelable: true};
  const input = document.querySelector(".find input");
  for (let n = 0; n < 2; n++) input.dispatchEvent(new KeyboardEvent("keydown", key));
}"""
"""Presses Shift and Enter twice, faster than the page is drawn."""


def test_words_are_found_in_turns_that_the_page_does_not_hold(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Logbook", "The anchor dragged at Porto")
    for turn in range(90):
        stage.client.conversations.append_turn(it, [Message.user(f"Fair wind, day {turn}")])
    stage.client.conversations.append_turn(it, [Message.user("Porto again")])
    page = window.tab(f"/c/{it}", ".message >> text=Porto again")
    page.focus(".transcript")
    page.keyboard.press("f")
    page.wait_for_selector(".find input:focus")
    page.keyboard.type("porto")
    page.wait_for_selector(".find >> text=1 of 3")
    page.wait_for_selector(".message[data-target=true] >> text=The anchor dragged")
    assert axe(page) == []
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".message[data-target=true] >> text=Porto again")
    page.keyboard.press("Escape")
    page.wait_for_selector(".find", state="detached")
    until(lambda: page.evaluate(MARKED, "found") == [])
    page.close()


def test_among_twenty_thousand_messages_each_place_of_the_words_is_found_and_no_other(
    stage: Stage, window: Browsing
) -> None:
    it = stage.client.conversations.create("web").id
    for first in range(1, 10_001, 500):
        messages = []
        for turn in range(first, first + 500):
            messages += [Message.user(f"Question {turn}"), Message.assistant(f"Item {turn}.")]
        stage.client.conversations.append_turn(it, messages)
    page = window.tab(f"/c/{it}", ".message >> text=Item 10000.")
    find(page, "Item 9000", "1 of 1")
    page.wait_for_selector(".message[data-target=true] >> text=Item 9000.")
    wait(page, IN_SIGHT)
    assert page.evaluate(MARKED, "found") == ["Item 9000"]
    find(page, "item 90", "1 of 111")  # 90, 900 to 909 and 9000 to 9099
    page.wait_for_selector(".message[data-target=true] >> text=/^Item 90\\.$/")
    page.keyboard.press("Enter")
    page.wait_for_selector(".find-hit >> text=2 of 111")
    page.wait_for_selector(".message[data-target=true] >> text=Item 900.")
    page.evaluate(BACK_TWICE)
    page.wait_for_selector(".message[data-target=true] >> text=Item 9099.")
    find(page, "Item 10001", "These words are not here\\.")
    # what is said meanwhile counts too
    stage.client.conversations.append_turn(it, [Message.user("And item 10001")])
    page.wait_for_selector(".find-hit >> text=1 of 1")
    page.close()


def test_words_are_found_without_case_and_accents_and_across_what_emphasizes_them(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Café", "Où est le **Café** de la Gare?", "cafe, CAFÉ\nde la gare")
    page = window.tab(f"/c/{it}", ".message")
    find(page, "cafe de la  GARE", "1 of 4")  # each question comes back in its answer
    wait(page, IN_SIGHT)
    wait(page, f"({MARKED})('found').length === 4")
    assert page.evaluate(MARKED, "found")[0] == "Café de la Gare"
    find(page, "cafe", "1 of 6")
    wait(page, f"({MARKED})('found').length === 6")
    page.close()


def test_folds_open_where_the_words_are_in_them(stage: Stage, window: Browsing) -> None:
    log = "\n".join(f"line {number}" for number in range(3000)) + "\nthe valve stuck"
    call = ToolCall("1", "read_log", '{"path": "engine.log"}')
    messages = [
        Message.user("What happened?"),
        Message.assistant(thinking_text="Perhaps the pump", tool_calls=[call]),
        Message.tool(log, tool_call_id="1"),
        Message.assistant("It stuck."),
    ]
    it = stage.client.conversations.create("web", messages=messages).id
    page = window.tab(f"/c/{it}", ".message >> text=It stuck.")
    for words, text in (
        ("pump", "Perhaps the pump"),
        ("engine.log", "engine.log"),
        ("valve", "the valve stuck"),  # far behind what is shown of a long text
    ):
        find(page, words, "1 of 1")
        page.wait_for_selector(f".fold-body >> text={text}")
        wait(page, IN_SIGHT)
        assert page.evaluate(MARKED, "found") == [words]
    page.close()


def test_what_means_the_same_stands_in_a_line_of_its_own(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Repairs", "The furnace drips", "Nothing else", "Who is there?")
    page = window.tab(f"/c/{it}", ".message")
    find(page, "drips furnace", "These words are not here\\.")
    page.click(".find-meant button >> text=Turn 1")
    page.wait_for_selector(".message[data-target=true] .badge >> text=By meaning")
    assert axe(page) == []
    page.close()


def test_a_result_that_asks_shows_its_reply_in_a_line_that_opens(
    stage: Stage, window: Browsing
) -> None:
    it = stage.client.conversations.create("web").id
    talk = [Message.user("Who has the bongo?"), Message.assistant("Ann has it. " * 30)]
    stage.client.conversations.append_turn(it, talk)
    page = window.tab("/search?q=bongo", ".result")
    page.wait_for_selector(".result .reply >> text=Ann has it.")
    height = "document.querySelector('.result .reply').clientHeight"
    folded = page.evaluate(height)
    page.click(".result .reply summary")
    wait(page, f"{height} > {folded}")
    assert axe(page) == []
    page.close()


def test_a_result_of_a_search_leads_to_its_words(stage: Stage, window: Browsing) -> None:
    texts = [f"Day {day}" for day in range(80)]
    it = stage.conversation("Voyage", "We saw a kraken", *texts)
    page = window.tab("/search?q=kraken seen", ".result")
    page.click(".result h2 a >> text=Voyage")
    page.wait_for_selector(".message[data-target=true] >> text=We saw a kraken")
    wait(page, f"({MARKED})('found').includes('kraken')")
    page.wait_for_selector(".searched mark >> text=kraken")
    assert axe(page) == []
    page.click(".searched [aria-label='Take the marks away']")
    page.wait_for_selector(".searched", state="detached")
    wait(page, f"({MARKED})('found').length === 0")
    assert "words=" not in page.url
    # a mark that comes from meaning says so
    page.goto(f"{stage.bridge.origin}/c/{it}?turn=1&meant=kraken&by=meaning")
    page.wait_for_selector(".message[data-target=true] .badge >> text=By meaning")
    page.wait_for_selector(".searched >> text=by meaning: kraken")
    wait(page, f"({MARKED})('meant').includes('kraken')")
    assert page.evaluate(MARKED, "found") == []
    page.close()
