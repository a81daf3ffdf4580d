"""Tiers and summaries that callers record of turns: they are kept, and contexts follow them."""

from contextlib import closing
from typing import Any

import apsw
import pytest
from recollect.v1 import context_pb2
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.update_pb2 import ConversationUpdated

from tests.at_rest import problems
from tests.conftest import Start
from tests.context.conftest import COLD, HOT, WARM, allocation, built, said
from tests.postgres import Postgres
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    delete_index,
    failure_of,
    files_with,
    user,
)

MARK = "(Summary of this turn) "
LONG = "Zebras drink at the river and eat dry grass on the plain. " * 60  # some 870 tokens


def record(service: Service, conversation: str, turn: int, **fields: Any) -> None:
    service.conversations.SetTurnMemory(
        api.SetTurnMemoryRequest(conversation_id=conversation, turn_number=turn, **fields)
    )


def recorded(service: Service, conversation: str) -> list[tuple[int, int, str]]:
    """Return what is recorded of each turn."""
    request = api.ListTurnMemoryRequest(conversation_id=conversation)
    memories = service.conversations.ListTurnMemory(request).turn_memories
    return [(it.turn_number, it.tier, it.summary) for it in memories]


@pytest.mark.parametrize("store", ["folder", "postgres"])
def test_what_is_recorded_outlives_the_index_goes_with_forks_and_is_redacted_with_its_turn(
    store: str, start_server: Start, connect: Connect, request: pytest.FixtureRequest
) -> None:
    postgres: Postgres | None = None
    flags = {}
    if store == "postgres":
        postgres = request.getfixturevalue("postgres")
        flags = {"store": postgres.new_database()}

    def bytes_with(text: str) -> list[object]:
        """Return where the data have a text."""
        if postgres is None:
            return list(files_with(server.folder, text))
        query = (
            "SELECT body FROM recollect.lines UNION ALL SELECT body FROM recollect.redacted_lines"
        )
        rows = postgres.execute(query, flags["store"])
        return [*(row for row in rows if text in str(row)), *files_with(server.folder, text)]

    server = start_server(**flags)
    service = connect(server)
    chat = service.create().id
    for number in range(1, 6):
        service.turn(chat, f"question {number}", f"answer {number}")
    for turn, summary in ((2, "Quokkas."), (4, "Quixotriple.")):
        record(service, chat, turn, tier=HOT, summary=summary, request_id=f"r{turn}")
    record(service, chat, 4, tier=COLD)
    record(service, chat, 5, tier=WARM)
    record(service, chat, 5, reset_tier=True)
    whole = [(2, HOT, "Quokkas."), (4, COLD, "Quixotriple.")]
    assert recorded(service, chat) == whole
    fork = api.ForkRequest(conversation_id=chat, through_turn=3)
    copy = service.conversations.Fork(fork).conversation.id
    assert recorded(service, copy) == whole[:1]
    assert bytes_with("Quixotriple.")
    service.conversations.RedactMessage(
        api.RedactMessageRequest(conversation_id=chat, turn_number=4)
    )
    left = [whole[0], (4, COLD, "")]
    assert recorded(service, chat) == left
    late = failure_of(lambda: record(service, chat, 4, summary="Quixotriple."))
    assert (late.code, late.fields) == ("INVALID_ARGUMENT", ("summary",))
    assert not bytes_with("Quixotriple.")
    before = built(service, chat, format=context_pb2.CONTEXT_FORMAT_XML).rendered
    assert "answer 2" in before
    server.stop()
    if store == "folder":
        assert problems(server.folder) == []
        with closing(apsw.Connection(str(server.folder / "conversations.db"))) as connection:
            connection.execute("UPDATE turn_memories SET tier = 2 WHERE turn = 4")
        assert [it.partition(": ")[2] for it in problems(server.folder)] == [
            "the index has other tiers or summaries of turns than the transcript"
        ]
    delete_index(server)
    server = start_server(**flags)
    service = connect(server)
    assert recorded(service, chat) == left
    assert built(service, chat, format=context_pb2.CONTEXT_FORMAT_XML).rendered == before
    service.delete(chat)
    again = service.create(conversation_id=chat).id
    service.turn(again, "Anew.")
    assert recorded(service, again) == []
    assert recorded(service, copy) == whole[:1]
    assert bytes_with("Quokkas.")
    service.delete(copy)
    assert not bytes_with("Quokkas.")


def test_a_stream_tells_what_is_recorded_from_now_on(service: Service) -> None:
    chat = service.conversation_of("one")
    stream = service.conversations.StreamUpdates(api.StreamUpdatesRequest())
    try:
        updates = (it.update for it in stream)
        while next(updates).WhichOneof("kind") != "conversation_loaded":
            pass
        record(service, chat, 1, summary="Of zebras.")
        record(service, chat, 1, tier=COLD)
        record(service, chat, 1, summary="Of zebras.")
        for tier in (0, COLD, COLD):
            changed: ConversationUpdated = next(updates).conversation_updated
            memory = changed.turn_memory
            assert (memory.turn_number, memory.tier, memory.summary) == (1, tier, "Of zebras.")
            assert not changed.messages
    finally:
        stream.cancel()


def test_turns_are_in_the_tier_that_a_caller_put_them_into(service: Service) -> None:
    chat = service.create().id
    for number in range(1, 13):
        service.turn(chat, f"q{number}", f"a{number}")
    as_before = built(service, chat)
    assert said(as_before.hot)[0] == "q8"
    for turn, tier in ((2, HOT), (9, WARM), (10, COLD), (5, COLD), (12, HOT)):
        record(service, chat, turn, tier=tier)
    context = built(service, chat)
    numbers = [
        sorted({it.message.turn_number for it in tier}) for tier in (context.hot, context.warm)
    ]
    assert numbers == [[2, 8, 11, 12], [1, 3, 4, 6, 7, 9]]
    assert context.hot[0].reason == "the caller keeps its turn in this tier"
    # what has no room in the hot tier comes first in the warm one
    service.turn(chat, "q13", LONG)
    short = built(service, chat, hot=885, warm=60, cold=1)
    assert 2 not in {it.message.turn_number for it in short.hot}
    reasons = {it.message.turn_number: it.reason for it in short.warm}
    assert reasons[2] == "the caller put its turn here"
    # a turn that a summary of the conversation covers stays too
    service.compress(chat, 6, "Six turns.")
    record(service, chat, 3, tier=WARM)
    context = built(service, chat)
    assert (said(context.hot)[:2], said(context.warm)[:2]) == (["q2", "a2"], ["q3", "a3"])
    for turn in (2, 9, 10, 5, 12):
        record(service, chat, turn, reset_tier=True)
    assert "q2" not in said(built(service, chat).hot)


@pytest.mark.parametrize("form", [1, 2, 3, 4, 5])
def test_a_summary_stands_for_a_turn_where_the_budget_is_short(service: Service, form: int) -> None:
    chat, other = service.create().id, service.create().id
    for number in range(1, 9):
        service.append(chat, user(f"q{number}", sender="Ana"), agent(LONG))
    service.turn(chat, "q9", "Noted.")
    service.turn(other, f"Where do the okapis of Epulu sleep? {LONG}", LONG)
    whole = built(service, chat, format=form, total=20_000)
    budget: dict[str, Any] = {"hot": 500, "warm": 600, "cold": 300, "format": form}
    assert "q3" not in said(built(service, chat, **budget).warm)
    record(service, chat, 3, summary="Three zebras.")
    record(service, other, 1, summary="Okapis of Epulu sleep standing.")
    assert built(service, chat, format=form, total=20_000) == whole
    context = built(service, chat, "Where do the okapis of Epulu sleep?", **budget)
    [short] = [it for it in context.warm if it.is_summary]
    assert short.message.content == f"{MARK}Three zebras."
    assert (short.message.role, short.message.sender) == (user("").role, "Ana")
    assert short.message.timestamp == whole.warm[4].message.timestamp
    assert said(it for it in context.cold if it.is_summary) == [
        f"{MARK}Okapis of Epulu sleep standing."
    ]
    if form not in (1, 5):
        assert f"{MARK}Three zebras." in context.rendered
    if form != 1:
        assert f"{MARK}Okapis of Epulu sleep standing." in context.rendered
    assert context.rendered_tokens <= allocation(context, HOT).budget + 600 + 300 + 400
    dropped = [(it.conversation_id, it.sequence) for it in context.dropped]
    shown = [
        (it.conversation_id, it.message.sequence)
        for tier in (context.hot, context.warm, context.cold)
        for it in tier
    ]
    assert len(dropped + shown) == len({*dropped, *shown})
    # a turn that the caller keeps is there as its summary, and one that is recalled in its words
    record(service, chat, 3, tier=HOT)
    assert said(built(service, chat, **budget).hot)[0] == f"{MARK}Three zebras."
    recalled = built(service, chat, "What was asked with q3?", **budget | {"cold": 2000})
    assert "q3" in said(recalled.cold)
    assert not any(it.is_summary for it in (*recalled.hot, *recalled.warm))
