"""Questions with an order number, an address, a path or a hash, in a store full of others, by the
real model.
"""

import pytest
from recollect import Client, Message

from tests.conftest import Start
from tests.server.conftest import Connect
from tests.waiting import until_embedded

ITEMS = ["kettle", "grinder", "toaster", "lamp", "scale", "fridge"]
NAMES = ["anna.weber", "ben.kaya", "carla.novak", "deniz.brandt", "emil.schulz"]
ORDERS = 60


def order(at: int) -> str:
    return f"ORD-2026-{(at * 7919) % 100_000:06}"


def address(at: int) -> str:
    return f"{NAMES[at % len(NAMES)]}{at % 12 + 10 * (at % 9)}@example.com"


def label(at: int) -> str:
    return f"RMA-{10_000 + at * 613}"


def path(at: int) -> str:
    return f"src/{ITEMS[at % len(ITEMS)]}/view_{at}.py"


def commit(at: int) -> str:
    return f"c{at % 10}ffe{(at * 37) % 100:02}a{at % 7}"


def turns(at: int) -> list[Message]:
    item = ITEMS[at % len(ITEMS)]
    return [
        Message.user(
            f"Where is my order {order(at)}? I ordered a {item}."
            if at % 2
            else f"I want to return the {item}, order number {order(at)}, what is the status?"
        ),
        Message.assistant(
            f"I looked it up: {order(at)} ({item}) left our warehouse in Leipzig with DHL. For a"
            f" return please use {label(at)}; I sent the label to {address(at)}. The text of the"
            f" e-mail comes from {path(at)}, commit {commit(at)}."
        ),
    ]


@pytest.mark.timeout(120)
def test_a_message_with_the_identifier_of_a_question_comes_first(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    with Client(server.target) as client:
        conversations = [
            client.conversations.create("web", messages=turns(at)).id for at in range(ORDERS)
        ]
        until_embedded(connect(server), server)
        wrong: list[str] = []
        for at in range(7, ORDERS, 11):
            for name in (order(at), address(at), label(at), path(at), commit(at)):
                for question in (name, f"return {name} status", f"what happened with {name}?"):
                    answer = client.recall.search(question, limit=3)
                    best = answer.hits[0]
                    # a question has less that is near than the bare name
                    least = 0.3 if question == name else 0.2
                    if best.conversation_id != conversations[at] or best.score < least:
                        wrong.append(f"{question}: {best.snippet} {best.score:.2f}")
                    if answer.results[0].conversation_id != conversations[at]:
                        wrong.append(f"{question}: the conversation {answer.results[0]}")
        assert wrong == []
