"""Reading on the page: lists, transcripts, what stands beside them, and searches."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Message, Party, Role, ToolCall, Usage
from recollect.adapters.packing import FILES
from recollect.adapters.transcripts import Transcript, Words
from recollect_server.recall.model.weights import TOKENIZER, shipped
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.waiting import until
from tests.web.conftest import ROW, Bridge, Browsing, Stage, axe, visit, wait

NOW = datetime.now(UTC)


def test_the_page_begins_at_the_newest_conversation_of_its_own_channel(
    stage: Stage, window: Browsing
) -> None:
    newest = stage.conversation("Begun here", "The newest of the web")
    stage.conversation("Begun elsewhere", "Newer", channel="cli")
    page = window.tab("/", wait=".message >> text=The newest of the web")
    assert page.url.endswith(f"/c/{newest}")
    page.click(".brand-name a")  # and leads home from there
    page.wait_for_selector("main .hints")
    page.close()


def test_what_an_adapter_keeps_for_its_program_is_folded_and_named_and_no_thinking(
    stage: Stage, window: Browsing
) -> None:
    """The lines of Claude Code that nobody said, and the bytes of a file, as its store has them."""
    transcript = Transcript(stage.client, "claude-agent", Party(group_id="shop"), "claudeAgent")
    lines = '[{"type":"summary","summary":"Settings of a run"}]'
    picture = {"text": "See this.", "image": "data:image/png;base64," + "iVBORw0K" * 9000}
    hidden = Words(role=Role.ASSISTANT, kind="lines", overflow=FILES, is_hidden=True)
    thought = Words(role=Role.ASSISTANT, texts=[["text"]], thinking=[["thinking"]])
    it = transcript.add(
        [
            (picture, Words(role=Role.USER, texts=[["text"]], overflow=FILES)),
            ({"text": "I see.", "thinking": "A picture, then"}, thought),
            ({"before": lines}, hidden),
        ]
    )
    assert it is not None
    page = window.tab(f"/c/{it.id}", ".fold")
    titles = page.locator(".fold .fold-title").all_inner_texts()
    assert titles == ["File", "Thinking", "Kept for the agent's program"]
    assert page.locator(".fold em").all_inner_texts() == ["part 1 of 1"]
    assert "[lines]" not in page.locator(".transcript").inner_text()
    fold = page.locator(".fold", has_text="Kept for the agent's program")
    assert "nothing of it was said" in fold.inner_text()
    fold.locator("summary").click()
    fold.locator("text=Settings of a run").wait_for()
    assert axe(page) == []
    page.close()


def test_a_list_says_where_a_conversation_is_and_whether_it_was_read(
    stage: Stage, window: Browsing
) -> None:
    party = Party(contact="4915112345678", contact_name="Hanan")
    page = window.tab()
    page.wait_for_selector(".conversations h2")
    it = stage.conversation("Dinner", "a table", channel="whatsapp", party=party, pinned=True)
    row = page.wait_for_selector(f"#row-{it}")
    page.wait_for_selector(f"#row-{it} .unread")
    text = row.inner_text()
    assert "WhatsApp" in text
    assert "Hanan" in text
    assert "read only here" in text
    row.click()
    page.wait_for_selector("text=Pinned to Hanan on WhatsApp")
    assert page.query_selector("textarea") is None
    page.wait_for_selector(f"#row-{it} .unread", state="detached")
    page.close()


def test_a_row_says_who_said_what_last(stage: Stage, window: Browsing) -> None:
    page = window.tab()
    page.wait_for_selector(".live-live", state="attached")
    conversations = stage.client.conversations
    party = Party(group_id="7", group_name="Flat hunters")
    group = stage.conversation("In Ghent", "a flat", channel="discord", party=party)
    words = page.locator(f"#row-{group} .row-meta")
    expect = [("Assistant:", "About a flat: noted.")]
    jonas = Message(role=Role.USER, content="I *saw* one", sender="77", sender_name="Jonas")
    expect.append(("Jonas:", "I saw one"))
    page.wait_for_selector(f"#row-{group} >> text=In Ghent")  # until then the group is its name
    until(lambda: expect[0][1] in words.inner_text() or page.wait_for_timeout(20))
    assert words.inner_text().split("\n") == ["Discord", "Flat hunters", *expect[0]]
    turn = conversations.append_turn(group, [jonas])
    until(lambda: expect[1][1] in words.inner_text() or page.wait_for_timeout(20))
    assert words.inner_text().split("\n") == ["Discord", "Flat hunters", *expect[1]]
    conversations.redact_message(group, turn.messages[0].sequence)
    until(lambda: expect[0][1] in words.inner_text() or page.wait_for_timeout(20))
    party = Party(contact="1", contact_name="Noor")
    other = conversations.create("whatsapp", party=party, messages=[Message.user("Hello")])
    own = conversations.create("web", messages=[Message.user("# مرحبا\n\n## ثم\n\n`make` C# # 5")])
    conversations.publish_delta(other.id, "d1", 0, "By nine")
    page.wait_for_selector(f"#row-{own.id} .row-who")
    assert page.inner_text(f"#row-{own.id} .row-meta").split("\n") == [
        "Web",
        "You:",
        "مرحبا ثم make C# # 5",
    ]
    direction = f"getComputedStyle(document.querySelector('#row-{own.id} .row-words')).direction"
    assert page.evaluate(direction) == "rtl"
    page.wait_for_selector(f"#row-{other.id} >> text=an answer is being written")
    conversations.append_turn(other.id, [Message.assistant("By nine.")], draft_id="d1")
    page.wait_for_selector(f"#row-{other.id} .row-who")
    shown = page.inner_text(f"#row-{other.id} .row-meta").split("\n")
    assert shown == ["WhatsApp", "Assistant:", "By nine."]
    page.close()


def test_most_of_the_sidebar_is_the_list(stage: Stage, window: Browsing) -> None:
    stage.conversation("In the list", "Here")
    page = window.tab("/", ROW)
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.locator("[data-list]").bounding_box()["height"] >= 0.8 * 800
    names = page.locator(".sections a")
    assert names.count() == 5
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        if width < 761:
            visit(page, "/")
        edge = page.locator(".sections").bounding_box()
        for it in names.all():
            box = it.bounding_box()
            assert box["x"] + box["width"] <= edge["x"] + edge["width"]
    cut = "all => all.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.innerText)"
    assert names.evaluate_all(cut) == []
    page.close()


def test_a_long_list_is_a_short_page(stage: Stage, window: Browsing) -> None:
    for number in range(120):
        stage.client.conversations.create("list", messages=[Message.user(f"item {number}")])
    page = window.tab("/?on=list")
    page.wait_for_selector(ROW)
    assert page.evaluate("document.querySelectorAll('*').length") < 320
    # until the list is known to be whole: what it reads meanwhile may move the last row out again
    wait(page, _TO_THE_END.replace("='120']", "='120'][aria-setsize='120']"))
    assert page.evaluate("document.querySelectorAll('*').length") < 320
    page.close()


def test_a_list_that_is_read_anew_is_read_on_to_where_it_was_scrolled(
    stage: Stage, window: Browsing
) -> None:
    for number in range(60):
        stage.client.conversations.create("anew", messages=[Message.user(f"item {number}")])
    page = window.tab("/?on=anew")
    page.wait_for_selector(".live-live", state="attached")
    held: list[Any] = []
    page.route(
        "**/*.ConversationService/List",
        lambda call: call.continue_() if held else held.append(call),
    )
    wait(page, _TO_THE_END.replace("120", "50"))
    until(lambda: held or page.wait_for_timeout(20))
    with stage.server.spaces.use(stage.settings.space) as space:
        space._space.index.give_up("a test")  # the stream begins anew
    wait(page, _TO_THE_END.replace("120", "60"))
    assert page.get_attribute("[aria-posinset='60']", "aria-setsize") == "60"
    page.close()


def test_a_change_of_an_old_conversation_does_not_move_it_before_newer_ones(
    stage: Stage, window: Browsing
) -> None:
    made = [
        stage.client.conversations.create("order", messages=[Message.user(f"item {number}")]).id
        for number in range(120)
    ]
    page = window.tab("/?on=order")
    page.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.set_topics(made[0], ["disk"])  # far below the page that was read
    stage.client.conversations.rename(made[-1], "Newest of all")
    page.wait_for_selector("text=Newest of all")  # so the change before it came too
    wait(page, _TO_THE_END)
    rows = "[...document.querySelectorAll('[data-list] .row-link')].map((it) => it.id)"
    assert page.evaluate(rows)[-3:] == [f"row-{it}" for it in reversed(made[:3])]
    page.close()


_TO_THE_END = """() => {
  const list = document.querySelector('[data-list]');
  list.scrollTop = list.scrollHeight;
  return document.querySelector("[aria-posinset='120']") !== null;
}"""


def test_a_long_conversation_opens_at_its_end_and_is_jumped_through(
    stage: Stage, window: Browsing
) -> None:
    it = stage.client.conversations.create("web")
    begin = NOW - timedelta(days=300)
    for first in range(1, 301, 100):
        messages = []
        for turn in range(first, first + 100):
            at = begin + timedelta(days=turn - 1)
            messages += [Message.user(f"question {turn}.", timestamp=at),
                         Message.assistant(f"answer {turn}.\n" * (turn % 5 + 1), timestamp=at)]  # fmt: skip
        stage.client.conversations.append_turn(it.id, messages)
    page = window.tab(f"/c/{it.id}", wait="text=answer 300.")
    wait(page, _IS_VISIBLE, "question 300.")
    assert page.locator(".message").count() < 60
    page.fill("input[name=turn]", "7")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=question 7.")
    wait(page, _IS_VISIBLE, "question 7.")
    # on to the end, page by page: every turn once, in order
    numbers_shown = page.evaluate(_SCROLL_THROUGH)
    numbers = [int(text) for text in numbers_shown]
    assert sorted(set(numbers)) == list(range(numbers[0], 301))
    assert numbers[0] <= 7
    assert numbers == sorted(set(numbers))
    day = (begin + timedelta(days=149)).astimezone().strftime("%Y-%m-%d")
    page.fill("input[name=date]", day)
    wait(page, _IS_VISIBLE, "question 150.")
    page.click(".to-end")
    wait(page, _IS_VISIBLE, "question 300.")
    page.close()


def test_a_transcript_that_is_followed_for_long_keeps_its_end_and_reads_the_rest_again(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Followed", "begin")
    page = window.tab(f"/c/{it}", ".message")
    page.wait_for_selector(".live-live", state="attached")
    for part in range(10):
        texts = [f"line {part * 500 + number}." for number in range(500)]
        stage.client.conversations.append_turn(it, [Message.user(text) for text in texts])
        page.wait_for_selector(f".message >> text={texts[-1]}")
    rows = page.locator(".transcript .virtual-row")
    count = int(rows.last.get_attribute("data-index")) + 1
    assert 1_000 <= count <= 2_500
    older = f".message >> text=line {5_000 - count - 1}."
    page.evaluate("document.querySelector('.transcript').scrollTop = 0")
    page.wait_for_selector(older, state="attached")
    page.click(".to-end")
    page.wait_for_selector(".message >> text=line 4999.")
    page.close()


def test_the_end_of_a_transcript_stays_in_view_where_its_room_shrinks(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Long", *(f"question {turn}." for turn in range(1, 40)))
    page = window.tab(f"/c/{it}", wait="text=question 39.")
    last = "About question 39.: noted."
    wait(page, _IS_VISIBLE, last)
    page.set_viewport_size({"width": 1280, "height": 450})  # as where a keyboard comes up
    wait(page, "innerHeight === 450")
    wait(page, _IS_VISIBLE, last)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.fill("textarea", "a line\n" * 12)
    wait(page, "document.querySelector('textarea').clientHeight > 100")
    wait(page, _IS_VISIBLE, last)
    assert not page.is_visible(".to-end")
    # Where both come in one frame, a browser tells of scrolling first.
    page.fill("textarea", "")
    wait(page, _IS_VISIBLE, last)
    page.evaluate("""() => {
      document.querySelector("textarea").style.minHeight = "300px";
      document.querySelector(".transcript").dispatchEvent(new Event("scroll"));
    }""")
    wait(page, "document.querySelector('textarea').clientHeight > 250")
    wait(page, _IS_VISIBLE, last)
    page.close()


_IS_VISIBLE = """(text) => [...document.querySelectorAll('.message .text')].some((it) => {
  if (it.textContent !== text) return false;
  const box = it.getBoundingClientRect();
  const frame = document.querySelector('.transcript').getBoundingClientRect();
  return box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
})"""


# Behind the last row turns may still be on their way: as long as there are any, the page offers to
# go to the newest.
_SCROLL_THROUGH = """async () => {
  const list = document.querySelector('.transcript');
  const seen = [];
  let still = 0;
  const until = Date.now() + 60000;
  while (still < 12 && Date.now() < until) {
    for (const it of document.querySelectorAll('.message.user .text')) {
      const number = Number(it.textContent.match(/question (\\d+)/)[1]);
      if (!seen.includes(number)) seen.push(number);
    }
    const before = list.scrollTop;
    list.scrollTop += 300;
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const isOver = list.scrollTop === before && !document.querySelector('.to-end');
    still = isOver ? still + 1 : 0;
    if (list.scrollTop === before) await new Promise((done) => setTimeout(done, 30));
  }
  return seen;
}"""


def test_a_scroll_event_behind_the_end_of_a_transcript_is_ignored(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Left while it scrolled", *(f"question {n}" for n in range(20)))
    page = window.tab(f"/c/{it}", wait=".message .text")
    # Browsers deliver a pending scroll event to an element that has left the page meanwhile.
    page.evaluate("window.left = document.querySelector('.transcript')")
    visit(page, "/")
    page.wait_for_selector(".transcript", state="detached")
    page.evaluate("window.left.dispatchEvent(new Event('scroll'))")
    page.close()
    assert window.problems == []


def test_a_word_of_a_megabyte_is_shown_in_part(stage: Stage, window: Browsing) -> None:
    it = stage.client.conversations.create("web")
    word = "w" * 1_000_000
    stage.client.conversations.append_turn(it.id, [Message.user(word)])
    page = window.tab(f"/c/{it.id}", wait=".message .text")
    assert page.evaluate("document.querySelector('.message .text').textContent.length") < 20_000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("text=Show all of it")
    wait(page, "document.querySelector('.message .text').textContent.length === 1000000")
    page.close()


def test_beside_a_transcript_stand_notes_anchors_and_contexts(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Panel", "My cat is called Ada")
    filler = [make(f"word {n}") for n in range(12) for make in (Message.user, Message.assistant)]
    stage.client.conversations.append_turn(it, filler)  # more lines than are shown at once
    stage.client.recall.set_anchor("cat.name", "Ada", source=(it, 2))
    stage.client.conversations.record_abbreviation(it, "The cat is Ada.")
    page = window.tab(f"/c/{it}?details=1", wait=".details")
    page.wait_for_selector(".details >> text=The cat is Ada.")
    page.wait_for_selector(".details >> text=cat.name")
    page.fill(".context-form input", "What is my cat called?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tier >> text=My cat is called Ada")
    page.click("text=As text")
    page.wait_for_selector(".details pre >> text=<context")
    page.click(".details pre:has-text('<context') >> xpath=../.. >> text=Show all")
    page.wait_for_selector(".details pre >> text=My cat is called Ada")
    assert "<context" in page.inner_text(".details pre")
    page.click(".details-close")
    page.wait_for_selector(".details", state="detached")
    page.close()


def test_an_answer_and_a_tool_say_what_they_cost_and_how_long_they_took(
    stage: Stage, window: Browsing
) -> None:
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    times = [at + timedelta(seconds=it) for it in (0, 2.1, 5, 70)]
    call = ToolCall("c1", "look", '{"at": "sea"}')
    spent: dict[str, Any] = {"usage": Usage(1204, 88), "cost": 0.0031, "tool_calls": (call,)}
    spent["metadata"] = {"model": "claude-opus-4-6"}  # as imports keep it
    messages = [
        Message.user("Look", timestamp=times[0]),
        Message.assistant("Looking", timestamp=times[1], **spent),
        Message.tool("waves", tool_call_id="c1", timestamp=times[2]),
        Message.assistant("Waves", timestamp=times[3]),
        Message.assistant("At once", timestamp=times[3], cost=0.0213),
    ]
    it = stage.client.conversations.create("web", messages=messages).id
    page = window.tab(f"/c/{it}", wait=".message >> text=At once")
    spent_shown = [one.inner_text() for one in page.locator(".spent").all()]
    assert spent_shown == [
        "claude-opus-4-6 · 1,204 → 88 tokens · $0.0031 · 2.1 s",
        "1 min",
        "$0.02",
    ]
    size = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 800})  # what was spent cuts no name off
    cut = "all => all.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.innerText)"
    assert page.locator(".message .who").evaluate_all(cut) == []
    page.set_viewport_size(size)
    assert page.locator(".fold-time").inner_text() == "2.9 s"
    assert axe(page) == []
    page.close()


def test_words_that_are_typed_as_soon_as_the_search_is_there_are_searched(
    stage: Stage, window: Browsing
) -> None:
    stage.conversation("Typed at once", "the lighthouse keeper")
    page = window.tab()
    page.evaluate("""() => {
      const observer = new MutationObserver(() => {
        const input = document.querySelector('[role=search] [type=search]');
        if (!input) return;
        observer.disconnect();
        input.value = 'lighthouse';
        input.dispatchEvent(new Event('input', { bubbles: true }));
        input.form.requestSubmit();
      });
      observer.observe(document.body, { childList: true, subtree: true });
    }""")
    visit(page, "/search")
    page.wait_for_selector(".result")
    assert page.input_value("[role=search] [type=search]") == "lighthouse"
    page.close()


def test_row_heading_search_and_filter_know_a_conversation_by_one_name(
    stage: Stage, window: Browsing
) -> None:
    it = stage.client.conversations.create("web").id
    party = Party(contact="ada@b.example")
    mail = stage.client.conversations.create("email", party=party).id
    page = window.tab(f"/c/{it}", wait=".composer")
    stage.client.conversations.append_turn(
        it, [Message.user("Why does the furnace drip? It is old.")]
    )
    name = "Why does the furnace drip?"
    page.wait_for_selector(f"#row-{it} .row-title >> text={name}")
    page.wait_for_selector(f".view-title h1 >> text={name}")
    # A contact's address stands once in a row.
    assert page.inner_text(f"#row-{mail}").count("ada@b.example") == 1
    page.fill(".filter-bar input[type=search]", "FURNACE")
    wait(page, "document.querySelectorAll('.row').length === 1")
    page.fill(".filter-bar input[type=search]", "")
    visit(page, "/search?q=furnace")
    page.wait_for_selector(f".result h2 >> text={name}")
    page.close()


_LETTER_BESIDE = """(field) => {
  const replace = history.replaceState;
  history.replaceState = (...of) => {
    history.replaceState = replace;
    replace.apply(history, of);
    field.value += 'ER';
    field.dispatchEvent(new Event('input', { bubbles: true }));
  };
}"""
"""A function that types two letters into a field at the moment at which its text is looked for."""


@pytest.mark.parametrize(
    ("path", "field", "key"),
    [
        ("/", ".filter-bar input[type=search]", "named"),
        ("/third-parties", ".people-filters input[type=search]", "party"),
    ],
)
def test_a_letter_that_is_typed_while_a_filter_is_applied_stays(
    window: Browsing, path: str, field: str, key: str
) -> None:
    page = window.tab(path, field)
    page.eval_on_selector(field, _LETTER_BESIDE)
    page.fill(field, "PAP")
    wait(page, f"new URLSearchParams(location.search).get('{key}') === 'PAPER'")
    assert page.input_value(field) == "PAPER"
    page.close()


def test_a_search_says_why_and_shows_the_turns(stage: Stage, window: Browsing) -> None:
    hangar = stage.conversation("The zeppelin", "🎈 Where is the zeppelin?", "And the hangar?")
    other = stage.conversation("On e-mail", "A zeppelin too", channel="email",
                         party=Party(contact="a@b.example"))  # fmt: skip
    stage.client.conversations.record_abbreviation(
        hangar, "It is in the hangar.", topics=["airship"]
    )
    page = window.tab("/search?q=zeppelin&channel=web")
    page.wait_for_selector(".result mark >> text=zeppelin")
    assert page.locator(".result").count() == 1
    page.wait_for_selector(".preview >> text=It is in the hangar.")
    page.click("text=Why it matched")
    page.wait_for_selector(".why >> text=Words of a message")
    page.click("text=Show the transcript")
    page.wait_for_selector(".result-turns >> text=Where is the zeppelin?")
    page.select_option(".search-filters select", "")
    page.wait_for_selector(f".result a[href*='{other}']")
    assert "channel=" not in page.url
    page.fill(".search-filters input[list=topics]", "airship")
    page.keyboard.press("Enter")
    wait(page, "document.querySelectorAll('.result').length === 1")
    assert "topic=airship" in page.url
    page.go_back()
    wait(page, "document.querySelectorAll('.result').length === 2")
    page.click(".result h2 a >> nth=0")
    page.wait_for_selector("[data-target=true]")
    page.close()


def test_a_reason_for_searching_less_is_shown_once(browser: Any, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    shutil.copy(shipped() / TOKENIZER, weights)
    values = {"embedder": "onnx", "embedding_model": str(weights)}
    values |= {"listen": "127.0.0.1:0", "data_dir": str(tmp_path / "data")}
    server = app.start(Settings.load(None, values))
    bridge = Bridge(server.address)
    opened = Browsing(browser, bridge)
    with Client(server.address) as client:
        it = client.conversations.create("web", messages=[Message.user("The disk is full")])
        until(lambda: client.recall.search("disk").degraded)
        page = opened.tab("/search?q=disk", ".result")
        reasons = page.locator(".degraded-search").all_inner_texts()
        assert len(reasons) == 1
        assert "searched by its meaning; the others were searched by their words" in reasons[0]
        page.click(".degraded-search summary")
        page.wait_for_selector("text=SHA256SUMS of the embedding model cannot be read")
        visit(page, "/search?q=zebra")
        page.wait_for_selector("text=Nothing")
        assert page.locator(".degraded-search").all_inner_texts() == reasons
        visit(page, f"/c/{it.id}?details=1")
        page.fill(".context-form input", "disk")
        page.keyboard.press("Enter")
        page.wait_for_selector(".context-total")
        # all that is stored is in the context: nothing was searched
        assert page.locator(".degraded-search").all_inner_texts() == []
    opened.context.close()
    bridge.stop()
    server.stop()
