"""Carries out the plans of an import, exactly once.

The id of a request is made of the name of its conversation, its place there and a hash of what is
sent: a second run repeats the same ids and adds nothing, and a run that broke off is finished by
the next. Every append says on which turn it builds, so a conversation that differs from what an
earlier run left (its file changed, or somebody went on with it) is left alone.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from recollect import (
    AlreadyExists,
    ArchiveFilter,
    Client,
    Conversation,
    ErrorReason,
    InvalidArgument,
    RecollectError,
    ResourceExhausted,
    Role,
    TurnOutOfDate,
    Unimplemented,
    errors,
)
from recollect._shared.history import is_too_large, read_history
from recollect._shared.plain import plain
from recollect.imports.plans import Batch, Event, Placed, Plan, Tally, fingerprint
from recollect.imports.transcript import TIERS, is_conversation_id
from recollect.imports.values import counted

MAX_BATCH = 1000
MAX_BATCH_BYTES = 8 << 20

_MESSAGE_FIELD = re.compile(r"messages\[(\d+)\]")
_NOT_TAKEN = {
    "anchor": "the API takes no anchor of a conversation: {} stays behind",
    "anchor_forgotten": "the API takes no anchor of a conversation: {} stays behind",
    "split_suggested": "the API takes no suggested split",
    "continued": "commands are not run again, nor are threads joined",
    "command": "commands are not run again, nor are threads joined",
    "unindexed": "what is imported can be searched for",
}
"""Events that the server alone writes, with the reason why they stay behind."""
_OF_RUNS = (
    errors.Cancelled,
    errors.ClientClosed,
    errors.DeadlineExceeded,
    errors.PermissionDenied,
    errors.Unauthenticated,
    errors.Unavailable,
)


def ends_run(error: RecollectError) -> bool:
    """Return whether a failure is no matter of one conversation, so that work on many ends: no
    server, no permission, or something that the server allows again later.
    """
    return isinstance(error, _OF_RUNS) or error.retry_delay is not None


def carry_out(client: Client, plan: Plan) -> Tally:
    """Import one conversation and count what the server took and refused. Raises RecollectError
    where others would fail likewise.
    """
    return _Sending(client, plan).run()


def request_id(*parts: Any) -> str:
    """Return the id of the request that these parts name."""
    return f"import-{fingerprint(parts)}"


class _Diverged(Exception):
    """Difference between a stored conversation and what an earlier import of the export brought."""


class _Sending:
    def __init__(self, client: Client, plan: Plan) -> None:
        self._client = client
        self._calls = client.conversations
        self._plan = plan
        self._tally = Tally(skips=list(plan.skips), branches=plan.branches, hidden=plan.hidden)
        self._id = ""
        self._turn = 0  # the newest turn that this run has sent
        self._turns: dict[int, int] = {}  # turn numbers in the file -> on this server
        self._handled = 0  # messages sent or refused
        self._pinned = False  # created as the pinned conversation of its party

    def run(self) -> Tally:
        try:
            exists = self._create()
        except AlreadyExists:
            self._leave_at_home()
            return self._tally
        except RecollectError as error:
            if ends_run(error):
                raise
            self._refused(str(error))
            return self._tally
        try:
            for step in self._rest() if self._plan.grows else self._plan.steps:
                if isinstance(step, Batch):
                    for number, part in _within_limits(step):
                        self._append(number, part)
                elif not self._plan.grows or not self._is_empty():
                    self._record(step)
        except _Diverged as error:
            self._refused(f"{self._id}: {error}")
        except TurnOutOfDate:
            reason = "is not as an earlier import left it: the file changed, or somebody went on"
            self._refused(f"{self._id} {reason} with it")
        except RecollectError as error:
            if ends_run(error):
                raise
            self._refused(f"{self._id}: {error}")
        if self._plan.message_count and self._is_empty():
            # The server took none of its messages, now or earlier.
            if self._calls.get(self._id).message_count:
                self._tally.conversations_known = 1
            else:
                self._calls.delete(self._id)
            return self._tally
        if exists or self._tally.messages_known:
            self._tally.conversations_known = 1
        else:
            self._tally.conversations_new = 1
            self._tally.ids_given = int(
                self._id != self._plan.beginning.id and not self._plan.grows
            )
        return self._tally

    def _rest(self) -> list[Batch | Event]:
        """Return the steps without the messages that an earlier import brought.

        Raises _Diverged.
        """
        conversation = self._calls.get(self._id)
        if not conversation.message_count:
            return self._plan.steps
        batches = [step for step in self._plan.steps if isinstance(step, Batch)]
        events = [step for step in self._plan.steps if isinstance(step, Event)]
        planned = [it for batch in batches for it in batch.messages]
        if self._is_whole(conversation, planned):
            self._tally.messages_known = self._handled = len(planned)
            return list(events)
        stored = [
            it.metadata.get("importId")
            for it in read_history(self._client.conversations.load, conversation).messages
        ]
        stored_ids = {it for it in stored if it is not None}
        ids = [it.message.metadata["importId"] for it in planned]
        end = max((at for at, it in enumerate(ids, start=1) if it in stored_ids), default=0)
        self._turn = conversation.turn_count
        self._tally.messages_known = len(stored_ids & set(ids))
        self._handled = end
        if not stored_ids <= set(ids):
            raise _Diverged(
                "the export shows another branch of it than an earlier import brought; delete it"
                " here to import it anew"
            )
        if end < len(planned) and None in stored:
            raise _Diverged("somebody went on with it here")
        for it in planned[:end]:
            if it.message.metadata["importId"] not in stored_ids:
                self._tally.skip(it.where, "an earlier import left it out")
        sent = {id(it) for it in planned[:end]}
        remaining = (
            Batch(batch.number, [it for it in batch.messages if id(it) not in sent])
            for batch in batches
        )
        return [*(batch for batch in remaining if batch.messages), *events]

    def _is_whole(self, there: Conversation, planned: list[Placed]) -> bool:
        """Return whether an earlier import brought all messages: as many, and the last one. A run
        over many files that did not change reads no more of each than its last turn.
        """
        more = there.message_count - len(planned)
        if more and not (more > 0 and self._plan.loses_beginning):
            return False
        return self._ends_with(there.id, planned[-1])

    def _ends_with(self, conversation_id: str, message: Placed) -> bool:
        """Return whether a conversation ends with a message that an earlier import brought."""
        last = self._calls.load(conversation_id, max_turns=1).messages[-1:]
        end = message.message.metadata["importId"]
        return [it.metadata.get("importId") for it in last] == [end]

    def _without_beginning(self) -> str:
        """Return the id of the conversation that ends as the plan does, empty for none."""
        messages = [
            it for step in self._plan.steps if isinstance(step, Batch) for it in step.messages
        ]
        if not messages or (time := messages[-1].message.timestamp) is None:
            return ""
        for it in self._ended_at(time):
            if self._ends_with(it.id, messages[-1]):
                return it.id
        return ""

    def _ended_at(self, time: datetime) -> Iterator[Conversation]:
        """Return the conversations of the channel that last changed in a millisecond."""
        begins = time.replace(microsecond=time.microsecond // 1000 * 1000)
        return self._calls.list(
            channels=[self._plan.beginning.channel],
            updated_after=begins,
            updated_before=begins + timedelta(milliseconds=1),
            archived=ArchiveFilter.ALL,
        )

    def _is_empty(self) -> bool:
        """Return whether the server took none of the messages, now or earlier."""
        return not (self._tally.messages_new or self._tally.messages_known)

    def _leave_at_home(self) -> None:
        """Count a conversation that this server has by the same id and did not import.

        It is where the file came from, or another file of the same conversation was imported.
        """
        own = self._plan.beginning.id
        try:
            there = self._calls.get(own)
        except RecollectError as error:
            if ends_run(error):
                raise
            self._refused(
                "it was imported before with another beginning (time, participants, model):"
                " delete that one first"
            )
            return
        missing = max(0, self._plan.message_count - there.message_count)
        self._tally.conversations_known = 1
        self._tally.messages_known = self._plan.message_count - missing
        if missing:
            reason = f"this server has {own} itself, with {counted(missing, 'message')} fewer; left as it is"
            self._tally.skip(self._plan.where, reason)

    def _create(self) -> bool:
        """Create the conversation, under its own id where that is free.

        Return whether an earlier run did, where no message will tell.
        """
        beginning = self._plan.beginning
        existing: set[str] = set()
        if self._plan.loses_beginning and (own := self._without_beginning()):
            self._id = own
            return True
        if not self._plan.message_count and (created := beginning.create_time):
            existing = {it.id for it in self._ended_at(created)}
        self._id = self._create_in_any_form(pinned=self._has_free_place())
        return self._id in existing

    def _create_in_any_form(self, *, pinned: bool) -> str:
        """Create the conversation, under its own id and pinned where possible, and return its id.

        An earlier run may have created it in another form: its request id finds it in that form.
        """
        own = self._plan.beginning.id if is_conversation_id(self._plan.beginning.id) else None
        forms = [
            (it, is_pinned)
            for it in dict.fromkeys((own, None))
            for is_pinned in (pinned, not pinned)
        ]
        refusal: RecollectError | None = None
        for conversation_id, self._pinned in forms:
            try:
                return self._create_as(conversation_id, pinned=self._pinned)
            except AlreadyExists as error:
                if error.reason == ErrorReason.CONVERSATION_EXISTS:
                    raise
                refusal = refusal or error
            except InvalidArgument as error:
                if not self._pinned or not {it.field for it in error.violations} <= {
                    "pinned",
                    "party",
                }:
                    raise
                refusal = refusal or error  # its party names no place
        assert refusal is not None
        raise refusal

    def _create_as(self, conversation_id: str | None, *, pinned: bool) -> str:
        beginning = self._plan.beginning
        return self._calls.create(
            beginning.channel,
            participants=beginning.participants,
            party=beginning.party,
            model=beginning.model,
            create_time=beginning.create_time,
            pinned=pinned,
            conversation_id=conversation_id,
            request_id=request_id(*self._plan.key, "create"),
        ).id

    def _has_free_place(self) -> bool:
        """Return whether the conversation was pinned last and its place is free on this server."""
        beginning = self._plan.beginning
        pinned = beginning.pinned
        for step in self._plan.steps:
            if isinstance(step, Batch):
                if any(it.message.channel not in ("", beginning.channel) for it in step.messages):
                    return False  # a pinned conversation takes no message of another channel
                continue
            match step.fields:
                case {"event": "meta_update", "pinned": bool(now)}:
                    pinned = now
                case {"event": "continued"}:
                    pinned = False
        if not pinned or beginning.channel == "email":
            return pinned  # on e-mail several are pinned: the ids of messages lead to each
        there = self._calls.list(
            channels=[beginning.channel],
            party=beginning.party,
            pinned=True,
            archived=ArchiveFilter.ALL,
        )
        return not any(there)

    def _append(self, number: str, batch: list[Placed]) -> None:
        while batch:
            try:
                stored = self._calls.append_turn(
                    self._id,
                    [replace(it.message, turn_number=0) for it in batch],
                    expected_turn=self._turn,
                    in_reply_to_turn=self._late(batch),
                    request_id=request_id(*self._plan.key, "append", number, *map(_fields, batch)),
                )
            except (InvalidArgument, ResourceExhausted) as error:
                if _is_too_large(error) and len(batch) > 1:
                    middle = len(batch) // 2
                    self._append(f"{number}.1", batch[:middle])
                    self._append(f"{number}.2", batch[middle:])
                    return
                batch = self._without_refused(batch, error)
                continue
            self._turn = stored.conversation.turn_count
            for sent, message in zip(batch, stored.messages, strict=True):
                self._turns[sent.message.turn_number] = message.turn_number
            self._handled += len(batch)
            if stored.duplicate:
                self._tally.messages_known += len(batch)
            else:
                self._tally.messages_new += len(batch)
            return

    def _late(self, batch: list[Placed]) -> int | None:
        """Return the turn here that a batch answers if newer turns were sent before it, else
        None.
        """
        # The result of a tool finds its turn by its call.
        spoken = [it.message for it in batch if it.message.role is not Role.TOOL]
        if not spoken or any(message.role is Role.USER for message in spoken):
            return None
        turn = spoken[0].turn_number
        return self._turns.get(turn) if turn < max(self._turns, default=0) else None

    def _without_refused(self, batch: list[Placed], error: RecollectError) -> list[Placed]:
        """Return the batch without the messages that an error names. Raise it if it names none."""
        refused: dict[int, str] = {}
        for violation in error.violations:
            if match := _MESSAGE_FIELD.match(violation.field):
                field = violation.field[match.end() :].lstrip(".") or "message"
                refused.setdefault(int(match[1]), f"{field} {violation.description}")
        if _is_too_large(error) and len(batch) == 1:
            refused[0] = "the message is too large for the server"
        if not refused:
            raise error
        for index, reason in sorted(refused.items()):
            self._tally.skip(batch[index].where, f"message refused: {reason}")
        self._handled += len(refused)
        return [it for index, it in enumerate(batch) if index not in refused]

    def _record(self, step: Event) -> None:
        try:
            reason = self._record_event(step.number, step.fields)
        except (InvalidArgument, Unimplemented, TypeError) as error:
            reason = f"event refused: {error}"
        if reason:
            self._tally.skip(step.where, reason)

    def _record_event(self, number: str, event: dict[str, Any]) -> str:
        """Record an event as far as the API takes it.

        Return why the rest stays behind, if it does.
        """

        def named(*parts: Any) -> str:
            return request_id(*self._plan.key, "event", number, *parts)

        # Lines of earlier versions have no writer, and no part of the request's id.
        by = {"writer": event.get("writer"), "writer_model": event.get("model")}
        written = (event["writer"], event.get("model", "")) if event.get("writer") else ()
        match event:
            case {"event": "title_assigned", "title": title}:
                topics = event.get("topics", [])
                key = named("assigned", title, topics, *written)
                self._calls.rename(
                    self._id, title, automatic=True, topics=topics, request_id=key, **by
                )
            case {"event": "compression", "compressedThrough": int(through), "summary": summary}:
                turns = (here for home, here in self._turns.items() if home <= through)
                through = max(turns, default=through)
                key = named(through, summary)
                self._calls.record_compression(self._id, through, summary, request_id=key)
            case {"event": "abbreviation", "text": text}:
                topics = event.get("topics")
                key = named(text, topics, *written)
                self._calls.record_abbreviation(self._id, text, topics=topics, request_id=key, **by)
            case {"event": "turn_memory", "turn": int(turn)} if event.get("tier", 0) in range(4):
                if (here := self._turns.get(turn)) is None:
                    return f"turn {turn}, whose tier or summary it is, was left out"
                turn, summary = here, event.get("summary", "")
                tier = TIERS[event["tier"] - 1] if event.get("tier") else None
                key = named(turn, str(tier), summary)
                self._calls.set_turn_memory(
                    self._id,
                    turn,
                    tier=tier,
                    reset_tier=tier is None,
                    summary=summary,
                    request_id=key,
                )
            case {"event": "meta_update"}:
                return self._update(event, named)
            case {"event": str(kind)} if kind in _NOT_TAKEN:
                return _NOT_TAKEN[kind].format(event.get("key"))
            case _:
                return (
                    f"a line of a kind that is not known: event {event.get('event', '')}".rstrip()
                )
        return ""

    def _update(self, event: dict[str, Any], named: Any) -> str:
        title, is_manual = event.get("title"), event.get("manuallyNamed")
        left = ""
        if title is not None and is_manual:
            self._calls.rename(self._id, title, request_id=named("title", title))
        elif title is not None:
            key = named("assigned", title)
            self._calls.rename(self._id, title, automatic=True, request_id=key)
        elif is_manual is not None:
            left = "the API takes no word on who gave the title without the title"
        if (model := event.get("model")) is not None:
            self._calls.set_model(self._id, model, request_id=named("model", model))
        if (topics := event.get("topics")) is not None:
            self._calls.set_topics(self._id, topics, request_id=named("topics", *topics))
        if (metadata := event.get("metadata")) is not None:
            key = named("metadata", json.dumps(metadata, sort_keys=True))
            self._calls.update_metadata(self._id, metadata, request_id=key)
        if (archived := event.get("archived")) is not None:
            key = named("archived", str(archived))
            self._calls.archive(self._id, unarchive=not archived, request_id=key)
        if event.get("pinned") and not self._pinned:
            left = "another conversation is pinned at its place, or its party names none"
        return left

    def _refused(self, reason: str) -> None:
        left = self._plan.message_count - self._handled
        where = f"the rest of {self._plan.where}"
        self._tally.skip(
            where, f"{reason} ({counted(left, 'message')} left out)" if left else reason
        )


def _within_limits(batch: Batch) -> list[tuple[str, list[Placed]]]:
    """Return the batch in parts that one append may hold, each with the number that names it."""
    parts: list[list[Placed]] = []
    room = 0
    for placed in batch.messages:
        size = len(json.dumps(_fields(placed), ensure_ascii=False).encode(errors="surrogatepass"))
        if not parts or size > room or len(parts[-1]) == MAX_BATCH:
            parts.append([])
            room = MAX_BATCH_BYTES
        parts[-1].append(placed)
        room -= size
    return [(f"{batch.number}/{index}", part) for index, part in enumerate(parts)]


def _fields(placed: Placed) -> dict[str, Any]:
    """Return a message as request ids contain it, in every version."""
    fields = {"content": placed.message.content} | plain(placed.message)
    del fields["sequence"], fields["turnNumber"]
    for attachment in fields.get("attachments", ()):
        if not attachment["bytesLength"]:
            del attachment["bytesLength"]
    return fields


def _is_too_large(error: RecollectError) -> bool:
    """Return whether the batch as a whole is too large for the server, or for gRPC before it."""
    names_batch = bool(error.violations) and all(it.field == "messages" for it in error.violations)
    return is_too_large(error) or names_batch
