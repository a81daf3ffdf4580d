"""Callers that keep a server busy until it is killed, and the server process that is."""

import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests import programs
from tests.crash.checker import note, send
from tests.crash.history import Call, History
from tests.programs import SERVER, Forked
from tests.server.conftest import Service

CALLERS = 8
_LONG = 300  # messages of a conversation that takes more than one transaction to delete


@dataclass
class Process:
    """A `recollect_server serve` of its own. `target` is empty if it died before it listened."""

    popen: "Forked | subprocess.Popen[str]"
    target: str

    def kill(self) -> None:
        """Kill the process as `kill -9` does."""
        self.popen.kill()
        self.popen.wait()

    @property
    def was_killed(self) -> bool:
        """Wait for the end, and return whether SIGKILL caused it."""
        return self.popen.wait() == -signal.SIGKILL


@contextmanager
def process(
    data_dir: Path,
    kill_at: str = "",
    listen: str = "127.0.0.1:0",
    *flags: str,
    cold: bool = False,
    errors: int = subprocess.DEVNULL,
) -> Iterator[Process]:
    """Start a server over the folder; yield it once it listens, or is dead already. `cold`: it
    imports everything itself; `errors`: descriptor that its log and its errors go to.
    """
    arguments = ["serve", "--listen", listen, "--data-dir", str(data_dir), *flags]
    environment = os.environ | {"RECOLLECT_KILL_AT": kill_at, "RECOLLECT_REFLECTION": "false"}
    start = programs.cold if cold else Forked
    with start(SERVER, arguments, env=environment, stderr=errors) as popen:
        try:
            assert popen.stdout is not None
            line = popen.stdout.readline()
            yield Process(popen, line.split()[3] if line else "")
        finally:
            popen.kill()


@contextmanager
def connected(target: str) -> Iterator[Service]:
    """Connect to the service at an address."""
    service = Service(target)
    try:
        yield service
    finally:
        service.channel.close()


class Callers:
    """Callers whose every call is written down."""

    def __init__(
        self, history: History, service: Service, seed: int, shared: int | None = None
    ) -> None:
        """`shared`: seed of the conversation that all callers share, on several servers too."""
        self._history = history
        self._shared_seed = seed if shared is None else shared
        self._service = service
        self._seed = seed
        self._shared = ""

    def run(self, calls: int, callers: int = CALLERS) -> None:
        """Make calls until each caller made `calls` of them or got no answer. One conversation is
        shared by all callers.
        """
        create = Call("create", f"s{self._shared_seed}all")
        if not self._do(create):
            return
        self._shared = create.conversation_id
        with ThreadPoolExecutor(callers) as pool:
            list(
                pool.map(
                    lambda caller: self._talk(f"s{self._seed}c{caller}", calls), range(callers)
                )
            )

    def everything(self) -> None:
        """Do each possible thing once, with a long delete at the end, until no answer comes.

        A look before the delete lets the index take in all but the last lines of what goes.
        """
        first = tuple(f"s{self._seed}gonem{place} zebra" for place in range(3))
        other, deleted = (
            Call("create", f"s{self._seed}kept"),
            Call("create", f"s{self._seed}gone", texts=first),
        )
        if not (self._do(other) and self._do(deleted)):
            return
        steps = [
            ("append", other, 1),
            ("append", other, 3),
            ("rename", other, 1),
            ("append", deleted, _LONG),
            ("append", other, 2),
        ]
        steps += [
            ("abbreviate", other, 1),
            ("look", other, 0),
            *[("append", deleted, 2)] * 6,
            ("rename", deleted, 1),
        ]
        steps += [("delete", deleted, 0), ("append", other, 1)]
        for number, (kind, conversation, texts) in enumerate(steps):
            if kind == "look":
                with suppress(grpc.RpcError):
                    self._service.listed(page_size=1)
            elif not self._do(
                self._made(kind, f"s{self._seed}n{number}", conversation.conversation_id, texts)
            ):
                return

    def _talk(self, name: str, calls: int) -> None:
        rng = random.Random(name)  # noqa: S311 - a test's numbers
        own = Call("create", f"{name}own")
        if not self._do(own):
            return
        for number in range(calls):
            kind = rng.choices(
                ["append", "shared", "rename", "abbreviate", "another"], [10, 4, 1, 1, 1]
            )[0]
            target = self._shared if kind == "shared" else own.conversation_id
            if kind == "another":  # leaves its conversation for good and begins the next one
                if not self._do(Call("delete", f"{name}d{number}", target)):
                    return
                own = Call("create", f"{name}o{number}")
                call = own
            else:
                call = self._made(
                    "append" if kind == "shared" else kind,
                    f"{name}n{number}",
                    target,
                    rng.choice([1, 1, 2, 5]),
                )
            if not self._do(call):
                return

    def _made(self, kind: str, request_id: str, conversation_id: str, texts: int) -> Call:
        count = texts if kind == "append" else min(texts, 1)
        return Call(
            kind,
            request_id,
            conversation_id,
            tuple(f"{request_id}m{place} zebra" for place in range(count)),
        )

    def _do(self, call: Call) -> bool:
        return self._history.run(call, lambda: send(self._service, call), note, grpc.RpcError)


@contextmanager
def under_load(
    service: Service, history: History, seed: int, calls: int = 100_000
) -> Iterator[threading.Thread]:
    """Run callers in the background. They end with the server, and are joined."""
    callers = threading.Thread(target=Callers(history, service, seed).run, args=(calls,))
    callers.start()
    yield callers
    callers.join(60)
    assert not callers.is_alive()
