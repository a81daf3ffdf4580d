"""A server of an earlier version and one of this version over one database: the newer one extends
the schema, and both go on.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.crash.load import connected
from tests.postgres import Postgres
from tests.server.conftest import agent, user
from tests.upgrade.conftest import Sources

EARLIER = "7497e2d87c27"
"""The last commit whose servers know six steps of the schema."""
_FUNCTIONS = (
    "SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace"
    " WHERE nspname = 'recollect' ORDER BY proname"
)
_START = "import sys; from recollect_server.__main__ import main; sys.exit(main())"


@contextmanager
def served(sources: Path, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a server of these sources."""
    path = os.pathsep.join(str(sources / name / "src") for name in ("server", "client"))
    with subprocess.Popen(
        [sys.executable, "-c", _START, "serve", "--listen", "127.0.0.1:0", *flags],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.timeout(180)
def test_a_server_of_the_version_before_goes_on_beside_one_that_extends_the_schema(
    postgres: Postgres, sources_of: Sources, start_server: Start, tmp_path: Path
) -> None:
    earlier = sources_of(EARLIER)
    postgres.execute("CREATE DATABASE side_by_side TEMPLATE template0")
    url = postgres.url("side_by_side")
    flags = ("--store", url, "--data-dir")
    with served(earlier, *flags, str(tmp_path / "old")) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "listens on" in line, process.stderr and process.stderr.read()
        with connected(line.split()[3]) as old, ExitStack() as beside:
            before = old.conversation_of("zebra")
            assert postgres.execute("SELECT max(version) FROM recollect.schema_version", url) == [
                (6,)
            ]
            server = start_server(store=url, data_dir=tmp_path / "new")
            new = beside.enter_context(connected(server.target))
            assert new.found("zebra") == [before]
            after = new.conversation_of("butter")
            for number, (one, other) in enumerate([(old, new), (new, old)] * 5):
                one.append(before, user(f"q{number}"), agent("a"), request_id=f"r{number}")
                assert other.append(
                    before, user(f"q{number}"), agent("a"), request_id=f"r{number}"
                ).duplicate
            texts = ["zebra", *(text for number in range(10) for text in (f"q{number}", "a"))]
            for service in (old, new):
                loaded = service.load(before, max_turns=100, max_tokens=1 << 20).messages
                assert [it.content for it in loaded] == texts
                assert service.found("butter") == [after]
            old.rename(after, "By the old one")
            assert new.get(after).title == "By the old one"
            third = new.conversation_of("apricot")
            assert old.found("apricot") == [third]
            old.delete(third)
            assert new.found("apricot") == []
            fresh = postgres.new_database()
            assert postgres.execute(_FUNCTIONS, url) == postgres.execute(_FUNCTIONS, fresh)
    with served(earlier, *flags, str(tmp_path / "again")) as process:
        _, problem = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "of the schema, and this server knows 6: run the newer server" in problem
    assert problem.count("\n") == 1
