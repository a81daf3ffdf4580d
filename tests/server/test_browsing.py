"""The turns and conversations around what was found: FetchContext and Recent."""

from typing import Any

from recollect.v1 import recall_service_pb2 as api
from recollect.v1.recall_pb2 import TurnRange

from tests.cases import each
from tests.conftest import MovableClock
from tests.server.conftest import Service, failure_of, moment


def test_a_context_is_the_last_10_turns_or_those_named(service: Service) -> None:
    conversation_id = service.create().id
    for number in range(1, 16):
        service.turn(conversation_id, f"q{number}", f"a{number}")
    answer = service.context(conversation_id)
    assert [message.turn_number for message in answer.messages] == [
        turn for turn in range(6, 16) for _ in range(2)
    ]
    assert (answer.total_turns, answer.conversation_name, answer.channel) == (15, "q1", "web")
    answer = service.context(conversation_id, turn_range=TurnRange(first=3, last=4))
    assert [message.content for message in answer.messages] == ["q3", "a3", "q4", "a4"]
    answer = service.context(conversation_id, turn_range=TurnRange(first=15, last=200))
    assert [message.content for message in answer.messages] == ["q15", "a15"]
    assert len(service.context(service.create().id).messages) == 0


@each(("first", "last", "field"), [
        (0, 0, "turn_range.first"), (-1, 2, "turn_range.first"), (2, 1, "turn_range.last"), (1, 201, "turn_range"),
        (3, 3, "turn_range.first"), (1, -2147483648, "turn_range.last"),
    ])  # fmt: skip
def test_a_context_that_cannot_be_is_refused(
    service: Service, first: int, last: int, field: str
) -> None:
    conversation_id = service.conversation_of("one", "two")
    failure = failure_of(
        lambda: service.context(conversation_id, turn_range=TurnRange(first=first, last=last))
    )
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        (field,),
    )


def test_recent_browses_by_time(service: Service, clock: MovableClock) -> None:
    start = clock.now
    made = []
    for number in range(15):
        made.append(
            service.conversation_of(
                "first words", f"newest words {number}", channel="web" if number % 2 else "cli"
            )
        )
        clock.move(1000)
    service.abbreviate(made[14], "notes")

    def recent(**fields: Any) -> list[str]:
        return [entry.conversation.id for entry in service.recent(**fields).conversations]

    assert recent() == made[:4:-1]
    assert recent(limit=2) == [made[14], made[13]]
    assert recent(limit=100, order=api.RECENT_ORDER_OLDEST_FIRST) == made
    assert recent(channel="web", limit=2) == [made[13], made[11]]
    assert recent(before=moment(start + 3000)) == [made[2], made[1], made[0]]
    assert recent(after=moment(start + 13_000)) == [made[14], made[13]]
    assert recent(after=moment(start + 1000), before=moment(start + 2000)) == [made[1]]
    first, second = service.recent(limit=2).conversations
    assert (first.conversation.abbreviation, first.snippet) == ("notes", "")
    assert (second.conversation.abbreviation, second.snippet) == ("", "newest words 13")
