"""Verification of a running server: all that is damaged is named, and nothing else."""

import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect import (
    CheckpointRecord,
    Client,
    EmailOrigin,
    Message,
    NotFound,
    ReceivedExternal,
    Verification,
)
from recollect_server.kernel.compare import comparison
from recollect_server.kernel.erase.deletion import Deletions
from recollect_server.kernel.log.store import LogStore, is_taken

from tests.administration.conftest import Guarded
from tests.conftest import RunningServer, Start
from tests.waiting import until

DIMENSIONS = 384
LINE = "(SELECT number << 22 | 2 FROM conversations WHERE id = ?)"
"""The second line of a conversation, in the index."""
TEXT = (
    "(SELECT text FROM places WHERE place = (SELECT key << 22 | 2 FROM conversations WHERE id = ?))"
)
"""Its text, in the file of vectors."""


def verified(client: Client, space: str | None = None) -> Verification:
    """Verify a space, and wait for the end."""
    client.admin.verify(space=space)
    ended: list[Verification] = []

    def is_over() -> bool:
        it = client.admin.get_verification(space=space)
        if it is not None and it.end_time is not None:
            ended.append(it)
        return bool(ended)

    until(is_over)
    return ended[0]


def talk(client: Client, *texts: str) -> str:
    """Begin a conversation of some messages and return its id."""
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, [Message.user(text) for text in texts])
    return conversation.id


def change(path: Path, statement: str, *values: str | int | bytes) -> None:
    """Change a file of the running server behind its back."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(5000)
        connection.execute(statement, values)
        assert connection.changes(), statement
    finally:
        connection.close()


def zero_vector(path: Path, conversation_id: str, line: int) -> None:
    """Write zeros over the vector of a line."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(5000)
        query = (
            "SELECT r.chunk_id, r.chunk_offset, v.vectors FROM vectors_rowids r"
            " JOIN vectors_vector_chunks00 v ON v.rowid = r.chunk_id WHERE r.rowid ="
            " (SELECT text << 20 FROM places WHERE place ="
            " (SELECT key << 22 | ? FROM conversations WHERE id = ?))"
        )
        ((chunk, place, vectors),) = connection.execute(query, (line, conversation_id)).fetchall()
        assert isinstance(vectors, bytes)
        assert isinstance(place, int)
        start = place * DIMENSIONS
        zeroed = vectors[:start] + bytes(DIMENSIONS) + vectors[start + DIMENSIONS :]
        query = "UPDATE vectors_vector_chunks00 SET vectors = ? WHERE rowid = ?"
        connection.execute(query, (zeroed, chunk))
    finally:
        connection.close()


@pytest.mark.files
def test_damage_of_each_kind_is_named_and_nothing_else_is(start_server: Start) -> None:
    server = start_server(embedder="onnx")
    with Client(server.target) as client:
        ids = [talk(client, f"The zebra {n} sleeps in Kyoto", f"Noted {n}") for n in range(9)]
        outcome = client.channels.receive(
            "email", "m1", "Good day", sender="a@b.org", origin=EmailOrigin(message_id="<m1@b.org>")
        ).outcome
        assert isinstance(outcome, ReceivedExternal)
        client.checkpoints.put_records("run", [CheckpointRecord("step", b"state")])
        until(lambda: client.admin.get_stats().space.embedding.share == 1)
        before = verified(client)
        assert (before.state, before.problems, before.failure) == ("done", (), "")
        assert (before.conversations, before.messages, before.external_communications) == (9, 18, 1)
        assert (before.threads, before.logs, before.total_logs) == (1, 11, 11)

        index, vectors = server.folder / "conversations.db", server.folder / "vectors.db"
        (thread,) = (server.data_dir / "default" / "threads").glob("*.jsonl")
        for path in (server.folder / f"{ids[0]}.jsonl", thread):
            path.write_bytes(
                path.read_bytes().replace(b"zebra", b"cobra").replace(b"step", b"stop")
            )
        change(index, f"UPDATE messages SET tokens = 9 WHERE id = {LINE}", ids[1])  # noqa: S608
        change(index, f"INSERT INTO turns_fts(rowid, text) VALUES({LINE}, 'lemur')", ids[2])
        change(index, "DELETE FROM requests WHERE conversation_id = ?", ids[3])
        change(index, "UPDATE conversations SET turn_count = 7 WHERE id = ?", ids[4])
        change(index, "DELETE FROM external_deliveries")
        change(index, "INSERT INTO turns_fts(rowid, text) VALUES(999 << 22 | 2, 'ghost')")
        change(vectors, f"UPDATE texts SET hash = zeroblob(16) WHERE text = {TEXT}", ids[5])  # noqa: S608
        change(vectors, f"DELETE FROM vectors_rowids WHERE rowid = {TEXT} << 20", ids[6])  # noqa: S608
        zero_vector(vectors, ids[7], 3)
        contents = {path: path.read_bytes() for path in server.folder.glob("*.jsonl")}

        after = verified(client)
        assert after.state == "done"
        assert after.problem_count == len(after.problems)
        of_id: dict[str, list[str]] = {}
        for it in after.problems:
            of_id.setdefault(it.id, []).append(it.problem)
        assert of_id[ids[0]][0] == "line 2 is damaged: the checksum does not fit"
        assert of_id[ids[1]] == ["line 2 stands in the index otherwise"]
        assert of_id[ids[2]] == ["line 2: the index has other words"]
        assert "the index does not know 2 of its requests" in of_id[ids[3]][0]
        assert of_id[ids[4]] == ["the index has another turn_count than the transcript"]
        assert of_id[ids[5]] == ["vectors.db has another text than line 2"]
        assert of_id[ids[6]] == ["vectors.db: the vector of line 2 is missing or damaged"]
        assert of_id[ids[7]] == ["vectors.db: the vector of line 3 is missing or damaged"]
        assert of_id[outcome.communication.id] == [
            "the index has other deliveries than the transcript"
        ]
        assert "damaged" in of_id[thread.stem][0]
        assert of_id[""] == ["index: it has words of 1 message that no transcript has"]
        assert set(of_id) == {*ids[:8], outcome.communication.id, thread.stem, ""}
        assert contents == {path: path.read_bytes() for path in server.folder.glob("*.jsonl")}
        assert verified(client).problems == after.problems


def test_a_server_that_is_written_to_and_redacted_is_verified_without_a_false_alarm(
    start_server: Start,
) -> None:
    server = start_server(embedder="onnx")
    stopping = threading.Event()
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            with Client(server.target) as client:
                lasting = talk(client, f"{name} begins")
                while not stopping.is_set():
                    other = talk(client, f"{name} says a", f"{name} says b", f"{name} says c")
                    messages = [Message.user(f"{name} goes on"), Message.assistant("Yes")]
                    client.conversations.append_turn(lasting, messages)
                    client.conversations.redact_message(other, sequence=2)
                    client.conversations.record_abbreviation(lasting, f"{name} was here")
                    opened = server.app.spaces.open_now()[0]
                    opened._space.unindexing.unindex(other, lambda _: True)
                    client.conversations.append_turn(other, [Message.user("Back")])
                    if not name.endswith("1"):
                        client.conversations.delete(other)
        except BaseException as error:
            failures.append(error)
            raise

    writers = [threading.Thread(target=write, args=(f"writer{n}",)) for n in range(3)]
    for writer in writers:
        writer.start()
    with Client(server.target) as client:
        results = [verified(client) for _ in range(3)]
        stopping.set()
        for writer in writers:
            writer.join()
        results.append(verified(client))
    assert failures == []
    assert [it.problems for it in results] == [()] * 4
    assert results[-1].messages > results[0].messages


def test_a_delete_that_ends_while_its_conversation_is_verified_is_no_false_alarm(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Deletions._complete
    beginning, release = threading.Event(), threading.Event()

    def held(*arguments: Any) -> Any:
        beginning.set()
        assert release.wait(30)
        return complete(*arguments)

    with Client(server.target) as client:
        deleted = talk(client, "Hello")
        monkeypatch.setattr(Deletions, "_complete", held)
        delete = threading.Thread(target=client.conversations.delete, args=(deleted,))
        delete.start()
        assert beginning.wait(30)

        def looked_up(store: LogStore, log: str) -> bool:
            release.set()
            delete.join(30)  # between two looks of the verification
            return is_taken(store, log)

        monkeypatch.setattr(comparison, "is_taken", looked_up)
        try:
            assert verified(client).problems == ()
        finally:
            release.set()
            delete.join()


def test_an_administrator_of_a_space_verifies_no_other(guarded: Guarded) -> None:
    admin = guarded.connect("admin", "one")
    assert verified(admin).space == "one"
    for call in (admin.admin.verify, admin.admin.get_verification):
        with pytest.raises(NotFound):
            call(space="two")
    with pytest.raises(NotFound):
        guarded.operator.admin.verify(space="nobody")
    assert guarded.operator.admin.get_verification(space="two") is None
    assert verified(guarded.operator, "two").conversations == 1


@pytest.mark.files
def test_a_space_is_deleted_while_it_is_verified(server: RunningServer) -> None:
    with Client(server.target, space="ada") as ada, Client(server.target) as client:
        for at in range(100):
            talk(ada, f"Hello {at}")
        client.admin.verify(space="ada")
        client.admin.verify()
        client.admin.delete_space("ada")
        with pytest.raises(NotFound):
            client.admin.get_verification(space="ada")
        assert verified(client).state == "done"
