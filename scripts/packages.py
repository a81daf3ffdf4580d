"""Build the packages of a release and check them: `make release-check`.

    python scripts/packages.py FOLDER

Wheels and source distributions of client, server and `packages/` are built twice, with the time of
the last commit as their time, and must be the same to the byte; `twine check --strict` reads their
metadata. The wheels are then installed in an empty environment, where a server keeps a turn and
finds it again. FOLDER gets the packages, `SHA256SUMS`, and the bill of materials of that
environment (`recollect.cdx.json`, CycloneDX).
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PARTS = (
    "client",
    "server",
    *(f"packages/{it}" for it in ("adapters", "cli", "imports", "mcp", "page")),
)
MOST_BYTES = 61_000_000
"""Size that a package may have: PyPI takes 100 MB, and the server's holds two models."""

_TOUR = """
import sys
import grpc
from recollect import Client, Message
with grpc.insecure_channel(sys.argv[1]) as channel:
    grpc.channel_ready_future(channel).result(120)
with Client(sys.argv[1], timeout=60) as client:
    chat = client.conversations.create("web")
    client.conversations.append_turn(chat.id, [Message.user("The heron nests on the island.")])
    assert [it.conversation_id for it in client.recall.search("heron").results] == [chat.id]
print("a turn was kept and found")
"""


class NotReleasable(Exception):
    """The packages are not fit for a release; the text says why."""


def build(root: Path, target: Path) -> list[Path]:
    """Build the packages of a tree into a folder. Return their paths."""
    epoch = _output(["git", "log", "-1", "--format=%ct"], root)
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": epoch,
        "EXTRAS_BY_VERSION": "1",  # not by their folders in this tree
    }
    for part in PARTS:
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target)]
        _run([*command, str(root / part)], root, environment)
    return sorted(path for path in target.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def check_same(first: Sequence[Path], second: Sequence[Path]) -> None:
    """Raise NotReleasable unless two builds are the same to the byte, and small enough."""
    if [it.name for it in first] != [it.name for it in second]:
        raise NotReleasable("two builds gave packages of different names")
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise NotReleasable(f"{one.name} is not the same when it is built again")
        if one.stat().st_size > MOST_BYTES:
            raise NotReleasable(
                f"{one.name} has {one.stat().st_size} bytes, and may have {MOST_BYTES}"
            )


def check_metadata(packages: Sequence[Path]) -> None:
    """Raise NotReleasable unless PyPI would take the packages' metadata."""
    for package in packages:
        if place := re.search(r"^Requires-Dist: (.* @ \S+)", _metadata_of(package), re.MULTILINE):
            raise NotReleasable(
                f"{package.name} requires {place[1]}, where no other machine has it"
            )
    _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, packages)], ROOT)


def check_installed(packages: Sequence[Path], work: Path) -> Path:
    """Install the wheels in an empty environment, and let its server keep a turn and find it again.
    Return the environment's Python.
    """
    environment = {it: value for it, value in os.environ.items() if it != "PYTHONPATH"}
    _run([sys.executable, "-m", "venv", str(work / "venv")], work)
    python = work / "venv/bin/python"
    wheels = [str(it) for it in packages if it.suffix == ".whl"]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    _run([str(python), "-m", "pip", "install", "--quiet", *constraints, *wheels], work, environment)
    address = f"unix:{work}/socket"
    program = [str(python.with_name("recollect-server")), "serve", "--listen", address]
    with subprocess.Popen([*program, "--data-dir", str(work / "data")], env=environment) as server:
        try:
            _run([str(python), "-c", _TOUR, address], work, environment)
        finally:
            server.terminate()
            status = server.wait(60)
    if status:
        raise NotReleasable(f"the installed server ended with {status}")
    return python


def write_bill(python: Path, target: Path) -> int:
    """Write the bill of materials of an environment. Return the number of its components."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", str(python)]
    _run([*command, "--output-reproducible", "--output-file", str(target)], ROOT)
    names = {it["name"] for it in json.loads(target.read_text())["components"]}
    if missing := {"recollect-server", "recollect-client", "grpcio"} - names:
        raise NotReleasable(f"the bill of materials lacks {', '.join(sorted(missing))}")
    return len(names)


def main(arguments: Sequence[str]) -> int:
    """Build and check the packages."""
    if len(arguments) != 1:
        print("usage: python scripts/packages.py FOLDER", file=sys.stderr)
        return 2
    target = Path(arguments[0]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        print(f"{target} is not empty: name a new folder", file=sys.stderr)
        return 2
    start = time.monotonic()
    try:
        with TemporaryDirectory() as folder:
            packages = build(ROOT, target)
            print(f"built ({time.monotonic() - start:.0f} s)", flush=True)
            check_same(packages, build(ROOT, Path(folder) / "again"))
            check_metadata(packages)
            print(f"built again, the same ({time.monotonic() - start:.0f} s)", flush=True)
            python = check_installed(packages, Path(folder))
            count = write_bill(python, target / "recollect.cdx.json")
        sums = [f"{hashlib.sha256(it.read_bytes()).hexdigest()}  {it.name}\n" for it in packages]
        (target / "SHA256SUMS").write_text("".join(sums))
    except NotReleasable as error:
        print(f"Not releasable: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"Not releasable: {' '.join(error.cmd)} failed", file=sys.stderr)
        return 1
    for package in packages:
        print(f"{package.stat().st_size:>10} {package.name}, twice the same")
    print(f"{count} components in recollect.cdx.json, {time.monotonic() - start:.0f} s")
    return 0


def _metadata_of(package: Path) -> str:
    """Return the metadata in a wheel or a source distribution."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            (name,) = (it for it in wheel.namelist() if it.endswith(".dist-info/METADATA"))
            return wheel.read(name).decode()
    with tarfile.open(package) as archive:
        file = archive.extractfile(f"{package.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file is not None
        return file.read().decode()


def _run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        print(result.stdout + result.stderr, file=sys.stderr)
        result.check_returncode()


def _output(command: Sequence[str], folder: Path) -> str:
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
