"""`recollect export`: what is written, and that `import` reads it back."""

import dataclasses
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from recollect import (
    Attachment,
    Client,
    Conversation,
    ForkOrigin,
    LoadedConversation,
    Message,
    NoteRecord,
    Notes,
    Party,
    Redaction,
    Role,
    ToolCall,
    Usage,
)
from recollect.imports import transcript
from recollect.v1 import conversation_pb2, conversation_service_pb2
from recollect_server.kernel.domain.conversation import (
    NO_SPLIT,
    Abbreviated,
    AnchorSet,
    Began,
    Compressed,
    Content,
    ConversationUnindexed,
    MetaUpdated,
    SplitSuggested,
    TitleAssigned,
    fold,
)
from recollect_server.kernel.domain.conversation import Conversation as Folded
from recollect_server.kernel.domain.message import Message as StoredMessage
from recollect_server.kernel.domain.message import Role as StoredRole

from tests.at_rest import lines_of
from tests.cases import each
from tests.client.conftest import Fault, Scripted, error_info, scripted
from tests.client_cli.conftest import Counts, Run, counts_of

__all__ = ["scripted"]
START = 1_714_557_600_000


def contents(path: Path) -> list[object]:
    """Return the contents of a transcript's lines, without the conversation's id."""
    listed: list[object] = []
    for line in lines_of(path):
        assert line.entry is not None, line.damage
        content = line.entry.content
        listed.append(replace(content, id="conv-") if isinstance(content, Began) else content)
    return listed


def all_contents(folder: Path) -> list[str]:
    return sorted(repr(contents(path)) for path in folder.glob("conv-*.jsonl"))


def folded(path: Path) -> Folded:
    """Return the state that a server folds from this transcript."""
    state = None
    for content in contents(path):
        state = fold(state, content)
    assert state is not None
    return state


def fill(client: Client) -> str:
    """Write a few conversations with everything that they can have, and return the id of the
    richest.
    """
    rich = client.conversations.create(
        "whatsapp",
        participants=["alex", "agent"],
        party=Party(contact="491701234567", thread_id="t"),
        model="haiku",
    )
    client.conversations.append_turn(
        rich.id,
        [
            Message.user(
                "Is the disk full?",
                sender="Caroline",
                attachments=[Attachment("image/png", "file:///a.png", 10)],
            ),
            Message.assistant(
                thinking_text="Hm.",
                tool_calls=[ToolCall("c1", "df", '{"')],
                usage=Usage(0, 35),
                cost=0.0,
            ),
            Message.tool(
                "", tool_call_id="c1", metadata={"z": 1, "a": {"y": [1.5, None, True], "b": "ü"}}
            ),
            Message.assistant("Yes: 97 %.", channel="cli"),
        ],
    )
    client.conversations.append_turn(
        rich.id, [Message.user("Rotate the logs.\n\u2028Now."), Message.assistant("Done.")]
    )
    client.conversations.record_compression(rich.id, 1, "The disk was full.")
    client.conversations.record_abbreviation(rich.id, "Logs are rotated.", topics=["disk", "logs"])
    client.conversations.rename(rich.id, "Full Disk")
    client.conversations.set_model(rich.id, "opus")
    client.conversations.set_topics(rich.id, ["disk"])
    client.conversations.update_metadata(rich.id, {"task": {"id": 7}, "b": "ü"})
    client.conversations.archive(rich.id)
    greeted = client.conversations.create("web")
    client.conversations.append_turn(greeted.id, [Message.assistant("Good morning!")])
    client.conversations.append_turn(greeted.id, [Message.user("Hi")])
    client.conversations.create("cli")
    return rich.id


def test_an_export_that_is_imported_and_exported_again_is_equal(
    run: Run, start_server: Callable[..., Any], client: Client, server: Any, tmp_path: Path
) -> None:
    fill(client)
    assert run("export", "-d", tmp_path / "first").code == 0
    other = start_server(data_dir=tmp_path / "other")
    imported = run("import", tmp_path / "first", "--address", other.target)
    assert counts_of(imported) == Counts(3, 0, 8, 0, 0)
    assert run("export", "-d", tmp_path / "second", "--address", other.target).code == 0
    assert all_contents(tmp_path / "second") == all_contents(tmp_path / "first")
    assert {path.name for path in (tmp_path / "first").iterdir()} == {
        path.name for path in (tmp_path / "second").iterdir()
    }


def test_an_export_says_what_the_servers_own_transcript_says(
    run: Run, client: Client, server: Any, tmp_path: Path
) -> None:
    name = f"{fill(client)}.jsonl"
    result = run("export", "-d", tmp_path / "out")
    assert result.lines == [{"conversations": 3, "messages": 8, "leftOut": 0}]
    mine, theirs = folded(tmp_path / "out" / name), folded(server.folder / name)
    assert mine == theirs

    def told(path: Path) -> list[StoredMessage]:
        """Return the messages without their line numbers, which events shift; empty metadata count
        as none.
        """
        return [
            replace(it, sequence=0, metadata=it.metadata or None)
            for it in contents(path)
            if isinstance(it, StoredMessage)
        ]

    assert told(tmp_path / "out" / name) == told(server.folder / name)


def test_metadata_is_exported_by_key_so_that_two_exports_are_the_same_bytes(
    run: Run, client: Client, server: Any, tmp_path: Path
) -> None:
    conversation = client.conversations.create("web")
    metadata = {name: {"z": 1, "a": 2, "m": 3} for name in "qwertzuiop"}
    client.conversations.append_turn(conversation.id, [Message.user("Hi", metadata=metadata)])
    run("export", "-d", tmp_path / "a")
    run("export", "-d", tmp_path / "b")
    first, second = ((tmp_path / name / f"{conversation.id}.jsonl").read_bytes() for name in "ab")
    assert first == second
    message = contents(tmp_path / "a" / f"{conversation.id}.jsonl")[1]
    assert isinstance(message, StoredMessage)
    assert message.metadata == metadata
    assert list(message.metadata) == sorted(metadata)


def test_every_turn_of_an_export_is_one_batch(run: Run, client: Client, tmp_path: Path) -> None:
    name = f"{fill(client)}.jsonl"
    run("export", "-d", tmp_path / "out")
    stamps = [line.entry.stamp for line in lines_of(tmp_path / "out" / name) if line.entry]
    assert [stamp.batch for stamp in stamps[1:7]] == [
        (1, 4),
        (2, 4),
        (3, 4),
        (4, 4),
        (1, 2),
        (2, 2),
    ]
    assert {stamp.request_id for stamp in stamps} == {""}


def test_files_that_are_there_are_kept_unless_told_otherwise(
    run: Run, client: Client, tmp_path: Path
) -> None:
    conversation = client.conversations.create("web")
    run("export", "-d", tmp_path / "out")
    client.conversations.append_turn(conversation.id, [Message.user("More")])
    client.conversations.create("web")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    refused = run("export", "-d", tmp_path / "out")
    assert refused.code == 1
    assert f"{conversation.id}.jsonl" in refused.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert run("export", "-d", tmp_path / "out", "--overwrite").code == 0
    assert len(contents(tmp_path / "out" / f"{conversation.id}.jsonl")) == 2
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_only_what_the_filters_name_is_exported(run: Run, client: Client, tmp_path: Path) -> None:
    ids = {channel: client.conversations.create(channel).id for channel in ("web", "cli", "email")}
    run("export", "-d", tmp_path / "two", "--channel", "web", "--channel", "email")
    assert {path.stem for path in (tmp_path / "two").iterdir()} == {ids["web"], ids["email"]}
    run("export", "-d", tmp_path / "one", ids["cli"])
    assert [path.stem for path in (tmp_path / "one").iterdir()] == [ids["cli"]]


def test_a_conversation_that_is_not_there_is_refused_by_name(
    run: Run, client: Client, tmp_path: Path
) -> None:
    for wrong, code in (("conv-01HQ0000000000000000000000", 3), ("../../etc/passwd", 2)):
        result = run("export", "-d", tmp_path / "out", wrong)
        assert result.code == code
        assert result.err.startswith("Error: ")
        assert "conv" in result.err
    assert not (tmp_path / "out").exists()


def test_an_automatic_title_with_its_topics_is_exported(
    run_at: Run,
    start_server: Callable[..., Any],
    write_transcript: Callable[..., Path],
    tmp_path: Path,
) -> None:
    message = StoredMessage(StoredRole.USER, "Hi", START, turn_number=1)
    names = ["conv-01HQ0000000000000000000000", "conv-01HQ0000000000000000000001"]
    titled = [TitleAssigned("Small Talk", ("small", "talk"), START)]
    folder = "data/default/conversations"
    write_transcript(
        names[0], [Began(names[0], "web", START, ("user",))], [message], titled, folder=folder
    )
    named = [MetaUpdated(START, title="Mine", manually_named=True)]
    write_transcript(
        names[1],
        [Began(names[1], "web", START, ("user",))],
        [message],
        titled,
        named,
        folder=folder,
    )
    server = start_server()
    run_at(server.target, "export", "-d", tmp_path / "out")
    automatic, manual = (folded(tmp_path / "out" / f"{name}.jsonl") for name in names)
    assert (automatic.title, automatic.manually_named, automatic.topics) == (
        "Small Talk",
        False,
        ("small", "talk"),
    )
    assert (manual.title, manual.manually_named, manual.topics) == ("Mine", True, ("small", "talk"))


def test_a_pin_is_exported(
    run_at: Run,
    start_server: Callable[..., Any],
    write_transcript: Callable[..., Path],
    tmp_path: Path,
) -> None:
    name = "conv-01HQ0000000000000000000000"
    pinned = [MetaUpdated(START, pinned=True)]
    write_transcript(
        name,
        [Began(name, "discord", START, ("user",))],
        pinned,
        folder="data/default/conversations",
    )
    run_at(start_server().target, "export", "-d", tmp_path / "out")
    assert folded(tmp_path / "out" / f"{name}.jsonl").pinned


def test_what_the_api_does_not_tell_is_not_in_an_export_and_its_help_says_so(
    run_at: Run,
    start_server: Callable[..., Any],
    write_transcript: Callable[..., Path],
    tmp_path: Path,
) -> None:
    name = "conv-01HQ0000000000000000000000"
    batches: list[list[Content]] = [
        [Began(name, "web", START, ("user",))],
        [StoredMessage(StoredRole.USER, "I am Alex.", START, turn_number=1)],
        [Abbreviated("Earlier notes.", START)],
        [
            AnchorSet("name", "Alex", 0.9, 2, START),
            SplitSuggested("Two things.", ("One Thing", "Another Thing"), START),
        ],
        [
            Abbreviated("Alex said who he is.", START, ("names",)),
            TitleAssigned("Who He Is", ("names",), START),
        ],
    ]
    path = write_transcript(name, *batches, folder="data/default/conversations")
    run_at(start_server().target, "export", "-d", tmp_path / "out")
    exported = tmp_path / "out" / f"{name}.jsonl"
    assert folded(exported) == replace(folded(path), split=NO_SPLIT)
    left_out = {type(it) for it in contents(path)} - {type(it) for it in contents(exported)}
    assert left_out == {AnchorSet, SplitSuggested}
    output = " ".join(run_at("", "export", "--help").out.split())
    assert all(
        words in output
        for words in (
            "Earlier ones, anchors, suggested splits",
            "`recollect-server backup` keeps every line",
        )
    )


def test_a_fork_and_a_conversation_out_of_the_index_say_so_in_the_export_and_the_import(
    run_at: Run, start_server: Callable[..., Any], write_transcript: Callable[..., Path]
) -> None:
    origin, fork = (f"conv-01HQ000000000000000000000{it}" for it in range(2))
    messages = [StoredMessage(StoredRole.USER, "said", START, turn_number=1)]
    folder = "data/default/conversations"
    began = Began(origin, "web", START, ("user",))
    write_transcript(origin, [began], messages, folder=folder)
    copied = replace(began, id=fork, origin_id=origin, origin_turn=1)
    path = write_transcript(fork, [copied], messages, [ConversationUnindexed(START)], folder=folder)
    exported = path.parents[3] / "out" / f"{fork}.jsonl"
    assert run_at(start_server().target, "export", "-d", exported.parent).code == 0
    assert folded(exported) == folded(path)
    ran = run_at(start_server(data_dir=path.parents[3] / "b").target, "import", exported.parent)
    assert counts_of(ran) == Counts(2, 0, 2, 0, 2)
    assert f"that it is a fork of {origin} up to turn 1 stays behind" in ran.err
    assert "what is imported can be searched for" in ran.err


NOT_IN_LINES = {
    Conversation: {
        "turn_count": "counted",
        "message_count": "counted",
        "usage_total": "counted",
        "cost_total": "counted",
        "name": "made of the id",
        "latest_message": "made of the messages",
        "split_suggestion": "suggested splits",  # as the help of `export` names the loss
    },
    Message: {"sequence": "counted"},
}
"""Fields that an export lacks, each with the reason."""
TIME = datetime(2026, 1, 1, tzinfo=UTC)
CONVERSATION = Conversation(
    id="conv-01HQ0000000000000000000000",
    channel="web",
    title="Title",
    topics=("topic",),
    create_time=TIME,
    update_time=TIME,
    participants=("alex",),
    abbreviation="Notes.",
    manually_named=True,
    pinned=True,
    model="small",
    party=Party(contact="1"),
    usage_total=Usage(),
    compressed_through=1,
    notes=Notes(abbreviation=NoteRecord(writer="offline")),
    topics_by_hand=True,
    archived=True,
    metadata={"a": 1},
    origin=ForkOrigin(conversation_id="conv-01HQ0000000000000000000001", turn_number=1),
    unindexed=True,
)
MESSAGE = Message(
    role=Role.USER,
    content="Hi",
    timestamp=TIME,
    thinking_text="Hm.",
    usage=Usage(1, 2),
    cost=1.0,
    channel="cli",
    sender="1",
    tool_calls=(ToolCall("c", "f", "{}"),),
    tool_call_id="c",
    attachments=(Attachment("a/b", "x"),),
    metadata={"a": 1},
    sender_name="Alex",
    turn_number=1,
    redaction=Redaction("privacy", TIME),
)


def _without(it: Any, name: str) -> Any:
    """Return a data class whose field has another value: its default, if it has one."""
    value = getattr(it, name)
    [field] = [field for field in dataclasses.fields(it) if field.name == name]
    if field.default_factory is not dataclasses.MISSING:
        other = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        other = field.default
    else:
        other = value + timedelta(days=1) if isinstance(value, datetime) else Role.ASSISTANT
    assert other != value, f"give {name} a value here"
    return replace(it, **{name: other})


@each("it", [CONVERSATION, MESSAGE])
def test_every_field_is_in_the_lines_or_listed_with_the_reason_why_not(
    run_at: Run, it: Conversation | Message
) -> None:
    def lines(it: Any) -> list[dict[str, Any]]:
        if isinstance(it, Message):
            return list(transcript.lines_of(LoadedConversation(conversation=CONVERSATION), [it]))
        return list(transcript.lines_of(LoadedConversation(conversation=it), []))

    listed = NOT_IN_LINES[type(it)]
    for name in {field.name for field in dataclasses.fields(it)} - listed.keys():
        assert lines(_without(it, name)) != lines(it), f"{name} is in no line"
    if losses := listed.keys() & {"split_suggestion"}:
        words = " ".join(run_at("", "export", "--help").out.split())
        assert all(listed[name] in words for name in losses)


def test_damaged_lines_are_counted_and_the_rest_is_exported(
    run_at: Run,
    start_server: Callable[..., Any],
    write_transcript: Callable[..., Path],
    tmp_path: Path,
) -> None:
    name = "conv-01HQ0000000000000000000000"
    messages = [
        [StoredMessage(StoredRole.USER, f"said {turn}", START, turn_number=turn)]
        for turn in (1, 2, 3)
    ]
    began = Began(name, "web", START, ("user",))
    path = write_transcript(name, [began], *messages, folder="data/default/conversations")
    server = start_server()
    path.write_bytes(path.read_bytes().replace(b"said 2", b"sung 2"))
    result = run_at(server.target, "export", "-d", tmp_path / "out")
    assert result.code == 6
    assert f"left out of {name}: 1 damaged line" in result.err
    texts = [
        it.content
        for it in contents(tmp_path / "out" / f"{name}.jsonl")
        if isinstance(it, StoredMessage)
    ]
    assert texts == ["said 1", "said 3"]


def test_a_conversation_at_which_the_server_fails_is_named_and_the_others_are_exported(
    scripted: Scripted, run_at: Run, tmp_path: Path
) -> None:
    ids = [f"conv-01HQ000000000000000000000{it}" for it in range(2)]
    both = [
        conversation_pb2.Conversation(id=it, channel="web", create_time=Timestamp(seconds=1))
        for it in ids
    ]
    listed = conversation_service_pb2.ListResponse(conversations=both)
    fault = Fault(grpc.StatusCode.INTERNAL, [error_info("ERROR_REASON_INTERNAL")])
    loaded = conversation_service_pb2.LoadResponse(conversation=both[1])
    scripted.script = [listed, listed, fault, loaded]
    ran = run_at(scripted.target, "export", "-o", tmp_path / "all.jsonl")
    assert (ran.code, f"left out of {ids[0]}: scripted" in ran.err) == (6, True)
    [line] = (tmp_path / "all.jsonl").read_text().splitlines()
    assert json.loads(line)["id"] == ids[1]


def test_a_long_conversation_is_exported_whole_and_in_order(
    run: Run, client: Client, tmp_path: Path
) -> None:
    conversation = client.conversations.create("web")
    for start in range(0, 2400, 800):
        client.conversations.append_turn(
            conversation.id, [Message.user(f"turn {start + number}") for number in range(800)]
        )
    client.conversations.record_compression(conversation.id, 2000, "Numbers.")
    run("export", "-d", tmp_path / "out")
    lines = contents(tmp_path / "out" / f"{conversation.id}.jsonl")
    assert [it.content for it in lines if isinstance(it, StoredMessage)] == [
        f"turn {number}" for number in range(2400)
    ]
    assert [it.compressed_through for it in lines if isinstance(it, Compressed)] == [2000]
    assert not [it for it in lines if isinstance(it, Abbreviated)]


def test_a_history_too_large_for_one_answer_is_exported_in_smaller_ones(
    run: Run, client: Client, server: Any, tmp_path: Path
) -> None:
    conversation = client.conversations.create("web")
    thinking = "x" * 1_000_000  # no part of what Load's token limit counts
    for turn in range(70):
        client.conversations.append_turn(
            conversation.id,
            [Message.user(f"turn {turn}"), Message.assistant(thinking_text=thinking)],
        )
    result = run("export", "-d", tmp_path / "out")
    assert result.code == 0, result
    lines = contents(tmp_path / "out" / f"{conversation.id}.jsonl")
    assert [it.content for it in lines if isinstance(it, StoredMessage)][::2] == [
        f"turn {turn}" for turn in range(70)
    ]


def test_what_is_written_is_for_its_owner_alone(run: Run, client: Client, tmp_path: Path) -> None:
    conversation = client.conversations.create("web")
    run("export", "-d", tmp_path / "new" / "out")
    assert stat.S_IMODE((tmp_path / "new" / "out").stat().st_mode) == 0o700
    assert (
        stat.S_IMODE((tmp_path / "new" / "out" / f"{conversation.id}.jsonl").stat().st_mode)
        == 0o600
    )


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(
    run: Run, client: Client, tmp_path: Path
) -> None:
    client.conversations.create("web")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ran = run("export", "-o", str(pipe))
    assert (ran.code, ran.out) == (1, "")
    assert f"cannot write {pipe}: it is no regular file" in ran.err
    assert pipe.is_fifo()


def test_a_name_that_no_file_can_have_is_named_with_its_reason(
    run: Run, client: Client, tmp_path: Path
) -> None:
    client.conversations.create("web")
    long = tmp_path / ("x" * 300)
    for words in (["-o", long], ["-d", long]):
        ran = run("export", *words)
        assert (ran.code, ran.err) == (1, f"Error: cannot write {long}: File name too long\n")


def test_the_folder_of_a_server_is_never_written_to(run: Run, client: Client, server: Any) -> None:
    conversation = client.conversations.create("web")
    before = (server.folder / f"{conversation.id}.jsonl").stat().st_ino
    result = run("export", "-d", server.folder, "--overwrite")
    assert result.code == 1
    assert "is the data folder of a server" in result.err
    assert (server.folder / f"{conversation.id}.jsonl").stat().st_ino == before


def test_without_a_server_nothing_is_written(run: Run, tmp_path: Path) -> None:
    result = run("export", "-d", tmp_path / "out", "--address", "127.0.0.1:1")
    assert (result.code, result.err.count("\n")) == (4, 1)
    assert "no Recollect server answers on 127.0.0.1:1" in result.err
    assert not (tmp_path / "out").exists()
