"""`recollect import` of recall sets: every message in its place, once, and what is said of the
rest.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recollect import Client, Role
from recollect import Message as Sent

from tests.client_cli.conftest import (
    BringIn,
    Counts,
    Run,
    Set,
    counts_of,
    messages_of,
    said,
    set_line,
    talk,
)


def test_a_conversation_of_a_recall_set_arrives_with_its_speakers_times_and_ids(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    messages = [
        said(0, sender="Caroline", content="Hey Mel!"),
        said(61, "assistant", sender="Melanie", content="Hi!"),
    ]
    counts = bring_in(write_set(set_line("s1", messages, group="conv-26")))
    [conversation] = client.conversations.list()
    assert counts == Counts(1, 0, 2, 0, 0)
    assert (conversation.channel, conversation.participants) == ("web", ("Caroline", "Melanie"))
    assert conversation.create_time == datetime(2024, 5, 1, 10, tzinfo=UTC)
    first, second = client.conversations.load(conversation.id).messages
    assert (first.role, first.sender, first.content) == (Role.USER, "Caroline", "Hey Mel!")
    assert (second.role, second.sender, second.content) == (Role.ASSISTANT, "Melanie", "Hi!")
    assert second.timestamp == datetime(2024, 5, 1, 10, 1, 1, tzinfo=UTC)
    assert first.metadata == {
        "importId": "m0",
        "importConversation": "s1",
        "importGroup": "conv-26",
    }


def test_speakers_without_names_take_part_by_their_roles(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    bring_in(write_set(set_line("s1", talk(3))))
    [conversation] = client.conversations.list()
    assert conversation.participants == ("user", "assistant")


def test_a_second_import_adds_nothing(write_set: Set, bring_in: BringIn, client: Client) -> None:
    folder = write_set(
        *(set_line(f"s{number}", talk(5), abbreviation="Notes.") for number in range(20))
    )
    assert bring_in(folder, "--abbreviations") == Counts(20, 0, 100, 0, 0)
    before = sorted(client.conversations.list(), key=lambda it: it.id)
    assert bring_in(folder, "--abbreviations") == Counts(0, 20, 0, 100, 0)
    assert sorted(client.conversations.list(), key=lambda it: it.id) == before


def test_a_set_that_was_moved_is_still_known(
    write_set: Set, bring_in: BringIn, tmp_path: Path
) -> None:
    folder = write_set(set_line("s1", talk(4)))
    bring_in(folder)
    (tmp_path / "elsewhere").mkdir()
    moved = folder.rename(tmp_path / "elsewhere" / folder.name)
    assert bring_in(moved) == Counts(0, 1, 0, 4, 0)


def test_abbreviations_become_notes_only_when_asked_for(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    folder = write_set(
        set_line("s1", talk(2), abbreviation="They said hello."),
        set_line("s2", talk(2), abbreviation=""),
    )
    bring_in(folder)
    assert {it.abbreviation for it in client.conversations.list()} == {""}
    assert bring_in(folder, "--abbreviations") == Counts(0, 2, 0, 4, 0)
    assert sorted(it.abbreviation for it in client.conversations.list()) == ["", "They said hello."]


def test_only_the_groups_asked_for_are_imported(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    folder = write_set(*(set_line(f"{group}/1", talk(2), group=group) for group in ("a", "b", "c")))
    assert bring_in(folder, "--group", "a", "--group", "c") == Counts(2, 0, 4, 0, 0)
    groups = {
        client.conversations.load(it.id).messages[0].metadata["importGroup"]
        for it in client.conversations.list()
    }
    assert groups == {"a", "c"}


def test_a_group_that_is_not_there_is_named_and_nothing_is_imported(
    run: Run, write_set: Set, server: Any, client: Client
) -> None:
    result = run(
        "import", write_set(set_line("s1", talk(2))), "--group", "alex", "--group", "nobody"
    )
    assert result.code == 1
    assert "there is no group nobody in" in result.err
    assert not list(client.conversations.list())


def test_the_channel_is_the_one_that_is_named(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    bring_in(write_set(set_line("s1", talk(2))), "--channel", "cli")
    assert [it.channel for it in client.conversations.list()] == ["cli"]


def test_a_folder_of_recall_sets_brings_them_all(write_set: Set, bring_in: BringIn) -> None:
    write_set(set_line("s1", talk(2)), name="one")
    parent = write_set(set_line("s1", talk(3)), name="two").parent
    assert bring_in(parent) == Counts(2, 0, 5, 0, 0)


def test_lines_and_messages_that_are_wrong_are_skipped_by_name_and_the_rest_arrives(
    run: Run, write_set: Set, server: Any, client: Client
) -> None:
    folder = write_set(
        "{ not json",
        json.dumps({"group": "alex", "id": "s0"}),
        set_line(
            "s1",
            [
                said(0),
                said(1, "system"),
                said(2, "assistant", timestamp="2024-05-01T10:00:00"),
                said(3, "assistant"),
            ],
        ),
        set_line(
            "s2",
            [
                said(0),
                said(1, content="\0"),
                said(2, timestamp="2199-01-01T00:00:00Z"),
                said(3, "assistant"),
            ],
        ),
        set_line("s3", []),
        set_line("s4", talk(2), started="1969-01-01T00:00:00Z"),
    )
    result = run("import", folder)
    assert counts_of(result) == Counts(2, 0, 4, 0, 8)
    assert {tuple(messages_of(client, it.id)) for it in client.conversations.list()} == {
        ("line 0", "line 3")
    }
    file = re.escape(str(folder / "conversations.jsonl"))
    for place, reason in (
        ("1", "not JSON"),
        ("2", "started: it is missing"),
        ("3 message 2", "role: .*'user'"),
        ("3 message 3", "timestamp: .*time zone"),
        ("4 message 2", "message refused: content holds the character NUL"),
        ("4 message 3", "message refused: timestamp is more than a day ahead"),
        ("5", "it has no messages"),
        ("6", r"create_time.*1970.*\(2 messages left out\)"),
    ):
        assert re.search(
            f"^left out (the rest of )?{file}:{place}: .*{reason}", result.err, re.MULTILINE
        ), (place, result.err)


def test_what_was_skipped_is_skipped_again_and_nothing_is_added(
    write_set: Set, bring_in: BringIn
) -> None:
    folder = write_set(
        set_line(
            "s1", [said(0), said(1, content="\0"), said(2, "assistant", content="x" * (1 << 20))]
        )
    )
    assert bring_in(folder) == Counts(1, 0, 1, 0, 2)
    assert bring_in(folder) == Counts(0, 1, 0, 1, 2)


def batch_sizes(server: Any, conversation_id: str) -> list[int]:
    """Return the number of messages of each append to a conversation."""
    lines = map(json.loads, (server.folder / f"{conversation_id}.jsonl").read_text().splitlines())
    return [
        size
        for index, size in (line.get("batch", [1, 1]) for line in lines if line["type"] == "turn")
        if index == 1
    ]


def test_a_conversation_longer_than_one_append_keeps_its_order(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    folder = write_set(set_line("s1", talk(2500)))
    assert bring_in(folder) == Counts(1, 0, 2500, 0, 0)
    assert bring_in(folder) == Counts(0, 1, 0, 2500, 0)
    [conversation] = client.conversations.list()
    assert messages_of(client, conversation.id)[-2000:] == [
        f"line {number}" for number in range(500, 2500)
    ]
    assert batch_sizes(server, conversation.id) == [1000, 1000, 500]


def test_more_bytes_than_one_append_may_have_arrive_in_several(
    write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    folder = write_set(
        set_line("s1", [said(number, content=f"{number} " + "x" * 900_000) for number in range(20)])
    )
    assert bring_in(folder) == Counts(1, 0, 20, 0, 0)
    [conversation] = client.conversations.list()
    assert batch_sizes(server, conversation.id) == [9, 9, 2]


def test_a_server_with_smaller_limits_gets_smaller_appends(
    run: Run, start_server: Callable[..., Any], write_set: Set, tmp_path: Path
) -> None:
    server = start_server(data_dir=tmp_path / "small", max_batch_bytes=2048, max_message_bytes=1024)
    messages = [said(number, content=f"{number} " + "x" * 500) for number in range(10)] + [
        said(11, content="y" * 2000)
    ]
    folder = write_set(set_line("s1", messages))
    for expected in (Counts(1, 0, 10, 0, 1), Counts(0, 1, 0, 10, 1)):
        result = run("import", folder, "--address", server.target)
        assert counts_of(result) == expected
        assert "message 11: message refused: content the message has" in result.err


def test_a_conversation_that_changed_since_is_left_as_it_is_and_named(
    run: Run, write_set: Set, bring_in: BringIn, server: Any, client: Client
) -> None:
    bring_in(write_set(set_line("s1", talk(4))))
    [conversation] = client.conversations.list()
    result = run("import", write_set(set_line("s1", talk(6))))
    assert counts_of(result).messages_new == 0
    assert f"{conversation.id} is not as an earlier import left it" in result.err
    assert "(6 messages left out)" in result.err
    assert messages_of(client, conversation.id) == [message["content"] for message in talk(4)]


def test_an_imported_conversation_that_went_on_is_still_known(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    folder = write_set(set_line("s1", talk(4)))
    bring_in(folder)
    [conversation] = client.conversations.list()
    client.conversations.append_turn(conversation.id, [Sent.user("And now?")])
    assert bring_in(folder) == Counts(0, 1, 0, 4, 0)
    assert len(messages_of(client, conversation.id)) == 5


def test_a_conversation_that_was_deleted_can_be_imported_again(
    write_set: Set, bring_in: BringIn, client: Client
) -> None:
    folder = write_set(set_line("s1", talk(4)))
    bring_in(folder)
    [conversation] = client.conversations.list()
    client.conversations.delete(conversation.id)
    assert bring_in(folder) == Counts(1, 0, 4, 0, 0)
