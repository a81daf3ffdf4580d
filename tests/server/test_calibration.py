"""The scores of Search as probabilities: high where something answers, low where nothing does, the
same after a rebuild.
"""

import pytest

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, delete_index
from tests.server.recall_history import HISTORY
from tests.waiting import until_embedded

SAID = (
    (
        "We fly to Kyoto in April, from the 3rd to the 12th.",
        "Nice, cherry blossom season. Shall I look for hotels near Gion?",
    ),
    ("The car needs new tyres before winter.", "Which size? The old ones were 205/55 R16."),
    ("My daughter Lena starts first grade in September.", "Congratulations to Lena!"),
    (
        "Can you draft a letter to the landlord about the heating?",
        "Dear Ms Braun, the heating has been off since Monday.",
    ),
    ("The dentist appointment moved to Friday at ten.", "I updated the reminder."),
    (
        "Our server runs out of disk every month.",
        "Let us look at what fills it: the logs take 80 percent.",
    ),
)
ANSWERED = (
    "When do we fly to Kyoto?",
    "What is wrong with the tyres of the car?",
    "What did the letter to the landlord say about heating?",
)
UNANSWERED = (
    "How are you doing?",
    "Write a limerick about a penguin",
    "When did Caroline join the choir?",
    "Is the aquarium full yet?",
)


def best(service: Service, query: str) -> tuple[float, float]:
    """Return the best scores of a message and of a conversation; 0 without a hit."""
    answer = service.search(query)
    return max((hit.score for hit in answer.hits), default=0.0), max(
        (it.score for it in answer.results), default=0.0
    )


@pytest.mark.parametrize("embedder", ["off", "onnx"])
def test_a_score_says_whether_anything_answers(
    start_server: Start, connect: Connect, embedder: str
) -> None:
    server: RunningServer = start_server(embedder=embedder)
    service = connect(server)
    for texts, answered in SAID:
        service.conversation_of(texts, answered)
    if embedder == "onnx":
        until_embedded(service, server)
    for query in ANSWERED:
        assert min(best(service, query)) > 0.3, query
    for query in UNANSWERED:
        assert max(best(service, query)) < 0.3, query
    before = [service.search(query) for query in (*ANSWERED, *UNANSWERED)]
    assert all(
        0 <= it.score <= 1
        for answer in before
        for ranking in (answer.hits, answer.results)
        for it in ranking
    )
    if embedder == "off":
        server.stop()
        delete_index(server)
        again = connect(start_server(embedder=embedder))
        assert [again.search(query) for query in (*ANSWERED, *UNANSWERED)] == before


NOTED = (
    "Umbrella forgotten in tram 6.",
    "Haircut next Tuesday at five with Denise.",
    "Bought new glasses, everything looks sharp.",
    "Argued with Philip about the holiday money, apologised in the evening.",
)


def test_a_question_in_other_words_reaches_the_context_of_a_small_store(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    for text in NOTED:
        service.conversation_of(text)
    until_embedded(service, server)
    for query in (
        "When do I go to the barber?",
        "What did I get for my eyes?",
        "With whom did I quarrel?",
        "Did I have a fight with Philip?",
        "When does Denise cut my hair?",
    ):
        assert min(best(service, query)) > 0.3, query
    for query in (
        "Who won the chess tournament?",
        "Tell me a riddle.",
        "How do I compile it?",
        "How old is Denise?",
        "Which car does Philip drive?",
        "Where did Denise grow up?",
        "What is Philip's job?",
    ):
        assert max(best(service, query)) < 0.3, query


HOME = {
    "garden": (
        "My tomatoes look sad, should I water them every day?",
        "Water them deeply twice a week rather than a little every day, in the morning.",
    ),
    "washing": (
        "There is a puddle under the washing machine again, and the floor in the flat is swelling.",
        "Close the inlet valve and look at the drain hose first; the seal of the pump is the usual cause.",
    ),
    "run": ("I signed up for the half marathon in October, and I only ever ran ten kilometres.",),
    "cat": ("Our cat has not eaten since yesterday.",),
    "job": ("They offered me the position in Lyon, at eight thousand more a year.",),
    "bread": ("The sourdough stays flat, though it smells fine.",),
    "tax": ("Can I deduct the desk that I bought for my study?",),
    "python": ("My script crashes with UnicodeDecodeError when it reads the export.",),
    "gift": ("My mother-in-law turns sixty. She loves opera and hates flowers.",),
    "sleep": ("I wake up at four every night and lie there for hours.",),
    "rent": ("The landlord wants two hundred more a month from January.",),
    "trip": ("We land in Porto at noon and have three days.",),
    "guitar": ("My fingertips hurt after ten minutes of practising chords.",),
    "school": ("Our son refuses to go to kindergarten since Monday.",),
}
OTHERWISE = {
    "water damage at home": "washing",
    "How do I prepare for the race?": "run",
    "pet that refuses food": "cat",
    "What salary would I get in France?": "job",
    "How do I fix the encoding error?": "python",
    "birthday present for my wife's mother": "gift",
    "What can I do against insomnia?": "sleep",
    "By how much may the rent go up?": "rent",
    "sightseeing plan for Portugal": "trip",
    "sore fingers from the instrument": "guitar",
    "child does not want to go to nursery": "school",
    "How often should the plants be irrigated?": "garden",
}
"""Questions in other words than their answers."""
NOT_ANSWERED = (
    "What did the doctor say about my blood pressure?",
    "password of the wifi",
    "Where did I put the passport?",
    "recipe for pancakes",
    "How do I reset my phone?",
    "Who painted the Mona Lisa?",
    "What time does the library close?",
    "Which hotel did we book in Rome?",
    "What is Lina's shoe size?",
    "When does the new neighbour move in?",
)
"""The last ones share a name or a word with what is stored."""


def test_a_score_tells_a_paraphrase_from_what_nothing_answers(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    ids = {service.conversation_of(*texts): name for name, texts in HOME.items()}
    for messages in HISTORY.values():
        service.conversation_of(*(f"{sender}: {text}" for sender, text in messages))
    until_embedded(service, server)
    scores = {}
    for query, name in OTHERWISE.items():
        hits = service.search(query).hits[:3]
        scores[query] = max(
            (hit.score for hit in hits if ids.get(hit.conversation_id) == name), default=0.0
        )
    assert scores["water damage at home"] > 0.3, "one shared word does not win"
    assert sum(it > 0.3 for it in scores.values()) >= 0.75 * len(scores), scores
    assert {it: best(service, it) for it in NOT_ANSWERED if max(best(service, it)) > 0.3} == {}


NONSENSE = (
    "zzz",
    "123",
    "jjjjjj",
    "aaaa",
    "k",
    "dsfkjh sdkfjh",
    "???",
    "\N{THINKING FACE}",
    "42 7",
)


@pytest.mark.parametrize(
    "texts",
    [
        (
            "My locker at the gym is 117 and the code is 4-8-2-9.",
            "Zelda snores.",
            "Grades: 1, 2, 1.",
        ),
        ("J'ai rangé la cave.", "Julie joue du jazz jeudi.", "Le jardin de Jeanne."),
    ],
)
def test_nonsense_finds_nothing_in_a_small_store(
    texts: tuple[str, ...], start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    for text in texts:
        service.conversation_of(text)
    until_embedded(service, server)
    assert {it: best(service, it) for it in NONSENSE} == dict.fromkeys(NONSENSE, (0.0, 0.0))
    service.conversation_of("The parcel has the number 123.")
    assert best(service, "123")[0] > 0


FEW = (
    "The zebra lives in Ghent.",
    "Hello there, you.",
    "Have a good day, and thanks for the help!",
)


@pytest.mark.parametrize("messages", [1, 2, 3])
def test_a_store_of_few_messages_tells_an_answer_from_common_words(
    messages: int, start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(embedder="off"))
    for text in FEW[:messages]:
        service.conversation_of(text)
    for query in ("Where does the zebra live?", "zebra Ghent", "Which animal lives in Ghent?"):
        assert min(best(service, query)) >= 0.3, query
    for query in (
        "How are you?",
        "What a lovely day, can you help me with a poem?",
        "Tell me a joke today, thanks!",
    ):
        assert max(best(service, query)) < 0.3, query


def test_the_scores_do_not_jump_as_a_store_grows(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(embedder="off"))
    service.conversation_of("The zebra lives in Ghent.")
    scores = []
    for number in range(8):
        scores.append(best(service, "Where does the zebra live?")[0])
        service.conversation_of(*(f"Item {number}-{at} is in box {at}." for at in range(50)))
    assert max(scores) - min(scores) < 0.15, scores
