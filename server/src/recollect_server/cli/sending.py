"""Carries out a plan through the public API, exactly once.

Every request has an id made of what names the conversation, the place in it, and a hash of what is sent: a second run repeats the
same ids and adds nothing, and a run that broke off is finished by the next. Every append says on which turn it builds, so that a
conversation that is different from what an earlier run left (the file changed, or somebody went on with it) is left alone.
"""

import hashlib
import re
from dataclasses import replace
from typing import Any

import orjson
from recollect import (
    AlreadyExists,
    Client,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RecollectError,
    ResourceExhausted,
    TurnOutOfDate,
    Unimplemented,
)

from recollect_server.cli.conversion import message_to, party_to, time_to
from recollect_server.cli.plan import Batch, Happened, Placed, Plan, Tally
from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import (
    Abbreviated,
    AnchorSet,
    CommandRun,
    Compressed,
    Continued,
    MetaUpdated,
    SplitSuggested,
    TitleAssigned,
)
from recollect_server.domain.ids import is_conversation_id
from recollect_server.domain.message import Role
from recollect_server.domain.text import one_line
from recollect_server.storage.logs.record import message_fields

MAX_BATCH = 1000
MAX_BATCH_BYTES = 8 << 20

_REFUSALS = (AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, TurnOutOfDate, Unimplemented)
"""What concerns one conversation alone. Other errors end the import."""
_MESSAGE_FIELD = re.compile(r"messages\[(\d+)\]")


def carry_out(client: Client, plan: Plan) -> Tally:
    """Brings in one conversation. What the server refuses of it is in the tally; what stops the import is a RecollectError."""
    return _Sending(client, plan).run()


def request_id(*parts: Any) -> str:
    """The id of the request that these parts name."""
    return f"import-{hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:40]}"


class _Sending:
    def __init__(self, client: Client, plan: Plan) -> None:
        self._calls = client.conversations
        self._plan = plan
        self._tally = Tally(skips=list(plan.skips))
        self._id = ""
        self._turn = 0  # the newest turn, as far as we sent it
        self._turns: dict[int, int] = {}  # turn numbers at home -> here
        self._handled = 0  # messages sent or refused
        self._pinned = False  # whether it has the place of its party here

    def run(self) -> Tally:
        try:
            known = self._create()
        except AlreadyExists as error:
            if error.reason == ErrorReason.CONVERSATION_EXISTS:
                self._leave_at_home()
            else:
                self._refused("it was imported before with another beginning (time, participants, model): delete that one first")
            return self._tally
        except _REFUSALS as error:
            self._refused(str(error))
            return self._tally
        try:
            for step in self._plan.steps:
                if isinstance(step, Batch):
                    for number, part in _within_limits(step):
                        self._append(number, part)
                else:
                    self._record(step)
        except TurnOutOfDate:
            self._refused(f"{self._id} is not as an earlier import left it: the file changed, or somebody went on with it")
        except _REFUSALS as error:
            self._refused(f"{self._id}: {error}")
        if known or self._tally.messages_known:
            self._tally.conversations_known = 1
        else:
            self._tally.conversations_new = 1
            self._tally.ids_given = int(self._id != self._plan.began.id)
        return self._tally

    def _leave_at_home(self) -> None:
        """Count a conversation that this server has by its own id and did not import: this is where the file came from."""
        try:
            there = self._calls.get(self._plan.began.id)
        except RecollectError as error:
            self._refused(f"{self._plan.began.id} is taken: {error}")
            return
        missing = max(0, self._plan.message_count - there.message_count)
        self._tally.conversations_known = 1
        self._tally.messages_known = self._plan.message_count - missing
        if missing:
            self._tally.skip(self._plan.where, f"this server has {there.id} itself, with {missing} messages fewer; left as it is")

    def _create(self) -> bool:
        """Begin the conversation, under its own id where that is free. Return whether an earlier run did, as far as messages will
        not tell.
        """
        began = self._plan.began
        begun: set[str] = set()
        if not self._plan.message_count and began.time:
            begins, ends = time_to(began.time), time_to(began.time + 1)
            begun = {it.id for it in self._calls.list(channels=[began.channel], updated_after=begins, updated_before=ends)}
        self._id = self._begin(pinned=self._has_free_place())
        return self._id in begun

    def _begin(self, *, pinned: bool) -> str:
        """Begin the conversation, under its own id and pinned where that is possible, and return its id.

        Where an earlier run began it otherwise, its request id finds it in the form that it had then.
        """
        own = self._plan.began.id if is_conversation_id(self._plan.began.id) else ""
        forms = [(name, is_pinned) for name in dict.fromkeys((own, "")) for is_pinned in (pinned, not pinned)]
        refusal: RecollectError | None = None
        for name, self._pinned in forms:
            try:
                return self._begin_as(name, pinned=self._pinned)
            except AlreadyExists as error:
                if error.reason == ErrorReason.CONVERSATION_EXISTS:
                    raise
                refusal = refusal or error
            except InvalidArgument as error:
                if not self._pinned or not {it.field for it in error.violations} <= {"pinned", "party"}:
                    raise
                refusal = refusal or error  # its party names no place
        assert refusal is not None
        raise refusal

    def _begin_as(self, conversation_id: str, *, pinned: bool) -> str:
        began = self._plan.began
        return self._calls.create(
            began.channel,
            participants=[one_line(name) for name in began.participants],
            party=party_to(began.party),
            model=began.model,
            create_time=time_to(began.time) if began.time else None,
            pinned=pinned,
            conversation_id=conversation_id or None,
            request_id=request_id(*self._plan.key, "create"),
        ).id

    def _has_free_place(self) -> bool:
        """Return whether the conversation was pinned last and nobody has its place here: what comes in joins it then."""
        began = self._plan.began
        pinned = began.pinned
        for step in self._plan.steps:
            if isinstance(step, Batch):
                if any(placed.message.channel not in ("", began.channel) for placed in step.messages):
                    return False  # a pinned conversation takes no message of another channel
            elif isinstance(step.event, MetaUpdated) and step.event.pinned is not None:
                pinned = step.event.pinned
            elif isinstance(step.event, Continued):
                pinned = False
        if not pinned or began.channel == EMAIL:  # on e-mail ids lead to it, and several are pinned
            return pinned
        return not any(self._calls.list(channels=[began.channel], party=party_to(began.party), pinned=True))

    def _append(self, number: str, batch: list[Placed]) -> None:
        while batch:
            try:
                stored = self._calls.append_turn(
                    self._id,
                    [message_to(placed.message) for placed in batch],
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
            self._turns |= {placed.message.turn_number: it.turn_number for placed, it in zip(batch, stored.messages, strict=True)}
            self._handled += len(batch)
            if stored.duplicate:
                self._tally.messages_known += len(batch)
            else:
                self._tally.messages_new += len(batch)
            return

    def _late(self, batch: list[Placed]) -> int | None:
        """Return the turn that a batch answers, here, if newer turns were sent before it; None if it goes on with the newest."""
        said = [placed.message for placed in batch if placed.message.role is not Role.TOOL]  # a result finds its turn by its call
        if not said or any(message.role is Role.USER for message in said):
            return None
        return self._turns.get(said[0].turn_number) if said[0].turn_number < max(self._turns, default=0) else None

    def _without_refused(self, batch: list[Placed], error: RecollectError) -> list[Placed]:
        """The batch without the messages that an error names. Raises it if it names none."""
        refused: dict[int, str] = {}
        for violation in error.violations:
            if match := _MESSAGE_FIELD.match(violation.field):
                field = violation.field[match.end() :].lstrip(".") or "message"
                refused.setdefault(int(match[1]), f"{field} {violation.description}")
        if _is_too_large(error) and len(batch) == 1:
            refused[0] = "the message is too large for the server"
        if not refused:
            raise error
        for index, reason in refused.items():
            self._tally.skip(batch[index].where, f"message refused: {reason}")
        self._handled += len(refused)
        return [placed for index, placed in enumerate(batch) if index not in refused]

    def _record(self, step: Happened) -> None:
        try:
            self._record_event(step)
        except (InvalidArgument, Unimplemented) as error:
            self._tally.skip(step.where, f"event refused: {error}")

    def _record_event(self, step: Happened) -> None:
        def named(*parts: Any) -> str:
            return request_id(*self._plan.key, "event", step.number, *parts)

        def by(writer: str, model: str) -> tuple[str, ...]:
            """Return what a record adds to the id of a request: nothing for a line of earlier versions, which have none."""
            return (writer, model) if writer else ()

        match step.event:
            case TitleAssigned(title, topics, _, writer, model):
                self._calls.rename(
                    self._id,
                    title,
                    automatic=True,
                    topics=topics,
                    writer=writer or None,
                    writer_model=model or None,
                    request_id=named("assigned", title, topics, *by(writer, model)),
                )
            case Compressed(through, summary):
                through = max((here for home, here in self._turns.items() if home <= through), default=through)
                self._calls.record_compression(self._id, through, summary, request_id=named(through, summary))
            case Abbreviated(text, _, topics, writer, model):
                self._calls.record_abbreviation(
                    self._id,
                    text,
                    topics=topics,
                    writer=writer or None,
                    writer_model=model or None,
                    request_id=named(text, topics, *by(writer, model)),
                )
            case MetaUpdated(_, title, manually_named, model, pinned):
                if title is not None and manually_named:
                    self._calls.rename(self._id, title, request_id=named("title", title))
                elif title is not None and not manually_named:
                    self._calls.rename(self._id, title, automatic=True, request_id=named("assigned", title))
                elif manually_named is not None:
                    self._tally.skip(step.where, "the API takes no word on who gave the title without the title")
                if model is not None:
                    self._calls.set_model(self._id, model, request_id=named("model", model))
                if pinned and not self._pinned:
                    self._tally.skip(step.where, "another conversation is pinned at its place, or its party names none")
            case AnchorSet(key):
                self._tally.skip(step.where, f"the API takes no anchor of a conversation: {key} stays behind")
            case SplitSuggested():
                self._tally.skip(step.where, "the API takes no suggested split")
            case Continued() | CommandRun():
                self._tally.skip(step.where, "commands are not run again, nor are threads joined")

    def _refused(self, reason: str) -> None:
        left = self._plan.message_count - self._handled
        self._tally.skip(self._plan.where, f"{reason} ({left} messages left out)" if left else reason)


def _within_limits(batch: Batch) -> list[tuple[str, list[Placed]]]:
    """The batch in parts that one append may hold, each with the number that names it."""
    parts: list[list[Placed]] = []
    room = 0
    for placed in batch.messages:
        size = len(orjson.dumps(_fields(placed)))
        if not parts or size > room or len(parts[-1]) == MAX_BATCH:
            parts.append([])
            room = MAX_BATCH_BYTES
        parts[-1].append(placed)
        room -= size
    return [(f"{batch.number}/{index}", part) for index, part in enumerate(parts)]


def _fields(placed: Placed) -> dict[str, Any]:
    """What is sent of a message."""
    return message_fields(replace(placed.message, turn_number=0))


def _is_too_large(error: RecollectError) -> bool:
    """Whether it is the batch as a whole that the server, or gRPC before it, finds too large."""
    if isinstance(error, ResourceExhausted):
        return error.reason is None
    return bool(error.violations) and all(violation.field == "messages" for violation in error.violations)
