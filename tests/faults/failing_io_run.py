"""Runs one small life of a space again and again, each time with another system call that fails.
Preloads `failing_io`.

Called with the library. A line of standard input is a JSON list: a folder for the lives, and what
fails. A life is a forked process over a folder of its own; it leaves a journal of what was
acknowledged and what was refused, and how it ended. The answer to a line is the number of lives.
"""

import ctypes
import gc
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import apsw  # noqa: F401 - imported before the lives are forked
import orjson
import structlog
from recollect_server.conversations.service import Conversations
from recollect_server.kernel.compare.recovery import no_progress, recover
from recollect_server.kernel.domain.conversation import Party
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.kernel.index.migrations import expected_tables
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.space.space import Space
from recollect_server.people.routing_table import Routes
from recollect_server.run.features import FEATURES


class Life:
    """Calls of one caller, with the answers."""

    def __init__(self, folder: FolderStore, journal: TextIO) -> None:
        self.journal = journal
        self.index = recover(folder, FEATURES, system_clock, no_progress).index
        self.folder = folder
        self.space = Space(folder, self.index, FEATURES, system_clock)
        self.conversations = Conversations(self.space, Routes.of(self.space))
        self.removals = Removals(self.space)

    def do(self, what: str, call: Callable[[], object], **about: object) -> object:
        """Make a call, and repeat it once if it is refused."""
        answer, outcome = None, ""
        for _ in range(2):
            try:
                answer, outcome = call(), "done"
                break
            except RecollectError as error:
                outcome = type(error).__name__
        identity = getattr(answer, "id", None) or about.pop("id", None)
        self.journal.write(
            orjson.dumps({"what": what, "told": outcome, "id": identity, **about}).decode() + "\n"
        )
        self.journal.flush()
        return answer

    def create(self, name: str) -> str | None:
        made = self.do("create", lambda: self._create(name), request=name)
        return getattr(made, "id", None)

    def _create(self, name: str) -> object:
        beginning = self.conversations.create(
            channel="web",
            participants=(),
            party=Party(),
            model="",
            create_time=None,
            request_id=name,
        )
        return beginning.conversation

    def append(self, conversation_id: str, request: str, count: int) -> None:
        texts = [f"{request} {number} zebra" for number in range(count)]
        messages = [Message(Role.USER, text) for text in texts]

        def call() -> object:
            return self.conversations.append(
                conversation_id, messages, request_id=request, expected_turn=None, draft_id=""
            )

        self.do("append", call, id=conversation_id, request=request, texts=texts)

    def live(self) -> None:
        one, two, deleted = self.create("one"), self.create("two"), self.create("gone")
        for turn in range(3):
            for name, conversation_id in (("one", one), ("two", two), ("gone", deleted)):
                if conversation_id:
                    self.append(conversation_id, f"{name}-{turn}", 1 + turn)
        if one:
            self.do(
                "rename",
                lambda: self.conversations.rename(one, "Named", "rename"),
                id=one,
                request="rename",
            )
            self.do("get", lambda: self.conversations.get(one), id=one)
        if deleted:
            self.do(
                "delete",
                lambda: self.removals.delete(deleted, 0, "delete"),
                id=deleted,
                request="delete",
            )
        if two:
            self.append(two, "two-last", 2)

    def end(self) -> None:
        self.space.flush()
        self.folder.close()
        self.index.close()


def run(folder: Path, arm: Callable[[], None]) -> str:
    """Run one life and return its end."""
    with (folder / "journal").open("w") as journal:
        arm()
        try:
            life = Life(FolderStore(folder / "data"), journal)
        except (RecollectError, OSError) as error:
            return f"did not start: {error}"
        try:
            life.live()
        finally:
            life.end()
    return "ended"


def main() -> None:
    """Run the lives of each case that standard input names, and answer each with their number."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    failing = ctypes.CDLL(sys.argv[1])
    expected_tables(FEATURES.tables.schema)  # made once, not in each life
    # or each life's collector would touch, and so copy, all that it shares with this process
    gc.freeze()
    for line in sys.stdin:
        print(run_lives(failing, *orjson.loads(line)), flush=True)  # noqa: T201


def run_lives(
    failing: ctypes.CDLL,
    root: str,
    path: str,
    errno: int,
    manner: int,
    for_ever: int,
    writes_only: int,
    first: int,
    step: int,
) -> int:
    """Run lives until nothing fails in one; return their number."""
    lives = 0
    while True:
        at = first + lives * step
        folder = Path(root) / f"{lives:04d}"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            code = 2
            try:
                end = run(
                    folder,
                    lambda at=at: failing.fail_from(  # type: ignore[misc]
                        path.encode(), at, for_ever, errno, manner, writes_only
                    ),
                )
                code = 1 if failing.has_failed() else 0
            except BaseException:  # noqa: BLE001 - whatever it is, it is what the test looks for
                end = traceback.format_exc()
            failing.fail_from(b"", 0, 0, 0, 0, 0)
            (folder / "ended").write_text(end)
            os._exit(code)
        lives += 1
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return lives


if __name__ == "__main__":
    main()
