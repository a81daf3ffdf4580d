"""The commands that look after a data folder where it stands: verify, rebuild, stats."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from recollect import Client
from recollect_server.people.communication_service import External

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, answers, delete_index, transcript, user
from tests.server_cli.conftest import QUERIES, on, run


def sql(server: RunningServer, text: str) -> None:
    with apsw.Connection(str(server.folder / "conversations.db")) as connection:
        connection.execute(text)
    connection.close()


def test_verify_finds_nothing_wrong_with_what_a_server_wrote(
    server: RunningServer, filled: list[str]
) -> None:
    server.stop()
    result = on(server, "verify")
    assert (result.exit_code, result.stdout) == (0, "4 conversations, 24 messages, 0 problems\n")


def test_verify_changes_no_transcript_and_the_server_starts_after_it(
    server: RunningServer, filled: list[str], start_server: Start, connect: Connect
) -> None:
    before = answers(connect(server), QUERIES)
    server.stop()
    files = {path: path.read_bytes() for path in server.folder.glob("*.jsonl*")}
    assert on(server, "verify").exit_code == 0
    assert {path: path.read_bytes() for path in server.folder.glob("*.jsonl*")} == files
    again = start_server()
    assert again.app.recovered.messages == 0
    assert answers(connect(again), QUERIES) == before


@pytest.mark.parametrize("command", ["rebuild", "restore"])
def test_what_needs_the_folder_alone_is_refused_while_a_server_runs(
    server: RunningServer, filled: list[str], command: str, tmp_path: Path
) -> None:
    result = on(server, command, *([tmp_path] if command == "restore" else []))
    assert result.exit_code == 1
    assert "another server uses the data folder" in result.stderr


def test_verify_is_carried_out_by_the_server_that_runs(
    server: RunningServer, filled: list[str]
) -> None:
    with Client(server.target, space="bo") as client:
        client.conversations.create("web")
    result = on(server, "verify")
    assert (result.exit_code, result.stdout) == (
        0,
        "bo: 1 conversation, 0 messages, 0 external communications, 0 problems.\n"
        "default: 4 conversations, 24 messages, 0 external communications, 0 problems.\n",
    )
    with transcript(server, filled[0]).open("r+b") as file:
        file.seek(40)
        file.write(b"~")
    damaged = on(server, "verify", "--space", "default")
    assert (damaged.exit_code, damaged.stderr) == (1, "")
    assert f"{filled[0]}: line 1 is damaged" in damaged.stdout
    assert "bo:" not in damaged.stdout
    unknown = on(server, "verify", "--space", "nobody")
    assert (unknown.exit_code, "there is no space nobody" in unknown.stderr) == (1, True)
    token = on(server, "token", "create", "--kind", "admin", "--space", "*").stdout.strip()
    denied = run("verify", "--data-dir", server.data_dir, env={"RECOLLECT_TOKEN": None})
    assert denied.exit_code > 0
    assert "needs one" in denied.stderr
    admitted = run("verify", "--data-dir", server.data_dir, env={"RECOLLECT_TOKEN": token})
    assert "bo: 1 conversation" in admitted.stdout


@pytest.mark.parametrize(
    "command", ["verify", "rebuild", "stats", "backup copy", "audit", "token list"]
)
def test_a_data_folder_that_is_none_is_named_and_not_made(command: str, tmp_path: Path) -> None:
    words = [tmp_path / it if it == "copy" else it for it in command.split()]
    nowhere, empty, file = (tmp_path / name for name in ("nowhere", "empty", "file"))
    result = run(*words, "--data-dir", nowhere)
    assert result.exit_code == 1
    assert f"there is no folder {nowhere}: name another with --data-dir" in result.stderr
    assert list(tmp_path.iterdir()) == []
    file.touch()
    result = run(*words, "--data-dir", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{file} is no folder: name another with --data-dir" in result.stderr
    if command not in ("audit", "token list"):
        empty.mkdir()
        assert f"there is nothing in {empty}" in run(*words, "--data-dir", empty).stderr


@pytest.mark.parametrize("rebuilt", [False, True])
def test_two_folders_put_together_are_sound_where_their_request_ids_overlap(
    server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path, rebuilt: bool
) -> None:
    other = start_server(data_dir=tmp_path / "other")
    ids = []
    for each in (server, other):
        service = connect(each)
        ids.append(service.create(request_id="same-create").id)
        service.append(ids[-1], user(f"words {len(ids)}"), request_id="same-append")
        each.stop()
    shutil.copy(transcript(other, ids[1]), transcript(server, ids[1]))
    if rebuilt:
        assert on(server, "rebuild").exit_code == 0
    again = start_server()
    service = connect(again)
    assert [service.load(name).messages[0].content for name in ids] == ["words 1", "words 2"]
    again.stop()
    result = on(server, "verify")
    assert (result.exit_code, result.stdout) == (0, "2 conversations, 2 messages, 0 problems\n")
    sql(server, "DELETE FROM requests_used_again")
    sql(server, "DELETE FROM requests")  # now no transcript answers for them
    assert "the index does not know 2 of its requests" in on(server, "verify").stdout


INDEX_DAMAGES = {
    "UPDATE messages SET time = time + 1 WHERE id = (SELECT max(id) FROM messages)": "stands in the index otherwise",
    "UPDATE messages SET offset = offset + 1 WHERE id = (SELECT max(id) FROM messages)": "stands in the index otherwise",
    "DELETE FROM messages WHERE id = (SELECT max(id) FROM messages)": "is not in the index",
    "INSERT INTO messages SELECT max(id) + 5, 1, 1, 1, 1, 1 FROM messages": "the index has 1 message that the transcript has not",
    "INSERT INTO messages VALUES(99 << 22, 1, 1, 1, 1, 1)": "it has 1 message that no transcript has",
    "INSERT INTO turns_fts(rowid, text) VALUES(99 << 22, 'stray')": "it has words of 1 message that no transcript has",
    "INSERT INTO turns_fts(turns_fts, rowid, text) SELECT 'delete', max(id), 'butter' FROM messages": "the index has other words",
    "UPDATE conversations SET title = 'Other' WHERE title = 'Named'": "the index has another title than the transcript",
    "UPDATE notes SET compression_summary = 'x' WHERE compression_summary <> ''": "the index has another compression_summary",
    "UPDATE progress SET bytes = bytes - 1 WHERE number = 1": "are indexed of",
    "DELETE FROM requests WHERE request_id = 'a-3-1'": "does not know 1 of its requests, as a-3-1",
    "UPDATE requests SET hash = 'x' WHERE request_id = 'a-3-1'": "does not know 1 of its requests, as a-3-1",
    "UPDATE conversations SET id = 'conv-01J00000000000000000000000' WHERE number = 1": "is in the index and has no transcript",
    "DROP TABLE notes": "tables are missing: notes",
}


@pytest.mark.parametrize("damage", INDEX_DAMAGES)
def test_verify_names_whatever_the_index_has_otherwise_and_rebuild_mends_it(
    server: RunningServer, filled: list[str], damage: str
) -> None:
    server.stop()
    sql(server, damage)
    result = on(server, "verify")
    assert result.exit_code == 1
    assert INDEX_DAMAGES[damage] in result.stdout
    assert "run `recollect-server rebuild`" in result.stderr
    assert on(server, "rebuild").exit_code == 0
    assert on(server, "verify").exit_code == 0


def test_verify_names_an_index_that_is_missing_or_no_database(
    server: RunningServer, filled: list[str]
) -> None:
    server.stop()
    delete_index(server)
    assert "index: there is none" in on(server, "verify").stdout
    (server.folder / "conversations.db").write_bytes(b"garbage " * 1000)
    result = on(server, "verify")
    assert result.exit_code == 1
    assert "index: cannot be used" in result.stdout


def test_verify_names_every_kind_of_damage_to_a_transcript(
    server: RunningServer, filled: list[str]
) -> None:
    server.stop()
    path = transcript(server, filled[3])
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)

    def verified(*parts: bytes) -> str:
        path.write_bytes(b"".join(parts))
        result = on(server, "verify")
        assert result.exit_code == 1
        return result.stdout

    assert "line 2 is damaged: the checksum does not fit" in verified(
        lines[0], lines[1].replace(b"zebra", b"zebrA"), *lines[2:]
    )
    assert "line 3 is 1 of 2 of a batch, and 2 should be here" in verified(*lines[:2], *lines[3:])
    assert "line 4 is of turn 3 and follows turn 1" in verified(*lines[:3], *lines[5:])
    assert "the last 4 bytes are torn: the last line is not ended" in verified(whole, b"half")
    assert "are torn: only 1 of the 2 lines of a batch are there" in verified(*lines[:-2])
    assert "the last line has no newline" in verified(whole[:-1])
    assert "no line can be read" in verified(b"nothing\n")
    path.unlink()
    assert f"{filled[3]}: is in the index and has no transcript" in on(server, "verify").stdout


def test_rebuild_says_how_many_it_indexed_and_every_answer_stays(
    server: RunningServer, filled: list[str], start_server: Start, connect: Connect
) -> None:
    before = answers(connect(server), QUERIES)
    server.stop()
    result = on(server, "rebuild")
    assert result.exit_code == 0
    assert result.stdout.startswith("24 messages of 4 conversations indexed in ")
    assert answers(connect(start_server()), QUERIES) == before


def test_stats_tells_what_is_kept_while_the_server_runs_and_after(
    server: RunningServer, filled: list[str]
) -> None:
    size = sum(path.stat().st_size for path in server.folder.glob("*.jsonl"))
    expected = [
        "conversations: 4", "messages: 24", f"transcript_bytes: {size}", "index: whole", "not_indexed_yet: 0 conversations",
        "vectors: missing: a server makes it anew", "vectors_kept: 0", "vectors_bytes: 0",
        "vectors_of_other_languages: 0", "not_embedded_yet: 4 conversations", "embedding: nothing to report",
        "notes_due: 3 conversations", "notes_failed: 0 conversations", "model_spending: none",
        "contexts: 0, of them 0 with the newest turns from memory and 0 that asked other conversations",
        "messages_in_contexts: 0 hot, 0 warm, 0 cold",
        "torn_tails: 0 files, 0 bytes", "deletes_to_finish: 0", "threads: 0", "threads_bytes: 0",
        "external_communications: 0", "external_messages: 0",
        "external_bytes: 0", "external_not_indexed_yet: 0", "escalations_open: 0", "limited_senders: 0",
        "limited_today: 0",
    ]  # fmt: skip
    for _ in range(2):
        lines = on(server, "stats").stdout.splitlines()
        assert [line for line in lines if not line.startswith("index_bytes: ")] == expected
        server.stop()
    delete_index(server)
    with transcript(server, filled[0]).open("ab") as file:
        file.write(b"half")
    output = on(server, "stats").stdout
    assert "index: missing: the next start makes it anew" in output
    assert "not_indexed_yet: 4 conversations" in output
    (server.folder / "conversations.db").write_bytes(b"garbage")
    assert "index: unusable" in on(server, "stats").stdout


def test_verify_finds_nothing_wrong_with_words_longer_than_the_index_keeps(
    server: RunningServer, connect: Connect
) -> None:
    """FTS5 keeps the first 32,768 bytes of a word; these end after them, at them, and within a
    character.
    """
    for word in ("a" * 40_000, "b" * 32_768, "c" + "é" * 20_000, "д" * 16_384):
        connect(server).conversation_of(f"{word} and on")
    server.stop()
    result = on(server, "verify")
    assert (result.exit_code, result.stdout) == (0, "4 conversations, 4 messages, 0 problems\n")


def texts_of_any_characters(count: int) -> Iterator[str]:
    """Yield texts with every accent that the tokenizer takes off, alone and between others, and
    with any other characters.
    """
    chance = random.Random(1)  # noqa: S311 - a test's choices
    accents = [chr(code) for code in range(0x300, 0x370)]
    yield " ".join(["hello", *accents, "there", *(f"a{it} {it}b" for it in accents)])
    every = [*range(1, 0xD800), *range(0xE000, 0x110000)]
    for _ in range(count):
        drawn = (chr(it) for it in chance.choices(every, k=20))
        mixed = [*drawn, *chance.choices([*accents, "e", "0", " ", "\u200d"], k=20)]
        chance.shuffle(mixed)
        yield "".join(["x", *mixed])


def test_verify_finds_nothing_wrong_with_words_of_any_characters(
    server: RunningServer, start_server: Start, connect: Connect
) -> None:
    texts = list(texts_of_any_characters(150))
    connect(server).append(connect(server).create().id, *map(user, texts))
    with server.app.spaces.use("default") as space:
        for number, text in enumerate(texts):
            space.service(External).receive(
                "whatsapp", "+15550001111", f"wamid-{number}", text, (), None
            )
    server.stop()
    clean = (0, "1 conversation, 151 messages, 1 external communication, 0 problems\n")

    def verified() -> tuple[int, str]:
        result = on(server, "verify")
        return result.exit_code, result.stdout

    assert verified() == clean
    assert on(server, "rebuild").exit_code == 0
    assert verified() == clean
    (server.folder / "conversations.db.seal").unlink()  # as after a kill: the start compares
    again = start_server()
    assert not again.app.recovered.rebuilt
    assert connect(again).found("hello \u0301 there")
    again.stop()
    assert verified() == clean


def test_verify_finds_nothing_wrong_with_two_folders_put_into_one_whose_request_ids_overlap(
    server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    service = connect(server)
    mine = service.create(request_id="begin").id
    service.append(mine, user("zebra"), request_id="first")
    server.stop()
    elsewhere = start_server(data_dir=tmp_path / "elsewhere")
    other = connect(elsewhere).create(request_id="begin").id
    connect(elsewhere).append(other, user("giraffe"), request_id="first")
    elsewhere.stop()
    shutil.copy(transcript(elsewhere, other), transcript(server, other))
    for _ in range(2):
        again = start_server()
        assert connect(again).append(mine, user("zebra"), request_id="first").duplicate
        again.stop()
        result = on(again, "verify")
        assert (result.exit_code, result.stdout) == (0, "2 conversations, 2 messages, 0 problems\n")
        # and the start that compares finds nothing either
        (server.folder / "conversations.db.seal").unlink()
    assert not start_server().app.recovered.rebuilt


def test_ctrl_c_has_another_exit_code_than_damage(tmp_path: Path) -> None:
    # The module raises what Ctrl-C does, for a signal cannot be aimed at the import of one.
    (tmp_path / "apsw.py").write_text("raise KeyboardInterrupt\n")
    ended = subprocess.run(
        [sys.executable, "-m", "recollect_server", "verify", "--data-dir", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
