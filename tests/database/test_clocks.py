"""Two servers over one database whose clocks are an hour apart."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recollect import Client

from tests.conftest import Start
from tests.crash.load import connected
from tests.postgres import Postgres
from tests.server.conftest import Connect, agent, user
from tests.streaming.conftest import Subscriber
from tests.waiting import until

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
HOUR = 3600
# half an hour more than the clocks are apart
RULE = ("--retention", "delete idle=90m", "--retention-grace", "0s")
LEASE = (
    "SELECT extract(epoch FROM until - now()), fence FROM recollect.leases"
    " WHERE purpose = 'retention'"
)


@pytest.mark.timeout(330)
@pytest.mark.skipif(not LIBRARIES, reason="there is no libfaketime: apt-get install faketime")
def test_servers_whose_clocks_are_an_hour_apart_agree_on_order_and_lose_nothing(
    postgres: Postgres, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)  # whose clock stands still, months ago
    old = [connect(server).conversation_of(f"old {number}") for number in range(3)]
    server.stop()
    environment = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": "+1h",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
    with (
        subprocess.Popen(
            [
                *(sys.executable, "-m", "recollect_server", "serve", "--listen", "127.0.0.1:0"),
                *("--store", url, "--data-dir", str(tmp_path / "ahead"), *RULE),
            ],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
        subprocess.Popen(
            [
                *(sys.executable, "-m", "recollect_server", "serve", "--listen", "127.0.0.1:0"),
                *("--store", url, "--data-dir", str(tmp_path / "right"), *RULE),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as beside,
    ):
        try:
            targets = []
            for it in (process, beside):
                assert it.stdout is not None
                targets.append(it.stdout.readline().split()[3])
            with connected(targets[0]) as ahead, connected(targets[1]) as right:
                watchers = [Subscriber(target).ready() for target in targets]
                name = ahead.create().id
                for number in range(10):
                    one, other = (ahead, right) if number % 2 else (right, ahead)
                    one.append(name, user(f"q{number}"), agent("a"), request_id=f"r{number}")
                    assert other.append(
                        name, user(f"q{number}"), agent("a"), request_id=f"r{number}"
                    ).duplicate
                later = right.conversation_of("zebra")
                texts = [text for number in range(10) for text in (f"q{number}", "a")]
                for service in (ahead, right):
                    messages = service.load(name, max_turns=99, max_tokens=1 << 20).messages
                    assert [it.content for it in messages] == texts
                    assert [it.turn_number for it in messages] == [n // 2 + 1 for n in range(20)]
                    times = [it.timestamp.ToMilliseconds() for it in messages]
                    # Dates are those of the server that stored a message; the order is not by them.
                    hours = [round((at - min(times)) / 1000 / HOUR) for at in times]
                    assert hours == [n // 2 % 2 for n in range(20)]
                    assert service.found("zebra") == [later]
                for watcher in watchers:
                    watcher.until(lambda watcher=watcher: "zebra" in watcher.messages())  # type: ignore[misc]
                    assert watcher.messages() == [*texts, "zebra"]
                    watcher.close()
                assert ahead.create().id[5:15] > right.create().id[5:15]  # an hour, in their ids
                # One of them carries out the rule, by a lease of PostgreSQL's clock.
                # A conversation that was just changed is looked at again after a minute, and the
                # other server's lease may have to end first, a minute too.
                until(lambda: not {it.id for it in right.pages()[0]} & set(old))
                ((seconds, fence),) = postgres.execute(LEASE, url)
                assert (0 < float(str(seconds)) <= 60, fence) == (True, 1)
                receipts = []
                for target in targets:
                    with Client(target) as client:
                        page = list(client.admin.list_retention_receipts())
                        receipts.append([it.conversation.conversation_id for it in page])
                assert receipts[0] == receipts[1]
                assert sorted(receipts[0]) == sorted(old)
                assert {name, later} <= {it.id for it in ahead.pages()[0]}
        finally:
            process.kill()
            beside.kill()
