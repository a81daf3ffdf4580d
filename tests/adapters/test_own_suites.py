"""The tests that libraries have of their own stores and sessions, with Recollect's in their place.

`.ci/suites` fetches them. What fails is listed with its reason, here and in the guides: it looks
inside of the library's own store.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import LONG, RunningServer

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / "build" / "suites"


@dataclass
class Suite:
    """Tests of a library."""

    library: str
    files: list[str]
    least: int
    """Number of tests that pass, at least."""
    inside: dict[str, str] = field(default_factory=dict)
    """Names of tests that fail, and why: all of their parameters."""
    is_long: bool = False


SUITES = [
    Suite("langgraph-checkpoint", ["tests/test_store.py"], least=117),
    Suite(
        "langgraph-checkpoint-sqlite",
        ["tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"],
        least=137,
        inside={
            "test_vector_store_initialization": "looks into the tables of the database",
            "test_nonnull_migrations": "reads the migrations of the schema",
            "test_escape_glob_literal": "calls a function that writes SQL",
            "test_namespace_match_pattern": "calls a function that writes SQL",
            "test_list_namespaces_prefix_uses_indexable_condition": "reads the plan of a query",
            "test_embed_with_path": "`text_fields`, where LangGraph's `IndexConfig` has `fields`",
            "test_sql_injection_vulnerability": "refuses names that no path of SQLite has",
            "test_filter_keys_with_hyphens_and_digits": "a filter's name is a path of SQLite",
            "test_no_running_loop": "forbids blocking calls in the thread of an event loop",
            "test_ttl_override_default": "a read prolongs nothing unless the store is told so",
            "test_ttl_sweeper": "starts a thread that sweeps: `sweep_ttl` is for a timer to call",
            "test_async_ttl_sweeper": "the same, asynchronously",
        },
        is_long=True,
    ),
]


@pytest.mark.parametrize("suite", SUITES, ids=lambda it: it.library)
def test_the_tests_of_a_library_pass_but_for_its_own_inside(
    suite: Suite, server: RunningServer, tmp_path: Path
) -> None:
    folder = next(FETCHED.glob(f"{suite.library}==*"), None)
    if folder is None:
        pytest.skip(f"the tests of {suite.library} are not here: .ci/suites fetches them")
    if suite.is_long and not LONG:
        pytest.skip("runs for a minute: make hostile runs it, or HOSTILE_SCALE=1 make test")
    report = tmp_path / "report.xml"
    environment = {
        "RECOLLECT_SUITE": suite.library,
        "RECOLLECT_TARGET": server.target,
        "PYTHONPATH": str(Path(__file__).parent / "suites"),
        "OPENAI_API_KEY": "none",
    }
    options = [
        "--rootdir=.", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "instead_of_theirs",
        "-o", "asyncio_mode=auto", "-W", "ignore", "-q", f"--junitxml={report}",
    ]  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *suite.files],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), run.stdout + run.stderr
    failed: set[str] = set()
    passed = 0
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - of pytest
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(case.get("name", "").partition("[")[0])
        elif case.find("skipped") is None:
            passed += 1
    assert failed == set(suite.inside), run.stdout[-20_000:]
    assert passed >= suite.least
    assert len(list(server.data_dir.rglob("*.jsonl"))) > 10, "they ran without Recollect"
