"""Conversations on the page while they go on: what is said anywhere, or written on it, appears."""

import errno
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import recollect
from recollect import Client, Message, Role, ToolCall
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.faults.conftest import Disk, disk
from tests.waiting import until
from tests.web.conftest import ROW, TOO_WIDE, Bridge, Browsing, Stage, axe, visit, wait

__all__ = ["disk"]


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
    it = stage.conversation("Read slowly", "before")
    page = window.tab()
    page.wait_for_selector(".live-live", state="attached")
    held: list[Any] = []
    page.route("**/*.ConversationService/Load", lambda call: held.append(call))
    page.click(f"#row-{it}")
    until(lambda: held or page.wait_for_timeout(20))
    answer = held[0].fetch()
    stage.client.conversations.append_turn(it, [Message.user("while it was read")])
    page.wait_for_selector(f"#row-{it} >> text=while it was read")
    held[0].fulfill(response=answer)
    page.wait_for_selector(".message >> text=before >> nth=0")
    page.wait_for_selector(".message >> text=while it was read")
    page.wait_for_selector(".view-meta >> text=2 turns")
    assert page.locator(".message").count() == 3
    page.close()


def test_a_transcript_that_cannot_be_read_says_so_whatever_is_said_meanwhile(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Cannot be read", "before")
    page = window.tab()
    page.wait_for_selector(".live-live", state="attached")
    held: list[Any] = []
    page.route("**/*.ConversationService/Load", lambda call: held.append(call))
    page.click(f"#row-{it}")
    until(lambda: held or page.wait_for_timeout(20))
    stage.client.conversations.append_turn(it, [Message.user("while it was read")])
    page.wait_for_selector(f"#row-{it} >> text=while it was read")
    held[0].fulfill(status=500, json={"code": "internal", "message": "It broke."})
    page.wait_for_selector("main .failure >> text=It broke.")
    page.unroute("**/*.ConversationService/Load")
    page.click("main .failure >> text=Try again")
    page.wait_for_selector(".message >> text=while it was read")
    assert page.locator(".message").count() == 3
    page.close()


def test_what_is_written_on_the_page_is_stored_once(stage: Stage, window: Browsing) -> None:
    for it in stage.client.conversations.list():
        if not it.message_count:  # of another test: the page would go on in it
            stage.client.conversations.append_turn(it.id, [Message.user("Somebody else's")])
    before = {it.id for it in stage.client.conversations.list()}
    page = window.tab()
    page.wait_for_selector("[aria-label='New conversation']")
    page.keyboard.press("n")
    wait(page, "document.activeElement.matches('textarea')")  # else each letter is a shortcut
    page.wait_for_selector("text=It begins with your first message.")
    assert axe(page) == []
    assert {it.id for it in stage.client.conversations.list()} == before
    page.keyboard.type("From the page")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=From the page")
    (stored_one,) = (it for it in stage.client.conversations.list() if it.id not in before)
    assert page.url.endswith(stored_one.id)
    wait(page, "document.activeElement.matches('textarea')")
    stored = stage.client.conversations.load(stored_one.id).messages
    assert [(it.role, it.content) for it in stored] == [(Role.USER, "From the page")]
    page.wait_for_selector("text=No agent has answered yet")
    stage.client.conversations.append_turn(stored_one.id, [Message.assistant("To the page")])
    page.wait_for_selector("text=No agent has answered yet", state="detached")
    page.close()


def test_an_answer_that_never_comes_is_missed_where_agents_have_answered_before(
    stage: Stage, window: Browsing
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    call = ToolCall("1", "read_log", "{}")
    turns = [
        Message.user("Is it there?", timestamp=yesterday),
        Message.assistant("Yes.", timestamp=yesterday),
        Message.user("And now?", timestamp=yesterday),
    ]
    died_at_once = stage.client.conversations.create("web", messages=turns).id
    working = [*turns, Message.assistant("", tool_calls=[call], timestamp=yesterday)]
    died_at_work = stage.client.conversations.create("web", messages=working).id
    page = window.tab(f"/c/{died_at_once}", ".message")
    page.wait_for_selector("text=No agent has answered this")
    page.click("text=An agent in thirty lines")
    shown = page.locator("dialog pre").text_content()
    guide = Path("docs/guides/agents.md").read_text("utf-8")
    program = guide[guide.index("def serve(") :].split("\n```")[0]
    assert program in shown
    compile(shown, "agent", "exec")
    page.wait_for_selector("dialog .hljs-keyword")
    assert axe(page) == []
    page.keyboard.press("Escape")
    visit(page, f"/c/{died_at_work}")
    page.wait_for_selector("text=No agent has answered this")
    stage.client.conversations.append_turn(died_at_work, [Message.tool("", tool_call_id="1")])
    page.wait_for_selector("text=No agent has answered this", state="detached")
    # an agent that has answered has some time for the next answer
    it = stage.conversation("Alive", "Hello")
    stage.client.conversations.append_turn(it, [Message.user("One moment")])
    visit(page, f"/c/{it}")
    page.wait_for_selector(".message >> text=One moment")
    assert page.query_selector("text=No agent has answered") is None
    page.close()


def test_an_answer_says_what_its_agent_was_given_for_it(stage: Stage, window: Browsing) -> None:
    guide = Path("docs/guides/agents.md").read_text("utf-8")
    public = ("Client", "ContextFormat", "ConversationUpdated", "Message", "Role")
    names: dict[str, Any] = {"json": json} | {it: getattr(recollect, it) for it in public}
    exec(guide[guide.index("def serve(") :].split("\n```")[0], names)  # noqa: S102 - of our own guide
    conversations = stage.client.conversations
    other = stage.conversation("Backups", "The backup of the photo server runs at three.")
    lost = stage.conversation("Lost", "The backup of the photo server was at four.")
    it = conversations.create("web", messages=[Message.user("When does the photo backup run?")])
    [question] = conversations.load(it.id).messages
    names["answer_live"](stage.client, lambda *_: iter(["Every ", "night."]), it.id, question)
    (answer,) = [one for one in conversations.load(it.id).messages if one.role is Role.ASSISTANT]
    assert answer.content == "Every night."
    assert [it.id, 1] in answer.metadata["context"]["turns"]
    page = window.tab(f"/c/{it.id}", ".message .fold >> text=What it was given")
    shown = page.locator(".fold", has_text="What it was given")
    assert re.search(r"\d+ turns, [\d,]+ tokens", shown.inner_text())
    conversations.delete(lost)
    shown.locator("summary").press("Enter")
    page.wait_for_selector(".given li >> text=This conversation")
    page.wait_for_selector(f".given li:has-text('{lost}') >> text=It was deleted since")
    assert (axe(page), page.evaluate(TOO_WIDE)) == ([], [])
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate(TOO_WIDE) == []
    page.click(".given li:has-text('Backups') a")
    page.wait_for_selector(".message[data-target=true] >> text=photo server runs at three")
    assert page.url.endswith(f"/c/{other}?turn=1")
    page.close()
    for odd in (
        {"turns": 7},
        {"turns": [["../x", 1], [it.id, -1], [it.id], 5, None]},
        [1],
        "x",
        None,
    ):
        answer = Message.assistant("So.", metadata={"context": odd})
        one = conversations.create("web", messages=[Message.user("And?"), answer])
        page = window.tab(f"/c/{one.id}", ".message >> text=So.")
        assert page.locator(".fold").count() == 0
        page.close()


def test_the_command_model_says_why_it_names_none(stage: Stage, window: Browsing) -> None:
    page = window.tab(f"/c/{stage.conversation('Models', 'Which?')}", ".composer")
    page.fill(".composer textarea", "/model")
    page.keyboard.press("Enter")
    reply = page.wait_for_selector(".command-reply >> text=The model is the default.")
    assert "has no list of models to choose from" in reply.inner_text()
    page.close()


def test_a_click_on_a_title_edits_it(stage: Stage, window: Browsing) -> None:
    page = window.tab(f"/c/{stage.conversation('Old title', 'Here')}", ".message")
    page.click(".view-title h1 >> text=Old title")
    page.wait_for_selector(".view-title input:focus")
    page.keyboard.type("New title")
    page.keyboard.press("Enter")
    page.wait_for_selector(".view-title h1 >> text=New title")
    assert stage.client.conversations.get(page.url.rsplit("/", 1)[1]).title == "New title"
    page.close()


def test_dates_are_written_as_the_persons_language_does(stage: Stage, browser: Any) -> None:
    at = datetime(2025, 3, 5, 14, 7, tzinfo=UTC)
    it = stage.client.conversations.create("web", messages=[Message.user("Then", timestamp=at)]).id
    for locale, day in (
        ("de-DE", "5. März 2025"),
        ("en-US", "Mar 5, 2025"),
        ("en-GB", "5 Mar 2025"),
    ):
        opened = Browsing(browser, stage.bridge, locale=locale, timezone_id="UTC")
        page = opened.tab(f"/c/{it}", ".message")
        assert page.inner_text(".day") == day
        hour = "02:07 PM" if locale == "en-US" else "14:07"
        assert page.inner_text(".message time").replace("\u202f", " ") == hour
        opened.context.close()


def test_a_first_visit_shows_lines_that_store_a_conversation(
    stage: Stage, window: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = window.tab("/?space=first-visit", ".first-lines")
    edges = """it => [it, it.closest('.side, main')]
        .map((part) => part.getBoundingClientRect().right)"""
    for width in (1280, 390):  # beside the list where there is room
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_selector(f"{'main' if width > 760 else '.side'} .first-lines")
        for part in (".side .state-title", ".side .state p", ".first-lines"):
            right, edge = page.locator(part).first.evaluate(edges)
            assert right <= edge, part
        assert axe(page) == []
    page.click(".side .state button >> text=New conversation")  # the list is all of a narrow page
    page.wait_for_selector(".composer textarea:focus")
    page.go_back()
    page.wait_for_selector(".side .first-lines")
    monkeypatch.setenv("RECOLLECT_ADDRESS", stage.server.address)
    monkeypatch.setenv("RECOLLECT_SPACE", "first-visit")
    exec(page.inner_text(".first-lines pre"), {})  # noqa: S102 - of our own page
    page.wait_for_selector(".row-title >> text=When does the backup run")
    page.close()


def test_a_finger_meets_every_control(stage: Stage, browser: Any) -> None:
    it = stage.conversation("By finger", "The mast leaks", "And the keel?")
    look = Message.assistant("", tool_calls=[ToolCall("c1", "look", "{}")])
    stage.client.conversations.append_turn(it, [look, Message.tool("wet", tool_call_id="c1")])
    touch = Browsing(browser, stage.bridge, has_touch=True, is_mobile=True)
    page = touch.tab(f"/c/{it}", ".message")
    page.set_viewport_size({"width": 390, "height": 800})
    for path, shown in {
        f"/c/{it}": ".message",
        "/": ROW,
        "/search": "main input",
        "/insights": ".figures summary",
        "/third-parties": "main select",
        "/settings": "main .card input",
        "/health": "main .card",
        "/tokens": "main .empty button",
        "/backups": "main .now button",
    }.items():
        visit(page, path)
        page.wait_for_selector(shown)
        assert page.evaluate(_SMALL) == []
        assert page.evaluate(TOO_WIDE) == []
    touch.context.close()


_SMALL = """() => [...document.querySelectorAll('button, select, nav a, .row-link, input, summary')]
  .filter((it) => it.checkVisibility() && !it.matches('label :is([type=checkbox], [type=radio])'))
  .filter((it) => { const { width, height } = it.getBoundingClientRect(); return width && (width < 39 || height < 39); })
  .map((it) => it.outerHTML.slice(0, 100))"""
"""The controls that are smaller than a finger's tip."""


def test_what_is_written_into_a_conversation_from_elsewhere_says_so(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("By mail", "Hello", channel="email")
    page = window.tab(f"/c/{it}", ".composer")
    page.fill(".composer textarea", "Said here")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=Said here")
    channels = [it.channel for it in stage.client.conversations.load(it).messages]
    assert channels == ["", "", "web"]
    page.close()


def test_a_full_disk_keeps_what_is_written_and_says_so(
    stage: Stage, window: Browsing, disk: Disk
) -> None:
    it = stage.conversation("While the disk is full", "Hello")
    page = window.tab(f"/c/{it}", ".composer")
    disk.refuse("pwrite", error=errno.ENOSPC)
    page.fill(".composer textarea", "Written on a full disk")
    page.keyboard.press("Enter")
    sentence = "It is kept here and written as soon as there is room (No space left on device ("
    page.wait_for_selector(f"text={sentence}")
    visit(page, "/health")
    page.wait_for_selector("text=1 message is kept in memory and written as soon as there is room")
    disk.refused.clear()
    stage.client.conversations.append_turn(it, [Message.user("There is room again")])
    texts = [one.content for one in stage.client.conversations.load(it).messages]
    assert "Written on a full disk" in texts
    page.close()


def test_who_leaves_a_conversation_has_notes_taken_of_it(stage: Stage, window: Browsing) -> None:
    left, following = (stage.conversation(it, "The mast leaks") for it in ("Left", "Following"))
    elsewhere = stage.client.conversations.create(
        "cli", messages=[Message.user("Only looked at")], pinned=True
    ).id
    page = window.tab(f"/c/{left}", ".message")
    bodies: list[bytes] = []

    def note(request: Any) -> None:
        if request.url.endswith("/Switch"):
            bodies.append(request.post_data_buffer)

    page.on("request", note)
    for other in (elsewhere, following, elsewhere):
        visit(page, f"/c/{other}")
        page.wait_for_selector(f"[data-selected=true] #row-{other}")
        page.wait_for_selector(".message")
    until(lambda: len(bodies) > 1 or page.wait_for_timeout(20))
    assert [left.encode() in bodies[0], following.encode() in bodies[1]] == [True, True]
    page.close()


def test_a_command_is_completed_and_run_and_never_stored(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Commands", "Before")
    page = window.tab(f"/c/{it}", ".composer")
    area = page.locator(".composer textarea")
    area.click()
    page.keyboard.type("/model h")
    page.wait_for_selector("[role=option] >> text=/model haiku")
    page.keyboard.press("Tab")
    assert area.input_value() == "/model haiku"
    page.keyboard.press("Enter")
    page.wait_for_selector(".command-reply >> text=haiku")
    assert area.input_value() == ""
    assert stage.client.conversations.get(it).model == "haiku"
    page.keyboard.type("/usr/bin is full")
    assert page.query_selector("[role=option]") is None
    page.keyboard.press("Enter")
    page.locator(".message", has_text="/usr/bin is full").wait_for()
    page.keyboard.type("/ne")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    wait(page, "(id) => !location.pathname.endsWith(id)", it)
    following = page.url.rsplit("/", 1)[1]
    page.wait_for_selector(".command-reply")
    # Who begins another one gets the empty one.
    page.get_by_label("New conversation").first.click()
    assert page.url.endswith(following)
    texts = [it.content for it in stage.client.conversations.load(it).messages]
    assert texts == ["Before", "About Before: noted.", "/usr/bin is full"]
    assert stage.client.conversations.load(following).messages == ()
    page.close()


def test_an_answer_that_is_being_written_is_shown_from_its_beginning(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Opened late", "What is it?")
    page = window.tab(wait=".live-live")
    stage.client.conversations.publish_delta(it, "d-late", 0, "It is the")
    page.wait_for_selector(f"#row-{it} >> text=an answer is being written")
    page.click(f"#row-{it}")
    page.wait_for_selector("[data-draft=d-late] >> text=It is the")
    stage.client.conversations.publish_delta(it, "d-late", 9, " lighthouse")
    page.wait_for_selector("[data-draft=d-late] >> text=lighthouse")
    assert page.inner_text("[data-draft=d-late] .said") == "It is the lighthouse"
    later = window.tab(f"/c/{it}", ".message")
    later.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.publish_delta(it, "d-late", 20, " of")
    later.wait_for_selector("[data-draft=d-late] >> text=… of")
    stage.client.conversations.publish_delta(it, "d-late", 23, " Porto")
    later.wait_for_selector("[data-draft=d-late] >> text=Porto")
    assert later.inner_text("[data-draft=d-late] .said") == "… of Porto"
    later.close()
    page.close()


def test_the_beginning_of_an_answer_stays_while_its_conversation_is_read_anew(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Read anew", "What is it?")
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


def test_a_page_tells_after_six_attempts_that_the_server_is_away(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Away", "Are you there?")
    page = window.tab(wait=".live-live")
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


@pytest.mark.parametrize("path", ["/c/{}", "/c/{}?without-worker"])
def test_an_answer_that_a_restarted_server_does_not_know_is_no_longer_written(
    path: str, browser: Any, tmp_path: Path
) -> None:
    values = {"listen": "127.0.0.1:0", "data_dir": str(tmp_path / "data"), "embedder": "off"}
    server = app.start(Settings.load(None, values))
    address = server.address
    bridge = Bridge(address)
    opened = Browsing(browser, bridge)
    with Client(address) as client:
        it = client.conversations.create("web", messages=[Message.user("Tell me a story")])
        page = opened.tab(path.format(it.id), ".message")
        page.wait_for_selector(".live-live", state="attached")
        client.conversations.publish_delta(it.id, "d-lost", 0, "Once upon")
        client.conversations.publish_delta(it.id, "d-goes-on", 0, "Once more")
        page.wait_for_selector("[data-draft=d-lost] >> text=Once upon")
        page.wait_for_selector(f"#row-{it.id} >> text=an answer is being written")
        server.stop()
        page.wait_for_selector(".live-lost", state="attached")
        server = app.start(Settings.load(None, values | {"listen": address}))
        page.wait_for_selector(".live-live", state="attached")
        page.wait_for_selector("[data-draft]", state="detached")
        page.wait_for_selector("text=an answer is being written", state="detached")
        client.conversations.publish_delta(it.id, "d-goes-on", 0, "Once more upon a time")
        page.wait_for_selector("[data-draft=d-goes-on] >> text=upon a time")
        client.conversations.append_turn(it.id, [Message.assistant("The end.")])
        page.wait_for_selector(".message >> text=The end.")
        assert page.locator("[data-draft]").count() == 1
    opened.context.close()
    bridge.stop()
    server.stop()
