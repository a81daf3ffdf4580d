"""The disk under the index alone goes wrong: every append is taken, for the transcripts' disk is
well, and the index comes back.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.test_disk import contents, fill_up, mounted, served
from tests.server.conftest import agent, user
from tests.waiting import until

INDEX = "default/conversations/conversations.db"


@contextmanager
def unwritable(*files: Path) -> Iterator[None]:
    """Make files refuse writes, through open handles too. Files in memory would accept those."""
    done = subprocess.run(["chattr", "+i", *files], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file can be made immutable here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


def test_a_full_disk_under_the_index_alone_refuses_no_append_and_heals_when_there_is_room(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with mounted(tmp_path / "disk", "4m") as disk:
        with served(data) as (service, process):
            name = service.conversation_of("zebra one")
            process.terminate()
            assert process.wait(20) == 0
        index = data / INDEX
        shutil.move(index, disk)
        index.symlink_to(disk / index.name)  # SQLite keeps its log beside the file itself
        with served(data) as (service, process):
            assert service.found("zebra") == [name]
            ballast = fill_up(disk)
            texts = ["zebra one"]
            for turn in range(40):
                texts += [
                    f"giraffe {turn} " + " ".join(f"w{turn}x{word}" for word in range(300)),
                    f"answer {turn}",
                ]
                service.append(name, user(texts[-2]), agent(texts[-1]), request_id=f"turn-{turn}")
            until(lambda: bool(service.search("giraffe").degraded))
            assert service.load(name, max_turns=1).messages[-1].content == "answer 39"
            assert contents(data, name) == texts
            ballast.unlink()
            until(
                lambda: (
                    not service.search("giraffe").degraded and service.found("giraffe") == [name]
                )
            )
            assert service.append(
                name, user(texts[-2]), agent(texts[-1]), request_id="turn-39"
            ).duplicate
            process.terminate()
            assert process.wait(20) == 0


def test_an_index_that_turns_read_only_under_a_running_server_refuses_no_append_and_heals(
    real_disk_path: Path,
) -> None:
    data = real_disk_path / "data"
    with served(data) as (service, process):
        name = service.conversation_of("zebra one")
        assert service.found("zebra") == [name]
        with unwritable(*(data / INDEX).parent.glob("conversations.db*")):
            for turn in range(10):
                service.append(name, user(f"giraffe {turn}"), request_id=f"turn-{turn}")
            until(lambda: bool(service.search("giraffe").degraded))
            assert service.load(name, max_turns=1).messages[-1].content == "giraffe 9"
            assert contents(data, name) == ["zebra one", *(f"giraffe {turn}" for turn in range(10))]
        until(lambda: not service.search("giraffe").degraded and service.found("giraffe") == [name])
        assert service.append(name, user("giraffe 9"), request_id="turn-9").duplicate
        process.terminate()
        assert process.wait(20) == 0
