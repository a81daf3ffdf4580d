"""Promises of the contract as cases that a client in any language can run: here with the Python
client's generated code.
"""

from collections.abc import Iterator

import grpc
import pytest
from recollect_server import app
from recollect_server.settings import Settings

from tests import with_token
from tests.conformance.runner import FOLDER, Case, Differs, cases, run

# with tokens on no caller is without one
EVERY = [case for case in cases(FOLDER) if not (with_token.ON and case.file == "access")]
WRONG = cases(FOLDER / "wrong")


@pytest.fixture(scope="module", params=["folder", "postgres", "pgbouncer"])
def channel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[grpc.Channel]:
    """Connect to one server over each log store for all cases: none sees another's data."""
    store = "folder"
    if request.param != "folder":
        store = request.getfixturevalue("postgres").new_database()
    if request.param == "pgbouncer":
        store = request.getfixturevalue("pooler").url(store)
    settings = Settings.load(
        None,
        {
            "listen": "127.0.0.1:0",
            "data_dir": tmp_path_factory.mktemp("data"),
            "shutdown_grace": "2s",
            "store": store,
        },
    )
    server = app.start(settings)
    with grpc.insecure_channel(server.address) as connected:
        yield connected
    server.stop()


@pytest.mark.parametrize("case", EVERY, ids=lambda case: f"{case.file}: {case.name}")
def test_the_server_answers_as_the_case_says(case: Case, channel: grpc.Channel) -> None:
    run(case, channel)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_wrong_case_fails_where_it_is_wrong(case: Case, channel: grpc.Channel) -> None:
    with pytest.raises(Differs) as raised:
        run(case, channel)
    assert (raised.value.step, raised.value.field) == (len(case.steps), case.fails)


def test_no_two_cases_of_a_file_have_one_name() -> None:
    names = [(case.file, case.name) for case in [*EVERY, *WRONG]]
    assert len(set(names)) == len(names)
