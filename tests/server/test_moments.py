"""The messages right before and behind a hit: the reply to one that asks, and both on request."""

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_pb2
from recollect.v1 import recall_service_pb2 as recall_api

from tests.conftest import MovableClock
from tests.server.conftest import Service, agent, moment, user

ASKING = "Where did you two meet, Anna?"
REPLY = "On a boat, of all things."


def hit_of(answer: recall_api.SearchResponse, sequence: int) -> recall_pb2.SearchHit:
    return next(it for it in answer.hits if it.sequence == sequence)


@pytest.fixture
def talk(service: Service) -> str:
    it = service.create().id
    service.append(it, user("We go to Rome.", sender="Anna"), user(ASKING, sender="Ben"))
    service.append(it, user(REPLY, sender="Anna"), user("How we meet is a story.", sender="Anna"))
    return it


def test_a_hit_that_asks_brings_the_reply_and_others_bring_nothing(
    service: Service, talk: str
) -> None:
    answer = service.search("meet")
    asking, statement = hit_of(answer, 3), hit_of(answer, 5)
    reply = asking.after
    assert (reply.sequence, reply.turn_number, reply.sender, reply.text) == (4, 3, "Anna", REPLY)
    assert reply.date.seconds > 0
    assert not asking.HasField("before")
    assert not statement.HasField("after")
    assert talk == asking.conversation_id


def test_on_request_each_hit_has_what_stands_before_and_behind(service: Service, talk: str) -> None:
    answer = service.search("meet", moment=True)
    asking, statement = hit_of(answer, 3), hit_of(answer, 5)
    assert (asking.before.text, asking.after.text) == ("We go to Rome.", REPLY)
    assert (statement.before.text, statement.HasField("after")) == (REPLY, False)


def test_a_question_that_its_sender_goes_on_from_has_no_reply(service: Service) -> None:
    it = service.create().id
    service.append(it, user(ASKING, sender="Ben"), user("Sorry, I was curious.", sender="Ben"))
    assert not service.search("meet").hits[0].HasField("after")
    behind = service.create().id
    service.append(behind, user("Which wombat?"), agent("The one in the garden, " * 100))
    reply = service.search("wombat").hits[0].after
    assert reply.text.startswith("The one in the garden")
    assert 500 < len(reply.text) <= 600


def test_a_question_without_a_mark_brings_its_reply_and_a_clause_like_it_none(
    service: Service,
) -> None:
    for asking, telling in (
        ("where did you two meet", "where we meet is a secret"),
        ("wo habt ihr euch kennengelernt", "wo wir uns kennengelernt haben weiß keiner"),
    ):
        it = service.create().id
        service.append(it, user(asking, sender="Ben"), user(REPLY, sender="Anna"))
        other = service.create().id
        service.append(other, user(telling, sender="Ben"), user("Fine.", sender="Anna"))
        hits = [hit for hit in service.search(asking).hits if hit.sequence == 2]
        replies = {hit.conversation_id: hit.after.text for hit in hits}
        assert (replies[it], replies[other]) == (REPLY, "")


def test_what_is_redacted_or_beyond_the_period_is_no_reply(
    service: Service, clock: MovableClock, talk: str
) -> None:
    end = clock.now + 1000
    clock.move(2000)
    late = service.create().id
    service.append(late, user("Did the numbat meet you?", timestamp=moment(clock.now - 1500)))
    service.append(late, agent("It did.", timestamp=moment(clock.now)))
    assert service.search("numbat").hits[0].after.text == "It did."
    period = recall_pb2.DateRange(end=moment(end))
    assert not service.search("numbat", date_range=period).hits[0].HasField("after")
    service.conversations.RedactMessage(api.RedactMessageRequest(conversation_id=talk, sequence=4))
    assert not hit_of(service.search("meet"), 3).HasField("after")
