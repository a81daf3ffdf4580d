"""Search by titles, topics and abbreviations, and the range of turns around what was found."""

import apsw

from tests.at_rest import INDEX
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, delete_index, moment, user
from tests.server.searching import marked


def test_a_title_that_nobody_said_is_found(service: Service, clock: MovableClock) -> None:
    trip = service.conversation_of("Shall we go there in spring?", "Then I book the flights")
    clock.move(1000)
    service.conversation_of("Buy bread and milk")
    assert service.found("Zanzibar") == []
    service.rename(trip, "Zanzibar Trip")
    answer = service.search("zanzibar")
    (result,) = answer.results
    assert (result.conversation_id, result.snippet_from_notes, marked(result.snippet)) == (
        trip,
        True,
        ["Zanzibar"],
    )
    assert (list(result.matched_turns), result.HasField("turn_range"), result.date) == (
        [],
        False,
        moment(clock.now - 1000),
    )
    assert answer.total_matches == 1
    service.rename(trip, "Madagascar Trip")
    assert (service.found("Zanzibar"), service.found("madagascar")) == ([], [trip])


def test_a_title_with_all_words_comes_first_and_a_year_is_one_of_them(
    service: Service, clock: MovableClock
) -> None:
    clock.now = 1_780_000_000_000  # in 2026
    heating = service.conversation_of("We replaced the boiler in the cellar", "It cost a lot")
    service.rename(heating, "Heating 2026")
    for text in ("Heating is too warm here", "The numbers of 2026 are in", "The garden is full"):
        service.conversation_of(text)
    queries = ("Heating 2026", "2026 heating", "heating 202", "What of the heating in 2026?")
    assert [service.found(it)[:1] for it in queries] == [[heating]] * 4
    assert service.found("Heating 2025")[:1] != [heating]
    clock.now += 365 * 86_400_000
    assert service.found("Heating 2026")[:1] == [heating]


def test_words_of_topics_and_abbreviations_are_found_and_the_abbreviation_is_shown(
    service: Service,
) -> None:
    conversation = service.conversation_of("Yes.", "Fine by me.")
    service.abbreviate(
        conversation,
        "They agreed to adopt a puppy from the shelter. " * 3 + "北京大学",
        ["household"],
    )
    result = service.search("puppies").results[0]
    assert (result.conversation_id, result.snippet_from_notes) == (conversation, True)
    assert set(marked(result.snippet)) == {"puppy"}
    for query, shown in (("household", "household"), ("北京", "北京")):
        result = service.search(query).results[0]
        assert (result.conversation_id, marked(result.snippet)) == (conversation, [shown])
    service.abbreviate(conversation, "They agreed to sell the boat.", ["boats"])
    assert [service.found(query) for query in ("puppy", "household", "boat")] == [
        [],
        [],
        [conversation],
    ]


def test_where_a_message_has_the_words_it_is_shown_and_not_the_notes(service: Service) -> None:
    conversation = service.conversation_of("We fly to Kyoto in April")
    service.rename(conversation, "Kyoto Trip")
    result = service.search("Kyoto").results[0]
    assert (result.snippet_from_notes, list(result.matched_turns)) == (False, [1])
    assert result.snippet == "We fly to \ue000Kyoto\ue001 in April"


def test_the_words_that_match_are_ranges_in_code_points(service: Service) -> None:
    conversation = service.conversation_of("🛫\ue000 Kyoto,\n\nthen Nara,  then\tKyoto 🏯 Kyoto")
    service.rename(conversation, "🏯 Osaka")
    answer = service.search("Kyoto Nara")
    notes = service.search("Osaka").results[0]
    text = "🛫 Kyoto, then Nara, then Kyoto 🏯 Kyoto"
    for it in (answer.results[0], answer.hits[0]):
        assert it.snippet_text == text
        spans = [(span.start, span.end) for span in it.snippet_matches]
        assert spans == [(2, 7), (14, 18), (25, 30), (33, 38)]
    assert (notes.snippet_text, notes.snippet_matches[0].start) == ("🏯 Osaka", 2)


def test_filters_hold_for_what_is_found_by_notes(service: Service, clock: MovableClock) -> None:
    begin = clock.now
    web = service.conversation_of("One")
    service.rename(web, "Zanzibar Trip")
    clock.move(10_000)
    mail = service.conversation_of("Two", channel="email")
    service.abbreviate(mail, "About Zanzibar", ["travel"])
    assert {*service.found("zanzibar")} == {web, mail}
    assert service.found("zanzibar", channel="email") == [mail]
    assert service.found("zanzibar", topics=["travel"]) == [mail]
    assert service.found("zanzibar", conversation_id=web) == [web]
    assert service.found("zanzibar", date_range={"end": moment(begin + 1)}) == [web]
    assert service.found("zanzibar", date_range={"start": moment(begin + 1)}) == [mail]


def test_the_words_of_deleted_notes_are_gone_from_the_file(
    service: Service, server: RunningServer
) -> None:
    conversation = service.conversation_of("Yes.")
    service.rename(conversation, "Xylophonists Reunion")
    assert service.found("xylophonists") == [conversation]
    service.delete(conversation)
    assert service.found("xylophonists") == []
    server.stop()
    assert all(b"ylophonist" not in file.read_bytes() for file in server.folder.glob(f"{INDEX}*"))


def test_an_index_of_the_version_before_and_a_new_one_have_the_notes(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation = service.conversation_of("Yes.")
    service.rename(conversation, "Zanzibar Trip")
    service.abbreviate(conversation, "A puppy", ["household"])
    queries = ("zanzibar", "puppy", "household")
    assert [service.found(query) for query in queries] == [[conversation]] * 3
    server.stop()
    connection = apsw.Connection(str(server.folder / INDEX))
    version = connection.pragma("user_version")
    connection.execute("DROP TRIGGER take_in_notes_words; DROP TABLE notes_words")
    connection.pragma("user_version", version - 2)  # before the words were taken in anew
    connection.close()
    again = start_server()
    assert [connect(again).found(query) for query in queries] == [[conversation]] * 3
    again.stop()
    delete_index(again)
    anew = start_server()
    assert [connect(anew).found(query) for query in queries] == [[conversation]] * 3


def test_the_range_of_turns_is_around_the_best_match(service: Service) -> None:
    conversation = service.create().id
    for number in range(40):
        texts = {
            2: "zebra",
            30: "zebra and okapi",
            33: "a zebra drinks with an okapi",
            34: "okapi",
        }.get(number, f"ticket {number}")
        service.append(conversation, user(texts))
    result = service.search("zebra okapi").results[0]
    assert {3, 31, 34, 35} <= {*result.matched_turns}
    assert result.matched_turns[0] in {31, 34, 35}
    assert 26 <= result.turn_range.first <= 31
    assert 35 <= result.turn_range.last <= 40


def test_each_result_has_the_matched_turns_of_its_own_conversation(service: Service) -> None:
    zebras = [{2}, {1, 5}, {7}]
    conversations = {
        service.conversation_of(
            *("a zebra" if turn in turns else "tea" for turn in range(1, 9))
        ): turns
        for turns in zebras
    }
    results = service.search("zebra").results
    assert {it.conversation_id for it in results} == {*conversations}
    for result in results:
        turns = conversations[result.conversation_id]
        assert {*result.matched_turns[: len(turns)]} == turns
        beside = {turn + step for turn in turns for step in (-1, 0, 1)}
        assert {*result.matched_turns} <= beside
        assert marked(result.snippet) == ["zebra"]
