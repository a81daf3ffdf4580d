"""The table of tiers is whole and right, and the gate runs whole what may have changed."""

import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import tiers
from tests.tiers import ALL, CONTRACT, HARNESSES, ROOT, STORE, TIER_OF, guarded_by, harness_of

TESTS = ROOT / "tests"
EVERYTHING = {harness for tier in ALL for harness in HARNESSES[tier]}
CHECKS = set(tiers.CHECKS)
SOURCES = [ROOT / "client" / "src", ROOT / "server" / "src", *ROOT.glob("packages/*/src")]


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the harness and the path of each module of tests."""
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS).as_posix()
        yield harness_of(name, over_other_stores=False), path


def imports_of(path: Path) -> Iterator[str]:
    """Yield the paths, relative to the root, of the product's modules that a module imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.count(".") == 0:
                continue
            for module in (source.joinpath(*name.split(".")) for source in SOURCES):
                for file in (module.with_suffix(".py"), module / "__init__.py"):
                    if file.is_file():
                        yield file.relative_to(ROOT).as_posix()


def test_every_module_of_tests_belongs_to_a_harness_and_every_harness_has_tests() -> None:
    of_modules = {harness for harness, _ in modules()}
    assert of_modules | {"stores"} == TIER_OF.keys()  # "stores" are cases, not modules
    assert len(TIER_OF) == sum(map(len, HARNESSES.values()))


def test_every_row_names_paths_and_harnesses_that_there_are() -> None:
    files = [path for path, _ in tiers.committed_files()] + tiers.changed_files()
    made = {".ci/passed.json"}  # by the first gate
    unused = {row for row in tiers.GUARDED if not any(path.startswith(row) for path in files)}
    no_folders = {f"tests/{harness}/" for harness in {*tiers.MODULES.values(), "stores"}}
    assert unused <= made | no_folders
    named = {name for row in tiers.GUARDED.values() for name in row}
    assert named <= EVERYTHING | set(ALL)


def test_a_path_that_no_row_names_runs_everything() -> None:
    for path in ("pyproject.toml", "constraints.txt", ".ci/run", "Makefile", "new/file.py"):
        assert guarded_by(path) == EVERYTHING, path
    assert guarded_by("tests/conftest.py") == EVERYTHING
    assert guarded_by("server/src/recollect_server/new.py") == EVERYTHING


def test_what_the_tests_of_a_harness_import_runs_them_whole() -> None:
    wrong = defaultdict(set)
    for harness, path in modules():
        if TIER_OF[harness] != CONTRACT:
            for product in imports_of(path):
                if harness not in guarded_by(product):
                    wrong[product].add(harness)
    assert dict(wrong) == {}


def test_the_server_s_storage_runs_every_harness_of_the_store_tier() -> None:
    path = "server/src/recollect_server/kernel/log/store.py"
    assert guarded_by(path) >= set(HARNESSES[STORE])
    assert guarded_by("web/src/app.tsx") == {"web"}
    assert guarded_by("tests/server/test_append.py") == set()  # the contract tier always runs
    assert guarded_by("tests/crash/load.py") == {"crash"}


def test_a_case_over_another_store_belongs_to_the_store_tier_wherever_it_stands() -> None:
    assert harness_of("server/test_append.py", over_other_stores=False) == "server"
    assert harness_of("server/test_append.py", over_other_stores=True) == "stores"
    assert harness_of("crash/test_rounds.py", over_other_stores=True) == "crash"
    assert harness_of("external/test_killed.py", over_other_stores=False) == "killed"
    assert harness_of("test_tiers.py", over_other_stores=False) == "gate"


def _tenth(_harness: str) -> float:
    return 0.1


def test_a_sample_covers_each_harness_and_all_of_them_with_time() -> None:
    tests = {f"{harness} {at}": harness for harness in ("crash", "web") for at in range(20)}
    tests["bench 0"] = "bench"
    first = tiers.sample(tests, "one", _tenth)
    assert first == tiers.sample(dict(reversed(tests.items())), "one", _tenth)
    assert [sum(tests[it] == harness for it in first) for harness in ("crash", "web", "bench")] == [
        2,
        2,
        1,
    ]
    covered = set().union(*(tiers.sample(tests, str(seed), _tenth) for seed in range(100)))
    assert covered == tests.keys()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a repository with the table in it, and a file for some of its rows."""
    (tmp_path / ".ci").mkdir()
    for path in ("server/src/recollect_server/postgres/store.py", "web/app.ts", "docs/a.md"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("one\n")
    (tmp_path / "tests").mkdir()
    for name in ("tiers.py", "tiers.toml"):
        shutil.copy(TESTS / name, tmp_path / "tests")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    """Run git as nobody in particular."""
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *person, *arguments], cwd=tree, check=True)


def commit(tree: Path) -> None:
    """Commit all that is in the tree."""
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "Change")


def lines(tree: Path, *arguments: str) -> list[set[str]]:
    """Run the program, and return what it prints: harnesses that run whole, those of which a
    quarter runs, modules that run whole, and checks that run.
    """
    ran = subprocess.run(
        [sys.executable, "tests/tiers.py", *arguments],
        cwd=tree, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip
    return [set(line.split(",")) - {""} for line in (ran.stdout + "\n\n\n\n").split("\n")[:4]]


def run(tree: Path, *arguments: str) -> tuple[set[str], set[str]]:
    """Return the harnesses that run whole, and those of which a quarter runs."""
    whole, quarter, *_ = lines(tree, *arguments)
    return whole, quarter


def dated(tree: Path, before: timedelta) -> None:
    """Let what is recorded be of an earlier day."""
    path = tree / ".ci/passed.json"
    record = json.loads(path.read_text())
    for entry in record.values():
        entry["date"] = f"{datetime.now(UTC) - before:%Y-%m-%d}"
    path.write_text(json.dumps(record))


NOTHING: tuple[set[str], set[str]] = (set(), set())


def test_what_passed_whole_is_sampled_until_a_file_that_guards_it_changes(tree: Path) -> None:
    assert run(tree, "plan") == (EVERYTHING, set())  # nothing is recorded
    assert run(tree, "passed", *EVERYTHING) == NOTHING
    dated(tree, timedelta(days=2))
    commit(tree)  # the record itself guards nothing
    assert run(tree, "plan") == NOTHING
    assert run(tree, "plan", "--whole") == (EVERYTHING, set())

    (tree / "web/app.ts").write_text("two\n")
    assert run(tree, "plan") == ({"web"}, set())  # before it is committed
    commit(tree)
    assert run(tree, "plan") == (set(), {"web"})
    run(tree, "passed", "web")
    assert run(tree, "plan") == NOTHING


def test_of_a_long_harness_that_ran_whole_once_a_quarter_runs_however_long_ago(tree: Path) -> None:
    run(tree, "passed", *EVERYTHING)
    dated(tree, timedelta(days=30))
    (tree / "server/src/recollect_server/postgres/store.py").unlink()
    commit(tree)
    guarded = {*HARNESSES[STORE], "server_cli", "operations"}
    long = set(tiers.LONG) & guarded
    assert long  # else nothing would be proved here
    assert run(tree, "plan") == (guarded - long, long)


def test_changed_modules_of_a_harness_run_whole_but_not_all_of_too_many(tree: Path) -> None:
    folder = tree / "tests/web"
    folder.mkdir(exist_ok=True)
    run(tree, "passed", *EVERYTHING)
    (folder / "test_new.py").write_text("")
    commit(tree)
    assert lines(tree, "plan") == [set(), {"web"}, {"tests/web/test_new.py"}, CHECKS]
    for at in range(20):
        (folder / f"test_new_{at}.py").write_text("")
    commit(tree)
    assert len(lines(tree, "plan")[2]) == 8


def test_a_changed_module_that_passed_with_a_quarter_runs_again_once_it_changes_again(
    tree: Path,
) -> None:
    (tree / "tests/web").mkdir(exist_ok=True)
    run(tree, "passed", *EVERYTHING)
    first, second = "tests/web/test_first.py", "tests/web/test_second.py"
    for path in (first, second):
        (tree / path).write_text("")
    commit(tree)
    assert lines(tree, "plan")[2] == {first, second}
    run(tree, "passed", first)
    assert lines(tree, "plan")[1:3] == [{"web"}, {second}]
    (tree / "web/app.ts").write_text("two\n")
    run(tree, "passed", second)  # of what is not committed nothing is recorded
    git(tree, "checkout", "--quiet", "web/app.ts")
    assert lines(tree, "plan")[1:3] == [{"web"}, {second}]
    run(tree, "passed", second)
    assert lines(tree, "plan")[1:3] == [{"web"}, set()]
    (tree / first).write_text("# changed\n")
    commit(tree)
    assert lines(tree, "plan")[2] == {first}
    run(tree, "passed", "web")
    assert run(tree, "plan") == NOTHING
    assert json.loads((tree / ".ci/passed.json").read_text())["modules"] == {}


def test_a_harness_runs_whole_where_the_commit_of_its_run_is_gone(tree: Path) -> None:
    run(tree, "passed", *EVERYTHING)
    path = tree / ".ci/passed.json"
    path.write_text(re.sub(r'"commit": "[^"]*"', f'"commit": "{"0" * 40}"', path.read_text()))
    (tree / "web/app.ts").write_text("two\n")
    commit(tree)
    assert run(tree, "plan") == ({"web"}, set())


def checks(tree: Path, *arguments: str) -> set[str]:
    """Return the checks beside the tests that run."""
    return lines(tree, "plan", *arguments)[3]


def test_checks_beside_the_tests_run_by_turns_and_where_a_file_of_their_own_changes(
    tree: Path,
) -> None:
    assert checks(tree) == CHECKS  # nothing is recorded
    first = {"client_alone", "packages"}
    run(tree, "passed", *CHECKS)
    dated(tree, timedelta(days=1))
    run(tree, "passed", *(CHECKS - first))
    commit(tree)
    assert checks(tree) == first  # they passed longest ago
    assert checks(tree, "--whole") == CHECKS
    run(tree, "passed", *first)
    assert len(checks(tree)) == 2
    (tree / "Dockerfile").write_text("FROM scratch\n")
    assert "image" in checks(tree)
    run(tree, "passed", "image")  # of what is not committed nothing is recorded
    commit(tree)
    assert "image" in checks(tree)
    assert len(checks(tree)) == 3


def test_each_check_is_a_program_of_the_gate_and_its_own_files_are_there() -> None:
    files = [path for path, _ in tiers.committed_files()] + tiers.changed_files()
    for check, prefixes in tiers.CHECKS.items():
        assert os.access(ROOT / ".ci" / check, os.X_OK), check
        assert f"by_turns {check}\n" in (ROOT / ".ci/run").read_text(), check
        for prefix in prefixes:
            assert any(path.startswith(prefix) for path in files), prefix


def test_a_new_path_that_no_row_names_runs_everything_again(tree: Path) -> None:
    run(tree, "passed", *EVERYTHING)
    dated(tree, timedelta(days=2))
    (tree / "setup.cfg").write_text("[tool]\n")
    commit(tree)
    assert run(tree, "plan") == (EVERYTHING - set(tiers.LONG), set(tiers.LONG))


@pytest.mark.parametrize(
    "record", ["", "{", "[]", '{"web": 1}', '{"web": {}}', '{"web": {"content": "0"}}']
)
def test_a_wrong_record_runs_everything(tree: Path, record: str) -> None:
    (tree / ".ci/passed.json").write_text(record)
    commit(tree)
    assert run(tree, "plan")[0] == EVERYTHING


def test_nothing_is_recorded_of_what_is_not_committed(tree: Path) -> None:
    (tree / "web/app.ts").write_text("two\n")
    run(tree, "passed", "web", "bench")
    git(tree, "checkout", "--quiet", "web/app.ts")
    assert run(tree, "plan")[0] == EVERYTHING - {"bench"}


COLLECTING = """
import io, json, sys
from contextlib import redirect_stdout

import pytest

answers = []
for options in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as printed:
        status = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *options])
    assert status == 0, printed.getvalue()
    answers.append([line for line in printed.getvalue().splitlines() if "::" in line])
json.dump(answers, sys.stdout)
"""
TWO_FOLDERS = ["--override-ini", "testpaths=tests/deploy tests/insight"]
MODULE = "tests/deploy/test_chart.py"
COLLECTED = {
    "a sample": ["--sample", "one"],
    "another sample": ["--sample", "two"],
    "a quarter": ["--sample", "one", "--quarter=deploy"],
    "whole": ["--sample", "one", "--whole=web,deploy"],
    "a module": ["--sample", "one", f"--modules={MODULE}"],
    "named": ["--sample", "one", MODULE],
}


@pytest.fixture(scope="module")
def collected() -> dict[str, list[str]]:
    """Return the tests of two folders that pytest would run with each row's options, in their
    order.
    """
    rows = json.dumps([[*TWO_FOLDERS, *options] for options in COLLECTED.values()])
    ran = subprocess.run(
        [sys.executable, "-c", COLLECTING, rows],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return dict(zip(COLLECTED, json.loads(ran.stdout), strict=True))


def test_pytest_runs_the_contract_whole_and_of_the_rest_a_sample_in_an_order_of_the_seed(
    collected: dict[str, list[str]],
) -> None:
    everything, sampled = collected["whole"], collected["another sample"]
    contract = [test for test in everything if "tests/insight/" in test]
    assert set(contract) < set(sampled) < set(everything)
    assert len(sampled) == len(contract) + math.ceil((len(everything) - len(contract)) / 10)
    in_order = [test for test in sampled if test in contract]
    assert in_order != contract  # the order is the seed's


def test_of_a_harness_that_is_named_a_quarter_runs(collected: dict[str, list[str]]) -> None:
    tenth, quarter, whole = (
        {test for test in collected[row] if "tests/deploy/" in test}
        for row in ("a sample", "a quarter", "whole")
    )
    assert tenth < quarter < whole
    assert len(quarter) == math.ceil(len(whole) / 4)


def test_of_a_module_that_is_named_all_runs(collected: dict[str, list[str]]) -> None:
    sampled, named, every = (collected[row] for row in ("a sample", "a module", "whole"))
    assert {it for it in named if MODULE in it} == {it for it in every if MODULE in it}
    assert {it for it in named if MODULE not in it} <= {it for it in every if MODULE not in it}
    assert len(sampled) < len(named) < len(every)


def test_of_tests_that_are_named_no_sample_is_taken(collected: dict[str, list[str]]) -> None:
    assert len({test for test in collected["named"] if MODULE in test}) > 10


def test_harnesses_and_modules_that_passed_whole_are_named_beside_those_that_failed(
    tmp_path: Path,
) -> None:
    named, plugin = tmp_path / "passed", tmp_path / "failing.py"
    plugin.write_text(  # the rest passes unrun
        "def pytest_pyfunc_call(pyfuncitem):\n"
        "    assert 'test_compose' not in pyfuncitem.nodeid\n    return True\n"
    )
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "failing", "-n", "1",
            "--override-ini", "testpaths=tests/deploy tests/test_docs_site.py", "--sample", "one",
            "--whole", "deploy,docs,web", "--modules", f"{MODULE},tests/deploy/test_compose.py",
            "--passed", str(named),
        ],
        cwd=ROOT, check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert "seconds of each harness:" in ran.stdout
    assert named.read_text() == f"docs {MODULE}"
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED


def test_a_quick_look_is_at_the_tests_of_what_is_changed() -> None:
    files = [path for path, _ in tiers.committed_files()]
    for prefix, names in tiers.ALIASES.items():
        assert any(path.startswith(prefix) for path in files), prefix
        assert all((TESTS / name).exists() for name in names.split()), prefix
    expected = {
        "server/src/recollect_server/recall/fusion.py": "fusion server",
        "server/src/recollect_server/kernel/stream/log.py": "streaming",
        "server/src/recollect_server/admin/server.py": "administration",
        "server/src/recollect_server/contract/gate.py": "credentials",
        "server/src/recollect_server/contract/errors.py": "server",
        "packages/cli/src/recollect/cli/administration/spaces.py": "client_cli",
        "packages/adapters/src/recollect/adapters/clients.py": "adapters",
        "web/src/spaces/SpaceButton.tsx": "web",
        "tests/crash/checker.py": "crash",
        "tests/test_docs.py": "test_docs.py",
        "tests/conftest.py": "",
        "LICENSE": None,
    }
    for path, folders in expected.items():
        looked = [] if folders is None else [f"tests/{name}" for name in folders.split(" ")]
        assert tiers.folders_of([path]) == looked, path
    of_product = [
        path for path in files if path.startswith(("server/src/", "client/src/", "packages/"))
    ]
    assert [path for path in of_product if not tiers.folders_of([path])] == []
