"""`recollect import`, the command: what it says and refuses, exactly once across kills, and whole
sets.
"""

import contextlib
import json
import os
import pty
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from recollect import Client, ErrorReason
from recollect.cli.exits import INCOMPLETE
from recollect.imports import recall_sets, transcripts
from recollect.imports.forms import Options
from recollect.imports.reading import Source
from recollect.imports.sending import carry_out
from recollect.v1 import conversation_service_pb2

from tests.cases import each
from tests.client.conftest import Fault, Scripted, error_info, retry_info, scripted
from tests.client.test_errors import CODES
from tests.client_cli.conftest import (
    BringIn,
    Counts,
    Ran,
    Recollect,
    Run,
    Set,
    counts_of,
    messages_of,
    said,
    set_line,
    talk,
)
from tests.programs import CLIENT, Forked

__all__ = ["scripted"]
NOBODY = "127.0.0.1:1"
SHARED_SETS = Path(__file__).parents[3] / "shared" / "recall-sets"


def test_an_import_that_was_killed_is_finished_by_the_next(
    write_set: Set, server: Any, client: Client, bring_in: BringIn
) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(6)) for number in range(200)))
    with Forked(CLIENT, ["import", str(folder), "--address", server.target]) as importing:
        assert importing.stdout is not None
        while not any(
            it.message_count for it in client.conversations.list_page(page_size=20).conversations
        ):
            assert importing.poll() is None
        importing.kill()
        assert importing.stdout.read() == "", "it was to be killed before its end"
    partly = sum(it.message_count for it in client.conversations.list())
    counts = bring_in(folder)
    assert 0 < counts.messages_new < 1200
    assert counts.messages_new + counts.messages_known == 1200
    assert counts.messages_known >= partly
    conversations = list(client.conversations.list())
    assert sorted(it.message_count for it in conversations) == [6] * 200
    assert messages_of(client, conversations[0].id) == [message["content"] for message in talk(6)]


def test_two_imports_at_once_add_everything_once(
    write_set: Set, server: Any, client: Client
) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(4)) for number in range(60)))
    command = ["import", str(folder), "--address", server.target]
    with Forked(CLIENT, command) as one, Forked(CLIENT, command) as other:
        counts = [
            counts_of(Ran(it.wait(), it.stdout.read(), ""))
            for it in (one, other)
            if it.stdout is not None
        ]
    assert [it.message_count for it in client.conversations.list()] == [4] * 60
    assert sum(it.messages_new for it in counts) == 240
    assert all(it.messages_new + it.messages_known == 240 and it.left_out == 0 for it in counts)


def test_a_bar_is_shown_on_a_terminal_and_nothing_but_the_summary_elsewhere(
    recollect: Recollect, write_set: Set, server: Any
) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(2)) for number in range(30)))
    piped = recollect("import", str(folder))
    assert (counts_of(piped).messages_new, piped.err) == (60, "")
    command = ["import", str(folder), "--address", server.target]
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    with Forked(CLIENT, command, stdout=theirs, stderr=theirs, env=environment) as importing:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # what the end of a terminal is
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
        assert importing.wait() == 0
    assert b"Importing" in shown
    assert b"30 conversations" in shown
    assert b"30 already there" in shown


def test_without_a_server_one_sentence_says_so(write_set: Set) -> None:
    ran = Recollect(NOBODY)("import", str(write_set(set_line("s1", talk(2)))))
    assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)
    assert f"no Recollect server answers on {NOBODY}" in ran.err


def test_a_server_that_is_another_one_is_not_taken_for_none(write_set: Set) -> None:
    other = grpc.server(ThreadPoolExecutor(1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        ran = Recollect(f"127.0.0.1:{port}")("import", str(write_set(set_line("s1", talk(2)))))
    finally:
        other.stop(None)
    assert (ran.code, ran.out) == (5, "")
    assert "Method not found" in ran.err


def test_a_server_that_stops_ends_the_import_with_a_sentence(
    start_server: Callable[..., Any], write_set: Set, tmp_path: Path
) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(6)) for number in range(200)))
    server = start_server(data_dir=tmp_path / "one", shutdown_grace="100ms")
    command = ["import", str(folder), "--address", server.target]
    with (
        Forked(CLIENT, command, stderr=subprocess.PIPE) as importing,
        Client(server.target) as client,
    ):
        while not client.conversations.list_page(page_size=1).conversations:
            assert importing.poll() is None
        server.stop()
        assert importing.stdout is not None
        assert importing.stderr is not None
        output, error = importing.stdout.read(), importing.stderr.read()
    assert (importing.returncode, output) == (4, "")
    assert "the same command again goes on from there" in error
    assert "Traceback" not in error


def test_a_conversation_that_is_full_is_named_and_the_others_come(
    run_at: Run, start_server: Callable[..., Any], write_set: Set
) -> None:
    server = start_server(max_conversation_messages=3)
    sizes = [2, 5, *[2] * 20]
    folder = write_set(*(set_line(f"s{at}", talk(size)) for at, size in enumerate(sizes)))
    first, again = (run_at(server.target, "import", folder) for _ in range(2))
    assert counts_of(first) == Counts(21, 0, 42, 0, 1)  # one that is empty does not stay
    assert counts_of(again) == Counts(0, 21, 0, 42, 1)
    for ran in (first, again):
        assert "left out the rest of" in ran.err
        assert "reached the limit max_conversation_messages" in ran.err
        assert "(5 messages left out)" in ran.err


@each("reason", ErrorReason)
def test_what_any_conversation_would_meet_ends_an_import_and_what_one_meets_leaves_it_out(
    scripted: Scripted, run_at: Run, write_set: Set, reason: ErrorReason
) -> None:
    later = {"LIMIT_EXCEEDED", "TOO_MANY_SPACES", "TOO_MANY_ANSWERS", "TOO_MANY_SUBSCRIBERS"}
    later |= {"RATE_LIMITED", "STORAGE_UNAVAILABLE", "INDEX_UNAVAILABLE"}
    for_all = {"UNAUTHENTICATED", "PERMISSION_DENIED", "TRUST_REQUIRED", "DEADLINE_EXCEEDED"}
    details = [error_info(reason)] + ([retry_info(3600)] if reason.name in later else [])
    fault = Fault(grpc.StatusCode[CODES[reason.name][0]], details)
    scripted.script = [conversation_service_pb2.ListResponse(), *[fault] * 4]
    ran = run_at(scripted.target, "import", write_set(set_line("s1", talk(2))))
    assert "Traceback" not in ran.err
    if reason.name in later | for_all:
        assert ran.code not in (0, INCOMPLETE)
        assert "the same command again goes on from there" in ran.err
    else:
        assert counts_of(ran) == Counts(0, 0, 0, 0, 1)
        assert "(2 messages left out)" in ran.err


def test_a_path_with_nothing_to_import_is_refused(run: Run, tmp_path: Path, server: Any) -> None:
    result = run("import", tmp_path)
    assert result.code == 1
    assert "holds nothing to import" in result.err
    assert run("import", tmp_path / "none").code == 2


@pytest.mark.parametrize("flags", [("--channel", "Web Page"), ("--channel", "")])
def test_a_channel_that_is_none_is_refused_before_anything_is_sent(
    run: Run, write_set: Set, server: Any, client: Client, flags: tuple[str, ...]
) -> None:
    result = run("import", write_set(set_line("s1", talk(2))), *flags)
    assert result.code == 2
    assert "--channel: is not a channel" in result.err
    assert not list(client.conversations.list())


@pytest.mark.skipif(
    not SHARED_SETS.is_dir(), reason=f"the recall sets are not there: {SHARED_SETS}"
)
def test_the_shared_recall_sets_arrive_whole_and_once(bring_in: BringIn, client: Client) -> None:
    path = SHARED_SETS / "locomo"
    with (path / "conversations.jsonl").open("rb") as file:
        sizes = sorted(len(json.loads(line)["messages"]) for line in file)
    assert bring_in(path, "--abbreviations") == Counts(len(sizes), 0, sum(sizes), 0, 0)
    assert bring_in(path, "--abbreviations") == Counts(0, len(sizes), 0, sum(sizes), 0)
    conversations = list(client.conversations.list())
    assert sorted(it.message_count for it in conversations) == sizes
    assert all(it.abbreviation for it in conversations)


def test_the_ids_of_requests_stay_those_of_earlier_versions(write_set: Set, tmp_path: Path) -> None:
    """An import that an earlier version began is finished by this one."""
    messages = [
        said(0, sender="Ana é", content="Hi\n\u2028\x01", timestamp="2024-05-01T10:00:01.5Z"),
        said(1, "assistant", content="Yo", timestamp="2024-05-01T10:00:02Z"),
    ]
    path = write_set(set_line("s1", messages, abbreviation="Notes.")) / "conversations.jsonl"
    [plan] = recall_sets.read(path, Options(abbreviations=True))
    assert ids_of(plan) == [
        "import-454ed00df0a564542c5aee6ecc673fc877f1d53f",
        "import-2a56ab7268a46f21cfb730de26edbf9f038fb9c2",
        "import-524622a83fe4c4d98ab6297267ae68be0179aa6c",
    ]
    turn = {"type": "turn", "timestamp": "2024-05-01T10:00:01Z", "turnNumber": 1}
    files = [
        {"mediaType": "image/png", "uri": "file:///a", "bytesLength": 7},
        {"mediaType": "image/png", "uri": "file:///b"},
    ]
    requests = {
        "content": "Grüße",
        "timestamp": "2024-05-01T10:00:00.123Z",
        "sender": "Ana",
        "senderName": "A",
        "attachments": files,
    }
    answered: dict[str, Any] = {
        "content": "",
        "thinkingText": "hm",
        "usage": {"input": 0, "output": 5},
        "cost": 0.25,
    }
    answered |= {
        "toolCalls": [{"id": "c", "name": "df", "arguments": ""}],
        "metadata": {"b": 1, "a": [1.5, None, True]},
    }
    lines: list[dict[str, Any]] = [
        {
            "type": "meta",
            "id": "conv-01HQ0000000000000000000000",
            "channel": "web",
            "created": "2024-05-01T10:00:00Z",
        },
        turn | requests | {"role": "user", "batch": [1, 2], "requestId": "r"},
        turn | answered | {"role": "assistant", "batch": [2, 2], "requestId": "r"},
        turn | {"role": "tool", "content": "97", "toolCallId": "c", "channel": "cli"},
        {
            "type": "event",
            "event": "title_assigned",
            "title": "T",
            "topics": ["x"],
            "writer": "extractive",
            "model": "m",
        },
    ]
    transcript = tmp_path / "conv-01HQ0000000000000000000000.jsonl"
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with Source(transcript).open() as reading:
        [plan] = transcripts.FORMAT.read(reading, Options())
    assert ids_of(plan)[1:] == [
        "import-0ddb74b8fadd82bdd7961536568fa29f116b5e1a",
        "import-93af51b33f7ace3b8ead3deb1440757af38da3c2",
        "import-a36e2f1244beefbf3ff8e6ad2c15bcd0e13f343a",
    ]


class Recorder:
    """A client that takes everything and remembers the ids of requests."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.conversations = self

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, request_id: str = "", **_: Any) -> Any:
            if name == "list":
                return iter(())
            self.ids.append(request_id)
            stored = (
                [SimpleNamespace(turn_number=1) for _ in arguments[1]]
                if name == "append_turn"
                else []
            )
            turn = SimpleNamespace(turn_count=1)
            return SimpleNamespace(
                id="conv-01HQ0000000000000000000000",
                conversation=turn,
                messages=stored,
                duplicate=False,
            )

        return called


def ids_of(plan: Any) -> list[str]:
    recorder: Any = Recorder()
    assert carry_out(recorder, plan).skips == []
    return list(recorder.ids)
