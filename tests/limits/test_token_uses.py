"""The use of tokens: what is counted, how long it is kept, and who sees it."""

import json
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from recollect import Client, InvalidArgument, NotFound
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2
from recollect_server.access.audit import Audit
from recollect_server.access.audit_file import AuditLog
from recollect_server.access.limits import Allowances, Limiter
from recollect_server.access.principal import EVERY_SPACE, Principal
from recollect_server.access.token_uses import (
    KEPT_DAYS,
    MAX_GROUPS,
    OTHERS,
    CallCount,
    CallGroup,
    TokenUseFiles,
    TokenUses,
)
from recollect_server.access.usage_file import UsageFile
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.domain.time import DAY, system_clock, to_text
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.run.administration import keep_books

from tests.conftest import MovableClock
from tests.credentials.conftest import Caller, grant
from tests.limits.conftest import Limited
from tests.server.conftest import failure_of
from tests.server_cli.conftest import run
from tests.waiting import until

CREATE, LIST, DELETE = (f"ConversationService.{it}" for it in ("Create", "List", "Delete"))
WORDS = "a zebra in the garden"
TODAY = "2026-09-21"  # by the clock of the tests

Start = Callable[..., Limited]


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Keep logs out of the output of commands."""


class Uses:
    """The use of a server's tokens, as an administrator of every space sees it."""

    def __init__(self, server: Limited) -> None:
        text = server.tokens.create(grant("admin", EVERY_SPACE))[1]
        self._server = server
        self.client = Client(server.server.target, token=text)

    def __call__(self, caller: Caller, **fields: Any) -> list[tuple[object, ...]]:
        """Return the use of a caller's token: day, method, space, calls and refused calls."""
        uses = list(self.client.admin.list_token_uses(self._server.ids[caller], **fields))
        hosts = {it.peer for it in uses}
        assert hosts <= {"ipv4:127.0.0.1"}  # whatever loopback address was called
        return [(it.day, it.method, it.space, it.calls, it.refused_calls) for it in uses]


@pytest.fixture
def uses_of() -> Iterator[Callable[[Limited], Uses]]:
    """Return a function that connects an administrator to a server."""
    made: list[Uses] = []

    def connect(server: Limited) -> Uses:
        made.append(Uses(server))
        return made[-1]

    yield connect
    for each in made:
        each.client.close()


def test_calls_are_counted_by_method_and_space_and_refused_ones_apart(
    limited: Start, uses_of: Callable[[Limited], Uses], clock: MovableClock
) -> None:
    server = limited(token_calls=1000)
    reader = server.caller("reader", "default", "alex")
    for space in ("default", "alex", "alex"):
        reader.call(LIST, None, ("recollect-space", space))
    assert reader.outcome(DELETE) == "PERMISSION_DENIED"
    assert reader.outcome(LIST, None, ("recollect-space", "beth")) == "PERMISSION_DENIED"
    assert reader.outcome("ConversationService.Get") == "INVALID_FIELD"  # it was let in
    uses = uses_of(server)
    expected = [
        (TODAY, DELETE, "", 0, 1),
        (TODAY, LIST, "", 0, 1),
        (TODAY, LIST, "alex", 2, 0),
        (TODAY, "ConversationService.Get", "default", 1, 0),
        (TODAY, LIST, "default", 1, 0),
    ]
    assert uses(reader) == expected
    [first, *_] = uses.client.admin.list_token_uses(server.ids[reader])
    assert first.last_call_time.timestamp() * 1000 == clock()
    assert uses(server.caller()) == []


def test_calls_over_a_limit_and_with_an_ended_token_count_as_refused(
    limited: Start, uses_of: Callable[[Limited], Uses]
) -> None:
    server = limited()
    slow, former = server.caller(limits={"calls": 1}), server.caller()
    assert [slow.outcome(LIST) for _ in range(3)] == ["OK", *2 * ["LIMIT_EXCEEDED"]]
    assert former.outcome(LIST) == "OK"
    uses = uses_of(server)
    uses.client.admin.revoke_token(server.ids[former])
    assert former.outcome(LIST) == "UNAUTHENTICATED"
    assert uses(slow) == [(TODAY, LIST, "default", 1, 2)]
    assert uses(former) == [(TODAY, LIST, "", 0, 1), (TODAY, LIST, "default", 1, 0)]


def test_streams_and_reflection_are_counted(
    limited: Start, uses_of: Callable[[Limited], Uses]
) -> None:
    server = limited()
    agent = server.caller()
    agent.call("ConversationService.StreamUpdates")
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(agent.channel)
    requests = iter([reflection_pb2.ServerReflectionRequest(list_services="*")])
    list(stub.ServerReflectionInfo(requests, metadata=agent.metadata, timeout=30))
    assert [(it[1], it[3]) for it in uses_of(server)(agent)] == [
        ("ConversationService.StreamUpdates", 1),
        ("ServerReflection.ServerReflectionInfo", 1),
    ]


def test_counts_survive_a_stop_and_days_are_apart(
    limited: Start, uses_of: Callable[[Limited], Uses], clock: MovableClock
) -> None:
    first = limited()
    agent = first.caller()
    agent.call(CREATE, api.CreateRequest(channel="web"))
    clock.move(DAY)
    agent.call(LIST)
    first.server.stop()
    again = limited()
    again.ids = first.ids
    later = again.stranger(agent.metadata[0][1].removeprefix("Bearer "))
    again.ids[later] = first.ids[agent]
    later.call(LIST)
    uses = uses_of(again)
    one, other = ("2026-09-22", LIST, "default", 2, 0), (TODAY, CREATE, "default", 1, 0)
    assert uses(later) == [one, other]
    page = uses.client.admin.list_token_uses_page(first.ids[agent], page_size=1)
    rest = uses.client.admin.list_token_uses_page(
        first.ids[agent], page_size=1, page_token=page.next_page_token
    )
    assert [it.method for it in (*page, *rest)] == [LIST, CREATE]
    assert rest.next_page_token == ""
    assert uses(later, start_time=_moment(clock())) == [one]
    assert uses(later, end_time=_moment(clock() // DAY * DAY)) == [other]
    with pytest.raises(InvalidArgument, match="end_time: "):
        uses(later, start_time=_moment(clock()), end_time=_moment(clock()))
    clock.move((KEPT_DAYS - 1) * DAY)
    assert uses(later) == [one]
    files = sorted(it.name for it in again.server.data_dir.glob("token-use.*"))
    assert files[0] == "token-use.2026-09-22.jsonl"


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_the_bookkeeper_writes_counts_while_the_server_runs(
    tmp_path: Path, clock: MovableClock
) -> None:
    uses = TokenUses(TokenUseFiles(tmp_path), clock)
    limiter = Limiter(clock, Holder(Allowances()), lambda _: {}, UsageFile(tmp_path))
    audit = Audit(AuditLog(tmp_path, 1000, 1), clock)
    stops: list[Callable[[], None]] = []
    loop = keep_books(limiter, audit, uses, clock, stops)
    uses.count(Principal("a" * 12), LIST, is_refused=False)
    loop.wake()
    until(lambda: any(tmp_path.glob("token-use.*")))
    for stop in reversed(stops):
        stop()
    [use] = uses.read("a" * 12, 0, clock() + 1)
    assert use.count.admitted == 1


def test_no_text_of_a_call_is_kept_and_only_the_owner_reads_the_files(limited: Start) -> None:
    server = limited()
    agent = server.caller()
    agent.call("RecallService.Search", recall_service_pb2.SearchRequest(query=WORDS))
    assert agent.outcome(CREATE, api.CreateRequest(channel=WORDS)) == "INVALID_FIELD"
    server.server.stop()
    [file] = server.server.data_dir.glob("token-use.*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert server.ids[agent] in text
    assert not any(word in text for word in WORDS.split() if len(word) > 2)


def test_an_administrator_of_a_space_sees_the_tokens_of_that_space_alone(limited: Start) -> None:
    server = limited()
    mine, foreign = server.caller("reader", "alex"), server.caller("reader", "alex", "beth")
    mine.call(LIST)
    text = server.tokens.create(grant("admin", "alex"))[1]
    with Client(server.server.target, token=text) as client:
        assert [it.calls for it in client.admin.list_token_uses(server.ids[mine])] == [1]
        for each in (server.ids[foreign], "0" * 12):
            with pytest.raises(NotFound, match=f"there is no token {each}"):
                list(client.admin.list_token_uses(each))


def test_the_commands_show_the_use_of_a_token_by_its_id_or_by_itself(
    tmp_path: Path, clock: MovableClock
) -> None:
    data = ("--data-dir", tmp_path)
    secret = run("token", "create", "--kind", "reader", *data).stdout.strip()
    token = secret.split("_")[1]
    unused = run("token", "use", token, *data)
    assert (unused.stdout, unused.stderr) == ("", "0 calls let in and 0 refused.\n")
    uses, peer = TokenUses(TokenUseFiles(tmp_path), system_clock), "ipv4:192.0.2.7"
    for is_refused in (False, False, True):
        uses.count(Principal(token, peer=f"{peer}:501"), LIST, is_refused=is_refused)
    uses.save()
    shown = run("token", "use", secret, "--since", "1d", *data)
    today = to_text(system_clock())[:10]
    assert shown.stdout.startswith(
        f"day={today} method={LIST} space=default peer={peer} calls=2 refused=1 last={today}T"
    )
    assert shown.stderr.startswith(f"2 calls let in and 1 refused, the last at {today}T")
    [entry] = json.loads(run("token", "use", token, "--json", *data).stdout)
    assert (entry["calls"], entry["refused"], entry["peer"]) == (2, 1, peer)
    wrong = run("token", "use", token, "--since", "100000d", *data)
    assert (wrong.exit_code, "since: is not a time" in wrong.stderr) == (1, True)
    assert "there is no token" in run("token", "use", "0" * 12, *data).stderr


def test_a_damaged_line_costs_one_line_and_no_call(tmp_path: Path, clock: MovableClock) -> None:
    store, principal = TokenUseFiles(tmp_path), Principal("a" * 12)
    uses = TokenUses(store, clock)
    for method in (LIST, CREATE):
        uses.count(principal, method, is_refused=False)
    uses.save()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"Create", b"Crxate"))
    uses.count(principal, LIST, is_refused=False)
    [left] = uses.read(principal.token_id, 0, clock() + 1)
    assert (left.group.method, left.count.admitted) == (LIST, 2)


def test_counts_that_a_disk_refuses_are_added_once_it_takes_them(
    tmp_path: Path, clock: MovableClock
) -> None:
    class Refusing(TokenUseFiles):
        is_full = True

        def add(self, day: int, counts: Any) -> None:
            if self.is_full:
                raise LogUnavailable("token-use", "written", "no space left on device")
            super().add(day, counts)

    store = Refusing(tmp_path)
    uses, principal = TokenUses(store, clock), Principal("a" * 12)
    for _ in range(2):
        uses.count(principal, LIST, is_refused=False)
        uses.save()
    with pytest.raises(LogUnavailable, match="the use of tokens cannot be written"):
        uses.read(principal.token_id, 0, clock() + 1)
    store.is_full = False
    [use] = uses.read(principal.token_id, 0, clock() + 1)
    assert use.count == CallCount(2, 0, clock())


def test_invented_addresses_fill_neither_disk_nor_memory(
    tmp_path: Path, clock: MovableClock
) -> None:
    uses = TokenUses(TokenUseFiles(tmp_path), clock)
    for number in range(3 * MAX_GROUPS):
        peer = f"ipv6:[2001:db8::{number:x}]:1"
        uses.count(Principal("a" * 12, peer=peer), LIST, is_refused=False)
        if number % 700 == 0:
            uses.save()  # what was written counts too
    entries = uses.read("a" * 12, 0, clock() + 1)
    assert len(entries) == MAX_GROUPS + 1
    [others] = [it for it in entries if it.group.peer == OTHERS]
    assert others.group == CallGroup("a" * 12, "", LIST, OTHERS)
    assert others.count.admitted == 2 * MAX_GROUPS
    uses.count(Principal("b" * 12), LIST, is_refused=False)  # another token has its own
    [other] = uses.read("b" * 12, 0, clock() + 1)
    assert other.group.space == "default"


def test_callers_without_a_token_are_not_counted(limited: Start) -> None:
    server = limited()
    stranger = server.stranger()
    assert failure_of(lambda: stranger.call(LIST)).code == "UNAUTHENTICATED"
    server.server.stop()
    assert not list(server.server.data_dir.glob("token-use.*"))
