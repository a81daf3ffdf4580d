"""The six words that a stream must keep (etcd's, for its watch), as functions over what a
subscriber saw.

Each is given a subscriber's runs: one list of updates for every connection that it had, the next
one resumed where the one before ended. A broken word is an AssertionError that says where.
`bench/stream.py` runs them too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from recollect.v1.conversation_service_pb2 import AppendTurnResponse
from recollect.v1.update_pb2 import Update

SNAPSHOT = {"conversation_list", "conversation_loaded"}
_LAST = (1 << 63) - 1
NOT_LOGGED = SNAPSHOT | {"heartbeat", "message_delta"}


@dataclass(frozen=True)
class Received:
    """An update, as far as the words go."""

    kind: str
    epoch: str = ""
    position: int = -1
    """Its place in the log; -1: it has none."""
    conversation_id: str = ""
    sequences: tuple[int, ...] = ()
    """Of the messages that it brought."""
    reset: bool = False
    cursor: str = field(default="", compare=False)

    @property
    def logged(self) -> bool:
        """Return whether it is a change, not part of a snapshot, a heartbeat or a draft."""
        return self.kind not in NOT_LOGGED


@dataclass(frozen=True)
class Written:
    """An append that was acknowledged."""

    conversation_id: str
    sequences: tuple[int, ...]
    epoch: str
    position: int


Run = Sequence[Received]
Runs = Sequence[Run]


def received(update: Update) -> Received:
    """Return the parts of an update of the contract that the guarantees are about."""
    epoch, position = place(update.cursor)
    sequences = tuple(message.sequence for message in update.conversation_updated.messages)
    return Received(
        str(update.WhichOneof("kind")),
        epoch,
        position,
        update.conversation_id,
        sequences,
        update.reset,
        update.cursor,
    )


def written(answer: AppendTurnResponse) -> Written:
    """Return the parts of an answered append that the guarantees are about."""
    return Written(
        answer.conversation.id,
        tuple(message.sequence for message in answer.messages),
        *place(answer.cursor),
    )


def place(cursor: str) -> tuple[str, int]:
    """Return the epoch and the number of a cursor. It is opaque to callers; the tests know its
    form. Over PostgreSQL the number is made of a transaction, a change in it and a line, and goes
    on where a standby took over, which the second part of the epoch tells.
    """
    epoch, _, place = cursor.rpartition("-")
    number, *parts = place.partition("~")[0].split(".")
    if not parts:
        return epoch, int(number) if number else -1
    epoch = epoch.partition("-")[0]
    change, line = map(int, parts[1:]) if parts[1:] else (_LAST, _LAST)
    return epoch, (int(number) << 64 | change) << 64 | line


def ordered(runs: Runs) -> None:
    """Check that cursors only grow, and so do the sequences of each conversation's messages."""
    for part in _unbroken(runs):
        places = [it.position for it in part if it.position >= 0]
        assert places == sorted(places), f"cursors go back: {_first_fall(places)}"
        newest: dict[str, int] = {}
        for it in part:
            for sequence in it.sequences:
                before = newest.get(it.conversation_id, 0)
                assert sequence > before, (
                    f"message {sequence} of {it.conversation_id} comes after {before}"
                )
                newest[it.conversation_id] = sequence


def unique(runs: Runs) -> None:
    """Check that no change and no message comes twice."""
    for part in _unbroken(runs):
        places = [(it.position, it.cursor) for it in part if it.logged]
        assert len(places) == len(set(places)), (
            f"{len(places) - len(set(places))} changes came twice"
        )
        messages = [(it.conversation_id, sequence) for it in part for sequence in it.sequences]
        assert len(messages) == len(set(messages)), (
            f"{len(messages) - len(set(messages))} messages came twice"
        )


def atomic(runs: Runs, appends: Iterable[Written]) -> None:
    """Check that the messages of one append come in one update, all of them, and nothing else with
    them.
    """
    batches = {(it.conversation_id, it.sequences) for it in appends}
    batches_received = {
        (conversation, sequence) for conversation, sequences in batches for sequence in sequences
    }
    for run in runs:
        for it in run:
            if any((it.conversation_id, sequence) in batches_received for sequence in it.sequences):
                assert (it.conversation_id, it.sequences) in batches, (
                    f"{it.sequences} of {it.conversation_id} is no append"
                )


def reliable(
    runs: Runs, appends: Iterable[Written], wants: Callable[[str], bool] = lambda _: True
) -> None:
    """Check that every append between the first and the last place of the subscriber was delivered.

    But of a conversation that was deleted, it may be told no more than that.
    """
    for part in _unbroken(runs):
        placed = [it for it in part if it.position >= 0]
        if not placed:
            continue
        first, last = placed[0], placed[-1]
        delivered = {(it.conversation_id, it.sequences) for it in part if it.sequences}
        deleted = _gone(part)
        for it in appends:
            if (
                it.conversation_id not in deleted
                and it.epoch == first.epoch
                and first.position < it.position <= last.position
                and wants(it.conversation_id)
            ):
                assert (it.conversation_id, it.sequences) in delivered, f"append {it} was not told"


def resumable(runs: Runs, whole: Run) -> None:
    """Check that the joined runs equal those of a subscriber that never dropped (`whole`), from
    their first place to their last.
    """
    for part in _unbroken(runs):
        placed = [it for it in part if it.position >= 0]
        if not placed or placed[0].epoch not in {it.epoch for it in whole}:
            continue
        first, last = placed[0], placed[-1]
        after = first.position - (1 if first.logged else 0)
        until = min(last.position, max(it.position for it in whole))
        deleted = _gone([*part, *whole])

        def between(
            run: Run,
            after: int = after,
            until: int = until,
            deleted: set[str] = deleted,
            epoch: str = first.epoch,
        ) -> list[Received]:
            rest = [
                it
                for it in run
                if it.kind == "conversation_deleted" or it.conversation_id not in deleted
            ]
            return [
                it
                for it in rest
                if it.logged and it.epoch == epoch and after < it.position <= until
            ]

        mine, theirs = between(part), between(whole)
        assert mine == theirs, (
            f"of {len(mine)} changes only here: {[it for it in mine if it not in theirs][:3]}, only"
            f" there: {[it for it in theirs if it not in mine][:3]}"
        )


def bookmarkable(runs: Runs) -> None:
    """Check that every change has a cursor, and every heartbeat that of the last change or a later
    one.
    """
    for part in _unbroken(runs):
        newest = -1
        for it in part:
            if it.kind in {"message_delta", "conversation_list"}:
                assert it.position == -1, f"{it.kind} has a cursor"
                continue
            assert it.position >= 0, f"{it.kind} has no cursor"
            assert it.kind != "heartbeat" or it.position >= newest, (
                f"a heartbeat goes back to {it.position} from {newest}"
            )
            newest = it.position


def check(
    runs: Runs,
    appends: Sequence[Written],
    whole: Run | None = None,
    wants: Callable[[str], bool] = lambda _: True,
) -> None:
    """Check all six guarantees. `whole` is the run of a subscriber that never dropped; without one,
    joined runs are compared with the appends.
    """
    ordered(runs)
    unique(runs)
    atomic(runs, appends)
    reliable(runs, appends, wants)
    resumable(runs, whole if whole is not None else [it for run in runs for it in run])
    bookmarkable(runs)


def _unbroken(runs: Runs) -> list[list[Received]]:
    """Return the runs joined; a snapshot begins a new part, because it replaces everything before
    it.
    """
    parts: list[list[Received]] = [[]]
    for run in runs:
        for it in run:
            if it.kind == "conversation_list":
                parts.append([])
            parts[-1].append(it)
    return [part for part in parts if part]


def _gone(run: Run) -> set[str]:
    return {it.conversation_id for it in run if it.kind == "conversation_deleted"}


def _first_fall(places: list[int]) -> str:
    return next(f"{after} behind {before}" for before, after in pairwise(places) if after < before)
