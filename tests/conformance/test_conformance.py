"""Promises of the contract as cases that a client in any language can run: here with the Python
client's generated code.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests import with_token
from tests.cases import each
from tests.conformance.runner import FOLDER, Case, Differs, cases, run
from tests.spread import Spread, channel_to

# with tokens on no caller is without one
EVERY = [case for case in cases(FOLDER) if not (with_token.ON and case.file == "access")]
OF_ONE_SERVER = {
    "a space is verified while it is served, and the newest verification is told",
    "a conversation is hot once a context was built for it, and its moves come in pages",
}
"""Cases about what each server has for itself (docs/guides/postgresql.md)."""
WRONG = cases(FOLDER / "wrong")


@pytest.fixture(scope="module", params=["folder", "postgres", "two servers"])
def channel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[grpc.Channel]:
    """Connect to one server over each log store for all cases, and to two, which get each call in
    turn, with PgBouncer before their database where it is installed: none sees another's data.
    """
    store = "folder"
    if request.param != "folder":
        store = request.getfixturevalue("postgres").new_database()
    if request.param == "two servers":
        with suppress(pytest.skip.Exception):  # there is no PgBouncer
            store = request.getfixturevalue("pooler").url(store)
    servers = [
        app.start(
            Settings.load(
                None,
                {
                    "listen": "127.0.0.1:0",
                    "data_dir": tmp_path_factory.mktemp("data"),
                    "shutdown_grace": "2s",
                    "store": store,
                },
            )
        )
        for _ in range(2 if request.param == "two servers" else 1)
    ]
    connected = channel_to(",".join(it.address for it in servers))
    yield connected
    connected.close()
    for server in servers:
        server.stop()


@pytest.mark.parametrize("case", EVERY, ids=lambda case: f"{case.file}: {case.name}")
def test_the_server_answers_as_the_case_says(case: Case, channel: Any) -> None:
    if isinstance(channel, Spread) and case.name in OF_ONE_SERVER:
        channel = channel.first
    assert run(case, channel) > 0


@pytest.mark.parametrize("channel", ["folder"], indirect=True)  # the runner is what is tried
@each("case", WRONG)
def test_a_wrong_case_fails_where_it_is_wrong(case: Case, channel: grpc.Channel) -> None:
    with pytest.raises(Differs) as raised:
        run(case, channel)
    assert (raised.value.step, raised.value.field) == (len(case.steps), case.fails)


def test_no_two_cases_of_a_file_have_one_name() -> None:
    names = [(case.file, case.name) for case in [*EVERY, *WRONG]]
    assert len(set(names)) == len(names)
