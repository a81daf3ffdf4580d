"""Make a release: set the version, date the changelog, check, commit, build the packages and tag.

    python scripts/release.py 0.2.0          # print the steps, change nothing
    python scripts/release.py 0.2.0 --make   # carry them out

The tree must be clean, on `main`, and the changelog must have entries under "Unreleased". Pushing
the tag and uploading the packages are left to the maintainer.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]

VERSIONS = {
    "client/pyproject.toml": [r'^version = "(.+)"$'],
    **{
        f"packages/{name}/pyproject.toml": [
            r'^version = "(.+)"$',
            r'"recollect-client==([^"]+)"',
            *([r'"recollect-client-imports==([^"]+)"'] if name in ("cli", "page") else []),
        ]
        for name in ("adapters", "cli", "imports", "mcp", "page")
    },
    "packages/mcp/server.json": [r'^  "version": "(.+)",$', r'^      "version": "(.+)",$'],
    "client/src/recollect/__init__.py": [r'^__version__ = "(.+)"$'],
    "server/pyproject.toml": [r'^version = "(.+)"$', r'"recollect-client(?:\[[\w,]+\])?==([^"]+)"'],
    "server/src/recollect_server/__init__.py": [r'^__version__ = "(.+)"$'],
    "Dockerfile": [r'image\.version="(.+)"'],
    "deploy/helm/recollect/Chart.yaml": [r"^version: (.+)$", r'^appVersion: "(.+)"$'],
    "clients/toolkits/package.json": [
        r'^  "version": "(.+)",$',
        r'^    "@recollect/client": "(.+)",$',
    ],
    "clients/typescript/package.json": [r'^  "version": "(.+)",$'],
    "clients/typescript/package-lock.json": [
        r'^  "version": "(.+)",$',
        r'^    "": \{\n      "name": ".+",\n      "version": "(.+)",$',
    ],
}
"""The places that name the version, as patterns whose group is the version."""

CHECKS = ("make lint", "make breaking", "make contract")
DIST = "dist"
PACKAGES = f"make release-check PACKAGES={DIST}"
"""Builds the packages, of the commit of the release and with its time, and tries them."""


class CannotRelease(Exception):
    """A release is not possible; the text says what to do."""


def changed_files(root: Path, version: str, today: date) -> dict[Path, str]:
    """Return the new text of every file that names the version, and of the changelog."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise CannotRelease(f"{version!r} is not a version: write three numbers, as in 0.2.0")
    texts = {}
    for name, patterns in VERSIONS.items():
        text = (root / name).read_text()
        for pattern in patterns:
            match = re.search(pattern, text, re.MULTILINE)
            if match is None:
                raise CannotRelease(
                    f"{name} does not name the version where it is expected: {pattern}"
                )
            if _numbers(match[1]) > _numbers(version):
                raise CannotRelease(
                    f"{name} is at version {match[1]} already: choose that or a later one"
                )
            text = text[: match.start(1)] + version + text[match.end(1) :]
        texts[root / name] = text
    texts[root / "CHANGELOG.md"] = dated((root / "CHANGELOG.md").read_text(), version, today)
    return texts


def dated(changelog: str, version: str, today: date) -> str:
    """Return the changelog with the unreleased changes under the version and the date."""
    heading = "## Unreleased\n"
    before, separator, after = changelog.partition(heading)
    entries = after.partition("\n## ")[0]
    if not separator or not re.search(r"^- ", entries, re.MULTILINE):
        raise CannotRelease('CHANGELOG.md has no entries under "Unreleased": write what changed')
    return f"{before}{heading}\n## {version} ({today.isoformat()})\n{after}"


def commands(version: str) -> list[str]:
    """Return the commands of a release, in order, after the files were written and checked."""
    files = shlex.join([*VERSIONS, "CHANGELOG.md", ".ci/contract.binpb"])
    return [
        f"git add {files}",
        f"git commit -m 'Release {version}'",
        PACKAGES,
        f"git tag --annotate v{version} -m 'Recollect {version}'",
    ]


def check_tree(root: Path, version: str) -> None:
    """Raise CannotRelease unless the tree is clean, on `main`, and without a tag of the version."""
    branch = _git(root, "branch", "--show-current")
    if branch != "main":
        raise CannotRelease(f"releases are made on main, and this is {branch}")
    if _git(root, "status", "--porcelain"):
        raise CannotRelease("the tree has changes: commit or stash them first")
    if _git(root, "tag", "--list", f"v{version}"):
        raise CannotRelease(f"v{version} is a tag already: choose a later version")
    dist = root / DIST
    if dist.is_dir() and any(dist.iterdir()):
        raise CannotRelease(f"{DIST}/ has packages of another release: move it away")


def main(arguments: Sequence[str]) -> int:
    """Make the release, or print its steps."""
    versions = [it for it in arguments if not it.startswith("--")]
    if len(versions) != 1:
        print("usage: python scripts/release.py VERSION [--make]", file=sys.stderr)
        return 2
    try:
        texts = changed_files(ROOT, versions[0], datetime.now(UTC).date())
        if "--make" not in arguments:
            print(
                "\n".join(
                    [
                        *(f"write {path.relative_to(ROOT)}" for path in texts),
                        *CHECKS,
                        *commands(versions[0]),
                    ]
                )
            )
            return 0
        check_tree(ROOT, versions[0])
    except CannotRelease as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    try:
        write_and_check(ROOT, texts, CHECKS)
    except CannotRelease as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    steps = commands(versions[0])
    for number, command in enumerate(steps):
        try:
            _run(ROOT, command)
        except subprocess.CalledProcessError:
            print(
                f"No release: {command} failed. Correct that and go on with this, or take the"
                " release back with git reset --hard HEAD~ if it is committed:\n"
                + "\n".join(steps[number:]),
                file=sys.stderr,
            )
            return 1
    print(
        f"Now push: git push origin main v{versions[0]}; upload {DIST}/; then commit what"
        f" .venv/bin/python scripts/upgrade_fixture.py v{versions[0]} writes"
    )
    return 0


def write_and_check(root: Path, texts: dict[Path, str], checks: Sequence[str]) -> None:
    """Write the files and run the checks on them. If one fails, restore the tree, so that the
    release can be repeated, and raise CannotRelease.
    """
    try:
        for path, text in texts.items():
            path.write_text(text)
        for command in checks:
            _run(root, command)
    except BaseException as error:
        _git(root, "checkout", "--", ".")
        if isinstance(error, subprocess.CalledProcessError):
            raise CannotRelease(
                f"{shlex.join(error.cmd)} failed, and the files are as before: correct that first"
            ) from error
        raise


def _run(root: Path, command: str) -> None:
    print(command, flush=True)
    subprocess.run(shlex.split(command), cwd=root, check=True)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
