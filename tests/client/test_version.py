"""The version says of which commit a checkout or an image is; a release says the version alone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recollect import Client, __version__
from recollect._commit import suffix
from recollect_server import __version__ as server_version

from tests.conftest import LOOPBACK, Start
from tests.operations.conftest import get

ROOT = Path(__file__).parents[2]
IDENTITY = {
    f"GIT_{who}_{what}": "a@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def git(root: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it prints."""
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    env = os.environ | IDENTITY
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def package_in(root: Path) -> Path:
    """Make the folders of the sources by which a checkout is known; return the client's package."""
    (root / "proto/recollect/v1").mkdir(parents=True)
    package = root / "client/src/recollect"
    package.mkdir(parents=True)
    return package


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a repository of these sources with a commit."""
    root = tmp_path / "checkout"
    package_in(root)
    (root / "proto/recollect/v1/a.proto").touch()
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "Begin")
    return root


def test_a_checkout_says_its_commit_however_git_keeps_it(checkout: Path) -> None:
    for command in (
        "status",
        "pack-refs --all",
        "checkout --detach",
        "checkout -b topic/one",
        "pack-refs --all",
        "commit --allow-empty -m Second",
    ):
        git(checkout, *command.split())
        expected = git(checkout, "rev-parse", "HEAD")[:7]
        assert suffix(checkout / "client/src/recollect") == f"+g{expected}", command


def test_another_worktree_says_its_own_commit(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "--allow-empty", "-m", "Second")
    own = git(tmp_path / "other", "rev-parse", "HEAD")
    assert own != git(checkout, "rev-parse", "HEAD")
    assert suffix(tmp_path / "other/client/src/recollect") == f"+g{own[:7]}"


def test_an_image_says_the_commit_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "COMMIT").write_text("")  # built without the argument
    assert suffix(tmp_path) == ""
    (tmp_path / "COMMIT").write_text("0123456789" * 4)
    assert suffix(tmp_path) == "+g0123456"


def test_sources_without_git_and_a_repository_of_others_say_no_commit(
    checkout: Path, tmp_path: Path
) -> None:
    assert suffix(package_in(tmp_path / "source distribution")) == ""
    shutil.rmtree(checkout / "proto")  # somebody's, who keeps a copy of the client in it
    assert suffix(checkout / "client/src/recollect") == ""


def test_an_installed_release_says_its_version_alone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "client/src/recollect", tmp_path / "lib/site/recollect")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import recollect; print(recollect.__version__, recollect.__file__)",
        ],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "lib/site")},
        capture_output=True,
        text=True,
        check=True,
    )
    version, file = done.stdout.split()
    assert file.startswith(str(tmp_path))
    assert re.fullmatch(r"[\d.]+", version)


def test_programs_the_server_and_its_metrics_say_the_version(start_server: Start) -> None:
    server = start_server(metrics=f"{LOOPBACK}:0")
    programs = (("recollect.cli.main", "recollect"), ("recollect_server", "recollect-server"))
    for module, name in programs:
        command = [sys.executable, "-m", module, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == f"{name}, version {__version__}\n"
    with Client(server.target) as client:
        stats = client.admin.get_stats().server
    assert stats is not None
    assert stats.version == server_version == __version__
    url = f"http://{server.app.metrics_address}/metrics"
    assert f'recollect_build_info{{version="{__version__}"}} 1.0' in get(url)[1]
    head = git(ROOT, "rev-parse", "HEAD")
    assert __version__.endswith(f"+g{head[:7]}")
