"""Anchors: lasting facts about the user, from callers and from the writer of notes.

What is found stands in the transcript that it was found in, what a caller sets in the file of
anchors; `anchors.log` says which value of a key holds. What is found is read from the index,
which learns it from the transcripts.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from recollect_server.anchors.log import Anchor, AnchorLedger, history
from recollect_server.anchors.table import AnchorTable
from recollect_server.kernel.compare.checks import Checker, Findings, again, shown
from recollect_server.kernel.domain.conversation import AnchorForgotten, AnchorSet
from recollect_server.kernel.domain.errors import (
    AnchorNotFound,
    AnchorsPresent,
    IndexUnavailable,
    InvalidField,
)
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS, KEEP_ANCHORS
from recollect_server.kernel.erase.erasing import DeletedLog, Participant
from recollect_server.kernel.index.derived import Removed
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, contents_of
from recollect_server.kernel.log.store import (
    ANCHORS,
    LogConflict,
    LogStore,
    Version,
    has_conversation,
    has_version,
)
from recollect_server.kernel.space.events import (
    Appended,
    CaughtUp,
    IndexReplaced,
    LogsErased,
    Redacted,
)
from recollect_server.kernel.space.logs import RequestKey, entries_of
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import message_at

log = structlog.get_logger("recollect.anchors")

_MAX_REQUESTS = 1000  # of forgotten anchors of one key that are remembered


class KeptAnchors(Participant):
    """The ledger of anchors, which goes and stays with the conversations that they came from."""

    ledgers = (ANCHORS,)

    def __init__(self, store: LogStore) -> None:
        """Read the ledger. Raises LogUnavailable."""
        super().__init__(store)
        self.ledger = AnchorLedger(store)

    def of(self, index: Index, conversation_id: str, number: int | None) -> list[AnchorSet]:
        """Return the anchors that a delete removes with a conversation: those that callers set from
        it, and those that were found in it. Hold its lock.
        """
        with self.ledger.lock:
            extracted = self._extracted(index, conversation_id, number)
            return [*self._set_from(conversation_id), *extracted]

    def release(
        self,
        index: Index,
        conversation_id: str,
        number: int | None,
        disposition: int,
    ) -> None:
        """Keep the anchors that came from a conversation, if that is asked for. The others go with
        it. Raises AnchorsPresent if there are any and nothing is asked for.
        """
        if disposition == DELETE_ANCHORS:
            return
        ledger = self.ledger
        with ledger.lock:
            there = set(ledger.anchors)
            own = self._set_from(conversation_id)
            extracted = self._extracted(index, conversation_id, number)
            if not own and not extracted:
                return
            if disposition != KEEP_ANCHORS:
                raise AnchorsPresent(len(own) + len(extracted))

            def alone(anchor: AnchorSet) -> AnchorSet:
                return (
                    replace(anchor, conversation_id="", sequence=0)
                    if anchor.conversation_id == conversation_id
                    else anchor
                )

            # those that are there were kept by a call that was cut short
            ledger.rewrite(alone, [Entry(anchor) for anchor in extracted if anchor not in there])

    def erase(self, index: Index, deleted: Sequence[DeletedLog]) -> Removed:  # noqa: ARG002
        """Remove the anchors that came from conversations."""
        count = self.ledger.drop_sources({it.name for it in deleted})
        return {"anchors": count} if count else {}

    def redact(self, conversation_id: str, sequences: Collection[int]) -> None:
        """Remove the anchors that came from messages."""
        self.ledger.drop_sources({conversation_id}, sequences)

    def behind_logs(self, index: Index) -> None:
        """Take the anchors that were forgotten out of an index: they stand in transcripts still."""
        for key, until in self.ledger.forgotten().items():
            AnchorTable(index).forget(key, until)

    def follow(self, index: Index) -> None:
        """Read the ledger anew, which another process wrote to."""
        self.ledger.reload()
        self.behind_logs(index)

    def _set_from(self, conversation_id: str) -> list[AnchorSet]:
        """Return the anchors that callers set from a conversation."""
        return [it for it in self.ledger.anchors if it.conversation_id == conversation_id]

    def _extracted(self, index: Index, conversation_id: str, number: int | None) -> list[AnchorSet]:
        """Return the anchors found in a conversation, without their message.

        They are read from its transcript where the index cannot answer.
        """
        anchors: list[AnchorSet] | None = None
        if number is not None:
            with suppress(IndexUnavailable):
                anchors = [it for _, it in AnchorTable(index).of(number)]
        if anchors is None:
            contents = contents_of(list(self.store.read(conversation_id)))
            anchors = [it for it in contents if isinstance(it, AnchorSet)]
        forgotten = self.ledger.forgotten()
        return [replace(it, sequence=0) for it in anchors if it.time > forgotten.get(it.key, -1)]


class AnchorChecker(Checker):
    """Verification of the ledger of anchors."""

    def of_space(self, findings: Findings) -> None:
        """Name the anchors that are of conversations without a transcript."""
        findings.add("", again(self._problems))

    def _problems(self) -> list[str]:
        store = self.comparison.store
        if not has_version(store, ANCHORS, Version.PRESENT):
            return []
        return [
            f"{shown(store, ANCHORS)}: line {line.sequence} is of {it.conversation_id}, which has no"
            " transcript"
            for line in store.read(ANCHORS)
            if line.entry is not None
            and isinstance(it := line.entry.content, AnchorSet)
            and it.conversation_id
            and not has_conversation(store, it.conversation_id)
        ]


@dataclass(frozen=True, slots=True)
class Holding:
    """The anchors that hold, by key."""

    anchors: list[Anchor]
    degraded: str = ""
    """Reason why some may be missing; empty if none are."""


class Anchors:
    """The anchors of a space. Raises the errors of `kernel.domain.errors`; safe to call from any
    thread.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._file = space.part(KeptAnchors).ledger
        space.requests.ask(self._file.request)
        space.subscribe(Appended, self._changed, of=frozenset({AnchorSet}))
        for event in (CaughtUp, IndexReplaced, Redacted, LogsErased):
            space.subscribe(event, self._changed)
        self._holding: tuple[object, Holding] = (None, Holding([]))

    def _changed(self, _event: object) -> None:
        """Note that the index may have other anchors than before."""
        self._file.changed()

    def listed(
        self, key: str, *, include_superseded: bool, as_of: int | None = None
    ) -> list[Anchor]:
        """Return the anchors by key (empty: all), each before those that it superseded; as they
        stood at a moment, by the values that were given until then.
        """
        histories = self._histories(key, as_of)
        return [
            anchor
            for name in sorted(histories)
            for anchor in histories[name]
            if include_superseded or anchor.superseded_time is None
        ]

    def holding(self) -> Holding:
        """Return the anchors in force, cached until something changes."""
        now = (self._file.version, self._space.index)
        if self._holding[0] == now:
            return self._holding[1]
        # While it is made it has those that were forgotten too: they stand in transcripts still.
        doubt = self._space.doubt if self._space.is_reading else ""
        if not doubt:
            try:
                self._holding = (now, Holding(self.listed("", include_superseded=False)))
                return self._holding[1]
            except IndexUnavailable as error:
                doubt = str(error)
        sets = self._file.anchors
        by_key = {
            anchor.key: history(it for it in sets if it.key == anchor.key)[0] for anchor in sets
        }
        return Holding(
            [by_key[key] for key in sorted(by_key)],
            f"those found in conversations are missing: {doubt}",
        )

    def set(
        self,
        key: str,
        value: str,
        confidence: float,
        source: tuple[str, int] | None,
        request_id: str,
    ) -> Anchor:
        """Set an anchor, durable on return. The key's last anchor is superseded and stays in the
        history.
        """
        payload = {"key": key, "value": value, "confidence": confidence, "source": source}
        request = key_of("SetAnchor", request_id, payload)
        with self._space.exclusive(request=request_id or key):
            with self._file.lock:  # so that nobody forgets it before it is answered
                if request and (previous := self._known(request)):
                    return self._as_it_was(key, previous)
            conversation_id, sequence = source or ("", 0)
            new = AnchorSet(
                key, value, confidence, sequence, self._time(key), conversation_id, by_caller=True
            )
            if not source:
                return self._added(new, request)
            with self._space.reading(conversation_id) as state:  # it is not deleted meanwhile
                message = message_at(self._space, state, sequence)
                if message is None:
                    raise InvalidField.of(
                        "source.sequence",
                        f"is {sequence}, and no message of the conversation is there",
                    )
                if message.redaction is not None:
                    # Its anchors went with its text, and so did the requests that set them: a
                    # repeat of one of these would bring the text back.
                    raise InvalidField.of(
                        "source.sequence", f"is {sequence}, a message whose text was redacted"
                    )
                return self._added(new, request)

    def delete(self, key: str, request_id: str) -> list[Anchor]:
        """Forget an anchor and those that it superseded: their text leaves every file of anchors
        and every page of the index.

        The messages stay in their conversations. Returns the forgotten anchors; none if this
        request had forgotten them before.
        """
        request = key_of("DeleteAnchor", request_id, {"key": key})
        with self._space.exclusive(request=request_id or key):
            if request and self._known(request):
                return []
            with self._file.lock:
                removed = self._histories(key).get(key, [])
                if not removed:
                    raise AnchorNotFound(key)
                time = self._time(key)
                self._forget(key, time, request)
            AnchorTable(self._space.index).forget(key, time)
            if not self._space.index.removal.empty_log():
                log.warning("log_not_emptied", key=key)
            return removed

    def is_done(self, request: RequestKey | None) -> bool:
        """Return whether a request was carried out before. Raises RequestIdReused."""
        return request is not None and self._known(request) is not None

    def leave_out(self, key: str, request: RequestKey | None) -> None:
        """Record, durably on return, that what was found for a key until now does not count."""
        with self._space.exclusive(request=request.id if request else key), self._file.lock:
            if not self.is_done(request):
                content = AnchorForgotten(key, self._space.clock())
                self._file.append(*entries_of([content], request))

    # Inside ---------------------------------------------------------------------------------------

    def _added(self, content: AnchorSet, request: RequestKey | None) -> Anchor:
        """Append an anchor, and return the one of its key that holds then."""
        with self._file.lock:  # so that nobody forgets it before it is answered
            self._file.append(*entries_of([content], request))
            return self._histories(content.key)[content.key][0]

    def _time(self, key: str) -> int:
        """Return the present time; or, if the clock went back, a time after the last value's."""
        return max([self._space.clock(), *(it.time for it in self._given(key)[key])])

    def _forget(self, key: str, time: int, request: RequestKey | None) -> None:
        requests: list[str] = []
        for entry in self._file.entries:
            content = entry.content
            if isinstance(content, AnchorSet | AnchorForgotten) and content.key == key:
                requests += content.requests if isinstance(content, AnchorForgotten) else ()
                requests += [entry.stamp.request_id] if entry.stamp.request_id else []
        mark = AnchorForgotten(key, time, tuple(requests[-_MAX_REQUESTS:]))
        try:
            # Once: if another process set one meanwhile, the mark lacks its request.
            self._file.rewrite(
                lambda anchor: None if anchor.key == key else anchor,
                entries_of([mark], request),
                tries=1,
            )
        except LogConflict:
            if mark not in [entry.content for entry in self._file.entries]:
                raise  # else it was done, and the answer of the store was lost

    def _known(self, request: RequestKey) -> Entry | None:
        """Return the line of a request that was carried out before. Raises RequestIdReused, and
        AnchorNotFound if its anchor was forgotten.
        """
        for entry in self._file.entries:
            if isinstance(entry.content, AnchorForgotten) and request.id in entry.content.requests:
                raise AnchorNotFound(entry.content.key)
        with suppress(IndexUnavailable):
            if self._space.requests.is_recorded(request):
                return self._file.request(request.id)
        return None

    def _as_it_was(self, key: str, previous: Entry) -> Anchor:
        """Return the anchor that a request set, as it was then."""
        assert isinstance(previous.content, AnchorSet)
        then = [it for it in self._given(key)[key] if it.time <= previous.content.time]
        return history(
            then[: then.index(previous.content) + 1] if previous.content in then else then
        )[0]

    def _histories(self, key: str, as_of: int | None = None) -> dict[str, list[Anchor]]:
        given = self._given(key, as_of)
        return {name: done for name, values in given.items() if (done := history(values))}

    def _given(self, key: str, until: int | None = None) -> dict[str, list[AnchorSet]]:
        """Return all values of a key (empty: of each key) that were not forgotten, up to a time;
        those found in messages precede those set.
        """
        given: defaultdict[str, list[AnchorSet]] = defaultdict(list)
        with self._file.lock:
            anchors = self._file.anchors
            forgotten = self._file.forgotten()
        for anchor in AnchorTable(self._space.index).found(key, until):
            if anchor.time > forgotten.get(anchor.key, -1):
                given[anchor.key].append(anchor)
        for anchor in anchors:
            if key in ("", anchor.key) and (until is None or anchor.time <= until):
                given[anchor.key].append(anchor)
        return given
