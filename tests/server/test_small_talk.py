"""Greetings and thanks as questions, in small stores in which people greeted before."""

import pytest
from recollect import Client, Message

from tests.conftest import Start
from tests.server.conftest import Connect
from tests.waiting import until_embedded

GREETINGS = {
    "Guten Morgen, hast du gut geschlafen?": ("Guten Morgen", "Guten Tag", "Morgen!"),
    "Good morning, how are you?": ("Good morning", "Morning!"),
    "Bonjour et bonne journée à tous": ("Bonjour", "Bonne journée !"),
    "Buenos días, ¿dormiste bien?": ("Buenos días", "Hola, buenos días"),
    "Buongiorno, hai dormito bene?": ("Buongiorno", "Buon giorno!"),
    "Bom dia, tudo bem?": ("Bom dia", "Tudo bem?"),
    "Goedemorgen, goed geslapen?": ("Goedemorgen", "Hallo, goedemorgen"),
    "Dzień dobry, dobrze spałeś?": ("Dzień dobry",),
    "Доброе утро, как спалось?": ("Доброе утро", "Доброе утро!"),
    "おはようございます、よく眠れましたか？": ("おはようございます",),
    "早上好，你睡得好吗？": ("早上好", "早上好！"),
}


@pytest.mark.parametrize("embedder", ["off", "onnx"])
def test_a_greeting_is_not_answered_by_a_greeting(
    start_server: Start, connect: Connect, embedder: str
) -> None:
    server = start_server(embedder=embedder)
    with Client(server.target) as client:
        for text in GREETINGS:
            client.conversations.create("web", messages=[Message.user(text)])
        client.conversations.create("web", messages=[Message.user("The dentist has moved to Bonn")])
        if embedder == "onnx":
            until_embedded(connect(server), server)
        for greetings in GREETINGS.values():
            for greeting in greetings:
                answer = client.recall.search(greeting)
                assert answer.hits or embedder == "off", greeting
                assert all(it.score < 0.3 for it in answer.hits), greeting
                assert all(it.score < 0.3 for it in answer.results), greeting
        assert client.recall.search("Hello, where is the dentist?").hits[0].score >= 0.3
