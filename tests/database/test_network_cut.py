"""A server in a network namespace of its own, whose packets to PostgreSQL vanish for a while."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import LONG
from tests.crash.checker import check, repeat
from tests.crash.load import connected, process
from tests.database.load import Load, changes_of, contents_of, until_update_of
from tests.postgres import copy_transcripts, running
from tests.server.conftest import user
from tests.streaming.conftest import Subscriber, Watched
from tests.waiting import until

# Seconds. TCP gives up first, then new connections: with the server's own time-outs the first
# refusal came 21.5 s after the cut, and the first answer 4.5 s after its end (2026-11-23, load 8).
REFUSED_WITHIN = 40.0
_IP = shutil.which("ip") or ""


class Network:
    """A network namespace, and the link to it."""

    def __init__(self) -> None:
        number = os.getpid() % (1 << 14)
        self.name = f"recollect-{os.getpid()}"
        self._link = f"rc{os.getpid()}"
        base = f"10.{200 + (number >> 12)}.{number >> 4 & 255}"
        self.here, self._there = (f"{base}.{(number & 15) * 16 + end}" for end in (1, 2))

    def make(self) -> None:
        """Make the namespace. Raises CalledProcessError where that is not allowed."""
        peer = f"{self._link}p"
        _ip("netns", "add", self.name)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", peer, "netns", self.name)
        _ip("addr", "add", f"{self.here}/30", "dev", self._link)
        _ip("-n", self.name, "addr", "add", f"{self._there}/30", "dev", peer)
        _ip("-n", self.name, "link", "set", peer, "up")
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.restore()

    def cut(self) -> None:
        """Let every packet vanish."""
        _ip("link", "set", self._link, "down")

    def restore(self) -> None:
        """Let packets through."""
        _ip("link", "set", self._link, "up")

    def remove(self) -> None:
        """Remove the namespace, and the link with it."""
        subprocess.run([_IP, "netns", "del", self.name], check=False, capture_output=True)
        subprocess.run([_IP, "link", "del", self._link], check=False, capture_output=True)

    @contextmanager
    def server(self, folder: Path, store: str) -> Iterator[str]:
        """Start a server in the namespace, and yield its address: a socket, which no namespace
        hides.
        """
        address = f"unix:{folder}.sock"
        command = [_IP, "netns", "exec", self.name, sys.executable, "-m", "recollect_server"]
        command += ["serve", "--listen", address, "--data-dir", str(folder), "--store", store]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as popen:
            try:
                assert popen.stdout is not None
                assert popen.stdout.readline().startswith("Recollect listens on unix:")
                yield address
            finally:
                popen.kill()


def _ip(*arguments: str) -> None:
    subprocess.run([_IP, *arguments], check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    if not _IP or os.geteuid() != 0:
        pytest.skip("a network namespace needs root and the program ip (iproute2)")
    it = Network()
    try:
        try:
            it.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"a network namespace cannot be made: {error.stderr.decode().strip()}")
        yield it
    finally:
        it.remove()


@pytest.mark.timeout(240)
def test_a_server_that_is_cut_off_refuses_in_time_and_goes_on_where_the_others_are(
    network: Network, tmp_path: Path, watched: Watched
) -> None:
    with ExitStack() as stack:
        postgres = stack.enter_context(running())
        with (postgres.data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {network.here}/30 trust\n")
        postgres.set("listen_addresses", network.here)
        postgres.stop()
        postgres.start()
        url = postgres.new_database()
        over_network = f"postgresql://postgres@{network.here}/{conninfo_to_dict(url)['dbname']}"
        if not LONG:
            over_network += "?tcp_user_timeout=3000"  # milliseconds, instead of 15 seconds
        targets = [
            stack.enter_context(process(tmp_path / "a", "", "127.0.0.1:0", "--store", url)).target,
            stack.enter_context(network.server(tmp_path / "b", over_network)),
        ]
        services = [stack.enter_context(connected(target)) for target in targets]
        watched.subscribers += [Subscriber(target).ready() for target in targets]
        loads = [Load([service], f"s{at}", pace=0.05) for at, service in enumerate(services)]
        with ThreadPoolExecutor() as pool:
            callers = [pool.submit(load.run, number) for load in loads for number in range(3)]
            try:
                for load in loads:
                    load.until_answered(30)
                network.cut()
                began = time.monotonic()
                until(lambda: len(loads[1].refusals) >= 3)
                refusal_seconds = time.monotonic() - began
                loads[0].until_answered(30)  # who is not cut off goes on
                network.restore()
                loads[1].until_answered(30)
                recovery_seconds = time.monotonic() - began - refusal_seconds
            finally:
                network.restore()
                for load in loads:
                    load.end()
            for caller in callers:
                caller.result()
        assert loads[0].refusals == []
        assert max(loads[1].refusals) < REFUSED_WITHIN, (refusal_seconds, recovery_seconds)
        last = services[1].append(services[0].create().id, user("Together again"))
        for one in watched.subscribers:
            until_update_of(one, last.conversation.id)
            one.until(lambda one=one: "Together again" in one.messages())  # type: ignore[misc]
            assert not any(it.reset for it in one.updates)
        first, second = (changes_of(it.updates) for it in watched.subscribers)
        assert first == second
        copy_transcripts(url, tmp_path / "copied")
        for load in loads:
            assert repeat(load.history, services[1]) == []
            for call in load.history.calls():
                call.cursor = ""
            for service in services:
                assert check(load.history, service, tmp_path / "copied").problems == []
        assert contents_of(services[0]) == contents_of(services[1])
