"""`list`, `show`, `recent`, `search`, `stats`, `rename`: JSON lines into a pipe, text on a
terminal.
"""

import socket
import webbrowser
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from recollect import Client, Conversation, Message, ToolCall, Usage
from recollect._shared.plain import plain

from tests.client_cli.conftest import Inside

Talked = Callable[..., Conversation]


def test_list_prints_a_json_line_a_conversation_into_a_pipe(
    inside: Inside, client: Client, talked: Talked
) -> None:
    talked(1, title="First")
    talked(2, channel="cli", model="haiku", participants=["alex", "agent"])
    ran = inside("list")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [plain(it) for it in client.conversations.list()]
    assert [
        (it.get("title"), it["turnCount"], it["messageCount"], it["channel"])
        for it in reversed(ran.lines)
    ] == [
        ("First", 1, 2, "web"),
        (None, 2, 4, "cli"),
    ]
    assert ran.lines[0]["participants"] == ["alex", "agent"]


def test_list_chooses_by_channel_title_and_number(inside: Inside, talked: Talked) -> None:
    for title in ("Disk", "Network"):
        talked(title=title)
    talked(channel="cli", title="Disk too")

    def titles(*flags: str) -> list[str]:
        return [it["title"] for it in inside("list", *flags).lines]

    assert titles("--channel", "web", "--title", "disk") == ["Disk"]
    assert len(titles("--limit", "2")) == 2
    assert sorted(titles("--limit", "0", "--channel", "web", "--channel", "cli")) == [
        "Disk",
        "Disk too",
        "Network",
    ]


def test_a_plain_date_at_the_end_of_a_span_belongs_to_it(recollect: Any, client: Client) -> None:
    for day in (13, 14, 15):
        it = client.conversations.create("web", create_time=datetime(2026, 2, day, tzinfo=UTC))
        message = Message.user(f"day {day}", timestamp=datetime(2026, 2, day, 12, tzinfo=UTC))
        client.conversations.append_turn(it.id, [message])

    def days(*flags: str) -> list[str]:
        return [it["updateTime"][8:10] for it in recollect("list", *flags).lines]

    assert days("--since", "2026-02-14", "--until", "2026-02-14") == ["14"]
    assert days("--until", "2026-02-14T12:00:00Z") == ["13"]
    assert days("--since", "2026-02-14T13:00:00+02:00", "--until", "2026-02-15") == ["15", "14"]
    refused = recollect("list", "--since", "last week")
    assert (refused.code, refused.out) == (2, "")
    assert "--since" in refused.err
    assert "'last week' is no date" in refused.err


def test_show_prints_every_message_as_it_was_stored(inside: Inside, client: Client) -> None:
    it = client.conversations.create("web")
    call = ToolCall("call-1", "df", '{"path": "/"}')
    messages = [
        Message.user(
            "Is the disk full?\nAgain?", sender="alex", metadata={"some_key": {"deep_key": 1}}
        ),
        Message.assistant(
            "", tool_calls=[call], thinking_text="Let me look.", usage=Usage(10, 2), cost=0.25
        ),
        Message.tool("97%", tool_call_id="call-1"),
        Message.assistant("Yes."),
    ]
    stored = client.conversations.append_turn(it.id, messages).messages
    ran = inside("show", it.id)
    assert ran.lines == [{"conversationId": it.id} | plain(message) for message in stored]
    assert ran.lines[0]["metadata"] == {"some_key": {"deep_key": 1}}
    assert ran.lines[1]["toolCalls"] == [
        {"id": "call-1", "name": "df", "arguments": '{"path": "/"}'}
    ]
    assert (ran.lines[1]["thinkingText"], ran.lines[1]["usage"], ran.lines[1]["cost"]) == (
        "Let me look.",
        {"input": 10, "output": 2},
        0.25,
    )


def test_show_goes_as_far_back_as_it_is_asked_to(inside: Inside, talked: Talked) -> None:
    it = talked(30)

    def turns(*flags: str) -> list[int]:
        return sorted({line["turnNumber"] for line in inside("show", *flags).lines})

    assert turns(it.id) == list(range(11, 31))
    assert turns("--channel", "web", "--turns", "2") == [29, 30]
    assert turns(it.id, "--before", "11", "--turns", "3") == [8, 9, 10]
    assert turns(it.id, "--all") == list(range(1, 31))


def test_on_a_terminal_people_read_text(recollect: Any, client: Client, talked: Talked) -> None:
    it = talked(22, text="the disk is full", title="Full Disk")
    listed = recollect.on_terminal("list")
    assert (listed.code, listed.err) == (0, "")
    assert "Full Disk" in listed.out
    assert it.id in listed.out
    assert "{" not in listed.out
    shown = recollect.on_terminal("show", it.id)
    assert "the disk is full 22" in shown.out
    assert "\x1b[1;36malex" in shown.out  # in colour
    assert " over " not in shown.out
    assert "there is more: --before 3, or --all" in shown.out
    client.conversations.rename(it.id, "The Disk of the Server That Was So Slow Last Night")
    narrow = recollect.on_terminal("list", columns=80, NO_COLOR="1", TERM="dumb").out
    assert "\x1b" not in narrow
    assert it.id in narrow
    assert "The Disk of the Server That Was So Slow Last Night" in narrow
    assert f"{it.id} web 22 turns" in narrow
    phone = recollect.on_terminal("list", columns=40)
    assert "The Disk of the Server That Was So Slow Last Night" in phone.out
    assert f"{it.id} web" in phone.out, "the terminal wraps it, and it can be copied whole"
    client.conversations.append_turn(it.id, [Message.user("And now?", channel="whatsapp")])
    assert " over whatsapp" in recollect.on_terminal("show", it.id, "--turns", "1").out


def test_a_list_shows_the_name_of_every_conversation(
    recollect: Any, client: Client, talked: Talked
) -> None:
    named, unnamed, new = talked(title="Disk"), talked(text="Is the\ndisk full?"), talked(0)
    lines = recollect.on_terminal("list", columns=100).out.splitlines()
    assert len(lines) == 4
    (of_named,) = (line for line in lines if named.id in line)
    (of_unnamed,) = (line for line in lines if unnamed.id in line)
    (of_new,) = (line for line in lines if new.id in line)
    assert " Disk " in of_named
    assert "Is the disk full?" in of_unnamed
    assert "(nothing said yet)" in of_new


def test_json_is_printed_on_a_terminal_where_it_is_asked_for(
    recollect: Any, client: Client, talked: Talked
) -> None:
    it = talked()
    ran = recollect.on_terminal("list", "--json")
    assert ran.lines == [plain(client.conversations.get(it.id))]


def test_stored_text_cannot_command_the_terminal(recollect: Any, client: Client) -> None:
    hostile = "before \x1b]0;owned\x07\x1b[2J\x9b2J \u202eafter"
    it = client.conversations.create("web")
    client.conversations.append_turn(it.id, [Message.user(hostile, sender="\u202ered")])
    client.conversations.rename(it.id, "A \u202etitle")
    for arguments in (
        ("show", it.id),
        ("list",),
        ("recent",),
        ("search", "before"),
        ("search", "--messages", "before"),
        ("show", it.id, "--json"),
        ("export", it.id),
        ("show", "conv-\x9b2J\u202e"),  # what is refused is repeated on standard error
    ):
        ran = recollect.on_terminal(*arguments)
        out = ran.out + ran.err
        assert "\x1b]0" not in out, arguments
        assert "\x1b[2J" not in out, arguments
        assert not {"\x07", "\x9b", "\u202e"} & set(out), arguments
    assert "before ␛]0;owned␇␛[2J" in recollect.on_terminal("show", it.id).out
    assert recollect("show", it.id).lines[0]["content"] == hostile
    exported = recollect("export", it.id).lines
    assert [line["content"] for line in exported if "content" in line] == [hostile]


def test_search_prints_what_it_found_best_first(
    recollect: Any, client: Client, talked: Talked
) -> None:
    talked(text="the network is slow")
    disk = talked(text="the disk is full", title="Full Disk")
    ran = recollect("search", "is", "the", "disk", "full?")
    expected = client.recall.search("is the disk full?")
    assert ran.lines == [plain(it) for it in expected.results]
    assert ran.lines[0]["conversationId"] == disk.id
    hits = recollect("search", "--messages", "--explain", "disk").lines
    assert (hits[0]["conversationId"], hits[0]["turnNumber"]) == (disk.id, 1)
    assert "\ue000disk\ue001" in hits[0]["snippet"]
    assert hits[0]["explanation"][0].keys() == {"leg", "rank", "score"}
    shown = recollect.on_terminal("search", "disk").out
    assert "Full Disk" in shown
    assert "\x1b[1;33mdisk\x1b[0m" in shown
    assert not {"\ue000", "\ue001"} & set(shown)


def test_messages_that_ask_show_their_reply_and_with_moment_each_what_stands_beside_it(
    recollect: Any, client: Client
) -> None:
    it = client.conversations.create("web").id
    talk = [
        Message.user("Hello"),
        Message.user("Who has the\nbongo?"),
        Message.assistant("Ann.\nBen."),
    ]
    client.conversations.append_turn(it, talk)
    (hit,) = recollect("search", "--messages", "--limit", "1", "bongo").lines
    assert (hit["after"]["text"], hit["after"]["role"]) == ("Ann. Ben.", "assistant")
    shown = recollect.on_terminal("search", "--messages", "--limit", "1", "bongo").out
    assert "  \x1b[2massistant: Ann. Ben." in shown
    assert "Hello" not in shown
    whole = recollect.on_terminal("search", "--messages", "--moment", "--limit", "1", "bongo").out
    assert whole.index("user: Hello") < whole.index("bongo") < whole.index("assistant: Ann. Ben.")


def test_the_dates_of_a_question_are_those_of_the_machine_as_of_options(
    recollect: Any, client: Client
) -> None:
    here = client.conversations.create("web", create_time=datetime(2026, 2, 13, tzinfo=UTC)).id
    for hour in (14, 16):  # 23:00 on the 14th in Tokyo, and 01:00 on the 15th
        time = datetime(2026, 2, 14, hour, tzinfo=UTC)
        client.conversations.append_turn(here, [Message.user(f"Alpha at {hour}", timestamp=time)])
    question = ("search", "--messages", "Alpha", "on", "15", "February", "2026")

    def first(*arguments: str, zone: str) -> str:
        return str(recollect(*arguments, TZ=zone).lines[0]["snippet"][-2:])

    assert first(*question, zone="Asia/Tokyo") == first(*question, zone=":Asia/Tokyo") == "16"
    assert first(*question, zone="UTC") == first(*question, zone="JST-9") == "14"  # no name
    assert (
        first("search", "--messages", "--since", "2026-02-15", "Alpha", zone="Asia/Tokyo") == "16"
    )
    assert (
        first("search", "--messages", "--until", "2026-02-14", "Alpha", zone="Asia/Tokyo") == "14"
    )
    spans = ("search", "--messages", "Alpha", "--since", "2026-02-15", "--time-zone", "Asia/Tokyo")
    assert first(*spans, zone="UTC") == "16"  # one zone for words and --since
    refused = recollect(*question, "--since", "2026-02-15", "--time-zone", "Mars/Olympus")
    assert (refused.code, refused.out) == (2, "")
    assert "--time-zone is not the name of a time zone" in refused.err


def test_search_leaves_out_what_scores_below_a_least_score(
    inside: Inside, client: Client, talked: Talked
) -> None:
    talked(text="the network is slow")
    talked(text="the disk is full")
    scores = [it.score for it in client.recall.search("the disk is slow").results]
    assert len(scores) == 2
    assert scores[0] > scores[1]
    for kind in ((), ("--messages",)):
        ran = inside("search", "--min-score", str(scores[0]), *kind, "the", "disk", "is", "slow")
        assert all(it["score"] >= scores[0] for it in ran.lines)
        assert len(ran.lines) < len(inside("search", *kind, "the", "disk", "is", "slow").lines)
    refused = inside("search", "--min-score", "1.5", "disk")
    assert (refused.code, refused.out) == (2, "")
    assert "--min-score" in refused.err


def test_a_search_that_finds_nothing_is_no_error(recollect: Any, talked: Talked) -> None:
    talked()
    ran = recollect("search", "zeppelin")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert "Nothing found." in recollect.on_terminal("search", "zeppelin").out


def test_recent_browses_by_time(recollect: Any, client: Client, talked: Talked) -> None:
    first, second = talked(text="older"), talked(text="newer", channel="cli")
    client.conversations.record_abbreviation(first.id, "Notes of the first.")
    ran = recollect("recent", "--oldest-first")
    assert [it["id"] for it in ran.lines] == [first.id, second.id]
    assert ran.lines[0]["abbreviation"] == "Notes of the first."
    assert "snippet" not in ran.lines[0]
    assert ran.lines[1]["snippet"] == "answer 1"
    assert [it["id"] for it in recollect("recent", "--channel", "cli", "--limit", "1").lines] == [
        second.id
    ]
    assert "Notes of the first." in recollect.on_terminal("recent").out


def test_rename_names_a_conversation_for_good(
    inside: Inside, client: Client, talked: Talked
) -> None:
    it = talked()
    ran = inside("rename", it.id, "Full", "Disk")
    assert (ran.code, ran.lines[0]["title"], ran.lines[0]["manuallyNamed"]) == (
        0,
        "Full Disk",
        True,
    )
    assert client.conversations.get(it.id).title == "Full Disk"


def test_stats_adds_up_what_the_list_tells(recollect: Any, client: Client, talked: Talked) -> None:
    talked(3, title="Named")
    it = talked(2, channel="cli")
    client.conversations.append_turn(
        it.id, [Message.user("and?"), Message.assistant("so.", usage=Usage(100, 20), cost=0.5)]
    )
    [figures] = recollect("stats").lines
    assert (figures["conversations"], figures["turns"], figures["messages"]) == (2, 6, 12)
    assert (figures["untitled"], figures["namedByHand"], figures["withNotes"]) == (1, 1, 0)
    assert (figures["inputTokens"], figures["outputTokens"], figures["cost"]) == (100, 20, 0.5)
    assert {name: it["messages"] for name, it in figures["channels"].items()} == {
        "web": 6,
        "cli": 6,
    }
    assert recollect("stats", "--channel", "none").lines[0]["conversations"] == 0
    shown = recollect.on_terminal("stats").out
    assert "tokens in" in shown
    assert "says what it cost" not in shown


def test_stats_counts_what_was_said_before_it_was_stored_by_its_time(
    recollect: Any, client: Client
) -> None:
    time = datetime(2024, 5, 1, 12, tzinfo=UTC)
    messages = [Message.user("Is it open?", timestamp=time)]
    client.conversations.create("web", messages=messages)  # as a program stores it, not an import
    [figures] = recollect("stats").lines
    assert (figures["oldest"], figures["newest"]) == ("2024-05-01T12:00:00.000Z",) * 2


def test_stats_prints_a_count_of_one_as_a_number(recollect: Any, talked: Talked) -> None:
    talked(1)
    [figures] = recollect("stats").lines
    for counts in (figures, figures["channels"]["web"]):
        assert {name: value for name, value in counts.items() if isinstance(value, bool)} == {}
        assert (counts["untitled"], counts["namedByHand"]) == (1, 0)
    assert "No message says what it cost" in recollect.on_terminal("stats").out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["search", "x", "--limit", "abc"],
            "--limit: is no whole number from 1 to 100 (it is 'abc')",
        ),
        (["list", "--limit", "-1"], "--limit: is no whole number of at least 0 (it is '-1')"),
        (
            ["search", "x", "--timeout", "0"],
            "--timeout: is no number above 0 and up to 100000000 (it is '0')",
        ),
        (["redact", "c", "zero"], "SEQUENCE: is no whole number of at least 2 (it is 'zero')"),
    ],
)
def test_a_wrong_number_is_refused_by_its_option_with_what_it_must_be(
    inside: Inside, arguments: list[str], error: str
) -> None:
    ran = inside(*arguments)
    assert ran.code == 2
    assert ran.err.rstrip().endswith(f"Error: {error}")


def test_a_conversation_is_named_by_the_end_of_its_id(inside: Inside, talked: Talked) -> None:
    first, second = talked(1, title="One"), talked(1, title="Two")
    (line,) = inside("list", "--name", "Two").lines
    assert line["id"] == second.id
    for end in (first.id[-10:], first.id[-6:].lower()):
        assert first.id in inside("show", end, on_terminal=True).out
    assert inside("show", "0000").code == 2


def test_open_leads_to_the_page(
    inside: Inside, talked: Talked, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = talked(1)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with socket.create_server(("127.0.0.1", 0)) as page:
        place = f"127.0.0.1:{page.getsockname()[1]}"
        monkeypatch.setenv("RECOLLECT_WEB_LISTEN", place)
        (line,) = inside("open", it.id[-8:], "--turn", "1").lines
        assert opened == [line["address"]] == [f"http://{place}/c/{it.id}?turn=1"]
        monkeypatch.setenv("RECOLLECT_WEB_URL", f"http://{place}/memory/")
        inside("open", it.id)
        assert opened[1] == f"http://{place}/memory/c/{it.id}"
    monkeypatch.delenv("RECOLLECT_WEB_URL")
    ran = inside("open")
    assert (ran.code, f"no page answers on http://{place}" in ran.err, len(opened)) == (4, True, 2)


def test_bytes_of_an_argument_that_are_not_utf_8_are_named(recollect: Any) -> None:
    ran = recollect("search", "caf\udce9")
    assert ran.code == 2
    assert "WORDS is not UTF-8: it holds the byte 0xE9" in ran.err
