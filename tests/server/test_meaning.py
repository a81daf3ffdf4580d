"""Search by meaning, through the running service: what is found, how soon, and that it goes with
what is deleted.
"""

import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect.v1 import recall_service_pb2 as api
from recollect.v1.recall_pb2 import DateRange
from recollect_server.kernel.domain.conversation import opening_of
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.index import checking as index
from recollect_server.recall.embedding.service import Embedding
from recollect_server.recall.embedding.texts import Plan
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.embedder import CannotEmbed, EmbeddedPiece, Embedder, Piece
from recollect_server.recall.model.weights import look, shipped
from recollect_server.recall.postings import KeywordScores
from recollect_server.recall.search import Search
from recollect_server.recall.vectors import checking as vectors
from recollect_server.recall.vectors.store import EmbeddedText, VectorStore, hash_of
from recollect_server.run.jobs.of_space import EmbedderJob
from recollect_server.text.snippets import LENGTH, passage_at
from recollect_server.text.words import QueryTerms

from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, answers, delete_index, moment, user
from tests.server.searching import marked
from tests.server.test_redact import redact
from tests.waiting import until, until_embedded

LEGS = [
    "keyword_messages",
    "keyword_conversations",
    "vector_messages",
    "vector_abbreviations",
]
KYOTO, TYRES, SCHOOL = (
    "We fly to Kyoto in April",
    "The car needs new tyres before winter",
    "My daughter starts first grade in autumn",
)


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    return start_server(embedder="onnx")


def settled(
    service: Service, query: str, expected: Sequence[str], **fields: Any
) -> api.SearchResponse:
    """Return the answer, once these conversations are the first ones and nothing is missing."""

    def asked() -> api.SearchResponse | None:
        answer = service.search(query, **fields)
        first = [result.conversation_id for result in answer.results][: len(expected)]
        return answer if first == list(expected) and not answer.degraded else None

    return until(asked)


def test_a_question_finds_what_has_none_of_its_words(service: Service) -> None:
    kyoto, tyres, school = (
        service.conversation_of(KYOTO),
        service.conversation_of(TYRES),
        service.conversation_of(SCHOOL),
    )
    for query, expected in (
        ("which trip to Japan is planned?", kyoto),
        ("vehicle upkeep", tyres),
        ("kids' education", school),
    ):
        answer = settled(service, query, [expected], explain=True)
        assert list(answer.legs_run) == LEGS
        parts = {part.leg: part for part in answer.results[0].explanation}
        assert set(parts) == {"vector_messages"}
        assert parts["vector_messages"].rank == 1
        assert 0.2 < parts["vector_messages"].score <= 1
        assert answer.hits[0].conversation_id == expected
        assert all(
            0 <= score <= 1
            for score in [it.score for it in answer.results] + [it.score for it in answer.hits]
        )


def test_words_and_meaning_are_told_apart_by_explain(
    service: Service, server: RunningServer
) -> None:
    service.conversation_of(KYOTO)
    until_embedded(service, server)
    (hit,) = service.search("the April flight to Kyoto", explain=True).hits
    legs = {"keyword_messages", "keyword_conversations", "similar_words", "vector_messages"}
    assert {part.leg for part in hit.explanation} == legs


def test_of_a_long_question_the_first_tokens_are_compared(
    service: Service, server: RunningServer
) -> None:
    service.conversation_of(KYOTO)
    until_embedded(service, server)

    def nearness(question: str) -> float:
        (hit,) = service.search(question, explain=True).hits
        return {part.leg: part.score for part in hit.explanation}["vector_messages"]

    codes = " ".join(f"x{number}q" for number in range(100, 200))  # some 4 tokens each
    begins = f"Kyoto in April {codes}"
    assert nearness(f"{begins} vehicle upkeep") == nearness(f"{begins} a journey to Japan")
    assert nearness("Kyoto vehicle upkeep") != nearness("Kyoto a journey to Japan")


def test_the_cold_tier_of_a_context_has_nothing_by_meaning_of_the_conversation_itself(
    service: Service, server: RunningServer
) -> None:
    own, other = (
        service.conversation_of(
            TYRES, *[f"Ticket {number} of the printer queue is closed" for number in range(20)]
        ),
        service.conversation_of(KYOTO),
    )
    until_embedded(service, server)
    for message in ("vehicle upkeep", "which trip to Japan is planned?"):
        request = api.BuildContextRequest(conversation_id=own, message=message)
        cold = service.recall.BuildContext(request).cold
        assert [it.conversation_id for it in cold] == [other], message


def test_what_means_something_else_is_not_found(service: Service) -> None:
    kyoto = service.conversation_of(KYOTO)
    settled(service, "a journey to Japan", [kyoto])
    assert service.found("the derivative of a polynomial") == []


def test_every_filter_holds_for_what_is_found_by_meaning(
    service: Service, clock: MovableClock
) -> None:
    start = clock.now
    web = service.conversation_of(KYOTO, participants=["ana"])
    clock.move(10_000)
    mail = service.conversation_of("A journey to Osaka in spring", channel="email")
    service.abbreviate(mail, "notes", ["travel"])
    until(lambda: {*service.found("a journey to Japan")} == {web, mail})
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"channel": "web"}, [web]),
        ({"channel": "email"}, [mail]),
        ({"channel": "cli"}, []),
        ({"conversation_id": mail}, [mail]),
        ({"topics": ["travel"]}, [mail]),
        ({"participants": ["ana"]}, [web]),
        ({"date_range": DateRange(start=moment(start + 1))}, [mail]),
        ({"date_range": DateRange(end=moment(start + 1))}, [web]),
        ({"date_range": DateRange(start=moment(start + 1), end=moment(start + 9_000))}, []),
    ]
    for filters, expected in cases:
        answer = service.search("a journey to Japan", **filters)
        assert [result.conversation_id for result in answer.results] == expected, filters
        assert [hit.conversation_id for hit in answer.hits] == expected, filters
        assert answer.total_matches == len(expected), filters


def test_of_a_long_message_without_the_words_the_part_nearest_in_meaning_is_shown(
    service: Service,
) -> None:
    filler = "The quarterly figures were discussed at length and written down in the table. " * 60
    music = (
        "My violin and my cello both need new strings before the concert, and the bow wants rosin. "
        * 30
    )
    long = service.conversation_of(f"{filler}{music}{filler}")
    answer = settled(service, "repairing instruments for an orchestra", [long])
    assert answer.results[0].snippet.startswith(
        "…My violin and my cello both need new strings before the concert"
    )
    assert answer.hits[0].snippet == answer.results[0].snippet
    short = service.conversation_of(f"Thanks for the long call today. {music[:200]}")
    until(lambda: {*service.found("repairing instruments for an orchestra")} == {short, long})
    snippets = {
        result.conversation_id: result.snippet
        for result in service.search("repairing instruments for an orchestra").results
    }
    assert "violin" in marked(snippets[short])  # of a shorter one its nearest words say which


def test_a_search_runs_the_model_once_whatever_it_shows(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "Thanks for the long call today. I wrote down what we said about the weekend and will send it around. "
        "My violin and my cello both need new strings before the concert. Please also remember to bring the blue folder "
        "that you left on the kitchen table, because Martin asked for it twice already."
    )
    conversations = {service.conversation_of(f"{number}. {text}") for number in range(5)}
    until(lambda: {*service.found("repairing musical instruments")} == conversations)
    ran: list[int] = []
    run = Embedder._run

    def counted(
        embedder: Embedder, model: Any, ids: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> list[NDArray[np.float32]]:
        ran.append(len(ids))
        return run(embedder, model, ids, mask)

    monkeypatch.setattr(Embedder, "_run", counted)
    hits = service.search("repairing some musical instruments").hits
    assert len(hits) == 5
    assert "violin" in marked(hits[0].snippet)
    assert ran == [1]


def test_words_are_looked_for_while_the_question_is_embedded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    kyoto = service.conversation_of(KYOTO)
    settled(service, "which trip to Japan is planned?", [kyoto])
    are_found = threading.Event()
    keyword, run = Search.keyword, Embedder._run

    def found(*arguments: Any) -> KeywordScores:
        scores = keyword(*arguments)
        are_found.set()
        return scores

    def waiting(*arguments: Any) -> list[NDArray[np.float32]]:
        if not are_found.wait(20):
            raise CannotEmbed("no words were looked for meanwhile")
        return run(*arguments)

    monkeypatch.setattr(Search, "keyword", found)
    monkeypatch.setattr(Embedder, "_run", waiting)
    answer = service.search("is there a trip to Japan?")
    assert [it.conversation_id for it in answer.results] == [kyoto]
    assert not answer.degraded


def test_a_search_that_fails_leaves_no_question_to_be_embedded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(service, "which trip to Japan is planned?", [service.conversation_of(KYOTO)])
    has_begun, ends = threading.Event(), threading.Event()
    run = Embedder._run

    def refused(*_: Any) -> KeywordScores:
        assert has_begun.wait(20)
        threading.Timer(0.2, ends.set).start()
        raise IndexUnavailable("the words cannot be read")

    def waiting(*arguments: Any) -> list[NDArray[np.float32]]:
        has_begun.set()
        ends.wait(20)
        return run(*arguments)

    monkeypatch.setattr(Search, "keyword", refused)
    monkeypatch.setattr(Embedder, "_run", waiting)
    answer = service.search("is there a trip to Japan?")
    assert ends.is_set()
    assert {it.reason for it in answer.degraded} == {"the words cannot be read"}


def test_a_question_that_waits_behind_others_is_not_embedded_for_a_search_that_fails(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[ThreadPoolExecutor] = []
    ask, free = Meaning.ask, threading.Event()

    def watched(meaning: Meaning, *arguments: Any, **options: Any) -> Any:
        assert meaning.models is not None
        pools.append(meaning.models.threads)
        return ask(meaning, *arguments, **options)

    monkeypatch.setattr(Meaning, "ask", watched)
    settled(service, "which trip to Japan is planned?", [service.conversation_of(KYOTO)])
    for _ in range(64):  # more than it has threads
        pools[-1].submit(free.wait, 20)
    ran: list[object] = []

    def refused(*_: Any) -> KeywordScores:
        raise IndexUnavailable("the words cannot be read")

    monkeypatch.setattr(Search, "keyword", refused)
    monkeypatch.setattr(Embedder, "_run", lambda *arguments: ran.append(arguments))
    assert service.search("is there a trip to Japan?").degraded
    free.set()
    pools[-1].shutdown()  # once it has done what was not cancelled
    assert not ran


def test_a_question_is_embedded_while_its_words_are_looked_up(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(service, "which trip to Japan is planned?", [service.conversation_of(KYOTO)])
    embeds, overlaps = threading.Event(), []
    run, terms = Embedder._run, Search.terms

    def embedding(*arguments: Any) -> Any:
        embeds.set()
        return run(*arguments)

    def looking_up(*arguments: Any, **more: Any) -> QueryTerms:
        overlaps.append(embeds.wait(5))
        return terms(*arguments, **more)

    monkeypatch.setattr(Embedder, "_run", embedding)
    monkeypatch.setattr(Search, "terms", looking_up)
    service.search("is there a trip to Japan?")
    assert overlaps == [True]


@pytest.mark.parametrize(
    "sentence", ["今日は長い電話をありがとうございました！", "What a long call we had today! "]
)
def test_the_part_of_a_long_text_begins_where_a_sentence_does(sentence: str) -> None:
    text = sentence * 100
    for position in range(len(text) // 2, len(text) // 2 + 2 * len(sentence), 3):
        part = passage_at(text, position)
        assert part.startswith(f"…{sentence.strip()}"), part
        assert len(part) <= LENGTH + 1
    assert passage_at(text, 0) == opening_of(text)
    assert passage_at("short", 4) == "short"
    assert passage_at("x" * 1000, 500) == "…" + "x" * (LENGTH - 1) + "…"


def test_no_part_of_a_message_of_a_thousand_words_is_lost(service: Service) -> None:
    filler = "The quarterly figures were discussed at length and written down in the table. " * 90
    long = service.conversation_of(f"{filler} Grandmother bakes an apple pie on Sunday.")
    assert settled(service, "dessert from an oven", [long]).hits[0].score > 0


def test_an_abbreviation_leads_to_its_conversation(service: Service) -> None:
    plain = service.conversation_of("Yes.", "Fine by me.")
    service.abbreviate(plain, "They agreed to adopt a puppy from the shelter.")
    answer = settled(service, "getting a dog", [plain], explain=True)
    assert "vector_abbreviations" in {part.leg for part in answer.results[0].explanation}
    service.abbreviate(plain, "They agreed to sell the boat.")
    settled(service, "a vessel goes to a new owner", [plain])
    until(lambda: service.found("getting a dog") == [])


def test_a_time_finds_the_abbreviations_of_the_conversations_that_lie_within_it(
    service: Service, clock: MovableClock
) -> None:
    begin = clock.now
    early = service.conversation_of("Yes.", "Fine by me.")
    service.abbreviate(early, "They agreed to adopt a puppy from the shelter.")
    clock.move(10_000)
    settled(service, "getting a dog", [early])
    within = DateRange(start=moment(begin), end=moment(begin + 5_000))
    assert service.found("getting a dog", date_range=within) == [early]
    assert service.found("getting a dog", date_range=DateRange(start=moment(begin + 1))) == []
    service.append(early, user("Later."))
    assert service.found("getting a dog", date_range=within) == []


def test_what_is_deleted_is_found_by_nothing_and_what_has_the_same_words_stays(
    service: Service, server: RunningServer
) -> None:
    first, second = service.conversation_of(KYOTO, TYRES), service.conversation_of(KYOTO)
    until(lambda: {*service.found("a journey to Japan")} == {first, second})
    receipt = service.delete(first)
    assert {removed.place: removed.count for removed in receipt.removed}["vectors"] == 1, (
        "of the two texts one stands elsewhere"
    )
    assert service.found("a journey to Japan") == [second]
    assert service.found("vehicle upkeep") == []


def test_of_a_conversation_without_words_that_is_deleted_nothing_stays_among_the_vectors(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row in the index goes a moment behind its vectors, and embedding may look between."""
    other = service.conversation_of(KYOTO)
    name = service.create().id
    until_embedded(service, server)
    job = server.app.spaces.open_now()[0].jobs[EmbedderJob.name]
    remove, removed_after = VectorStore.remove, VectorStore.removed_after
    looked: list[float] = []

    def remove_and_look(self: VectorStore, conversation_id: str) -> int:
        removed = remove(self, conversation_id)
        until(lambda: looked and job.ran_at and job.ran_at > looked[0])
        return removed

    def look_after(self: VectorStore, *moments: int) -> tuple[list[str], int]:
        names, moment = removed_after(self, *moments)
        if name in names:
            looked.append(time.monotonic())
        return names, moment

    monkeypatch.setattr(VectorStore, "remove", remove_and_look)
    monkeypatch.setattr(VectorStore, "removed_after", look_after)
    service.delete(name)
    assert looked
    assert vectors.state_of(server.folder).lines.keys() == {other}


@pytest.mark.parametrize("is_whole", [False, True], ids=["what changed", "everything"])
def test_notes_that_a_redaction_leaves_are_found_though_embedding_looked_between_its_steps(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """The vectors of all notes go, a moment behind the index: those of earlier turns come back,
    whether the next look is one at what changed or, with another plan, at everything.
    """
    plain = service.conversation_of("Yes.", "Fine by me.")
    service.abbreviate(plain, "They agreed to adopt a puppy from the shelter.")
    service.append(plain, user("Nothing."))
    settled(service, "getting a dog", [plain])
    forget_lines, look = VectorStore.forget_lines, Embedding._look

    def look_and_forget(self: VectorStore, name: str, lines: Collection[int]) -> int:
        until(lambda: vectors.state_of(server.folder).lines == index.state_of(server.folder).lines)
        if is_whole:
            monkeypatch.setattr(Embedding, "_look", look_at_everything)
        return forget_lines(self, name, lines)

    def look_at_everything(self: Embedding, plan: Plan) -> None:
        self._plan_name = "another"
        look(self, plan)

    monkeypatch.setattr(VectorStore, "forget_lines", look_and_forget)
    redact(service, plain, sequence=5)
    answer = settled(service, "getting a dog", [plain], explain=True)
    assert "vector_abbreviations" in {part.leg for part in answer.results[0].explanation}


def test_after_a_restart_and_with_a_new_index_every_answer_is_the_same(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    for number in range(12):
        service.conversation_of(
            f"{(KYOTO, TYRES, SCHOOL)[number % 3]}, said for the {number}. time",
            "Noted.",
            "ok " * 40,
        )
    queries = ["a journey to Japan", "vehicle upkeep", "the 7. time", "ok"]
    until_embedded(service, server)
    before = answers(service, queries)
    server.stop()
    again = start_server(embedder="onnx")
    assert until(lambda: answers(connect(again), queries) == before)
    again.stop()
    delete_index(again)
    with_a_new_index = start_server(embedder="onnx")
    assert until(lambda: answers(connect(with_a_new_index), queries) == before)
    with_a_new_index.stop()
    (server.folder / "vectors.db").unlink()
    with_new_vectors = start_server(embedder="onnx")
    assert until(lambda: answers(connect(with_new_vectors), queries) == before)


def test_a_new_index_works_no_vector_out_again(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kyoto = service.conversation_of(KYOTO, TYRES)
    until_embedded(service, server)
    server.stop()
    delete_index(server)
    vectors = VectorStore(server.folder)
    model = vectors.model(look(shipped()).identity, shipped())
    text = vectors.vectors_of(model, [hash_of(KYOTO)])[hash_of(KYOTO)]
    # What the model would never say: whoever works it out again, shows it.
    vectors.add(model, [EmbeddedText(kyoto, 2, 0, 0, hash_of("nothing"), -text)], {})
    vectors.add(model, [EmbeddedText(kyoto, 2, 0, 0, hash_of(KYOTO), -text, bytes(32))], {})
    vectors.close()
    embed, worked = Embedder.embed_pieces, []

    def counted(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        worked.append(len(pieces))
        return embed(embedder, pieces)

    monkeypatch.setattr(Embedder, "embed_pieces", counted)
    again = start_server(embedder="onnx")
    until_embedded(connect(again), again)
    assert until(lambda: connect(again).found("vehicle upkeep") == [kyoto])
    assert connect(again).search("a journey to Japan").hits == []
    school = connect(again).conversation_of(SCHOOL)
    until(lambda: connect(again).found("kids' education") == [school])
    assert worked == [1]  # what was said since, which comes after all the others


def test_a_message_is_found_by_meaning_soon_after_it_was_appended(service: Service) -> None:
    long_ago = service.conversation_of(TYRES)
    settled(service, "vehicle upkeep", [long_ago])
    conversation = service.create().id
    service.append(conversation, user(KYOTO))
    answer = settled(service, "a journey to Japan", [conversation])
    assert answer.hits[0].sequence == 2


def test_of_a_long_query_the_beginning_is_compared_by_meaning(service: Service) -> None:
    kyoto = service.conversation_of(KYOTO)
    beginning = "which trip to Japan is planned? " * 25
    assert len(beginning) == 800

    def nearness(query: str) -> float:
        answer = settled(service, query, [kyoto], explain=True)
        return {it.leg: it.score for it in answer.results[0].explanation}["vector_messages"]

    assert nearness(beginning + "winter tyres and school " * 50) == nearness(beginning)


def test_a_redacted_message_is_not_found_by_its_meaning_and_has_no_vector(
    service: Service, server: RunningServer, start_server: Start
) -> None:
    kyoto = service.conversation_of("Good morning", KYOTO)
    service.abbreviate(kyoto, "A trip to Japan is planned.")
    until_embedded(service, server)
    request = conversation_api.RedactMessageRequest(conversation_id=kyoto, turn_number=2)
    service.conversations.RedactMessage(request)

    def lines() -> list[int]:
        connection = apsw.Connection(
            str(server.folder / "vectors.db"), flags=apsw.SQLITE_OPEN_READONLY
        )
        rows = connection.execute("SELECT CAST(place & 4194303 AS TEXT) FROM places").fetchall()
        texts = connection.execute("SELECT count(*) FROM texts").get
        connection.close()
        assert texts == len(rows)
        return [int(str(row[0])) for row in rows]

    assert lines() == [2]
    assert all(hit.sequence == 2 for hit in service.search("which trip to Japan is planned?").hits)
    server.stop()
    start_server(embedder="onnx").stop()
    assert lines() == [2]


def test_a_conversation_that_is_begun_again_with_its_id_is_found_by_its_meaning(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    own = service.conversation_of("The car needs new tyres before winter")
    service.conversation_of("My daughter starts first grade in autumn")
    until_embedded(service, server)
    redact(service, own, turn_number=1)
    service.delete(own)
    assert own not in service.found("vehicle upkeep")
    service.create("web", conversation_id=own)
    service.append(own, user("The car needs new brakes in spring"))
    until_embedded(service, server)
    assert service.found("vehicle upkeep")[:1] == [own]
