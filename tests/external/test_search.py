"""Search over what third parties wrote and were told, apart from the search of conversations."""

import apsw
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.recall_pb2 import DateRange
from recollect_server.people.communication import EmailHeaders, Provenance
from recollect_server.people.communication_service import External

from tests.at_rest import INDEX
from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.external.conftest import KNOWN, UNTRUSTED, Meet, Outside
from tests.server.conftest import Service, assert_refused, delete_index, moment, user
from tests.server.searching import marked
from tests.server_cli.conftest import run

DAY = 86_400_000


def find(outside: Outside, query: str, **fields: object) -> api.SearchCommunicationsResponse:
    return outside.rpc.SearchCommunications(api.SearchCommunicationsRequest(query=query, **fields))  # type: ignore[arg-type]


def texts(response: api.SearchCommunicationsResponse) -> list[str]:
    for it in response.matches:
        words = [it.snippet_text[span.start : span.end] for span in it.snippet_matches]
        assert words == marked(it.snippet)
    return [it.snippet.replace("\ue000", "[").replace("\ue001", "]") for it in response.matches]


def test_the_best_message_comes_first_with_its_words_marked(outside: Outside) -> None:
    ann = outside.write("The invoice for the roof is still open.", party="ann").communication.id
    outside.write("Which roof?", party="bob")
    outside.write("Good morning", party="cyn")
    response = find(outside, "roof invoices")
    assert texts(response) == ["The [invoice] for the [roof] is still open.", "Which [roof]?"]
    assert (response.total_matches, response.matches[0].score) == (2, 1.0)
    assert 0 < response.matches[1].score < 1
    assert (response.matches[0].communication.id, response.matches[0].sequence) == (ann, 2)
    assert response.matches[0].communication == outside.get(ann).communication


def test_a_word_is_found_and_marked_before_it_is_typed_to_its_end(outside: Outside) -> None:
    outside.write("The invoice for the roof is still open.", party="ann")
    outside.write("Good morning", party="cyn")
    for query in ("invo", "roof inv"):
        assert "[invoice]" in texts(find(outside, query))[0]


def test_stop_words_are_marked_where_nothing_else_is_asked_for_or_found(outside: Outside) -> None:
    outside.write("Who was in it?", party="bob")
    assert texts(find(outside, "who was")) == ["[Who] [was] in it?"]
    assert texts(find(outside, "Wann ist die Sitzung in Bonn?")) == ["Who was [in] it?"]
    outside.write("She was in Bonn when it began.", party="cleo")
    assert texts(find(outside, "Bonn in Bildern"))[0] == "She was in [Bonn] when it began."


def test_replies_subjects_and_names_are_found(outside: Outside) -> None:
    origin = Provenance("Hanan", EmailHeaders("1@x", subject="Zanzibar trip"))
    with outside.server.app.spaces.use("default") as space:
        received = space.service(External).receive(
            "email", "h@x.org", "1", "See you there.", (), None, origin
        )
    assert received is not None
    name = received.communication.id
    outside.trust(name, KNOWN)
    outside.reply(name, "The ferry leaves at nine.")
    assert texts(find(outside, "zanzibar")) == ["[Zanzibar] trip See you there."]
    assert texts(find(outside, "Hanan")) == ["Zanzibar trip See you there."]
    assert texts(find(outside, "ferry")) == ["The [ferry] leaves at nine."]


def test_every_filter_must_match(outside: Outside) -> None:
    start = outside.server.clock()
    ann = outside.write("zebra one", party="1555", time=start - 10 * DAY).communication.id
    outside.write("zebra two", party="1666", time=start)
    outside.write("zebra three", party="b@x.org", channel="email", time=start)
    outside.trust(ann, KNOWN)
    assert find(outside, "zebra").total_matches == 3
    assert texts(find(outside, "zebra", party="1555")) == ["[zebra] one"]
    assert texts(find(outside, "zebra", party="+1 666", channel="whatsapp")) == ["[zebra] two"]
    assert texts(find(outside, "zebra", party="+1 666")) == ["[zebra] two"]
    assert texts(find(outside, "zebra", party="B@X.org")) == ["[zebra] three"]
    assert texts(find(outside, "zebra", channel="email")) == ["[zebra] three"]
    assert texts(find(outside, "zebra", trust=KNOWN)) == ["[zebra] one"]
    assert find(outside, "zebra", trust=UNTRUSTED).total_matches == 2
    assert texts(find(outside, "zebra", communication_id=ann)) == ["[zebra] one"]
    week = DateRange(start=moment(start - 7 * DAY))
    assert find(outside, "zebra", date_range=week).total_matches == 2
    assert texts(find(outside, "zebra", date_range=DateRange(end=moment(start)))) == ["[zebra] one"]
    assert texts(find(outside, "zebra", date_range=week, trust=KNOWN)) == []
    assert (
        len(find(outside, "zebra", limit=1).matches),
        find(outside, "zebra", limit=1).total_matches,
    ) == (1, 3)


def test_neither_search_finds_what_is_the_others(outside: Outside, service: Service) -> None:
    outside.write("zebra outside")
    conversation = service.conversation_of("zebra inside")
    assert texts(find(outside, "zebra")) == ["[zebra] outside"]
    assert service.found("zebra") == [conversation]
    service.append(conversation, user("a quokka"))
    assert texts(find(outside, "quokka")) == []


OPERATORS = [
    "zebra) OR c.trust:(x",
    '"',
    "NEAR(zebra",
    "zebra*",
    "-zebra",
    "text:zebra",
    "zebra ^ {",
    "' OR 1=1 --",
    "🦓",
]


@each("query", OPERATORS)
def test_no_character_of_a_query_is_an_operator(outside: Outside, query: str) -> None:
    mine = outside.write("zebra crossing", party="1555").communication.id
    outside.write("text of another, a trust or zebra", party="1666")
    response = find(outside, query, communication_id=mine)
    assert {it.communication.id for it in response.matches} <= {mine}


def test_the_same_is_found_after_a_restart_and_with_a_new_index(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet
) -> None:
    for number in range(20):
        outside.write(f"zebra {number} {'stripes ' * (number % 3)}", party=str(number % 4))
    before = find(outside, "zebra stripes")
    assert before.total_matches == 20
    server.stop()
    server = start_server()
    assert find(meet(server), "zebra stripes") == before
    server.stop()
    delete_index(server)
    assert find(meet(start_server()), "zebra stripes") == before


def test_verify_sees_words_that_are_missing(outside: Outside, server: RunningServer) -> None:
    name = outside.write("zebra one").communication.id
    server.stop()
    assert run("verify", "--data-dir", server.data_dir).exit_code == 0
    with apsw.Connection(str(server.folder / INDEX)) as connection:
        connection.execute("INSERT INTO external_fts(external_fts) VALUES('delete-all')")
    connection.close()
    result = run("verify", "--data-dir", server.data_dir)
    assert (result.exit_code, f"{name}: the index has other words" in result.stdout) == (1, True)


@each(
    ("fields", "named"),
    [
        ({"query": " "}, "query"),
        ({"query": "a\0b"}, "query"),
        ({"query": "a", "limit": -1}, "limit"),
        ({"query": "a", "channel": "Not A Channel"}, "channel"),
        ({"query": "a", "party": "a" * 321}, "party"),
        ({"query": "a", "trust": 9}, "trust"),
        ({"query": "a", "communication_id": "conv-1"}, "communication_id"),
        (
            {"query": "a", "date_range": DateRange(start=moment(2000), end=moment(1000))},
            "date_range.end",
        ),
    ],
)
def test_a_wrong_search_is_refused(
    outside: Outside, service: Service, server: RunningServer, fields: dict[str, object], named: str
) -> None:
    request = api.SearchCommunicationsRequest(**fields)  # type: ignore[arg-type]
    assert_refused(service, server, lambda: outside.rpc.SearchCommunications(request), named)
