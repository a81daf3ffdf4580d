"""Anchors: lasting facts about the user, from callers and from the writer of notes.

What is found stands in the transcript that it was found in, what a caller sets in the file of
anchors; `domain.anchors` says which value of a key holds. What is found is read from the index,
which learns it from the transcripts.
"""

from collections import defaultdict
from dataclasses import dataclass

import structlog

from recollect_server.domain.anchors import Anchor, history
from recollect_server.domain.conversation import AnchorForgotten, AnchorSet
from recollect_server.domain.errors import (
    AnchorNotFound,
    IndexUnavailable,
    InvalidField,
    RequestIdReused,
)
from recollect_server.services.space.requests import key_of
from recollect_server.services.space.space import Space
from recollect_server.services.space.state import RequestKey
from recollect_server.services.working_context import message_at
from recollect_server.storage.logs.record import Entry, Stamp

log = structlog.get_logger("recollect.anchors")

_MAX_REQUESTS = 1000  # of forgotten anchors of one key that are remembered


@dataclass(frozen=True, slots=True)
class Holding:
    """The anchors that hold, by key."""

    anchors: list[Anchor]
    degraded: str = ""
    """Reason why some may be missing; empty if none are."""


class Anchors:
    """The anchors of a space. Raises the errors of `domain.errors`; safe to call from any
    thread.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._file = space.anchors
        self._holding: tuple[object, Holding] = (None, Holding([]))

    def listed(self, key: str, *, include_superseded: bool) -> list[Anchor]:
        """By key, the one that holds before those it superseded. An empty key means all."""
        found = self._histories(key)
        return [
            anchor
            for name in sorted(found)
            for anchor in found[name][: None if include_superseded else 1]
        ]

    def holding(self) -> Holding:
        """Those that hold; remembered while nothing changes."""
        now = (self._file.version, self._space.index)
        if self._holding[0] == now:
            return self._holding[1]
        try:
            done = Holding(self.listed("", include_superseded=False))
        except IndexUnavailable as error:
            with self._file.lock:
                sets = [
                    entry.content
                    for entry in self._file.entries
                    if isinstance(entry.content, AnchorSet)
                ]
            by_key = {
                anchor.key: history(it for it in sets if it.key == anchor.key)[0] for anchor in sets
            }
            return Holding(
                [by_key[key] for key in sorted(by_key)],
                f"those found in conversations are missing: {error}",
            )
        self._holding = (now, done)
        return done

    def set(
        self,
        key: str,
        value: str,
        confidence: float,
        source: tuple[str, int] | None,
        request_id: str,
    ) -> Anchor:
        """Sets an anchor, durable when it returns. The one that the key had is superseded and
        remembered.
        """
        payload = {"key": key, "value": value, "confidence": confidence, "source": source}
        request = key_of("SetAnchor", request_id, payload)
        with self._space.exclusive(request=request_id or key):
            if request and (known := self._known(request)):
                return self._as_it_was(key, known)
            conversation_id, sequence = source or ("", 0)
            new = AnchorSet(
                key, value, confidence, sequence, self._time(key), conversation_id, by_caller=True
            )
            if not source:
                self._append(new, request)
            else:
                with self._space.reading(conversation_id) as state:  # it is not deleted meanwhile
                    if message_at(self._space, state, sequence) is None:
                        raise InvalidField.of(
                            "source.sequence",
                            f"is {sequence}, and no message of the conversation is there",
                        )
                    self._append(new, request)
        return self._histories(key)[key][0]

    def delete(self, key: str, request_id: str) -> list[Anchor]:
        """Forgets an anchor and what it superseded: no file of anchors and no page of the index has
        the text any more.

        What was said stays in its conversation. Returns what was forgotten; nothing if this request
        had forgotten it before.
        """
        request = key_of("DeleteAnchor", request_id, {"key": key})
        with self._space.exclusive(request=request_id or key):
            if request and self._known(request):
                return []
            with self._file.lock:
                gone = self._histories(key).get(key, [])
                if not gone:
                    raise AnchorNotFound(key)
                time = self._time(key)
                self._forget(key, time, request)
            self._space.index.anchors.forget(key, time)
            if not self._space.index.removal.empty_log():
                log.warning("log_not_emptied", key=key)
            return gone

    # Inside ---------------------------------------------------------------------------------------

    def _append(self, content: AnchorSet, request: RequestKey | None) -> None:
        stamp = Stamp(request.id, request.hash) if request else Stamp()
        self._file.append(Entry(content, stamp))

    def _time(self, key: str) -> int:
        """Now, or, where a clock went back, when the last value was given: what comes later is
        later.
        """
        return max([self._space.clock(), *(it.time for it in self._given(key)[key])])

    def _forget(self, key: str, time: int, request: RequestKey | None) -> None:
        requests: list[str] = []
        for entry in self._file.entries:
            content = entry.content
            if isinstance(content, AnchorSet | AnchorForgotten) and content.key == key:
                requests += content.requests if isinstance(content, AnchorForgotten) else ()
                requests += [entry.stamp.request_id] if entry.stamp.request_id else []
        stamp = Stamp(request.id, request.hash) if request else Stamp()
        mark = Entry(AnchorForgotten(key, time, tuple(requests[-_MAX_REQUESTS:])), stamp)
        self._file.rewrite(lambda anchor: None if anchor.key == key else anchor, [mark])

    def _known(self, request: RequestKey) -> Entry | None:
        """The line of a request that was carried out before. Raises RequestIdReused, AnchorNotFound
        if that was forgotten.
        """
        for entry in self._file.entries:
            if isinstance(entry.content, AnchorForgotten) and request.id in entry.content.requests:
                raise AnchorNotFound(entry.content.key)
        known = self._file.request(request.id)
        try:
            elsewhere = not known and self._space.has_request(request.id)
        except IndexUnavailable:
            elsewhere = False
        if elsewhere or (known and known.stamp.request_hash != request.hash):
            raise RequestIdReused(request.id)
        return known

    def _as_it_was(self, key: str, known: Entry) -> Anchor:
        """The anchor that a request set, as it was then."""
        assert isinstance(known.content, AnchorSet)
        then = [it for it in self._given(key)[key] if it.time <= known.content.time]
        return history(then[: then.index(known.content) + 1] if known.content in then else then)[0]

    def _histories(self, key: str) -> dict[str, list[Anchor]]:
        return {name: done for name, given in self._given(key).items() if (done := history(given))}

    def _given(self, key: str) -> dict[str, list[AnchorSet]]:
        """Everything that was given to a key (empty: to each) and not forgotten, what was found
        before what was set.
        """
        given: defaultdict[str, list[AnchorSet]] = defaultdict(list)
        with self._file.lock:
            entries = self._file.entries
            forgotten = self._file.forgotten()
        for found in self._space.index.anchors.found(key):
            if found.time > forgotten.get(found.key, -1):
                given[found.key].append(found)
        for entry in entries:
            if isinstance(entry.content, AnchorSet) and key in ("", entry.content.key):
                given[entry.content.key].append(entry.content)
        return given
