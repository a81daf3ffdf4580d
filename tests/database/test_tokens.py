"""Tokens of servers whose logs are in PostgreSQL: in a table that every server and command
reads.
"""

import json
import shutil
from pathlib import Path

import pytest
from recollect import Client, Unauthenticated
from recollect_server.access.token_uses import KEPT_DAYS, CallCount, CallGroup, TokenUse
from recollect_server.kernel.domain.time import DAY, system_clock
from recollect_server.postgres.database import Session, T, Work
from recollect_server.postgres.tokens import PostgresTokenUses

from tests.conftest import MovableClock, Start
from tests.postgres import Postgres
from tests.server_cli.conftest import run
from tests.waiting import until


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Keep the log of servers out of what commands print."""


def listed(target: str, token: str | None) -> bool:
    """List conversations with a token or without one, and return whether that is allowed."""
    with Client(target, token=token, retry=None) as client:
        try:
            list(client.conversations.list())
        except Unauthenticated:
            return False
        return True


def test_a_command_about_tokens_is_no_server_of_the_database(
    postgres: Postgres, tmp_path: Path
) -> None:
    store = ("--store", postgres.new_database(), "--data-dir", tmp_path)
    numbers = "SELECT last_value, is_called FROM recollect.replicas_number_seq"
    created = run("token", "create", "--kind", "brain", *store)
    assert created.exit_code == 0, created.output
    before = postgres.execute(numbers, store[1])
    assert run("token", "list", *store).exit_code == 0
    assert postgres.execute(numbers, store[1]) == before


def test_a_token_made_beside_the_server_counts_at_once_and_a_revoked_one_within_a_second(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    server = start_server(store=url, auth="required")
    store = ("--store", url, "--data-dir", tmp_path / "of the command")
    created = run("token", "create", "--kind", "brain", *store)
    assert created.exit_code == 0, created.output
    token = created.stdout.strip()
    assert listed(server.target, token)
    assert not (server.data_dir / "tokens.jsonl").exists()
    with Client(server.target, token=token) as client:
        with pytest.raises(Exception, match="admin"):
            list(client.admin.list_tokens())
        admin = run("token", "create", "--kind", "admin", "--space", "*", *store).stdout.strip()
    with Client(server.target, token=admin) as client:
        made = client.admin.create_token("reader", spaces=["default"])
        assert listed(server.target, made.secret)
        assert len(list(client.admin.list_tokens())) == 3
    shown = run("token", "list", "--json", *store)
    assert [it["kind"] for it in json.loads(shown.stdout)] == ["brain", "admin", "reader"]
    assert token.split("_")[2] not in shown.stdout
    revoked = run("token", "revoke", token, *store)
    assert revoked.exit_code == 0, revoked.output
    until(lambda: not listed(server.target, token))
    server.stop()
    shutil.rmtree(server.data_dir)
    again = start_server(store=url)
    assert listed(again.target, admin)
    assert not listed(again.target, token)
    assert not listed(again.target, None)


def test_uses_of_a_token_at_two_servers_are_added_up_and_kept_in_the_database(
    postgres: Postgres, start_server: Start, tmp_path: Path, clock: MovableClock
) -> None:
    clock.move(system_clock() - clock())  # which the command reads
    url = postgres.new_database()
    store = ("--store", url, "--data-dir", tmp_path / "of the command")
    token = run("token", "create", "--kind", "brain", *store).stdout.strip()
    servers = [start_server(store=url, data_dir=tmp_path / name) for name in ("one", "two")]
    for server in (*servers, servers[0]):
        assert listed(server.target, token)
    for server in servers:
        server.stop()
    [use] = json.loads(run("token", "use", token, "--json", *store).stdout)
    assert (use["method"], use["calls"], use["refused"]) == ("ConversationService.List", 3, 0)
    assert not list(tmp_path.rglob("token-use.*"))
    clock.move(KEPT_DAYS * DAY)
    again = start_server(store=url, data_dir=tmp_path / "one")
    assert listed(again.target, token)
    again.stop()
    assert postgres.execute("SELECT day FROM recollect.token_uses", url) == [(clock() // DAY,)]


def test_a_batch_of_uses_that_is_repeated_counts_once(postgres: Postgres, tmp_path: Path) -> None:
    """As where the connection is lost before the answer comes."""
    url = postgres.new_database()
    run("token", "list", "--store", url, "--data-dir", tmp_path)  # makes the schema
    session = Session(url)

    class Repeating:
        def run(self, work: Work[T]) -> T:
            session.run(work)
            return session.run(work)

    group = CallGroup("a" * 12, "default", "ConversationService.List", "ipv4:192.0.2.7")
    uses = PostgresTokenUses(Repeating())
    for last in (9, 7):
        uses.add(1, {group: CallCount(2, 1, last)})
    assert list(uses.read(group.token_id, 1, 1)) == [TokenUse(1, group, CallCount(4, 2, 9))]
    assert list(uses.read(group.token_id, 2, 3)) == []
    session.close()


def test_a_token_that_a_standby_never_got_is_worth_nothing_and_one_revoked_there_must_be_again(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    targets = [
        start_server(store=url, auth="required", data_dir=tmp_path / name).target for name in "ab"
    ]
    store = ("--store", url, "--data-dir", tmp_path / "of the command")

    def create() -> str:
        return run("token", "create", "--kind", "brain", *store).stdout.strip()

    first, revoked = create(), create()
    ((last,),) = postgres.execute("SELECT max(line) FROM recollect.tokens", url)
    assert run("token", "revoke", revoked, *store).exit_code == 0
    lost = create()
    for target in targets:
        until(lambda target=target: listed(target, lost) and not listed(target, revoked))  # type: ignore[misc]
    postgres.execute(  # as a standby that has no later line
        f"DELETE FROM recollect.tokens WHERE line > {last};"  # noqa: S608 - a number
        "UPDATE recollect.timelines SET place = 'of the primary'; SELECT recollect.enter()",
        url,
    )
    after = create()
    for target in targets:
        until(lambda target=target: not listed(target, lost))  # type: ignore[misc]
        assert listed(target, first)
        assert listed(target, revoked)
        assert listed(target, after)


def test_nobody_administers_without_a_token_from_the_first_one_on(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    with Client(server.target, retry=None) as client:
        assert list(client.admin.list_tokens()) == []
        store = ("--store", url, "--data-dir", tmp_path / "of the command")
        assert run("token", "create", "--kind", "brain", *store).exit_code == 0
        with pytest.raises(Unauthenticated):  # no look at the ledger has passed since
            list(client.admin.list_tokens())


def test_tokens_of_the_data_folder_are_taken_over_once(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    data_dir = tmp_path / "data"
    folder = run("token", "create", "--kind", "brain", "--data-dir", data_dir).stdout.strip()
    server = start_server(store=url)
    assert listed(server.target, folder)
    assert run("token", "revoke", folder, "--store", url).exit_code == 0
    server.stop()
    server = start_server(store=url)
    assert not listed(server.target, folder)


def test_a_database_that_is_away_leaves_the_tokens_as_they_are(
    postgres: Postgres, start_server: Start
) -> None:
    url = postgres.new_database()
    token = run("token", "create", "--kind", "brain", "--store", url).stdout.strip()
    server = start_server(store=url)
    postgres.kill()
    try:
        assert listed(server.target, token)
        assert not listed(server.target, token[:-1] + ("0" if token[-1] != "0" else "1"))
        refused = run("token", "create", "--kind", "brain", "--store", url)
        assert refused.exit_code == 1
        assert refused.stderr.startswith(f"Error: cannot use the database {url}: PostgreSQL: ")
    finally:
        postgres.start()
