"""Questions with an order number, a telephone number or another identifier."""

import time
from datetime import UTC, datetime

import pytest
from recollect import Client, DateRange, Message

from tests.conftest import MovableClock, Start
from tests.server.conftest import Connect
from tests.waiting import until_embedded

ORDER = "ORD-2026-007919"


def test_an_identifier_brings_nothing_that_a_filter_leaves_out(
    client: Client, clock: MovableClock
) -> None:
    elsewhere = client.conversations.create("web", messages=[Message.user(f"{ORDER} arrived")])
    clock.move(86_400_000)
    asked_at = datetime.fromtimestamp(clock() / 1000, UTC)
    here = client.conversations.create("cli", messages=[Message.user(f"{ORDER} came back")])
    everywhere = client.recall.search(ORDER)
    assert {it.conversation_id for it in everywhere.hits} == {elsewhere.id, here.id}
    for answer in (
        client.recall.search(ORDER, channel="cli"),
        client.recall.search(ORDER, conversation_id=here.id),
        client.recall.search(ORDER, date_range=DateRange(start=asked_at)),
    ):
        assert [it.conversation_id for it in answer.hits] == [here.id]


SUPPORT = (
    "Where is my order 11902456?",
    "It left Leipzig on Monday and arrives tomorrow.",
    "My kettle is broken, I would like to return it.",
    "Please send it back with the label RMA-10613.",
    "The wifi password of the office is blue harbour.",
    "We fly to Kyoto in May with ticket KL0862-A.",
    "The invoice 2024-00718 has the wrong address.",
    "Our server crashes with error 50312 at night.",
)


@pytest.mark.parametrize("embedder", ["off", "onnx"])
def test_a_question_for_an_identifier_that_nobody_said_is_not_answered(
    start_server: Start, connect: Connect, embedder: str
) -> None:
    server = start_server(embedder=embedder)
    with Client(server.target) as client:
        talk = client.conversations.create("web", messages=[Message.user(SUPPORT[0])])
        client.conversations.append_turn(talk.id, [Message.user(it) for it in SUPPORT[1:]])
        if embedder == "onnx":
            until_embedded(connect(server), server)
        for number, other in (("11902456", "48213377"), ("2024-00718", "2024-00933")):
            for question in ("Where is my order {}?", "order {}", "Was the invoice {} wrong?"):
                best = client.recall.search(question.format(number)).hits[0]
                assert best.score >= 0.5, (question, number)
                answer = client.recall.search(question.format(other))
                for results in (answer.hits, answer.results):
                    assert all(it.score < 0.3 for it in results), (question, other)
        # what else the message asks for is answered
        passing = (
            "I have ticket 88123 open and need the office network: what was the wifi password?"
        )
        assert client.recall.search(passing).hits[0].score >= 0.3
        # of several identifiers one is enough
        both = client.recall.search("Where is my order 48213377, or was it 11902456?")
        assert both.hits[0].score >= 0.5


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ("My phone number is +49 341 2260412.", "+493412260412"),
        ("My phone number is +493412260412.", "+49 341 22 60 412"),
        ("My phone number is +49 (341) 226-0412.", "+49 3412 260412"),
        ("Call me at 0341 / 22 60 41 2, please.", "0341/2260412"),
        ("Order 4821-3377 arrived.", "48213377"),
        ("Order 48213377 arrived.", "4821 3377"),
        ("Pay to DE89 3704 0044 0532 0130 00.", "DE89370400440532013000"),
        ("Pay to DE89370400440532013000.", "DE89 3704 0044 0532 0130 00"),
        ("The ticket is INC0012345.", "INC-0012345"),
    ],
)
def test_a_number_is_found_however_its_figures_are_put_apart(
    client: Client, message: str, number: str
) -> None:
    others = [f"Order {at * 7919} and phone +49 341 {at * 613} of case {at}." for at in range(99)]
    client.conversations.create("web", messages=[Message.user(it) for it in others[:40]])
    owner = client.conversations.create("web", messages=[Message.user(message)])
    client.conversations.create("web", messages=[Message.user(it) for it in others[40:]])
    for question in (number, f"Whose number is {number}?", f"Do we have {number} on 24.12.2025?"):
        answer = client.recall.search(question)
        assert answer.hits[0].conversation_id == owner.id, question
        assert answer.hits[0].score >= 0.3, question
    nothing = client.recall.search("Whose number is +4934199876543?")
    assert all(it.score < 0.3 for it in nothing.hits)


def test_a_long_number_whose_parts_all_were_said_but_its_end_is_given_up_soon(
    client: Client,
) -> None:
    number = "7390154826650281947336285019472638"
    ends = len(number) - 1
    parts = {number[at:end] for at in range(ends) for end in range(at + 2, min(at + 8, ends) + 1)}
    listed = client.conversations.create("web", messages=[Message.user(" ".join(sorted(parts)))])
    began = time.process_time()
    answer = client.recall.search(f"Whose account is {number}?")
    # some milliseconds; each way to divide it that comes to no end took seconds
    assert time.process_time() - began < 1
    assert all(it.conversation_id == listed.id for it in answer.hits)
