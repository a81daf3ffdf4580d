"""Data of every earlier release opens today: each answer is as it was, nothing is damaged, streams
go on, and repeats are known.

The folders were written by those releases themselves (`scripts/upgrade_fixture.py`).
"""

import json
import lzma
import math
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect_server.kernel.format import FORMAT
from recollect_server.kernel.log.entries import kinds as kinds_of_lines

from scripts.upgrade_fixture import FIXTURES, Calls, Json, missing_fixtures, unpack
from tests.conftest import MovableClock, RunningServer, Start
from tests.postgres import Postgres
from tests.server_cli.conftest import run


def version(name: str) -> list[float]:
    """Return the numbers of a version, by which names of fixtures are ordered. One that is being
    developed goes before the release.
    """
    numbers = re.findall(r"\d+", name.partition("-")[0])
    return [*map(int, numbers), *([] if "dev" in name else [math.inf])]


RELEASES = sorted((path.name for path in FIXTURES.iterdir() if path.is_dir()), key=version)
WITH_DATABASE = [name for name in RELEASES if (FIXTURES / name / "database.sql.xz").exists()]

WITH_NEW_INDEX = {
    "0.1.0.dev1-ed49c030",
    "0.1.0.dev2-b7b7fdd8",
    "0.1.0.dev3-1df02ed8",
    "0.1.0.dev4-15af3c3a",
    "0.1.0.dev5-87f408a1",
    "0.1.0.dev6-7497e2d8",
    "0.1.0.dev7-084e5f6b",
}
"""Releases whose index is made anew: a stream begins with a reset and whole lists, and misses
nothing. Of the others it goes on where it was.
"""

RANKED = "RecallService.Search"
"""A call whose answers may come in another order and with other excerpts today."""


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield what an answer gave before and does not give now. It may have more members now."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name, value in before.items():
            yield from differences(value, now.get(name), f"{place}.{name}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{place}[{number}]")
    elif place.endswith(".conversation_name") and now:
        pass  # without a title it was the beginning of the first message
    elif before != now:
        yield f"{place}: was {before!r}, is {now!r}"


def all_differences(answers: list[Json], call: Calls) -> list[str]:
    changed = []
    for it in answers:
        before: Any = it["answer"]
        now: Any = call(it["call"], space=it["space"], **it["request"])
        if it["call"] == RANKED:
            before, now = conversations_of(before), conversations_of(now)
        changed += [f"{it['call']} {it['request']}{text}" for text in differences(before, now)]
    return changed


def conversations_of(answer: Json | None) -> list[str]:
    """Return the conversations that a search found."""
    return sorted({it["conversation_id"] for it in (answer or {}).get("results", [])})


def unpacked(release: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / release / "data.tar.xz") as tar:
        unpack(tar, folder)
    for index in folder.rglob("conversations.db"):
        with closing(apsw.Connection(str(index))) as connection:
            # A copy of an index ends its cursors; this one stands for the file itself. Without its
            # seal it is compared with the transcripts, as after a kill.
            connection.execute(
                "UPDATE identity SET value = ? WHERE name = 'inode'", (str(index.stat().st_ino),)
            )
        index.with_name("conversations.db.seal").unlink(missing_ok=True)
    return folder / "data"


def calls_of(server: RunningServer, written: Json) -> Calls:
    return Calls(server.target, written["token"])


@pytest.mark.parametrize("release", RELEASES)
def test_a_folder_of_an_earlier_release_gives_every_answer_and_its_streams_go_on(
    release: str, start_server: Start, clock: MovableClock, tmp_path: Path
) -> None:
    written = json.loads((FIXTURES / release / "answers.json").read_text())
    clock.now = written["time"] + 1000
    data_dir = unpacked(release, tmp_path)
    server = start_server(data_dir=data_dir)
    with closing(calls_of(server, written)) as call:
        assert all_differences(written["answers"], call) == []
        repeated = call("ConversationService.AppendTurn", **written["ids"]["repeat"])
        assert repeated is not None
        assert repeated["duplicate"]
        stream = call.stream("ConversationService.StreamUpdates", cursor=written["ids"]["cursor"])
        with closing(stream):
            first = next(stream)["update"]
            assert first.get("reset", False) is (release in WITH_NEW_INDEX)
            updates = [json.dumps(first)]
            while "It brought a fish." not in updates[-1] and "reset" not in first:
                updates.append(json.dumps(next(stream)["update"]))
            message = {"role": "ROLE_USER", "content": "Said after the upgrade."}
            chat = written["ids"]["chat"]
            call("ConversationService.AppendTurn", conversation_id=chat, messages=[message])
            assert any(message["content"] in json.dumps(it) for it in stream)
    server.stop()
    assert run("verify", "--data-dir", data_dir).stdout.endswith(" 0 problems\n")


@pytest.mark.parametrize("release", [name for name in RELEASES if name not in WITH_NEW_INDEX])
def test_every_cursor_that_an_earlier_release_gave_out_goes_on(
    release: str, start_server: Start, clock: MovableClock, tmp_path: Path
) -> None:
    written = json.loads((FIXTURES / release / "answers.json").read_text())
    clock.now = written["time"] + 1000
    data_dir = unpacked(release, tmp_path)
    path = data_dir / "default" / "conversations" / "conversations.db"
    with closing(apsw.Connection(str(path))) as index:
        epoch = index.execute("SELECT value FROM identity WHERE name = 'epoch'").get
        # no update says a title whose words were redacted
        query = """
            SELECT cursor FROM updates WHERE NOT (kind = 'title'
                AND number IN (SELECT number FROM updates WHERE kind = 'redacted')) ORDER BY cursor
        """
        own = [f"{epoch}-{row[0]}" for row in index.execute(query)]
        query = "SELECT cursor FROM external_updates ORDER BY cursor"
        outside = [f"x{epoch}-{row[0]}" for row in index.execute(query)]
    server = start_server(data_dir=data_dir)
    with closing(calls_of(server, written)) as call:
        for name, cursors in (
            ("ConversationService.StreamUpdates", own),
            ("ExternalCommunicationService.StreamCommunicationUpdates", outside),
        ):
            assert len(cursors) > 3
            for at, cursor in enumerate(cursors[:-1], start=1):
                missed = cursors[at:]
                with closing(call.stream(name, cursor=cursor)) as stream:
                    updates: list[Json] = []
                    while not updates or updates[-1]["cursor"] != missed[-1]:
                        response = next(stream)
                        updates += [response["update"], *response.get("following", [])]
                assert not any(it.get("reset") for it in updates)
                assert [it["cursor"] for it in updates] == missed


@pytest.mark.parametrize("release", RELEASES)
def test_the_logs_alone_of_an_earlier_release_give_every_answer(
    release: str, start_server: Start, clock: MovableClock, tmp_path: Path
) -> None:
    written = json.loads((FIXTURES / release / "answers.json").read_text())
    clock.now = written["time"] + 1000
    data_dir = unpacked(release, tmp_path)
    for index in data_dir.rglob("conversations.db*"):
        index.unlink()
    with closing(calls_of(start_server(data_dir=data_dir), written)) as call:
        assert all_differences(written["answers"], call) == []


@pytest.mark.parametrize("release", WITH_DATABASE)
def test_a_database_of_an_earlier_release_gives_every_answer(
    release: str, start_server: Start, clock: MovableClock, postgres: Postgres
) -> None:
    written = json.loads((FIXTURES / release / "database.json").read_text())
    clock.now = written["time"] + 1000
    url = postgres.new_database()
    postgres.execute("DROP SCHEMA recollect CASCADE", url)
    postgres.load(lzma.decompress((FIXTURES / release / "database.sql.xz").read_bytes()), url)
    server = start_server(store=url)
    with closing(calls_of(server, written)) as call:
        assert all_differences(written["answers"], call) == []
        repeated = call("ConversationService.AppendTurn", **written["ids"]["repeat"])
        assert repeated is not None
        assert repeated["duplicate"]
        stream = call.stream("ConversationService.StreamUpdates", cursor=written["ids"]["cursor"])
        with closing(stream):
            # A dump is another database than the cursor's. test_side_by_side.py keeps the database.
            assert next(stream)["update"]["reset"]


def test_every_earlier_release_has_a_fixture(tmp_path: Path) -> None:
    assert missing_fixtures(FIXTURES.parents[1]) == []
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    commit = ["commit", "--quiet", "--allow-empty", "--message", "x"]
    for arguments in (["init", "--quiet"], commit, ["tag", "v0.2.0"], commit, ["tag", "v0.3.0"]):
        subprocess.run([*git, *arguments], check=True)
    assert missing_fixtures(tmp_path) == ["v0.2.0"]  # that of today is made next
    (tmp_path / "tests/fixtures/v0.2.0").mkdir(parents=True)
    assert missing_fixtures(tmp_path) == []
    names = ["v0.10.0", "v0.2.0", "0.1.0.dev10-c", "0.1.0.dev9-a", "v0.1.0"]
    in_order = ["0.1.0.dev9-a", "0.1.0.dev10-c", "v0.1.0", "v0.2.0", "v0.10.0"]
    assert sorted(names, key=version) == in_order


def test_the_newest_fixture_has_a_line_of_every_kind_that_a_caller_can_cause(
    tmp_path: Path,
) -> None:
    written_by_jobs = {"split_suggested", "unindexed"}
    kinds = set()
    for path in unpacked(RELEASES[-1], tmp_path).rglob("*-*.jsonl"):
        for line in path.read_bytes().splitlines():
            fields = json.loads(line)
            kinds.add(fields.get("event", fields["type"]))
    anchors = {"anchor", "anchor_forgotten"}  # in a ledger
    assert kinds - {"erased"} == kinds_of_lines() - written_by_jobs - anchors - {"erased"}


def test_a_new_kind_of_line_raises_the_format() -> None:
    # An older server would pass over it. Raise FORMAT in kernel/format.py, add a migration of
    # PostgreSQL's schema (it may be empty), and then the kind here.
    assert (FORMAT, sorted(kinds_of_lines())) == (3, KINDS_OF_FORMAT_3)


KINDS_OF_FORMAT_3 = sorted(
    [
        "abbreviation",
        "anchor",
        "anchor_forgotten",
        "command",
        "compression",
        "continued",
        "erased",
        "escalation_opened",
        "escalation_resolved",
        "message",
        "meta",
        "meta_update",
        "record",
        "records_removed",
        "redacted",
        "split_suggested",
        "thread",
        "title_assigned",
        "trust_set",
        "turn",
        "turn_memory",
        "unindexed",
    ]
)
