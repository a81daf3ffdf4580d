"""Python's garbage collector, which stops every call while it looks."""

import os
import signal
from pathlib import Path

import pytest

from tests.programs import SERVER, cold
from tests.server.conftest import Service


def test_what_the_start_made_is_not_gone_through_by_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be, a few times within the first searches: each a stall of some 40 ms for every
    call.
    """
    counts = tmp_path / "counts"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, gc, pathlib\n"
        "def count():\n"
        "    return f'{gc.get_freeze_count()} {len(gc.get_objects())}'\n"
        f"atexit.register(lambda: pathlib.Path({str(counts)!r}).write_text(count()))\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(tmp_path / "data"),
        "--embedder",
        "off",
    ]
    with cold(SERVER, arguments) as process:
        assert process.stdout is not None
        service = Service(process.stdout.readline().split()[3])
        service.conversation_of("found by the first who asks")
        assert service.search("asks").hits
        service.channel.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    left_alone, gone_through = map(int, counts.read_text().split())
    assert left_alone > 10 * gone_through, (left_alone, gone_through)
