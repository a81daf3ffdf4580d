"""Lives of the program over a recorded disk, and what must be true of every state that a power
failure may leave of it.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from recollect_server.conversations.service import AppendResult, Conversations
from recollect_server.kernel.compare.comparison import Comparison
from recollect_server.kernel.domain.conversation import CALLER, NoteRecord, Party
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.people.routing_table import Routes
from recollect_server.run.features import FEATURES
from recollect_server.run.folder import FolderLock

from tests.at_rest import opened
from tests.crash.checker import by_conversation, in_transcript
from tests.crash.disk import Disk, Killed
from tests.crash.history import Call, History, Stored, judge, judge_last

FOLDER = Path("data/default/conversations")
_LOSSES_A_RUN = 20


class Life:
    """The storage and the services of one process, without a network."""

    def __init__(self, root: Path) -> None:
        self._lock = FolderLock(root / "data")
        try:
            # as of a large folder: the index is caught up and believed
            self._opened = opened(root / FOLDER, compared_at_once=0)
        except BaseException:
            self._lock.release()
            raise
        self.logs, self.index = self._opened.logs, self._opened.index
        space = self._opened.space
        self.conversations = Conversations(space, Routes.of(space))
        self.notes = ConversationNotes(space)
        self.removals = Removals(space)

    def end(self) -> None:
        """Close the logs and the index."""
        self._opened.close()
        self._lock.release()

    def send(self, call: Call) -> object:
        """Carry a call out."""
        service, name = self.conversations, call.conversation_id
        messages = [
            Message(Role.ASSISTANT if place else Role.USER, text)
            for place, text in enumerate(call.texts)
        ]
        match call.kind:
            case "create":
                return service.create(
                    channel="web", participants=(), party=Party(), model="", create_time=None, request_id=call.request_id,
                    messages=messages,
                )  # fmt: skip
            case "append":
                return service.append(
                    name, messages, request_id=call.request_id, expected_turn=None, draft_id=""
                )
            case "rename":
                return service.rename(name, call.texts[0], call.request_id)
            case "abbreviate":
                return self.notes.record_abbreviation(
                    name, call.texts[0], (), NoteRecord(CALLER), call.request_id
                )
            case "delete":
                return self.removals.delete(name, 0, call.request_id)
        raise ValueError(call.kind)


def note(call: Call, answer: object) -> None:
    """Copy from an answer the values that the model needs."""
    if isinstance(answer, AppendResult):
        call.stored = tuple(
            Stored(m.sequence, m.turn_number, m.role is Role.USER, m.content)
            for m in answer.messages
        )
    if call.kind == "create":
        assert isinstance(answer, AppendResult)
        call.conversation_id = answer.conversation.id


@dataclass(frozen=True)
class Attempt:
    """A call as it stood when it was answered, and the steps of the disk between which it was
    carried out.
    """

    call: Call
    first: int
    last: int
    """As many steps as there are: it was cut short."""


class Recorded:
    """A run of random calls over a recorded disk, in which the process may have been killed and
    started again.
    """

    def __init__(self, root: Path, seed: int, calls: int = 30) -> None:
        root.mkdir()
        self.disk = Disk(root)
        self.attempts: list[Attempt] = []
        self._rng = random.Random(seed)  # noqa: S311 - a test's numbers
        self._history = History()
        self._made: list[str] = []
        self._indexes: list[tuple[int, Path]] = []
        self._root = root
        with self.disk.recording():
            for _ in range(3):
                self.disk.kill_at = len(self.disk.steps) + self._rng.randrange(1, 4 * calls)
                self._live(calls)

    def _live(self, calls: int) -> None:
        try:
            life = Life(self._root)
        except Killed:
            return
        try:
            for call in self._history.calls():
                if not call.ended:
                    self._attempt(life, call)
            for number in range(calls):
                self._attempt(life, self._any_call(number))
                if self._rng.random() < 0.1:
                    self._keep_index(life)
        except Killed:
            pass
        self.disk.kill_at = -1
        life.end()
        # What a process that is killed leaves of its index is an older one, or none.
        for path in (self._root / FOLDER).glob("conversations.db*"):
            path.unlink()
        if self._indexes and self._rng.random() < 0.7:
            shutil.copytree(self._indexes[-1][1], self._root / FOLDER, dirs_exist_ok=True)

    def _any_call(self, number: int) -> Call:
        kind = self._rng.choices(
            ["create", "append", "rename", "abbreviate", "delete"], [2, 10, 1, 1, 1]
        )[0]
        request_id = f"r{len(self.attempts)}n{number}"
        if kind == "create" or not self._made:
            first = tuple(
                f"{request_id}m{place} zebra" for place in range(self._rng.choice((0, 0, 1, 3)))
            )
            return Call("create", request_id, texts=first)
        texts = tuple(
            f"{request_id}m{place} zebra"
            for place in range(self._rng.choice((1, 1, 2, 4)) if kind == "append" else 1)
        )
        return Call(kind, request_id, self._rng.choice(self._made), texts)

    def _attempt(self, life: Life, call: Call) -> None:
        first = len(self.disk.steps)
        try:
            self._history.run(
                call, lambda: life.send(call), note, RecollectError
            ) if not call.began else note(call, life.send(call))
            call.ended = call.ended or self._history.now()
        except RecollectError:
            # A delete that was cut short was finished by the start.
            call.refused, call.ended = "" if call.kind == "delete" else "gone", self._history.now()
        finally:
            last = len(self.disk.steps) if call.ended else 1 << 62
            self.attempts.append(Attempt(replace(call), first, last))
        if call.kind == "create":
            self._made.append(call.conversation_id)
        elif call.kind == "delete":
            self._made = [name for name in self._made if name != call.conversation_id]

    def _keep_index(self, life: Life) -> None:
        life.index.settle()
        copy = self._root.with_name(f"{self._root.name} index {len(self._indexes)}")
        copy.mkdir()
        for path in (self._root / FOLDER).glob("conversations.db*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, copy)
        self._indexes.append((len(self.disk.steps), copy))

    # What a power failure leaves ------------------------------------------------------------------

    def problems_after_power_loss(self, rng: random.Random, root: Path) -> list[str]:
        """Cause a power failure at a random step, start again, and return the problems."""
        done = rng.randrange(len(self.disk.steps) + 1)
        root.mkdir()
        self.disk.after_power_loss(done, rng, root)
        indexes = [copy for step, copy in self._indexes if step <= done]
        if indexes and rng.random() < 0.5 and (root / FOLDER).is_dir():
            shutil.copytree(rng.choice(indexes[-3:]), root / FOLDER, dirs_exist_ok=True)
        calls = self._known_at(done)
        life = Life(root)
        try:
            wrong = list(
                Comparison(life.logs, life.index, FEATURES.kinds_of(life.logs)).contradictions()
            )
            wrong += _problems(life, calls, root / FOLDER)
            for call in calls:
                if not call.answered and call.conversation_id and call.kind != "delete":
                    with suppress(RecollectError):  # its conversation may be gone
                        note(call, life.send(call))
                        call.ended = call.began + 1
            wrong += _problems(life, calls, root / FOLDER)
        finally:
            life.end()
        return [f"in step {done}: {problem}" for problem in wrong]

    def _known_at(self, done: int) -> list[Call]:
        """Return the calls that had begun, with the answers that had been given."""
        calls: dict[str, Call] = {}
        for attempt in self.attempts:
            if attempt.first <= done and attempt.last <= done:
                calls[attempt.call.request_id] = replace(attempt.call)
            elif attempt.first <= done:
                calls.setdefault(
                    attempt.call.request_id, replace(attempt.call, ended=0, refused="", stored=())
                )
        return list(calls.values())


def _problems(life: Life, calls: list[Call], folder: Path) -> list[str]:
    wrong: list[str] = []
    listed = {
        conversation.id: conversation
        for conversation in life.conversations.page(Filter(), 500, None).entries
    }
    for conversation_id, own in by_conversation(calls).items():
        deletes = [call for call in own if call.kind == "delete" and not call.refused]
        if conversation_id not in listed:
            if not deletes and any(call.answered for call in own):
                wrong.append(f"{conversation_id} is lost")
            if left := [path.name for path in folder.glob(f"{conversation_id}*") if deletes]:
                wrong.append(f"of a deleted conversation there is {left}")
            continue
        if any(call.answered for call in deletes):
            wrong.append(f"{conversation_id} was deleted and is there")
        stored = in_transcript(folder / f"{conversation_id}.jsonl")
        wrong += judge(own, stored).problems
        conversation = life.conversations.get(conversation_id)
        if (conversation, conversation.message_count) != (listed[conversation_id], len(stored)):
            wrong.append(f"the index and the transcript of {conversation_id} differ")
        wrong += judge_last(own, "rename", conversation.title) + judge_last(
            own, "abbreviate", conversation.abbreviation
        )
    return wrong


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Yield a temporary folder, in memory if possible: the disk of these tests is a record, so that
    the files below need not be on a real one.
    """
    memory = Path("/dev/shm")  # noqa: S108 - no name in it is foreseeable
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def power_losses(folder: Path, losses: int, seed: int) -> Iterator[str]:
    """Cause power failures in random runs, and yield each problem as it shows."""
    rng = random.Random(seed)  # noqa: S311 - a test's numbers
    for number in range(losses):
        if number % _LOSSES_A_RUN == 0:
            recorded = Recorded(folder / f"run {number}", rng.randrange(1 << 30))
        state = folder / f"state {number}"
        for problem in recorded.problems_after_power_loss(rng, state):
            yield f"power loss {number} of seed {seed} {problem}"
        shutil.rmtree(state)
