"""Slash commands: which text is one, and what each does."""

import hypothesis
import pytest
from hypothesis import strategies as st
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.channels.parsing import (
    HELP,
    Clear,
    New,
    Say,
    SetModel,
    ShowHistory,
    ShowModel,
    parse,
)

from tests.anchors.conftest import set_anchor, values
from tests.cases import each
from tests.channels.conftest import ALEX, Post, Reach, here, home, reply
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    UNKNOWN,
    agent,
    delete_index,
    failure_of,
    files_with,
    kept_by,
    tool,
    user,
)
from tests.waiting import until

MESSAGES = [
    "/usr/bin is full",
    "/usr/bin",
    "and/or",
    "and /new",
    "/",
    "//",
    "/ new",
    "//new",
    "/2",
    "/new2",
    "/new/",
    "/new.",
    "/neu-es",
    "/é",
    "/new\nand more",
    "Look:\n/new",
    "new",
    "\\new",
    "/" + "a" * 33,
    "",
]

COMMANDS = {
    "/new": New(),
    " /new ": New(),
    "/NEW": New(),
    "/new@agent_bot": New(),
    "/model": ShowModel(),
    "/model opus": SetModel("opus"),
    "/model Sonnet": SetModel("sonnet"),
    "/model  haiku ": SetModel("haiku"),
    "/model claude-opus-4-5@2026": SetModel("claude-opus-4-5@2026"),
    "/model default": SetModel(""),
    "/history": ShowHistory(10),
    "/history 3": ShowHistory(3),
    "/history 50": ShowHistory(50),
    "/clear": Clear(confirmed=False),
    "/clear confirm": Clear(confirmed=True),
    "/Clear CONFIRM": Clear(confirmed=True),
    "/help": Say(HELP),
    "/help me": Say(HELP),
}


@each("text", MESSAGES)
def test_a_text_that_merely_has_a_slash_is_a_message(text: str) -> None:
    assert parse(text) is None


@each(("text", "command"), COMMANDS.items())
def test_a_command_is_understood(text: str, command: object) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "/var is full",
        "/nwe",
        "/new please",
        "/model a b",
        "/model ö",
        "/history 0",
        "/history 51",
        "/history x",
        "/clear all",
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(post: Post, text: str) -> None:
    first = home(post.whatsapp("Hello"))
    before = post.get(first)
    answer = post.whatsapp(text)
    assert text.split()[0] in reply(answer)
    assert here(answer) == before == post.get(first)
    assert post.everything() == {first: ["Hello"]}


@hypothesis.given(text=st.text(max_size=60) | st.from_regex(r"\A\s?/[a-zA-Z/ 0-9@]{0,12}\Z"))
def test_every_text_is_a_message_or_a_command(text: str) -> None:
    command = parse(text)
    alone = text.strip()
    assert (command is None) or (
        alone[0] == "/" and alone[1].isascii() and alone[1].isalpha() and "\n" not in alone
    )
    assert parse(f"  {text}\t") == command
    assert parse(f"Say {text}") is None


def test_new_keeps_the_model_and_the_old_conversation(post: Post) -> None:
    old = home(post.whatsapp("Hello"))
    assert reply(post.whatsapp("/model")).startswith("The model is the default. ")
    assert reply(post.whatsapp("/model opus")) == "The model is opus from here on."
    answer = post.whatsapp("/new")
    assert (here(answer).model, here(answer).pinned, here(answer).message_count) == (
        "opus",
        True,
        0,
    )
    assert here(answer).party == post.get(old).party
    assert reply(post.whatsapp("/model")).startswith("The model is opus. ")
    assert reply(post.whatsapp("/model default")) == "The model is the default from here on."
    assert (post.get(home(answer)).model, post.get(old).model) == ("", "opus")
    assert post.said(old) == ["Hello"]


def test_new_in_a_conversation_in_which_nothing_was_said_makes_no_second(post: Post) -> None:
    first = home(post.whatsapp("Hello"))
    new = post.whatsapp("/new")
    again = post.whatsapp("/new", delivery="again")
    assert home(new) == home(again) != first
    assert reply(again) == "Nothing was said in this conversation yet: it is the new one."
    assert home(post.whatsapp("/new", delivery="again")) == home(new)
    assert post.command(home(new), "/new").conversation.id == home(new)
    assert home(post.whatsapp("Anew")) == home(new)
    assert home(post.whatsapp("/new")) not in (first, home(new))
    assert len(post.everything()) == 3
    empty = home(post.web("/new"))
    assert home(post.web("/new")) == empty == home(post.web("On the web"))


def test_new_queues_the_notes_of_the_conversation_that_is_left(
    start_server: Start, reach: Reach
) -> None:
    post = reach(start_server(abbreviator="extractive"))
    post.own("whatsapp", ALEX)
    left = home(post.whatsapp("Rotate the logs daily."))
    other = home(post.web("What is a pangolin?"))
    post.whatsapp("/new")
    until(lambda: post.get(left).abbreviation)  # although it was not idle
    assert not post.get(other).abbreviation
    post.command(other, "/new")
    until(lambda: post.get(other).abbreviation)


def test_a_pinned_conversation_is_deleted_with_force_alone(post: Post) -> None:
    pinned = home(post.whatsapp("Hello"))
    failure = failure_of(lambda: post.delete(pinned, force=False, request_id="d"))
    assert (failure.code, failure.reason) == ("FAILED_PRECONDITION", "CONVERSATION_PINNED")
    assert failure.metadata == {"conversation_id": pinned}
    assert "force" in failure.text
    assert home(post.whatsapp("Still here")) == pinned
    receipt = post.delete(pinned, force=True, request_id="d")
    assert post.delete(pinned, force=True, request_id="d") == receipt
    unpinned = home(post.whatsapp("Anew"))
    post.whatsapp("/new")
    assert post.delete(unpinned, force=False).conversation_id == unpinned
    assert post.delete(home(post.web("Web")), force=False).removed


def test_history_shows_the_last_messages_and_no_tools(post: Post, clock: MovableClock) -> None:
    first = home(post.whatsapp("What does the sensor say?"))
    call = agent("")
    call.tool_calls.add(id="1", name="sensor", arguments="{}")
    post.append(first, call, tool("1", "21"), agent("21 degrees,\n\nand falling. " + "x" * 400))
    post.whatsapp("Thanks")
    shown = reply(post.whatsapp("/history 3")).splitlines()
    assert shown[0] == "2026-09-21 14:13 1555000: What does the sensor say?"
    assert shown[1].startswith("2026-09-21 14:13 agent: 21 degrees, and falling. x")
    assert shown[1].endswith("x…")
    assert shown[2:] == ["2026-09-21 14:13 1555000: Thanks"]
    assert reply(post.whatsapp("/history 1")).splitlines() == shown[2:]
    web = home(post.web("Hello"))
    post.append(web, user("And from there", channel="discord"))
    own, over = post.command(web, "/history 2").reply.splitlines()
    assert own == "2026-09-21 14:13 you: Hello"
    assert over == "2026-09-21 14:13 you over discord: And from there"
    post.whatsapp("/new")
    assert reply(post.whatsapp("/history")) == "Nothing was said in this conversation yet."


def test_clear_asks_first_and_then_removes_every_word(server: RunningServer, post: Post) -> None:
    old = home(post.whatsapp("The pomegranate"))
    post.whatsapp("/model haiku")
    assert "/clear confirm" in reply(post.whatsapp("/clear"))
    assert "1 message" in reply(post.whatsapp("/clear"))
    assert post.said(old) == ["The pomegranate"]
    post.whatsapp("/history")
    cleared = post.whatsapp("/clear confirm", delivery="clear-1")
    assert set(post.everything()) == {home(cleared)} != {old}
    assert (here(cleared).model, here(cleared).pinned) == ("haiku", True)
    kept_by(post, server)
    assert not files_with(server.data_dir, "pomegranate")
    assert home(post.whatsapp("Anew")) == home(cleared)
    again = post.whatsapp("/clear confirm", delivery="clear-1")
    assert (again.duplicate, again.command_reply) == (True, cleared.command_reply)
    assert post.everything() == {home(cleared): ["Anew"]}


def test_clear_says_what_was_learned_and_goes_with_the_conversation(post: Post) -> None:
    name = home(post.whatsapp("/model haiku"))
    for text in ("/clear", "/clear confirm"):
        answer = post.whatsapp(text)
        assert (reply(answer), home(answer)) == ("There is nothing to remove yet.", name)
    message = post.whatsapp("I am Alex, and I live in Lisbon").conversation.messages[0]
    for key, value in (("name", "Alex"), ("home", "Lisbon")):
        set_anchor(post, key, value, (name, message.sequence))
    goes = "1 message and 2 facts about you learned from it (home, name)."
    assert goes in reply(post.whatsapp("/clear"))
    cleared = post.whatsapp("/clear confirm")
    assert goes in reply(cleared)
    assert home(cleared) != name
    assert values(post) == []


def test_commands_are_the_same_words_on_every_channel(post: Post) -> None:
    post.own("discord", "77")
    replies = [
        reply(post.whatsapp("/help")),
        reply(post.mail("/help", "<a@mail>")),
        reply(post.discord("/help", channel_id="1")),
        reply(post.cli("/help")),
        reply(post.web("/help")),
        post.command(home(post.web("Hello")), "/help").reply,
    ]
    assert set(replies) == {HELP}


def test_a_first_command_begins_the_conversation_that_it_is_about(post: Post) -> None:
    answer = post.whatsapp("/model opus")
    assert (here(answer).model, here(answer).message_count) == ("opus", 0)
    assert home(post.whatsapp("Hello")) == home(answer)
    assert reply(post.cli("/clear confirm")) == "There is nothing to remove yet."


def test_a_command_with_a_file_is_a_message(post: Post) -> None:
    answer = post.whatsapp(
        "/new", attachments=[{"media_type": "image/png", "uri": "https://example.org/1"}]
    )
    assert [it.content for it in answer.conversation.messages] == ["/new"]


def test_a_command_run_by_a_panel_is_run_once(start_server: Start, reach: Reach) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    first = home(post.whatsapp("Hello"))
    before = post.command(first, "/history", request_id="h-1")
    new = post.command(first, "/new", request_id="n-1")
    post.whatsapp("Anew")
    assert home(post.whatsapp("And on")) == new.conversation.id
    server.stop()
    delete_index(server)
    post = reach(start_server())
    assert post.command(first, "/new", request_id="n-1") == new
    assert post.command(first, "/history", request_id="h-1") == before
    assert set(post.everything()) == {first, new.conversation.id}
    assert (
        failure_of(lambda: post.command(first, "/help", request_id="n-1")).reason
        == "REQUEST_ID_REUSED"
    )


def test_a_panel_that_begins_anew_from_an_old_conversation_leaves_the_pinned_one_in_use(
    post: Post,
) -> None:
    old = home(post.whatsapp("One"))
    pinned = home(post.whatsapp("/new"))
    beside = post.command(old, "/new").conversation.id
    assert [post.get(it).pinned for it in (old, pinned, beside)] == [False, True, False]
    assert home(post.whatsapp("Two")) == pinned


def test_a_panel_that_begins_anew_where_none_is_pinned_pins_the_new_one(post: Post) -> None:
    old = home(post.whatsapp("One"))
    post.delete(home(post.whatsapp("/new")))
    newest = post.command(old, "/new").conversation.id
    assert post.get(newest).pinned
    assert home(post.whatsapp("Two")) == newest


def test_a_panel_that_begins_anew_from_a_thread_that_goes_on_elsewhere_leaves_that_in_use(
    post: Post,
) -> None:
    old = home(post.mail("One", "<1@x>"))
    in_use = home(post.mail("/new", "<2@x>", "<1@x>"))
    beside = post.command(old, "/new").conversation.id
    assert [post.get(it).pinned for it in (old, in_use, beside)] == [False, True, False]
    assert home(post.mail("Two", "<3@x>", "<1@x>")) == in_use
    newest = post.command(in_use, "/new").conversation.id
    assert home(post.mail("Three", "<4@x>", "<1@x>")) == newest


def test_a_panel_that_clears_an_old_conversation_leaves_the_pinned_one(post: Post) -> None:
    old = home(post.whatsapp("One"))
    pinned = home(post.whatsapp("/new"))
    assert not post.command(old, "/clear confirm").conversation.pinned
    assert old not in post.everything()
    assert home(post.whatsapp("Two")) == pinned


def test_a_command_whose_conversation_is_gone_is_not_found(post: Post) -> None:
    first = home(post.whatsapp("Hello"))
    new = post.command(first, "/new", request_id="n-1").conversation.id
    post.delete(new)
    assert (
        failure_of(lambda: post.command(first, "/new", request_id="n-1")).reason
        == "CONVERSATION_NOT_FOUND"
    )


def test_a_panel_is_told_what_is_no_command_and_no_conversation(post: Post) -> None:
    first = home(post.whatsapp("Hello"))
    assert failure_of(lambda: post.command(first, "Hello")).fields == ("text",)
    assert failure_of(lambda: post.command(first, "")).fields == ("text",)
    assert failure_of(lambda: post.command("x", "/help")).fields == ("conversation_id",)
    assert failure_of(lambda: post.command(UNKNOWN, "/help")).reason == "CONVERSATION_NOT_FOUND"
    assert failure_of(lambda: post.command(first, "/help", "a b")).fields == ("request_id",)


def test_a_question_without_a_request_id_writes_nothing(server: RunningServer, post: Post) -> None:
    first = home(post.whatsapp("Hello"))
    before = kept_by(post, server)
    assert post.command(first, "/history").reply
    assert kept_by(post, server) == before


def test_the_models_that_may_be_chosen_are_named_and_others_refused(
    start_server: Start, reach: Reach
) -> None:
    post = reach(start_server(models="opus, Sonnet-X, haiku"))
    assert reply(post.cli("/model")) == (
        "The model is the default. You can choose opus, Sonnet-X or haiku; /model default takes a choice back."
    )
    assert (
        reply(post.cli("/model gpt"))
        == "There is no model gpt here. You can choose opus, Sonnet-X or haiku."
    )
    name = home(post.cli("/model sonnet-x"))
    assert post.get(name).model == "Sonnet-X"
    assert post.command(name, "/model nothing").reply.startswith("There is no model nothing here")
    assert post.get(name).model == "Sonnet-X"
    failure = failure_of(
        lambda: post.conversations.SetModel(api.SetModelRequest(conversation_id=name, model="gpt"))
    )
    assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("model",))
    assert (
        post.conversations.SetModel(
            api.SetModelRequest(conversation_id=name, model="OPUS")
        ).conversation.model
        == "opus"
    )
    assert (
        post.conversations.SetModel(api.SetModelRequest(conversation_id=name)).conversation.model
        == ""
    )


def test_without_a_list_any_model_may_be_chosen(post: Post) -> None:
    assert post.get(home(post.cli("/model gpt-oss"))).model == "gpt-oss"
    assert reply(post.cli("/model")) == (
        "The model is gpt-oss. This server has no list of models to choose from (setting models):"
        " any name is taken, as in /model haiku, and the agent that answers decides what it does with it."
    )
