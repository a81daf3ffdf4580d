"""The lock of a data folder is removed, or the folder itself taken away, under a running server: no
second server writes beside the first, and the first writes to nothing that is not its own.
"""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
import recollect
from recollect_server.run import app
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK, RunningServer, Start
from tests.server.conftest import Connect, Service, bytes_under, failure_of, user

LOCK = "recollect.lock"


def assert_no_second_starts(folder: Path) -> None:
    settings = Settings.load(None, {"listen": f"{LOOPBACK}:0", "data_dir": folder})
    with pytest.raises(CannotStart, match=f"another server uses the data folder {folder}"):
        app.start(settings)


def refusal(service: Service, conversation_id: str) -> str:
    """Return why a read and a write are refused."""
    read = failure_of(lambda: service.load(conversation_id))
    write = failure_of(lambda: service.append(conversation_id, user("nobody's"), request_id="r"))
    for failure in (read, write):
        assert (failure.code, failure.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
    assert read.text == write.text
    return write.text


def contents(service: Service, conversation_id: str) -> list[str]:
    return [it.content for it in service.load(conversation_id).messages]


def test_a_lock_file_that_is_removed_lets_no_second_server_in(
    server: RunningServer, service: Service
) -> None:
    name = service.conversation_of("one")
    before = (server.data_dir / LOCK).read_bytes()
    (server.data_dir / LOCK).unlink()
    assert_no_second_starts(server.data_dir)
    service.append(name, user("two"))
    # the next call locked it anew: clients of this machine and older servers look at it
    assert json.loads((server.data_dir / LOCK).read_bytes()) == json.loads(before)
    with recollect.embedded(server.data_dir) as client:
        assert client.conversations.get(name).id == name
    with (server.data_dir / LOCK).open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert contents(service, name) == ["one", "two"]


def test_a_server_that_took_the_lock_of_a_removed_file_has_the_folder_alone(
    server: RunningServer, service: Service
) -> None:
    """An older server looks at the file alone, and so does any on a folder that others may open."""
    name = service.conversation_of("one")
    (server.data_dir / LOCK).unlink()
    other = os.open(server.data_dir / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    transcript = (server.folder / f"{name}.jsonl").read_bytes()
    assert "another server has the lock of the data folder" in refusal(service, name)
    assert (server.folder / f"{name}.jsonl").read_bytes() == transcript
    os.close(other)
    service.append(name, user("two"), request_id="r")
    assert contents(service, name) == ["one", "two"]


def test_a_folder_that_is_replaced_gets_nothing_of_the_server_before(
    server: RunningServer, service: Service, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    name, away = service.conversation_of("one"), tmp_path / "away"
    server.data_dir.rename(away)
    assert "was moved, removed or replaced" in refusal(service, name)
    assert not server.data_dir.exists()
    assert failure_of(lambda: service.create()).reason == "STORAGE_UNAVAILABLE"
    # a copy of it, with another server
    shutil.copytree(away, server.data_dir)
    settings = Settings.load(None, {"listen": f"{LOOPBACK}:0", "data_dir": server.data_dir})
    second = app.start(settings)
    other = Service(second.address)
    other.append(name, user("of the second"))
    assert contents(other, name) == ["one", "of the second"]
    files = bytes_under(server.data_dir)
    assert "was moved, removed or replaced" in refusal(service, name)
    (space,) = server.app.spaces.open_now()
    assert not space._space.upkeep.repair(lambda: False)  # as its job does every second
    assert bytes_under(server.data_dir) == files
    other.channel.close()
    second.stop()
    shutil.rmtree(server.data_dir)
    away.rename(server.data_dir)
    service.append(name, user("two"), request_id="r")
    assert contents(service, name) == ["one", "two"]


def test_a_write_that_began_before_the_folder_was_replaced_is_not_acknowledged(
    server: RunningServer, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store looks again, behind the look that admits the call."""
    name = service.conversation_of("one")
    monkeypatch.setattr(server.app.spaces, "_check", lambda: None)
    server.data_dir.rename(tmp_path / "away")
    server.data_dir.mkdir()
    (server.folder).mkdir(parents=True)
    failure = failure_of(lambda: service.append(name, user("two"), request_id="r"))
    assert "was moved, removed or replaced" in failure.text
    assert [*server.folder.iterdir()] == []
    server.data_dir.joinpath("default", "conversations").rmdir()
    shutil.rmtree(server.data_dir)
    (tmp_path / "away").rename(server.data_dir)
    service.append(name, user("two"), request_id="r")
    assert contents(service, name) == ["one", "two"]


def test_a_space_whose_folder_is_away_gets_no_other_in_its_place(
    server: RunningServer, service: Service, tmp_path: Path
) -> None:
    """A folder that was made anew took new conversations, which went when the first came back."""
    name, folder, away = service.conversation_of("one"), server.folder.parent, tmp_path / "away"
    folder.rename(away)
    for call in (service.create, lambda: service.append(name, user("two"), request_id="r")):
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
    (space,) = server.app.spaces.open_now()
    assert not space._space.upkeep.repair(lambda: False)  # as its job does every second
    assert not folder.exists()
    away.rename(folder)
    service.append(name, user("two"), request_id="r")
    assert contents(service, name) == ["one", "two"]
