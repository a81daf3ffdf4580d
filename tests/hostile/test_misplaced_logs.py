"""Logs under other names, and lines in other logs: nothing is answered as somebody else's, and a
verification names it.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zlib import crc32

import grpc
import pytest
from recollect import CheckpointRecord, Client, RecollectError
from recollect.v1 import conversation_service_pb2 as api

from tests.channels.conftest import ALEX, Reach, home, reach
from tests.conftest import RunningServer, Start
from tests.external.conftest import KNOWN, Meet, Outside, meet
from tests.server.conftest import (
    Connect,
    agent,
    bytes_under,
    connect,
    delete_index,
    failure_of,
    transcript,
    user,
)
from tests.server_cli.conftest import on

__all__ = ["connect", "meet", "reach"]

_MARK = re.compile(rb',"at":"[^"]*"')


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Discard the log of the server, which runs in this process, so that it does not mix with a
    command's output.
    """


def without_marks(data: bytes) -> bytes:
    """Return lines as earlier versions wrote them."""
    made = b""
    for line in data.splitlines():
        body = _MARK.sub(b"", line[: -len(b',"crc":"00000000"}')])
        made += b'%b,"crc":"%08x"}\n' % (body, crc32(body))
    return made


def swap(folder: Path) -> None:
    """Exchange the names of the two logs in a folder."""
    one, other = sorted(folder.glob("*.jsonl"))
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)


@pytest.mark.parametrize("is_old", [False, True], ids=["marked", "of an earlier version"])
@pytest.mark.parametrize("has_index", [False, True], ids=["no index", "index"])
def test_logs_with_swapped_names_are_answered_under_neither_and_named(
    server: RunningServer, start_server: Start, connect: Connect, is_old: bool, has_index: bool
) -> None:
    service = connect(server)
    names = [service.conversation_of(f"zebra {it}") for it in ("ana", "bob")]
    outside = Outside(server)
    parties = [outside.write(f"giraffe {it}", party=f"155500{it}") for it in (1, 2)]
    with Client(server.target) as client:
        for name in ("p", "q"):
            client.checkpoints.put_records(name, [CheckpointRecord("key", name.encode())])
    server.stop()
    kinds = [server.data_dir / "default" / it for it in ("conversations", "external", "threads")]
    if is_old:
        for path in (it for kind in kinds for it in kind.glob("*.jsonl")):
            path.write_bytes(without_marks(path.read_bytes()))
        delete_index(server)
        start_server().stop()
        assert on(server, "verify").exit_code == 0
    whole = logs_of(server)
    for kind in kinds:
        swap(kind)
    if not has_index:
        delete_index(server)
    running = start_server()
    again = connect(running)
    for name, other in zip(names, ("bob", "ana"), strict=True):
        assert f"zebra {other}" not in answer(partial(again.load, name))
    assert not [it for it in again.search("zebra").results if "zebra" in it.snippet]
    outside = Outside(running)
    for party, other in zip(parties, ("2", "1"), strict=True):
        name = party.communication.id
        assert f"giraffe {other}" not in answer(partial(outside.get, name, page_size=9))
    with Client(running.target) as client:
        assert "b'q'" not in answer(lambda: client.checkpoints.get_records("p", ["key"]))
    running.stop()
    verified = on(server, "verify")
    assert verified.exit_code == 1
    for path in (it for kind in kinds for it in kind.glob("*.jsonl")):
        assert f"{path.stem}: line 1 is damaged: it belongs to " in verified.stdout
    for kind in kinds:
        swap(kind)
    assert logs_of(server) == whole
    assert sorted(connect(start_server()).found("zebra")) == sorted(names)


def test_nothing_is_written_into_a_log_that_has_another_ones_name(
    server: RunningServer, start_server: Start, reach: Reach, meet: Meet
) -> None:
    post, outside = reach(server), meet(server)
    folders = [server.data_dir / "default" / it for it in ("conversations", "external", "threads")]
    long = post.conversation_of("zebra one", "zebra two")
    same, other = (post.conversation_of(f"zebra {it}") for it in ("ana", "bob"))
    post.own("whatsapp", ALEX)
    post.own("whatsapp", "+1 555-007")
    mine, yours = (home(post.whatsapp(f"hi {it}", it)) for it in (ALEX, "+1 555-007"))
    parties = [outside.write(f"giraffe {it}", party=f"155500{it}") for it in (1, 2)]
    communication = parties[0].communication.id
    with Client(server.target) as client:
        for name in ("p", "q"):
            client.checkpoints.put_records(name, [CheckpointRecord("key", name.encode())])
    server.stop()
    before = logs_of(server)
    for pair in ((same, other), (mine, yours)):
        assert len({len(data) for it, data in before.items() if any(p in it for p in pair)}) == 1
    swap(folders[1])
    swap(folders[2])
    for has_index, copies in (
        (True, ((same, other), (mine, yours))),
        (False, ((same, other), (long, same))),
    ):
        for victim, source in copies:
            transcript(server, victim).write_bytes(transcript(server, source).read_bytes())
        misplaced = logs_of(server)
        if not has_index:
            delete_index(server)
        running = start_server()
        post, outside = reach(running), meet(running)
        rpc = post.conversations
        for victim, _ in copies:
            calls: dict[str, Callable[[], object]] = {
                "AppendTurn": partial(post.append, victim, user("more")),
                "Receive": partial(post.web, "more", victim),
                "Rename": partial(post.rename, victim, "Zebras"),
                "RecordCompression": partial(post.compress, victim, 1, "Zebras."),
                "RecordAbbreviation": partial(post.abbreviate, victim, "Zebras."),
                "RedactMessage": partial(
                    rpc.RedactMessage, api.RedactMessageRequest(conversation_id=victim, sequence=2)
                ),
                "Archive": partial(rpc.Archive, api.ArchiveRequest(conversation_id=victim)),
                "SetTopics": partial(
                    rpc.SetTopics, api.SetTopicsRequest(conversation_id=victim, topics=["zebras"])
                ),
                "Fork": partial(rpc.Fork, api.ForkRequest(conversation_id=victim)),
                "Switch": partial(post.switch, victim),
                "RunCommand": partial(post.command, victim, "/title Zebras"),
                "Delete": partial(post.delete, victim),
            }
            for name, call in calls.items():
                failure = failure_of(call)
                place = (name, victim, has_index)
                assert (*place, failure.code) == (*place, "DATA_LOSS"), failure
                assert failure.metadata["conversation_id"] == victim, name
                assert logs_of(running) == misplaced, place
        denied = (
            r"(?s)DATA_LOSS.*belongs to ext-" if has_index else "there is no external communication"
        )
        with pytest.raises(grpc.RpcError, match=denied):
            outside.trust(communication, KNOWN)
        if has_index:
            with pytest.raises(grpc.RpcError, match=denied):
                outside.write("more", party="1555001", delivered="new")
        with Client(running.target) as client:
            threads = client.checkpoints
            for call in (
                partial(threads.put_records, "p", [CheckpointRecord("new", b"p")]),
                partial(threads.remove_records, "p", ["key"]),
                partial(threads.delete_thread, "p"),
            ):
                with pytest.raises(RecollectError, match="belongs to thread-"):
                    call()
        assert logs_of(running) == misplaced
        if has_index:
            assert home(post.whatsapp("more", ALEX)) not in (mine, yours)
        running.stop()
        assert logs_of(running).items() >= misplaced.items()


def logs_of(server: RunningServer) -> dict[str, bytes]:
    """Return all logs of a server, and what was cut off them."""
    files = bytes_under(server.data_dir)
    return {name: data for name, data in files.items() if ".jsonl" in name}


def answer(call: Callable[[], object]) -> str:
    """Return the answer of a call as a text, also of one that fails."""
    try:
        return str(call())
    except (grpc.RpcError, RecollectError) as error:
        return str(error)


def test_lines_of_another_log_or_place_at_a_tail_are_passed_over_and_named(
    server: RunningServer, start_server: Start, connect: Connect
) -> None:
    service = connect(server)
    mine, other = service.conversation_of("zebra"), service.conversation_of("giraffe", "lion")
    server.stop()
    path, foreign = transcript(server, mine), transcript(server, other)
    own, copied = (it.read_bytes().splitlines(keepends=True) for it in (path, foreign))
    shapes = {
        "of another log": copied,
        "of an earlier version's log": without_marks(b"".join(copied)).splitlines(keepends=True),
        "twice": own[1:],
    }
    for name, lines in shapes.items():
        path.write_bytes(b"".join([*own, *lines]))
        running = start_server()
        service = connect(running)
        loaded = service.load(mine)
        assert [it.content for it in loaded.messages] == ["zebra"], name
        assert running.app.recovered.damaged == len(lines), name
        assert service.found("giraffe") == [other], name
        running.stop()
        verified = on(server, "verify")
        assert (verified.exit_code, f"{mine}: line 3 is damaged: " in verified.stdout) == (1, True)
        path.write_bytes(b"".join(own))
    assert on(server, "rebuild").exit_code == on(server, "verify").exit_code == 0


def test_a_line_that_is_gone_from_the_middle_of_a_log_is_named(
    server: RunningServer, connect: Connect
) -> None:
    service = connect(server)
    name = service.create().id
    for message in (user("one"), agent("two"), agent("three")):
        service.append(name, message)
    server.stop()
    path = transcript(server, name)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    assert on(server, "rebuild").exit_code == 0
    verified = on(server, "verify")
    assert verified.exit_code == 1
    assert f"{name}: 1 line is missing before line 3" in verified.stdout
