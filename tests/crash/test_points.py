"""Every named point, killed: what was answered before is there after, and nothing is there
twice.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from recollect import Client, RecollectError
from recollect_server.kernel.compare.recovery import Recovered
from recollect_server.kernel.failpoints import FAILPOINTS

from tests.administration.test_killed import OF_SETTINGS, OF_SPACES
from tests.channels.conftest import Post, home
from tests.checkpoints.test_killed import OF_CHECKPOINTS
from tests.conftest import Start
from tests.crash.checker import check, check_index, repeat
from tests.crash.history import History
from tests.crash.load import Callers, connected, process
from tests.crash.test_redaction_killed import OF_REDACTION
from tests.credentials.test_ledger import OF_TOKENS
from tests.database.test_moving import OF_MOVES
from tests.external.test_killed import OF_THIRD_PARTIES
from tests.limits.test_audit_log import OF_THE_AUDIT
from tests.server.conftest import files_with
from tests.server.test_retention_killed import OF_UNINDEXING
from tests.server_cli.test_restores_killed import OF_RESTORES

Prepare = Callable[[Path], None]
"""Brings the folder of conversations, as a kill left it, into the state in which a start reaches
the point.
"""

TORN = b'{"type":"turn","role":"user","content":"never answered'


def torn(folder: Path) -> None:
    """Cut the last append of every transcript in the middle."""
    for path in folder.glob("*.jsonl"):
        with path.open("ab") as file:
            file.write(TORN)


def without_newline(folder: Path) -> None:
    """Remove the last byte of every transcript."""
    for path in folder.glob("*.jsonl"):
        path.write_bytes(path.read_bytes()[:-1])


def without_index(folder: Path) -> None:
    for path in folder.glob("conversations.db*"):
        path.unlink()


def as_it_was(_: Path) -> None:
    """Leave the files as they are: the index lacks the lines that it had not taken in."""


@dataclass(frozen=True)
class Kill:
    """Point at which a process is killed: while it serves, or, with `prepare`, in a start after
    another kill.
    """

    point: str
    nth: int = 1
    prepare: Prepare | None = None

    def __str__(self) -> str:
        return f"{self.point}:{self.nth}"


SERVING = [
    Kill("create.begun"), Kill("create.file_made", 2), Kill("create.half_written", 2), Kill("create.written"),
    Kill("create.synced", 2), Kill("append.begun", 4), Kill("append.half_written", 2), Kill("append.half_written", 4),
    Kill("append.written"), Kill("append.written", 4), Kill("index.put", 1), Kill("index.put", 4), Kill("index.taking_in", 2),
    Kill("index.taken_in", 2), Kill("index.job_done", 1), Kill("index.job_done", 2), Kill("index.job_committed", 2),
    Kill("event.begun", 1), Kill("event.begun", 2), Kill("event.recorded", 1), Kill("event.recorded", 2), Kill("delete.begun"),
    Kill("delete.renamed"), Kill("delete.durable"), Kill("delete.part_removed"),
    Kill("delete.words_removed"), Kill("delete.remembered"), Kill("delete.file_removed"), Kill("delete.file_gone"),
]  # fmt: skip
STARTING = [
    Kill("repair.begun", 1, torn), Kill("repair.half_kept", 1, torn), Kill("repair.kept", 2, torn), Kill("repair.cut", 1, torn),
    Kill("repair.newline", 2, without_newline), Kill("catch_up.repaired", 1, torn), Kill("catch_up.part", 1, as_it_was),
    Kill("catch_up.part", 2, without_index), Kill("index.taking_in", 1, without_index),
    Kill("recover.index_removed", 1, without_index),
    Kill("recover.deletes_finished", 1, without_index), Kill("recover.done", 1, as_it_was),
]  # fmt: skip
OF_THEIR_OWN = {
    "folder.made",
    "delete.torn_removed",
    "delete.forgotten",
    "anchors.copied",
    "anchors.replaced",
}
"""Each has a test that bears its name."""


@dataclass(frozen=True)
class Left:
    """A data folder as a kill left it, and what its callers know."""

    data_dir: Path
    history: History

    @property
    def folder(self) -> Path:
        return self.data_dir / "default" / "conversations"


def all_is_well(left: Left, start: Start, beside: Path, *, grown: bool = True) -> Recovered:
    """Start the server again and compare it with the history: as it is, after every call is
    repeated, and on the disk.

    `grown` False: what was killed made the index anew, and a part of that may be in it, which logs
    no updates. Returns what the start had to do.
    """
    running = start(data_dir=left.data_dir)
    with connected(running.target) as service:
        assert check(left.history, service, left.folder).problems == []
        assert words_of_the_deleted(left) == []
        assert repeat(left.history, service) == []
        Callers(left.history, service, 2).everything()  # and it goes on
        verdict = check(left.history, service, left.folder)
    running.stop()
    assert verdict.problems == []
    assert check_index(left.folder, beside, grown=grown and not running.app.recovered.rebuilt) == []
    assert not list(left.folder.glob("*.deleting"))
    assert [path.name for path in left.folder.glob("*.jsonl") if not path.stat().st_size] == []
    return running.app.recovered


def words_of_the_deleted(left: Left) -> list[str]:
    """Return the files that still have words of a conversation whose transcript is gone."""
    calls = [
        call
        for call in left.history.calls()
        if call.kind in ("create", "append", "rename") and call.conversation_id
    ]
    deleted = [
        call for call in calls if not (left.folder / f"{call.conversation_id}.jsonl").exists()
    ]
    return files_with(left.data_dir, *{text.split()[0] for call in deleted for text in call.texts})


@pytest.mark.parametrize("kill", SERVING, ids=str)
def test_a_server_that_is_killed_while_it_serves_loses_nothing_and_doubles_nothing(
    kill: Kill, tmp_path: Path, start_server: Start
) -> None:
    left = Left(tmp_path / "killed", History())
    with process(left.data_dir, str(kill)) as server:
        with connected(server.target) as service:
            Callers(left.history, service, 1).everything()
        assert server.was_killed
    assert [call.kind for call in left.history.calls() if call.refused] == []
    assert not all_is_well(left, start_server, tmp_path / "beside").rebuilt


@pytest.fixture(scope="module")
def after_a_kill(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Kill a server between its transcripts and its index, and return what is left, to be
    copied.
    """
    left = Left(tmp_path_factory.mktemp("crash") / "killed", History())
    with process(left.data_dir, "append.written:5") as server:
        with connected(server.target) as service:
            Callers(left.history, service, 1).everything()
        assert server.was_killed
    return left


@pytest.mark.parametrize("kill", STARTING, ids=str)
def test_a_server_that_is_killed_while_it_recovers_recovers_the_next_time(
    kill: Kill, after_a_kill: Left, tmp_path: Path, start_server: Start
) -> None:
    left = Left(tmp_path / "killed", after_a_kill.history.copy())
    shutil.copytree(after_a_kill.data_dir, left.data_dir)
    assert kill.prepare is not None
    kill.prepare(left.folder)
    with process(left.data_dir, str(kill)) as server:
        assert server.target == ""
        assert server.was_killed
    all_is_well(left, start_server, tmp_path / "beside", grown=kill.prepare is not without_index)
    assert all(TORN in path.read_bytes() for path in left.folder.glob("*.torn"))


def test_a_server_that_is_killed_at_folder_made_makes_its_folders_the_next_time(
    tmp_path: Path, start_server: Start
) -> None:
    for nth in (1, 2, 3):
        left = Left(tmp_path / str(nth), History())
        with process(left.data_dir, f"folder.made:{nth}") as server:
            assert server.target == ""
            assert server.was_killed
        running = start_server(data_dir=left.data_dir)
        with connected(running.target) as service:
            Callers(left.history, service, 10 + nth).everything()
        running.stop()
        assert all(call.answered for call in left.history.calls())
        all_is_well(left, start_server, tmp_path / f"beside {nth}")


def test_a_server_that_is_killed_at_delete_torn_removed_removes_the_transcript_the_next_time(
    after_a_kill: Left, tmp_path: Path, start_server: Start
) -> None:
    """Nothing that was cut off a transcript outlives it."""
    left = Left(tmp_path / "killed", History())
    shutil.copytree(after_a_kill.data_dir, left.data_dir)
    torn(left.folder)
    goes = min(path.stem for path in left.folder.glob("*.jsonl"))
    with process(left.data_dir, "delete.torn_removed") as server:
        with connected(server.target) as service:
            assert (left.folder / f"{goes}.jsonl.torn").read_bytes() == TORN
            with pytest.raises(Exception, match="UNAVAILABLE"):
                service.delete(goes)
        assert server.was_killed
    all_is_well(left, start_server, tmp_path / "beside")
    assert [path.name for path in left.folder.glob(f"{goes}*")] == []


def assert_forgotten_after_kill_at(point: str, data_dir: Path, start: Start) -> None:
    """Kill a server at a point of forgetting an anchor. The next one has the anchor or not, and
    forgets it on request.
    """
    with process(data_dir, point) as server:
        with Client(server.target, retry=None) as client:
            client.recall.set_anchor("name", "quixotriple")
            client.recall.set_anchor("city", "Ghent")
            with pytest.raises(RecollectError):
                client.recall.delete_anchor("name", request_id="d1")
        assert server.was_killed
    running = start(data_dir=data_dir)
    with Client(running.target) as client:
        assert [it.key for it in client.recall.list_anchors()] in (["city", "name"], ["city"])
        client.recall.delete_anchor("name", request_id="d1")
        assert [it.key for it in client.recall.list_anchors(include_superseded=True)] == ["city"]
    running.stop()
    assert files_with(data_dir, "quixotriple") == []


def test_a_server_that_is_killed_at_anchors_copied_forgets_when_asked_again(
    tmp_path: Path, start_server: Start
) -> None:
    assert_forgotten_after_kill_at("anchors.copied", tmp_path / "killed", start_server)


def test_a_server_that_is_killed_at_anchors_replaced_forgets_when_asked_again(
    tmp_path: Path, start_server: Start
) -> None:
    assert_forgotten_after_kill_at("anchors.replaced", tmp_path / "killed", start_server)


def test_a_server_that_is_killed_at_delete_forgotten_knows_the_next_time_what_was_delivered(
    tmp_path: Path, start_server: Start
) -> None:
    """A message that was deleted does not come back, whenever its provider delivers it again."""
    data = tmp_path / "killed"
    with process(data, "delete.forgotten") as server:
        with Post(server.target) as post:
            deleted = home(post.cli("Never again", delivery="1"))
            with pytest.raises(Exception, match="UNAVAILABLE"):
                post.delete(deleted)
        assert server.was_killed
    with Post(start_server(data_dir=data).target) as post:
        again = post.cli("Never again", delivery="1")
        assert (again.duplicate, again.WhichOneof("outcome")) == (True, None)
        assert post.everything() == {}
    assert not files_with(data, "Never again")


def test_every_point_is_killed_by_a_test() -> None:
    points = {kill.point for kill in SERVING + STARTING}
    of_others = OF_THIRD_PARTIES | OF_TOKENS | OF_THE_AUDIT | OF_CHECKPOINTS | OF_REDACTION
    of_others |= OF_UNINDEXING | OF_MOVES | OF_RESTORES
    assert points | OF_THEIR_OWN | of_others | set(OF_SETTINGS) | OF_SPACES == set(FAILPOINTS)
    assert all(f"at_{point.replace('.', '_')}_" in "".join(globals()) for point in OF_THEIR_OWN)
