"""The page in a real browser: what people do with it, by mouse and by keyboard, in both themes."""

import gzip
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from recollect import Attachment, Client, Message, Party, Role, ToolCall
from recollect_server import app
from recollect_server.inference.weights import TOKENIZER, shipped
from recollect_server.settings import Settings

from tests.waiting import until
from tests.web.conftest import COLOURS, Bridge, Browsing, Stage, axe, visit, wait

STATIC = Path(__file__).parents[2] / "client/src/recollect/web/static"
ROW = "[data-list] .row-link"
NOW = datetime.now(UTC)


def conversation(stage: Stage, title: str, *texts: str, channel: str = "web", **fields: Any) -> str:
    """Begin a conversation with a title, and turns of one message and an answer."""
    it = stage.client.conversations.create(channel, **fields)
    for text in texts:
        messages = [Message.user(text), Message.assistant(f"About {text}: noted.")]
        stage.client.conversations.append_turn(it.id, messages)
    stage.client.conversations.rename(it.id, title)
    return it.id


def test_what_is_said_anywhere_appears_without_a_reload(stage: Stage, window: Browsing) -> None:
    page = window.tab()
    it = stage.client.conversations.create("web")
    stage.client.conversations.append_turn(it.id, [Message.user("Is the disk full?")])
    page.click(f"#row-{it.id}")
    page.wait_for_selector("text=Is the disk full?")
    stage.client.conversations.publish_delta(it.id, "d1", 0, "By nine")
    page.wait_for_selector("[data-draft=d1] >> text=By nine")
    page.wait_for_selector(f"#row-{it.id} >> text=an answer is being written")
    stage.client.conversations.append_turn(it.id, [Message.assistant("By 97 %.")], draft_id="d1")
    page.wait_for_selector("text=By 97 %.")
    assert page.query_selector("[data-draft]") is None
    stage.client.conversations.rename(it.id, "The disk")
    page.wait_for_selector(f"#row-{it.id} >> text=The disk")
    page.wait_for_selector("h1 >> text=The disk")
    stage.client.conversations.delete(it.id)
    page.wait_for_selector("text=This conversation was deleted.")
    assert page.query_selector(f"#row-{it.id}") is None
    page.close()


def test_what_is_said_while_a_transcript_is_read_is_shown(stage: Stage, window: Browsing) -> None:
    it = conversation(stage, "Read slowly", "before")
    page = window.tab()
    page.wait_for_selector(".live-live", state="attached")
    held: list[Any] = []
    page.route("**/*.ConversationService/Load", lambda call: held.append(call))
    page.click(f"#row-{it}")
    until(lambda: held or page.wait_for_timeout(20))
    answer = held[0].fetch()
    stage.client.conversations.append_turn(it, [Message.user("while it was read")])
    page.wait_for_selector(f"#row-{it} >> text=2 turns")
    held[0].fulfill(response=answer)
    page.wait_for_selector(".message >> text=before >> nth=0")
    page.wait_for_selector(".message >> text=while it was read")
    page.wait_for_selector(".view-meta >> text=2 turns")
    assert page.locator(".message").count() == 3
    page.close()


def test_what_is_written_on_the_page_is_stored_once(stage: Stage, window: Browsing) -> None:
    page = window.tab()
    page.wait_for_selector("[aria-label='New conversation']")
    page.keyboard.press("n")
    wait(page, "document.activeElement.matches('textarea')")  # else each letter is a shortcut
    page.keyboard.type("From the page")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=From the page")
    stored = stage.client.conversations.load(page.url.rsplit("/", 1)[1]).messages
    assert [(it.role, it.content) for it in stored] == [(Role.USER, "From the page")]
    page.close()


def test_a_list_says_where_a_conversation_is_and_whether_it_was_read(
    stage: Stage, window: Browsing
) -> None:
    party = Party(contact="4915112345678", contact_name="Hanan")
    page = window.tab()
    page.wait_for_selector(".conversations h2")
    it = conversation(stage, "Dinner", "a table", channel="whatsapp", party=party, pinned=True)
    row = page.wait_for_selector(f"#row-{it}")
    page.wait_for_selector(f"#row-{it} .unread")
    text = row.inner_text()
    assert "WhatsApp" in text
    assert "Hanan" in text
    assert "read only here" in text
    row.click()
    page.wait_for_selector("text=Pinned to WhatsApp")
    assert page.query_selector("textarea") is None
    page.wait_for_selector(f"#row-{it} .unread", state="detached")
    page.close()


def test_everything_works_by_keyboard(stage: Stage, window: Browsing) -> None:
    first = conversation(stage, "Keyboard one", "one")
    second = conversation(stage, "Keyboard two", "two")
    page = window.tab()
    page.wait_for_selector(f"#row-{second}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("s")
    wait(page, f"document.activeElement.id === 'row-{second}'")
    page.keyboard.press("ArrowDown")
    wait(page, f"document.activeElement.id === 'row-{first}'")
    # of the list, one element alone is a stop of Tab
    assert page.locator("[data-list] a[tabindex='0']").count() == 1
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("F2")
    page.wait_for_selector("input[aria-label='New title']")
    page.keyboard.type("Renamed by keys")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#row-{first} >> text=Renamed by keys")
    assert stage.client.conversations.get(first).title == "Renamed by keys"
    wait(page, f"document.activeElement.id === 'row-{first}'")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=Renamed by keys")
    for end in ("Enter", "Escape"):
        page.focus("h1 [aria-label=Rename]")
        page.keyboard.press("Enter")
        wait(page, "document.activeElement.matches('.view-title input')")
        page.keyboard.press(end)
        wait(page, "document.activeElement.matches('h1 [aria-label=Rename]')")
    page.focus("[aria-controls=details]")
    page.keyboard.press("Enter")
    page.focus(".details-close")
    page.keyboard.press("Enter")
    wait(page, "document.activeElement.ariaExpanded === 'false'")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("/")
    page.wait_for_selector("[role=search] input[type=search]:focus")
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    page.keyboard.press("Escape")  # leaves the field, so that shortcuts work again
    page.keyboard.press("g")
    assert page.evaluate("document.activeElement.id") == "content"
    page.close()


def test_a_search_says_why_and_shows_the_turns(stage: Stage, window: Browsing) -> None:
    hangar = conversation(stage, "The zeppelin", "Where is the zeppelin?", "And the hangar?")
    other = conversation(stage, "On e-mail", "A zeppelin too", channel="email",
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


def test_beside_a_transcript_stand_notes_anchors_and_contexts(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage, "Panel", "My cat is called Ada")
    stage.client.recall.set_anchor("cat.name", "Ada", source=(it, 2))
    stage.client.conversations.record_abbreviation(it, "The cat is Ada.")
    page = window.tab(f"/c/{it}?details=1", wait=".details")
    page.wait_for_selector(".details >> text=The cat is Ada.")
    page.wait_for_selector(".details >> text=cat.name")
    page.fill(".context-form input", "What is my cat called?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tier >> text=My cat is called Ada")
    page.click("text=As text")
    rendered = page.wait_for_selector(".details pre >> text=<context").inner_text()
    assert "My cat is called Ada" in rendered
    page.click(".details-close")
    page.wait_for_selector(".details", state="detached")
    page.close()


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


def test_the_end_of_a_transcript_stays_in_view_where_its_room_shrinks(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage, "Long", *(f"question {turn}." for turn in range(1, 40)))
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

_SHOWS = "(text) => document.querySelector('.message.user .text')?.textContent === text"
_TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('*')].filter((it) => it.getBoundingClientRect().right > innerWidth)
    .map((it) => it.outerHTML.slice(0, 80))"""

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
        assert page.evaluate(_TOO_WIDE) == []
        assert page.query_selector("main img, main script, main iframe") is None
        titles = page.evaluate(
            "[...document.querySelectorAll('h1, .row-title')].map((it) => it.textContent).join('')"
        )
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f]", titles)
    page.close()


def test_a_title_has_as_many_characters_as_the_server_takes_not_units_of_utf_16(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage, "Short")
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
        assert "SHA256SUMS of the embedding model cannot be read" in reasons[0]
        visit(page, "/search?q=zebra")
        page.wait_for_selector("text=Nothing")
        assert page.locator(".degraded-search").all_inner_texts() == reasons
        visit(page, f"/c/{it.id}?details=1")
        page.fill(".context-form input", "disk")
        page.keyboard.press("Enter")
        page.wait_for_selector(".context-total")
        assert page.locator(".degraded-search").all_inner_texts() == reasons
    opened.context.close()
    bridge.stop()
    server.stop()


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


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_shuts_anybody_out(stage: Stage, window: Browsing, width: int) -> None:
    it = conversation(stage, "Open to all", "the lighthouse")
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
    it = conversation(stage, "Twice the size", "the lighthouse")
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
    }
    for path, (shown, part, least) in views.items():
        visit(page, path)
        page.wait_for_selector(shown)
        box = page.locator(part).bounding_box()
        assert page.evaluate(_TOO_WIDE) == [], path
        assert box["height"] >= least, path
    page.close()


def test_the_beginning_of_an_answer_stays_while_its_conversation_is_read_anew(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage, "Read anew", "What is it?")
    page = window.tab(f"/c/{it}", ".message")
    page.wait_for_selector(".live-live", state="attached")
    held: list[Any] = []
    page.route("**/*.ConversationService/Load", lambda call: held.append(call))
    with stage.server.spaces.use(stage.settings.space) as space:
        space._space.index.give_up("a test")  # the stream begins anew, and so does the page
    until(lambda: held or page.wait_for_timeout(20))
    stage.client.conversations.publish_delta(it, "d-anew", 0, "It is the")
    page.wait_for_selector("[data-draft=d-anew] >> text=It is the")
    held[0].continue_()
    stage.client.conversations.append_turn(it, [Message.user("And then?")])
    page.wait_for_selector(".message >> text=And then?")
    stage.client.conversations.publish_delta(it, "d-anew", 9, " lighthouse")
    page.wait_for_selector("[data-draft=d-anew] >> text=lighthouse")
    assert page.inner_text("[data-draft=d-anew] .text") == "It is the lighthouse"
    page.close()


def test_an_answer_that_is_being_written_is_shown_from_its_beginning(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage, "Opened late", "What is it?")
    page = window.tab("/", ".live-live")
    stage.client.conversations.publish_delta(it, "d-late", 0, "It is the")
    page.wait_for_selector(f"#row-{it} >> text=an answer is being written")
    page.click(f"#row-{it}")
    page.wait_for_selector("[data-draft=d-late] >> text=It is the")
    stage.client.conversations.publish_delta(it, "d-late", 9, " lighthouse")
    page.wait_for_selector("[data-draft=d-late] >> text=lighthouse")
    assert page.inner_text("[data-draft=d-late] .text") == "It is the lighthouse"
    later = window.tab(f"/c/{it}", ".message")
    later.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.publish_delta(it, "d-late", 20, " of")
    later.wait_for_selector("[data-draft=d-late] >> text=… of")
    stage.client.conversations.publish_delta(it, "d-late", 23, " Porto")
    later.wait_for_selector("[data-draft=d-late] >> text=Porto")
    assert later.inner_text("[data-draft=d-late] .text") == "… of Porto"
    later.close()
    page.close()


def test_a_page_tells_after_six_attempts_that_the_server_is_away(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage, "Away", "Are you there?")
    page = window.tab("/", ".live-live")
    calls: list[Any] = []

    def refuse(call: Any) -> None:
        calls.append(call)
        text = '{"code": "unavailable", "message": "failed to connect to all addresses"}'
        call.fulfill(status=503, content_type="application/json", body=text)

    page.route("**/*.ConversationService/Load", refuse)
    page.click(f"#row-{it}")
    page.wait_for_selector("text=The Recollect server cannot be reached")
    assert len(calls) == 6
    page.close()


def test_nothing_moves_for_who_asks_for_that(stage: Stage, window: Browsing) -> None:
    it = conversation(stage, "Still", "the lighthouse")
    page = window.tab(f"/c/{it}", ".message")
    page.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.publish_delta(it, "d1", 0, "By nine")
    page.wait_for_selector("[data-draft=d1]")
    wait(page, "document.getAnimations().length > 0")
    page.emulate_media(reduced_motion="reduce")
    wait(page, "document.getAnimations().length === 0")
    assert "By nine" in page.inner_text("[data-draft=d1]")
    page.close()


def test_a_long_list_is_a_short_page(stage: Stage, window: Browsing) -> None:
    for number in range(120):
        stage.client.conversations.create("list", messages=[Message.user(f"item {number}")])
    page = window.tab("/?on=list")
    page.wait_for_selector(ROW)
    assert page.evaluate("document.querySelectorAll('*').length") < 300
    wait(page, _TO_THE_END)
    page.wait_for_selector("[aria-posinset='120'][aria-setsize='120']", state="attached")
    assert page.evaluate("document.querySelectorAll('*').length") < 300
    page.close()


_TO_THE_END = """() => {
  const list = document.querySelector('[data-list]');
  list.scrollTop = list.scrollHeight;
  return document.querySelector("[aria-posinset='120']") !== null;
}"""


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


def test_a_theme_is_chosen_by_hand(window: Browsing) -> None:
    page = window.tab()
    page.emulate_media(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("[aria-label='Theme: as the system']")
    page.click("[aria-label='Theme: light']")
    assert page.evaluate(background) != light
    page.reload()
    page.click("[aria-label='Theme: dark']")
    assert page.evaluate(background) == light
    page.close()


def test_the_bundle_stays_small() -> None:
    # what the page loads before anybody opens a view: its files, and those that they import
    files = {"page.js", "page.css", "worker.js"}
    while True:
        sources = [(STATIC / "assets" / it).read_text() for it in files if it.endswith(".js")]
        imports = {it for text in sources for it in _IMPORT.findall(text)}
        if imports <= files:
            break
        files |= imports
    assert len(files) > 3
    size = sum(len(gzip.compress((STATIC / "assets" / it).read_bytes(), 9)) for it in files)
    assert size < 90_000


_IMPORT = re.compile(r'(?:from|import) ?"\./([^"]+)"')
