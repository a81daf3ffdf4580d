"""The program `python -m recollect.imports FOLDER`: imports one file in a folder for a process that
started it, as the page does for a person who chose one.

A process of its own, because the file may be anybody's: what reading it costs in memory, processor
time and disk is bounded by the system, no other caller waits for it, and it ends by a signal.

Its standard input is one line of JSON, as `Request` has it. Where that input ends, the process that
made the folder is gone: the program removes it, and ends. So it takes no folder but one that is
named as those of that process are, `recollect-import-…`. It prints lines of JSON, each with one
member: `read` (how far it has come), `skip` (what is left out or guessed), and as the last `done`
(the counts) or `failed` (a sentence).
"""

import json
import os
import resource
import shutil
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect import Client, RecollectError
from recollect.imports import finding, running
from recollect.imports.forms import Options
from recollect.imports.plans import Skip, Tally

_FOLDER = "recollect-import-"  # begin of the name of each folder that it removes
_NICENESS = 5
"""Added to the niceness: the reading of a file gives way to answers for people."""
_MOST_NAMED = 1000
"""Skips that are printed; the others are counted."""
_PAUSE = 0.1
"""Seconds between two lines that say how far it has come."""
_OF_COMMANDS = (("--owner", "your name"), ("; --format names the product", ""))
"""Parts of reasons that are about flags of `recollect import`, and what stands for each."""


@dataclass(frozen=True, slots=True)
class Request:
    """The file to import, and the server to import it into."""

    path: str
    """The file. It is named without its folder, which becomes the current one."""
    memory: int
    """Bytes of memory that the program may map: it begins at about 1.2 GB, most of it untouched."""
    processor_seconds: int
    disk: int
    """Bytes that a temporary file may have."""
    target: str
    token: str | None = None
    space: str | None = None
    ca: str | None = None
    """Certificates of authorities in PEM, or `system`; None for plain text, to a server that the
    caller trusts."""
    cert: tuple[str, str] | None = None
    owner: str = ""

    def client(self) -> Client:
        """Return a client of the server."""
        ca = self.ca.encode() if self.ca and self.ca != "system" else self.ca
        cert = (self.cert[0].encode(), self.cert[1].encode()) if self.cert else None
        return Client(
            self.target, token=self.token, space=self.space, ca=ca, cert=cert, insecure=ca is None
        )


class Report:
    """The lines that are printed, and the counts of what they say."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._position = 0  # bytes that are read
        self._total = 0
        self._last = 0.0

    def begin(self, total: int) -> None:
        """Say of how many bytes the inputs are."""
        self._total = total

    def advance(self, size: int) -> None:
        """Say that so many bytes more are read."""
        self._position += size
        self._follow()

    def add(self, one: Tally) -> None:
        """Say that a conversation is imported."""
        self._tally.add(one)
        self._follow()

    def leave_out(self, skip: Skip) -> None:
        """Name what is left out or guessed, unless too much was named already."""
        self._tally.count(skip)
        if self._tally.lost + self._tally.guessed <= _MOST_NAMED:
            reason = skip.reason
            for of_command, text in _OF_COMMANDS:
                reason = reason.replace(of_command, text)
            _print(skip={"where": skip.where, "reason": reason, "isLost": skip.is_lost})

    def end(self) -> None:
        """Say what was imported."""
        _print(done=self._tally.counts())

    def _follow(self) -> None:
        now = time.monotonic()
        if now >= self._last + _PAUSE:
            self._last = now
            messages = self._tally.messages_new + self._tally.messages_known
            _print(read={"bytes": self._position, "of": self._total, "messages": messages})


def main() -> None:
    """Import the file that the standard input names."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).name.startswith(_FOLDER):
        sys.exit(f"it is run by the page, over a folder {_FOLDER}…: use `recollect import FILE`")
    if not (order := sys.stdin.readline()):
        return _end_with_input()
    request = Request(**json.loads(order))
    threading.Thread(target=_end_with_input, daemon=True).start()
    _limit(request)
    try:
        with request.client() as client:
            _import(request, client)
    except RecollectError as error:
        violations = (f"{it.field} {it.description}" for it in error.violations)
        _print(failed="; ".join(violations) or str(error))
    except (OSError, MemoryError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it takes too much memory"
        _print(failed=f"the file cannot be read: {reason or error}")


def _import(request: Request, client: Client) -> None:
    path = Path(request.path)
    os.chdir(path.parent)  # so that what is named is named as the person knows it
    client.conversations.list_page(page_size=1)  # fails here where there is no server
    report = Report()
    try:
        inputs = finding.find(Path(path.name))
    except ValueError as error:
        inputs = []
        report.leave_out(Skip(path.name, str(error)))
    else:
        if not inputs:
            report.leave_out(Skip(path.name, "nothing in it is an export that is known"))
    report.begin(sum(it.source.size for it in inputs))
    options = Options(owner=request.owner, advance=report.advance)
    for one in running.run(client, inputs, options, report.leave_out):
        report.add(one)
    report.end()


def _limit(request: Request) -> None:
    """Bound what the file may cost."""
    os.nice(_NICENESS)
    for limit, value in (
        (resource.RLIMIT_AS, request.memory),
        (resource.RLIMIT_CPU, request.processor_seconds),
        (resource.RLIMIT_FSIZE, request.disk),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):  # of a system that has no such limit
            resource.setrlimit(limit, (most, hard))  # a hard one of time ends it without its name


def _end_with_input() -> None:
    sys.stdin.read()
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os._exit(0)


def _print(**line: Any) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - it is the program's output


if __name__ == "__main__":
    main()
