"""The tiers of the tests, the harnesses that they consist of, and which of them a change needs.

tiers.toml has the tables. The contract tier runs whole each time. Of the others `make test` runs a
sample, and the gate runs a harness whole unless the files that guard it are those of a run in which
the whole of it passed: `.ci/passed.json` records them as one hash a harness. Where they differ, of
a long harness a quarter runs, and each module of its tests that changed since that run, or since it
passed with a quarter later. A missing or wrong record means that it runs whole.

    python tests/tiers.py plan [--whole]    # what the gate would run: whole, quarters, modules
    python tests/tiers.py passed HARNESS…   # record that these, or modules, passed whole here
    python tests/tiers.py touched           # paths of tests for what the working tree changes

This module needs the standard library and git alone: the gate asks it before anything is installed.
"""

import hashlib
import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
RECORD = ROOT / ".ci" / "passed.json"

RECORDED_MODULES = "modules"
"""Key of the record beside the harnesses: modules that passed whole with a quarter, by content."""

CONTRACT, STORE, REACH = "contract", "store", "reach"
ALL = (STORE, REACH)

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
HARNESSES: dict[str, list[str]] = {
    tier: names.split() for tier, names in _TABLE["harnesses"].items()
}
TIER_OF: dict[str, str] = {
    harness: tier for tier, harnesses in HARNESSES.items() for harness in harnesses
}
MODULES: dict[str, str] = {
    module: harness for harness, names in _TABLE["modules"].items() for module in names.split()
}
LONG = _TABLE["long"]["harnesses"].split()
"""Harnesses of which the gate runs a quarter where a whole run is recorded."""
CHECKS: dict[str, tuple[str, ...]] = {
    check: tuple(prefixes.split()) for check, prefixes in _TABLE["checks"].items()
}
"""Checks of the gate beside the tests, and the prefixes of the paths whose change runs one."""
_TURNS = 2
"""Checks of a gate beside those that it has to run: the ones that passed longest ago."""
_DUE = timedelta(days=2)
"""From the begin of the day of a whole run until another one is due."""
_MOST_MODULES = 8
"""Changed modules of a long harness that run whole, chosen by the commit: where everything moved, a
gate takes no longer.
"""


def _rows() -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the prefixes of paths, and what a change of such a path runs whole."""
    for harness, tier in TIER_OF.items():
        yield f"tests/{harness}/", () if tier == CONTRACT else (harness,)
    for module, harness in MODULES.items():
        yield f"tests/{module}.py", () if TIER_OF[harness] == CONTRACT else (harness,)
    for prefix, names in _TABLE["guarded"].items():
        yield prefix, names.split()


GUARDED = dict(_rows())


def guarded_by(path: str) -> frozenset[str]:
    """Return the harnesses that a change of `path`, relative to the root, has to run whole."""
    prefix = max((row for row in GUARDED if path.startswith(row)), key=len, default=None)
    names = ALL if prefix is None else GUARDED[prefix]
    return frozenset(harness for name in names for harness in HARNESSES.get(name, [name]))


def _proved_by(path: str) -> frozenset[str]:
    """Return the harnesses and the checks that a change of `path` has to run."""
    checks = (check for check, prefixes in CHECKS.items() if path.startswith(prefixes))
    return guarded_by(path).union(checks)


def harness_of(path: str, *, over_other_stores: bool) -> str:
    """Return the harness of a test in the module at `path`, relative to `tests/`.

    `over_other_stores` tells that it runs over PostgreSQL or two servers.
    """
    module = path.removesuffix(".py")
    if module in MODULES:
        return MODULES[module]
    folder = path.partition("/")[0]
    if TIER_OF[folder] == CONTRACT and over_other_stores:
        return "stores"
    return folder


def sample(tests: Mapping[str, str], seed: str, shares: Callable[[str], float]) -> set[str]:
    """Return of each harness the share of its tests that is asked for, at least one, chosen by the
    seed.

    `tests` gives the harness of each test's id. The choice depends on nothing else: each process
    that collects the same tests chooses the same.
    """
    of_harness: dict[str, list[str]] = {}
    for test, harness in tests.items():
        of_harness.setdefault(harness, []).append(test)
    return {
        test
        for harness, chosen_from in of_harness.items()
        for test in by_seed(chosen_from, seed)[: math.ceil(len(chosen_from) * shares(harness))]
    }


def by_seed(values: Iterable[T], seed: str) -> list[T]:
    """Return the values in an order of the seed's own."""
    return sorted(values, key=lambda value: hashlib.sha256(f"{seed} {value}".encode()).digest())


WHOLE, QUARTER, SAMPLE = "whole", "a quarter", "a sample"


@dataclass(frozen=True)
class Decision:
    """A harness or a check, how much of it has to run, and the reason for that."""

    harness: str
    share: str
    reason: str
    modules: tuple[str, ...] = ()
    """Of a quarter: the modules of tests that run whole, as paths relative to the root."""


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def hashes(files: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return one hash for each harness and check, over the files that guard it: pairs of a path and
    what stands for its content.
    """
    names = [*(harness for tier in ALL for harness in HARNESSES[tier]), *CHECKS]
    digests = {name: hashlib.sha256() for name in names}
    for path, content in sorted(files):
        for name in _proved_by(path):
            digests[name].update(f"{content} {path}\0".encode())
    return {name: digest.hexdigest() for name, digest in digests.items()}


def committed_files() -> list[tuple[str, str]]:
    """Return the path, and mode and object, of each file of the commit that is checked out."""
    entries = git("ls-tree", "-r", "-z", "HEAD").split("\0")
    return [
        (path, about) for about, _, path in (entry.partition("\t") for entry in entries) if path
    ]


def changed_files() -> list[str]:
    """Return the paths that differ between the working tree and the commit that is checked out."""
    entries = git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all").split(
        "\0"
    )
    return [entry[3:] for entry in entries if entry]


def read_record() -> dict[str, dict[str, str]]:
    """Return what is recorded of each harness and check: nothing if the record cannot be read."""
    try:
        record = json.loads(RECORD.read_text("utf-8"))
        return {harness: dict(entry) for harness, entry in record.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def plan() -> list[Decision]:
    """Decide for each harness how much of it has to run, and for each check whether it does."""
    changed, current, record = changed_files(), hashes(committed_files()), read_record()
    decisions = []
    for harness, content in current.items():
        touched = next((path for path in changed if harness in _proved_by(path)), None)
        entry = record.get(harness, {})
        modules: tuple[str, ...] | None = None
        if touched is not None:
            share, reason = WHOLE, f"{touched} is changed and not committed"
        elif not entry:
            share, reason = WHOLE, "no whole run of it is recorded"
        elif entry.get("content") == content:
            share, reason = SAMPLE, f"as it passed whole {since(entry)}"
        else:
            share, reason = WHOLE, f"changed since {since(entry)}"
            if harness in LONG and (modules := _changed_modules(harness, record)) is not None:
                share = QUARTER
                reason += f", whole modules of its own: {len(modules)}" if modules else ""
                reason += "" if _is_fresh(entry) else ": another whole run is due"
        decisions.append(Decision(harness, share, reason, modules or ()))
    waiting = [one for one in decisions if one.harness in CHECKS and one.share == SAMPLE]
    waiting = by_seed(waiting, git("rev-parse", "HEAD"))
    for one in sorted(waiting, key=lambda it: record[it.harness].get("date", ""))[:_TURNS]:
        decisions[decisions.index(one)] = replace(one, share=WHOLE, reason="it is its turn")
    return decisions


def _changed_modules(
    harness: str, record: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...] | None:
    """Return modules of a harness's tests that changed since its recorded run, and since they
    passed with a quarter, so many at the most; None if git does not have the commit of that run.
    """
    passed, current = record.get(RECORDED_MODULES, {}), dict(committed_files())
    try:
        commit = f"{record[harness]['commit']}^{{commit}}"
        paths = git("diff", "--name-only", "-z", commit, "HEAD", "tests/")
    except (KeyError, subprocess.CalledProcessError):
        return None
    modules = [
        path
        for path in paths.split("\0")
        if path.rpartition("/")[2].startswith("test_")
        and current.get(path) not in (None, passed.get(path))
        and harness in guarded_by(path)
    ]
    return tuple(by_seed(modules, git("rev-parse", "HEAD"))[:_MOST_MODULES])


def _is_fresh(entry: Mapping[str, str]) -> bool:
    """Return whether a whole run was today or yesterday, in UTC."""
    try:
        day = datetime.strptime(entry.get("date", ""), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return False
    return timedelta() <= datetime.now(UTC) - day < _DUE


def since(entry: Mapping[str, str]) -> str:
    """Return when and where a harness passed, in words."""
    return f"on {entry.get('date', 'an unknown day')} at {entry.get('commit', 'a commit')[:8]}"


def write_record(names: Sequence[str]) -> None:
    """Record that the whole of these harnesses, modules of tests and checks passed on the commit
    checked out. A module's entry goes with its harness's next one.
    """
    files, record = dict(committed_files()), read_record()
    current, modules = hashes(files.items()), record.setdefault(RECORDED_MODULES, {})
    commit, date = git("rev-parse", "HEAD").strip(), f"{datetime.now(UTC):%Y-%m-%d}"
    changed = [_proved_by(path) for path in changed_files()]
    unproved = frozenset[str]().union(*changed)
    for module in [name for name in names if name in files and not unproved & guarded_by(name)]:
        modules[module] = files[module]
    for name in (names & current.keys()) - unproved:
        record[name] = {"content": current[name], "commit": commit, "date": date}
        for module in [path for path in modules if name in guarded_by(path)]:
            del modules[module]
    RECORD.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", "utf-8")


def folders_of(paths: Iterable[str]) -> list[str]:
    """Return the folders and modules of tests that look at the changed paths, or hold them.

    It is for a quick look (`make check`), not for the gate. `ALIASES` names the tests of a path;
    where it knows only that it is of the server or of the client, the folders named like a part of
    the path look at it, if there are any.
    """
    chosen: set[str] = set()
    for path in paths:
        parts = [part.removesuffix(".py") for part in path.split("/")]
        if parts[0] == "tests":
            is_shared = len(parts) == 2 and not parts[1].startswith("test_")
            chosen.add("" if is_shared else path.split("/")[1])
            continue
        row = max((it for it in ALIASES if path.startswith(it)), key=len, default="")
        named = set(ALIASES.get(row, "").split())
        if row in ("client/", "server/"):
            named = (set(parts[1:]) & TIER_OF.keys() - {"clients", "server", "stores"}) or named
        chosen |= named
    return sorted(f"tests/{name}" for name in chosen if (ROOT / "tests" / name).exists())


_SERVER = "server/src/recollect_server/"
ALIASES = {
    "CHANGELOG.md": "test_docs.py",
    "README.md": "test_docs.py",
    "bench/": "bench",
    "client/": "client",
    "client/src/recollect/_embedded.py": "embedded",
    "clients/": "clients",
    "clients/typescript/": "clients typescript",
    "deploy/": "deploy",
    "docs/": "test_docs.py",
    "examples/": "examples",
    "packages/adapters/": "adapters",
    "packages/cli/": "client_cli",
    "packages/imports/": "client_cli",
    "packages/mcp/": "mcp",
    "packages/page/": "web",
    "proto/": "client conformance server",
    "scripts/": "test_scripts.py",
    "server/": "server",
    f"{_SERVER}run/metrics": "operations",
    f"{_SERVER}run/pages.py": "operations",
    f"{_SERVER}run/parts/": "spaces",
    f"{_SERVER}run/tracing.py": "operations",
    f"{_SERVER}run/commands/": "server_cli",
    f"{_SERVER}access/principal.py": "credentials",
    f"{_SERVER}access/token.py": "credentials",
    f"{_SERVER}access/audit.py": "limits",
    f"{_SERVER}notes/": "naming",
    f"{_SERVER}recall/": "fusion server",
    f"{_SERVER}access/tokens.py": "credentials",
    f"{_SERVER}kernel/failpoints.py": "crash",
    f"{_SERVER}kernel/index/": "server",
    f"{_SERVER}kernel/stream/": "streaming",
    f"{_SERVER}kernel/space/spaces.py": "spaces",
    f"{_SERVER}admin/": "administration",
    f"{_SERVER}anchors/": "anchors",
    f"{_SERVER}channels/": "channels",
    f"{_SERVER}checkpoints/": "checkpoints",
    f"{_SERVER}context/": "context",
    f"{_SERVER}insight/": "insight",
    f"{_SERVER}people/": "external channels",
    f"{_SERVER}recall/dates/": "languages server",
    f"{_SERVER}recall/model/": "inference",
    f"{_SERVER}postgres/": "database",
    f"{_SERVER}recall/vectors/": "vectors",
    f"{_SERVER}contract/certificates.py": "tls",
    f"{_SERVER}contract/gate.py": "credentials",
    f"{_SERVER}contract/handling.py": "credentials limits server",
    f"{_SERVER}contract/listening.py": "tls",
    "web/": "web",
}
"""Folders and modules of tests that look at a path: the longest prefix counts."""


def main(arguments: Sequence[str]) -> int:
    """Do what the module's text says, and return the exit status."""
    match arguments:
        case ["plan", *options] if options in ([], ["--whole"]):
            decisions = plan()
            if options:
                decisions = [Decision(one.harness, WHOLE, "as asked for") for one in decisions]
            for one in decisions:
                print(f"{one.harness}: {one.share}, {one.reason}", file=sys.stderr)
            whole = [one.harness for one in decisions if one.share == WHOLE]
            print(",".join(one for one in whole if one in TIER_OF))
            print(",".join(one.harness for one in decisions if one.share == QUARTER))
            print(",".join(sorted({it for one in decisions for it in one.modules})))
            print(",".join(one for one in whole if one in CHECKS))
        case ["passed", *names] if all(
            one in CHECKS or one.endswith(".py") or TIER_OF.get(one, CONTRACT) != CONTRACT
            for one in names
        ):
            write_record(names)
        case ["touched"]:
            print(" ".join(folders_of(changed_files())))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
