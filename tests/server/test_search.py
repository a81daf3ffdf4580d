"""Search: what is found, in which order, by which filters, and how it is shown."""

from typing import Any

from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_TOOL, ToolCall
from recollect.v1.recall_pb2 import DateRange

from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    agent,
    answers,
    delete_index,
    moment,
    tool,
    transcript,
    user,
)
from tests.server.searching import END, LEGS, START, marked


def test_a_search_answers_conversations_and_messages(service: Service, clock: MovableClock) -> None:
    kyoto = service.conversation_of(
        "We fly to Kyoto in April", "What about hotels in Kyoto?", "Pack light", channel="email"
    )
    clock.move(1000)
    service.conversation_of("Buy bread and milk")
    service.rename(kyoto, "A Trip")
    service.abbreviate(kyoto, "notes", ["travel"])
    answer = service.search("kyoto")
    assert [result.conversation_id for result in answer.results] == [kyoto]
    result = answer.results[0]
    assert (result.conversation_name, result.channel, list(result.topics)) == (
        "A Trip",
        "email",
        ["travel"],
    )
    assert result.abbreviation == "notes"
    assert set(result.matched_turns) >= {1, 2}
    assert (result.turn_range.first, result.turn_range.last) == (
        min(result.matched_turns),
        max(result.matched_turns),
    )
    assert result.date == moment(clock.now - 1000)
    assert answer.total_matches == 1
    assert list(answer.legs_run) == LEGS
    assert not answer.degraded
    best = answer.hits[0]
    assert (best.conversation_id, best.turn_number, best.sequence) == (
        kyoto,
        1,
        2,
    ) or best.turn_number == 2
    assert marked(best.snippet) == ["Kyoto"]


def test_an_untitled_conversation_goes_by_its_first_request(
    service: Service,
) -> None:
    service.conversation_of("  We fly\nto   Kyoto  ")
    assert service.search("kyoto").results[0].conversation_name == "We fly to Kyoto"


def test_a_sender_is_found_and_thinking_metadata_and_tool_arguments_are_not(
    service: Service,
) -> None:
    conversation_id = service.create().id
    call = ToolCall(id="c", name="lookup", arguments='{"q": "wombat"}')
    thinking = agent("hello", thinking_text="narwhal", tool_calls=[call])
    thinking.metadata.update({"x": "axolotl"})
    service.append(
        conversation_id, user("hi", sender="Caroline"), thinking, tool("c", "a result with quokka")
    )
    assert service.found("caroline") == [conversation_id]
    assert service.found("quokka") == [conversation_id]
    assert [service.found(word) for word in ("narwhal", "axolotl", "wombat")] == [[], [], []]


def test_hits_say_who_spoke_and_where(service: Service, clock: MovableClock) -> None:
    conversation_id = service.create().id
    service.append(
        conversation_id,
        user("go", sender="Ana"),
        agent("", tool_calls=[ToolCall(id="c", name="n")]),
        tool("c", "Xylophone!"),
    )
    clock.move(5000)
    service.append(conversation_id, agent("The xylophone plays."))
    hits = {hit.sequence: hit for hit in service.search("xylophone").hits}
    assert (hits[4].role, hits[4].turn_number, hits[4].date) == (
        ROLE_TOOL,
        1,
        moment(clock.now - 5000),
    )
    assert (hits[5].role, hits[5].sender, hits[5].date) == (ROLE_ASSISTANT, "", moment(clock.now))
    assert marked(hits[4].snippet) == ["Xylophone"]


def test_scores_fall_from_the_best_and_lie_between_0_and_1(service: Service) -> None:
    for number in range(30):
        service.conversation_of(
            "tea " * (number % 7) + "and scones " * (number % 5) + "plain",
            "green tea" if number % 2 else "coffee",
        )
    answer = service.search("green tea scones", limit=100)
    for scores in ([r.score for r in answer.results], [h.score for h in answer.hits]):
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
    assert answer.total_matches == len(answer.results)
    least = answer.hits[5].score
    chosen = service.search("green tea scones", limit=100, min_score=least)
    assert list(chosen.hits) == [hit for hit in answer.hits if hit.score >= least]
    assert list(chosen.results) == [result for result in answer.results if result.score >= least]
    assert chosen.total_matches == answer.total_matches


def test_limit_bounds_both_lists_and_total_matches_counts_on(service: Service) -> None:
    for _ in range(15):
        service.conversation_of("zebra crossing", "zebra again")
    answer = service.search("zebra")
    assert (len(answer.results), len(answer.hits), answer.total_matches) == (10, 10, 15)
    answer = service.search("zebra", limit=3)
    assert (len(answer.results), len(answer.hits), answer.total_matches) == (3, 3, 15)


def test_the_largest_answer_has_100(service: Service) -> None:
    for _ in range(105):
        service.conversation_of("zebra")
    answer = service.search("zebra", limit=2_000_000_000)
    assert (len(answer.results), len(answer.hits), answer.total_matches) == (100, 100, 105)


def test_total_matches_counts_those_too_that_are_not_looked_at_closely(service: Service) -> None:
    for _ in range(300):
        service.conversation_of("zebra")
    answer = service.search("zebra", limit=1)
    assert (len(answer.results), len(answer.hits), answer.total_matches) == (1, 1, 300)


def test_every_filter_leaves_what_matches(service: Service, clock: MovableClock) -> None:
    start = clock.now
    web = service.conversation_of("zebra", "nothing", participants=["ana", "bo"])
    clock.move(10_000)
    mail = service.conversation_of("zebra", channel="email", participants=["cy"])
    service.abbreviate(mail, "notes", ["stripes", "africa"])
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"channel": "web"}, [web]),
        ({"channel": "email"}, [mail]),
        ({"channel": "cli"}, []),
        ({"conversation_id": web}, [web]),
        ({"conversation_id": UNKNOWN}, []),
        ({"topics": ["africa"]}, [mail]),
        ({"topics": ["oceans", "stripes"]}, [mail]),
        ({"topics": ["oceans"]}, []),
        ({"participants": ["bo"]}, [web]),
        ({"participants": ["bo", "cy"]}, [web, mail]),
        ({"participants": ["b"]}, []),
        ({"date_range": DateRange(start=moment(start + 1))}, [mail]),
        ({"date_range": DateRange(end=moment(start + 10_000))}, [web]),
        ({"date_range": DateRange(start=moment(start), end=moment(start + 1))}, [web]),
        ({"date_range": DateRange(start=moment(start + 1), end=moment(start + 10_000))}, []),
        (
            {
                "channel": "web",
                "participants": ["ana"],
                "date_range": DateRange(start=moment(start)),
            },
            [web],
        ),
        ({"channel": "web", "topics": ["africa"]}, []),
    ]
    for filters, expected in cases:
        answer = service.search("zebra", **filters)
        assert {result.conversation_id for result in answer.results} == set(expected), filters
        assert {hit.conversation_id for hit in answer.hits} == set(expected), filters
        assert answer.total_matches == len(expected), filters


def test_a_date_range_is_about_when_messages_were_said(
    service: Service, clock: MovableClock
) -> None:
    start = clock.now
    long = service.conversation_of("zebra on the first day")
    clock.move(1000)
    short = service.conversation_of("zebra on the second day")
    clock.move(1000)
    service.append(long, user("nothing on the third day"))
    second = DateRange(start=moment(start + 500), end=moment(start + 1500))
    answer = service.search("zebra", date_range=second)
    assert [result.conversation_id for result in answer.results] == [short]
    assert [hit.conversation_id for hit in answer.hits] == [short]
    assert answer.total_matches == 1


def test_an_imported_message_is_found_by_the_time_it_was_said(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("zebra", timestamp=moment(1_500_000_000_000)))
    then = DateRange(start=moment(1_400_000_000_000), end=moment(1_600_000_000_000))
    answer = service.search("zebra", date_range=then)
    assert [result.conversation_id for result in answer.results] == [conversation_id]
    assert answer.total_matches == 1


def test_explain_says_what_each_leg_gave(service: Service) -> None:
    for number in range(3):
        service.conversation_of("zebra " * (number + 1), "padding words here")
    answer = service.search("zebra", explain=True)
    for explanation in [list(result.explanation) for result in answer.results] + [
        list(hit.explanation) for hit in answer.hits
    ]:
        assert {part.leg for part in explanation} <= set(LEGS)
        assert all(part.rank >= 1 for part in explanation)
    assert [part.rank for part in answer.results[0].explanation] != []
    for ranking in (answer.results, answer.hits):
        parts = [
            part for it in ranking for part in it.explanation if part.leg == "keyword_messages"
        ]
        scores = sorted((part.score for part in parts), reverse=True)
        assert [scores.index(part.score) + 1 for part in parts] == [part.rank for part in parts]
        assert len({part.rank for part in parts}) == 3
    assert not service.search("zebra").results[0].explanation


def test_a_snippet_shows_the_place_that_matches_and_is_short(service: Service) -> None:
    service.conversation_of(
        "lorem ipsum dolor " * 400 + "the hidden zebra sleeps " + "sit amet " * 400
    )
    hit = service.search("hidden zebra").hits[0]
    plain = hit.snippet.replace(START, "").replace(END, "")
    assert marked(hit.snippet) == ["hidden", "zebra"]
    assert "the hidden zebra sleeps" in plain
    assert len(plain) <= 245
    assert plain.startswith("…")
    assert plain.endswith("…")


def test_marks_in_a_text_are_not_taken_for_marks(service: Service) -> None:
    service.conversation_of(f"a {START}fake{END} mark and a zebra")
    assert marked(service.search("zebra").hits[0].snippet) == ["zebra"]


def test_one_long_word_does_not_make_a_long_snippet(service: Service) -> None:
    service.conversation_of("zebra " + "x" * 100_000)
    assert len(service.search("zebra").hits[0].snippet) <= 250


def test_the_same_question_has_the_same_answer_and_after_a_rebuild_too(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    for number in range(12):
        conversation_id = service.conversation_of(
            "tea and scones", f"number {number}", "tea " * number or "none"
        )
        service.turn(conversation_id, "scones?", "with butter")
    queries = ["tea", "scones with butter", "number 7", "nothing of it", "the"]
    before = answers(service, queries)
    assert answers(service, queries) == before
    server.stop()
    delete_index(server)
    again = start_server()
    assert again.app.recovered.rebuilt
    assert answers(connect(again), queries) == before


def test_of_many_equals_the_same_are_answered_after_a_rebuild(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    made = [service.conversation_of("zebra") for _ in range(8)]
    service.delete(made[2])
    server.stop()
    # The index numbers conversations as it meets them: here one with the lowest id comes last.
    again = start_server()
    late, past = connect(again), moment(again.clock.now - 1000)
    late.create(conversation_id=UNKNOWN, create_time=past)
    late.append(UNKNOWN, user("zebra", timestamp=past))
    before = answers(late, ["zebra"])
    assert [page[-1].id for page in connect(again).pages(page_size=8)] == [UNKNOWN]
    again.stop()
    delete_index(again)
    assert answers(connect(start_server()), ["zebra"]) == before


def test_what_nobody_said_is_not_found(service: Service) -> None:
    service.conversation_of("zebra")
    answer = service.search("quagga")
    assert (len(answer.results), len(answer.hits), answer.total_matches) == (0, 0, 0)
    assert list(answer.legs_run) == LEGS


def test_a_transcript_that_cannot_be_read_does_not_take_the_others_down(
    service: Service, server: RunningServer
) -> None:
    damaged, there = service.conversation_of("zebra one"), service.conversation_of("zebra two")
    transcript(server, damaged).rename(server.folder / "elsewhere")
    answer = service.search("zebra")
    assert [result.conversation_id for result in answer.results] == [there]
    assert {hit.conversation_id for hit in answer.hits} == {there}
    assert there in [entry.conversation.id for entry in service.recent().conversations]


def test_a_transcript_that_is_not_the_servers_own_file_is_passed_over_and_said_to_be(
    service: Service, server: RunningServer
) -> None:
    elsewhere, there = service.conversation_of("zebra one"), service.conversation_of("zebra two")
    path = transcript(server, elsewhere)
    path.rename(server.folder / "elsewhere")
    # it is never opened through a link: as little as one that the disk cannot read
    path.symlink_to(server.folder / "elsewhere")
    answer = service.search("zebra")
    assert [result.conversation_id for result in answer.results] == [there]
    assert {hit.conversation_id for hit in answer.hits} == {there}
    reason = "1 transcript of what was found cannot be read"
    assert {part.leg: part.reason for part in answer.degraded} == dict.fromkeys(
        answer.legs_run, reason
    )
    assert there in [entry.conversation.id for entry in service.recent().conversations]


def test_a_conversation_whose_best_message_is_damaged_is_shown_by_its_next(
    service: Service, server: RunningServer
) -> None:
    texts = {2: "the zebra of the first pen", 3: "the zebra of the second pen"}
    path = transcript(server, service.conversation_of(*texts.values()))
    best = service.search("zebra").hits[0].sequence
    path.write_bytes(
        path.read_bytes().replace(
            texts[best].encode(), texts[best].replace("zebra", "cobra").encode()
        )
    )
    del texts[best]
    answer = service.search("zebra")
    assert [hit.sequence for hit in answer.hits] == [*texts]
    assert [
        result.snippet.replace("\ue000", "").replace("\ue001", "") for result in answer.results
    ] == [*texts.values()]
