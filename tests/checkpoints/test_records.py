"""Records of programs: kept by thread beside the conversations, and never among them."""

import base64
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from recollect import (
    AlreadyExists,
    CheckpointRecord,
    Client,
    InvalidArgument,
    LimitExceeded,
    Message,
    PermissionDenied,
)
from recollect_server.access.token import Grant, scopes_of
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from recollect_server.checkpoints.checkpoint import log_of
from recollect_server.checkpoints.service import Checkpoints, Put
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Place

from tests.conftest import RunningServer, Start
from tests.server.conftest import files_with
from tests.server_cli.conftest import on, run

NAMES = ["alex", "Ünï / код", "a" * 512, "../../etc/passwd"]


def record(key: str, value: str, *, keep: bool = False) -> CheckpointRecord:
    return CheckpointRecord(key, value.encode(), keep)


def values(client: Client, thread_id: str, prefix: str = "") -> dict[str, str]:
    """Return all records of a thread, read in pages of two."""
    records: dict[str, str] = {}
    after = None
    while True:
        page = client.checkpoints.list_records(thread_id, prefix=prefix, after_key=after, limit=2)
        records |= {it.key: it.value.decode() for it in page.records}
        if not page.has_more:
            return records
        after = page.records[-1].key


def path_of(server: RunningServer, thread_id: str) -> Path:
    return server.data_dir / "default" / "threads" / f"{log_of(thread_id)}.jsonl"


def test_threads_keep_their_records_apart_and_across_a_restart(
    server: RunningServer, client: Client, start_server: Start
) -> None:
    for name in NAMES:
        client.checkpoints.put_records(
            name, [record("b", name), record("a/2", "x"), record("a", "")]
        )
        client.checkpoints.put_records(name, [record("a/10", "y"), record("b", f"{name}!")])
    expected = {name: {"a": "", "a/10": "y", "a/2": "x", "b": f"{name}!"} for name in NAMES}
    assert {name: values(client, name) for name in NAMES} == expected
    server.stop()
    with Client(start_server().target) as again:
        assert {name: values(again, name) for name in NAMES} == expected
        assert values(again, "alex", "a/") == {"a/10": "y", "a/2": "x"}
        page = again.checkpoints.list_records("alex", descending=True, keys_only=True, limit=3)
        assert [(it.key, it.value) for it in page.records] == [
            ("b", b""),
            ("a/2", b""),
            ("a/10", b""),
        ]
        assert page.has_more
        page = again.checkpoints.list_records("alex", descending=True, after_key="a/10")
        assert [it.key for it in page.records] == ["a"]
        answer = again.checkpoints.get_records("alex", ["b", "none", "a"])
        assert ([it.key for it in answer.records], answer.keys_answered) == (["b", "a"], 3)
        threads = again.checkpoints.list_threads_page(page_size=3)
        rest = again.checkpoints.list_threads_page(page_size=3, page_token=threads.next_page_token)
        assert {it.thread_id for it in (*threads.threads, *rest.threads)} == set(NAMES)
        assert again.checkpoints.list_records("nobody").records == ()


def test_a_request_is_carried_out_once_even_after_what_it_stored_was_removed(
    server: RunningServer, client: Client, start_server: Start
) -> None:
    sent = [record("a", "1"), record("b", "2")]
    client.checkpoints.put_records("alex", [record("c", "0")])
    assert client.checkpoints.put_records("alex", sent, request_id="r1") == 2
    client.checkpoints.put_records("alex", [record("a", "changed"), record("c", "3")])
    client.checkpoints.remove_records("alex", ["b"])
    server.stop()
    with Client(start_server().target) as again:
        assert again.checkpoints.put_records("alex", sent, request_id="r1") == 0
        assert values(again, "alex") == {"a": "changed", "c": "3"}
        with pytest.raises(AlreadyExists, match="r1 was used before"):
            again.checkpoints.put_records("alex", [record("a", "1")], request_id="r1")
        assert again.checkpoints.put_records("sam", sent, request_id="r1") == 2


def test_a_record_that_is_to_be_kept_is_kept(client: Client) -> None:
    first = [record("a", "1", keep=True), record("a", "2", keep=True), record("b", "1")]
    assert client.checkpoints.put_records("alex", first) == 2
    second = [record("a", "3", keep=True), record("b", "2"), record("c", "3", keep=True)]
    assert client.checkpoints.put_records("alex", second) == 2
    assert values(client, "alex") == {"a": "1", "b": "2", "c": "3"}


def test_of_many_callers_that_keep_one_key_the_first_wins_for_all(client: Client) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait()
        client.checkpoints.put_records(
            "alex", [record("one", str(number), keep=True), record(f"own/{number}", "x")]
        )

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    winners = set()
    for thread in threads:
        thread.join()
        winners.add(values(client, "alex", "one")["one"])
    assert len(winners) == 1
    assert len(values(client, "alex", "own/")) == 8


def test_what_is_removed_or_replaced_or_deleted_is_in_no_file(
    server: RunningServer, client: Client
) -> None:
    words = ["apricot", "blueberry", "cherry"]
    hidden = [base64.b64encode(word.encode()).decode() for word in words]
    client.checkpoints.put_records("alex", [record("one", "apricot"), record("two", "blueberry")])
    client.checkpoints.put_records("alex", [record("one", "cherry")])
    receipt = client.checkpoints.remove_records("alex", ["two", "none"])
    assert receipt.removed == 1
    assert receipt.bytes_removed > 0
    assert files_with(server.data_dir, *hidden[:2], '"two"') == []
    assert values(client, "alex") == {"one": "cherry"}
    assert client.checkpoints.remove_records("alex", ["two"]).bytes_removed == 0
    size = path_of(server, "alex").stat().st_size
    assert client.checkpoints.delete_thread("alex") == size
    assert client.checkpoints.delete_thread("alex") == 0
    assert files_with(server.data_dir, *hidden, "alex") == []
    assert list(client.checkpoints.list_threads()) == []
    client.checkpoints.put_records("alex", [record("one", "anew")])
    assert values(client, "alex") == {"one": "anew"}


def test_nothing_of_a_thread_is_searched_or_listed_with_conversations(
    server: RunningServer, client: Client
) -> None:
    it = client.conversations.create("web")
    client.conversations.append_turn(it.id, [Message.user("apricot")])
    client.checkpoints.put_records("alex", [record("blueberry", "blueberry")])
    assert [each.id for each in client.conversations.list()] == [it.id]
    assert not client.recall.search("blueberry").hits
    assert files_with(server.folder, "blueberry") == []
    client.conversations.delete(it.id)
    assert values(client, "alex") == {"blueberry": "blueberry"}


def test_large_answers_are_cut_and_none_is_lost(client: Client) -> None:
    big = {f"key/{number}": str(number) * 1_500_000 for number in range(5)}
    for key, value in big.items():
        client.checkpoints.put_records("alex", [record(key, value)])
    page = client.checkpoints.list_records("alex")
    assert (len(page.records), page.has_more) == (2, True)
    answer = client.checkpoints.get_records("alex", [*big, "none"])
    assert answer.keys_answered == 2
    assert values(client, "alex") == big
    with pytest.raises(InvalidArgument, match="at most 8388608"):
        client.checkpoints.put_records("alex", [record("more", "x" * (8 << 20))])
    assert values(client, "alex") == big


@pytest.mark.parametrize("size", [10, 60_000])
def test_many_records_are_read_at_once_but_no_more_bytes_than_an_answer_may_want(
    client: Client, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Over PostgreSQL each read is a round trip: 10,000 records took 18 seconds."""
    keys = [f"k{number:03}" for number in range(40)]
    sent = [record(key, key * (size // 4)) for key in keys]
    client.checkpoints.put_records("t", sent[:20])
    client.checkpoints.put_records("t", sent[20:])
    reads: list[Sequence[Place]] = []
    read_at = FolderStore.read_at

    def noted(store: FolderStore, places: Mapping[str, Sequence[Place]]) -> object:
        reads.extend(places.values())
        return read_at(store, places)

    monkeypatch.setattr(FolderStore, "read_at", noted)
    page = client.checkpoints.get_records("t", ["missing", *reversed(keys)])
    assert {it.key: it.value for it in page.records} == {it.key: it.value for it in sent}
    assert len(reads) == (1 if size == 10 else len(keys) // 4)
    assert all(sum(length for *_, length in places[:-1]) < 256 << 10 for places in reads)


def test_only_who_writes_conversations_sees_them_and_no_token_for_one_conversation(
    start_server: Start,
) -> None:
    server = start_server(auth="required")
    tokens = Tokens(TokenLedger(server.data_dir), server.clock)
    for kind in ("reader", "panel", "gateway"):
        _, token = tokens.create(Grant(kind, scopes_of(kind, ()), ("alex",)))
        with Client(server.target, token=token) as client, pytest.raises(PermissionDenied):
            client.checkpoints.list_records("alex")
    _, token = tokens.create(Grant("brain", scopes_of("brain", ()), ("alex", "sam")))
    for space in ("alex", "sam"):
        with Client(server.target, token=token, space=space) as client:
            client.checkpoints.put_records("one", [record("space", space)])
            assert values(client, "one") == {"space": space}
            assert len(list(client.checkpoints.list_threads())) == 1


def test_their_bytes_count_for_a_space_that_is_full(start_server: Start) -> None:
    server = start_server(space_stored_bytes=50_000)
    with Client(server.target) as client:
        client.checkpoints.put_records("alex", [record("a", "x" * 48_000)])
        server.clock.move(61_000)
        with pytest.raises(LimitExceeded):
            client.checkpoints.put_records("alex", [record("b", "x")])
        assert client.checkpoints.delete_thread("alex")


def test_a_damaged_line_is_named_and_never_read(server: RunningServer, start_server: Start) -> None:
    with Client(server.target) as client:
        for number in range(3):
            client.checkpoints.put_records("alex", [record(f"a/{number}", "apricot")])
    server.stop()
    path = path_of(server, "alex")
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"YXBy", b"YXBx")
    path.write_bytes(b"\n".join(lines))
    result = on(server, "verify")
    assert result.exit_code == 1
    assert "line 3 is damaged: the checksum does not fit" in result.output
    assert "0 conversations, 0 messages, 1 thread, 1 problem" in result.output
    with Client(start_server().target) as again:
        page = again.checkpoints.list_records("alex")
        assert ([it.key for it in page.records], page.damaged_lines) == (["a/0", "a/2"], 1)
        assert again.checkpoints.get_records("alex", ["a/1"]).damaged_lines == 1
        again.checkpoints.put_records("alex", [record("a/1", "anew")])
        assert values(again, "alex")["a/1"] == "anew"


@pytest.mark.parametrize("tail", ["no newline", "damaged", "half", "half a request"])
def test_a_torn_tail_is_cut_or_mended_before_anything_is_stored_behind_it(
    tail: str, server: RunningServer, start_server: Start
) -> None:
    with Client(server.target) as client:
        client.checkpoints.put_records("alex", [record("a", "1")])
        client.checkpoints.put_records("alex", [record("b", "2"), record("c", "3")])
    server.stop()
    path = path_of(server, "alex")
    whole = path.read_bytes()
    *_, first, second = whole.splitlines(keepends=True)
    # "Mg==" and "Mw==" are the values 2 and 3
    path.write_bytes(
        {
            "no newline": whole[:-1],
            "damaged": whole + first + second.replace(b"Mw==", b"Mg=="),
            "half": whole + first + second[: len(second) // 2],
            "half a request": whole + first,
        }[tail]
    )
    expected = {"a": "1", "b": "2", "c": "3"}
    for number in range(2):
        running = start_server()
        with Client(running.target, retry=None) as client:
            assert values(client, "alex") == expected
            client.checkpoints.put_records("alex", [record(f"new/{number}", "4")])
            expected[f"new/{number}"] = "4"
            page = client.checkpoints.list_records("alex")
            assert ({it.key: it.value.decode() for it in page.records}, page.damaged_lines) == (
                expected,
                0,
            )
        running.stop()
    result = on(server, "verify")
    assert result.exit_code == 0, result.output


def test_a_backup_has_them_and_a_restore_brings_them_back(
    server: RunningServer, start_server: Start, client: Client, tmp_path: Path
) -> None:
    for name in NAMES:
        client.checkpoints.put_records(name, [record("a", name)])
    assert "4 threads" in on(server, "backup", tmp_path / "copy").stdout
    new = ("--data-dir", tmp_path / "new")
    assert "4 threads" in run("restore", tmp_path / "copy", *new).stdout
    result = run("verify", *new)
    assert (result.exit_code, "4 threads, 0 problems" in result.stdout) == (0, True)
    assert "threads: 4" in run("stats", *new).stdout
    with Client(start_server(data_dir=tmp_path / "new").target) as again:
        assert {name: values(again, name) for name in NAMES} == {
            name: {"a": name} for name in NAMES
        }


def test_they_need_no_index(server: RunningServer, start_server: Start) -> None:
    with Client(server.target) as client:
        client.checkpoints.put_records("alex", [record("a", "1")])
    server.stop()
    for path in server.folder.glob("conversations.db*"):
        path.unlink()
    with Client(start_server().target) as again:
        assert values(again, "alex") == {"a": "1"}


def test_a_space_with_threads_alone_is_kept(server: RunningServer, start_server: Start) -> None:
    with Client(server.target, space="sam") as client:
        client.checkpoints.put_records("alex", [record("a", "1")])
    server.stop()
    with Client(start_server().target, space="sam") as again:
        assert values(again, "alex") == {"a": "1"}


@pytest.mark.parametrize("changed", [log_of("alex"), ""], ids=["it", "any log"])
@pytest.mark.parametrize("step", ["length", "append"])
def test_a_thread_is_read_anew_that_another_process_wrote_to_while_it_was_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, changed: str
) -> None:
    store, other = (FolderStore.of(tmp_path, "default") for _ in range(2))
    here, elsewhere = (Checkpoints(it, lambda _: nullcontext(), lambda: 1) for it in (store, other))
    elsewhere.put("alex", [Put("a", b"1")], "")
    act = getattr(store, step)

    def be_overtaken(*of: Any) -> Any:
        monkeypatch.undo()
        done = act(*of)
        elsewhere.changed(log_of("alex"))
        elsewhere.put("alex", [Put("b", b"2")], "")
        here.changed(changed)
        return done

    monkeypatch.setattr(store, step, be_overtaken)
    if step == "append":
        here.put("alex", [Put("a", b"3")], "")
    else:
        here.get("alex", ["a"])
    assert [key for key, _ in here.listed("alex", "", "", 9).records] == ["a", "b"]
