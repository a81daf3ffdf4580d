"""The tests that libraries have of their own stores and sessions, with Recollect's in their place.

`.ci/suites` fetches them, and `.ci/toolkits` has the environment of some. What fails is listed with
its reason, here and in the guides: it looks inside of the library's own store.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest
from recollect_server.kernel.domain.time import system_clock

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
    missing: re.Pattern[str] | None = None
    """Matches errors of tests that look for what only the library's own class has."""
    is_long: bool = False
    package: str = ""
    """A package that it needs and that not every environment has."""


CONNECTIONS = "looks at the connections and locks of the database"
TABLES = "writes into the tables, or makes triggers for them"
LOOP = "counts turns of the event loop, in which only a store in memory is done"
SESSION_FILES = "looks at the files of a session, or copies them"
TIMES = "sets times of sessions inside of the store"
WRONG_KEY = "needs `_pop_item_with_validation`, private to the SDK's session over SQLite"

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
    Suite(
        "openai-agents",
        ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"],
        least=53,
        inside={
            "test_sqlite_session_close_closes_worker_thread_connections": CONNECTIONS,
            "test_sqlite_session_reaps_connections_from_exited_worker_threads": CONNECTIONS,
            "test_sqlite_session_closes_retired_connections_before_the_next_allocation": CONNECTIONS,
            "test_sqlite_session_keeps_connections_of_live_worker_threads": CONNECTIONS,
            "test_sqlite_session_closed_rejects_empty_add_items": "a session has nothing to close",
            "test_sqlite_session_pop_item_skips_corrupt_most_recent": TABLES,
            "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": TABLES,
            "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": TABLES,
            "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": TABLES,
            "test_sqlite_session_file_lock_is_shared_across_instances": CONNECTIONS,
            "test_sqlite_session_failed_add_items_releases_write_lock": TABLES,
            "test_sqlite_session_failed_clear_session_rolls_back": TABLES,
            "test_sqlite_session_failed_pop_item_releases_write_lock": TABLES,
            "test_sqlite_session_rollback_failure_evicts_connection": CONNECTIONS,
            "test_sqlite_session_close_retries_quarantined_connection": CONNECTIONS,
            "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": CONNECTIONS,
        },
    ),
    Suite(
        "openai-agents",
        [
            "tests/memory/test_compaction_model_visibility.py",
            "tests/memory/test_compaction_suffix.py",
            "tests/memory/test_openai_responses_compaction_session.py",
            "tests/memory/test_session_context_wrapper.py",
            "tests/memory/test_session_persistence_sanitize.py",
            "tests/extensions/memory/test_encrypt_session.py",
            "tests/deferred_session_writes",
            "tests/test_hitl_session_scenario.py",
        ],
        least=460,
        inside={
            "test_suffix_transaction_rolls_back_failed_insert": TABLES,
            "test_failed_encrypted_suffix_transaction_preserves_original_tokens": TABLES,
            "test_cancelled_suffix_transaction_settles_before_newer_append": (
                "holds up `_insert_items`, private to the SDK's sessions over SQLite"
            ),
            "test_settled_pop_failure_invalidates_response_chain": CONNECTIONS,
            "test_settled_clear_failure_invalidates_response_chain": CONNECTIONS,
            "test_encrypted_pop_wrong_key_preserves_recoverable_history": WRONG_KEY,
            "test_encrypted_pop_rechecks_authentication_after_expired_tail": WRONG_KEY,
            "test_encrypted_pop_authentication_is_atomic_with_concurrent_mutations": WRONG_KEY,
            "test_encrypted_pop_wrong_key_preserves_row_identity": WRONG_KEY,
            "test_encrypted_pop_cancellation_waits_for_authentication_rollback": WRONG_KEY,
            "test_encrypted_session_scan_budget_rejects_negative_limit_before_read": (
                "SQLite takes a negative limit for none; here it asks for nothing"
            ),
            "test_encrypted_pop_preserves_sqlalchemy_history": CONNECTIONS,
        },
        is_long=True,
    ),
    Suite(
        "openai-agents",
        [
            "tests/extensions/memory/test_sqlalchemy_session.py",
            "tests/extensions/memory/test_redis_session.py",
        ],
        least=41,
        inside={
            "test_sqlite_fallback_reserves_writer_before_tail_claim": CONNECTIONS,
            "test_add_items_concurrent_first_access_across_from_url_sessions_cross_loop": CONNECTIONS,
            "test_engine_property_is_read_only": CONNECTIONS,
            "test_add_items_rejects_unrepresentable_ttl_before_writing": "items of Redis expire",
        },
        missing=re.compile(
            "has no attribute|No module named 'redis|cannot import name|Redis\\(\\) takes"
        ),
        is_long=True,
    ),
    Suite(
        "claude-agent-sdk",
        [
            "tests/test_session_helpers_store.py",
            "tests/test_session_import.py",
            "tests/test_session_resume.py",
            "tests/test_session_store_anyio.py",
            "tests/test_session_store_conformance.py",
            "tests/test_session_summary.py",
            "tests/test_transcript_mirror.py",
        ],
        least=356,
        inside={
            "test_load_concurrency_is_bounded": LOOP,
            "test_gap_fill_bounded_concurrency": LOOP,
            "test_cancelled_after_mkdtemp_cleans_temp_dir": LOOP,
            "test_eager_flush_mode_appends_per_frame_before_result": LOOP,
            "test_continue_picks_most_recent": TIMES,
            "test_continue_skips_sidechain_sessions": TIMES,
            "test_continue_tie_break_is_deterministic": TIMES,
        },
        package="claude_agent_sdk",
    ),
    Suite(
        "strands-agents",
        [
            "tests/strands/session/test_file_session_manager.py",
            "tests/strands/session/test_repository_session_manager.py",
        ],
        least=70,
        inside={
            "test_create_session": SESSION_FILES,
            "test_delete_session": SESSION_FILES,
            "test_create_agent": SESSION_FILES,
            "test_create_message": SESSION_FILES,
            "test_message_durable_id_persists": SESSION_FILES,
            "test_corrupted_json_file": SESSION_FILES,
            "test__get_session_path_invalid_session_id": SESSION_FILES,
            "test__get_agent_path_invalid_agent_id": SESSION_FILES,
            "test__get_message_path_invalid_message_id": SESSION_FILES,
            "test_create_multi_agent": SESSION_FILES,
            "test_create_session_multi_agent_directory_structure": SESSION_FILES,
            "test_delete_nonexistent_session": "a session may be deleted twice, as a conversation",
            "test_permission_error_handling": "two programs may create one session at once",
        },
        package="strands",
    ),
    Suite(
        "strands-agents",
        [
            "tests/strands/agent/test_agent.py",
            "tests/strands/agent/test_agent_as_tool.py",
            "tests/strands/agent/test_agent_delegation.py",
            "tests/strands/multiagent/test_swarm.py",
            "tests/strands/test_tracking_id_history_invariant.py",
        ],
        least=338,
        inside={
            "test_baggage_attributes_stamped_on_agent_span": "a package is not here",
            "test_swarm_crash_restart_handoff_via_file_session_on_disk": SESSION_FILES,
            "test_swarm_crash_restart_uncommitted_interrupt_resume_reruns_source_on_disk": (
                SESSION_FILES
            ),
        },
        is_long=True,
        package="strands",
    ),
]


@pytest.mark.timeout(900 if LONG else 600)  # behind others in priority
@pytest.mark.parametrize(
    "suite", SUITES, ids=lambda it: f"{it.library}{', long' if it.is_long else ''}"
)
def test_the_tests_of_a_library_pass_but_for_its_own_inside(
    suite: Suite, server: RunningServer, tmp_path: Path
) -> None:
    folder = next(FETCHED.glob(f"{suite.library}==*"), None)
    if folder is None:
        pytest.skip(f"the tests of {suite.library} are not here: .ci/suites fetches them")
    if suite.package:
        pytest.importorskip(suite.package, reason="runs with .ci/toolkits")
        server.clock.now = system_clock()  # entries bear the time of their writing
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
        error = case.find("failure") if case.find("error") is None else case.find("error")
        if error is not None:
            if not suite.missing or not suite.missing.search(error.get("message", "")):
                failed.add(case.get("name", "").partition("[")[0])
        elif (skipped := case.find("skipped")) is None:
            passed += 1
        elif "could not import" in str(skipped.get("message")):
            failed.add(case.get("name", "").partition("[")[0])  # a package is not here
    assert failed == set(suite.inside), run.stdout[-20_000:]
    assert passed >= suite.least
    assert len(list(server.data_dir.rglob("*.jsonl"))) > 10, "they ran without Recollect"
