"""Search for any text: no character is an operator, and every script is found."""

import unicodedata

import apsw
import pytest
from recollect_server.recall.retrieval import KEYWORD_BUDGET

from tests.at_rest import INDEX
from tests.cases import each
from tests.conftest import RunningServer
from tests.server.conftest import Service, failure_of
from tests.server.searching import LEGS, marked


def test_words_are_found_in_any_form_and_case(service: Service) -> None:
    conversation_id = service.conversation_of("She was RUNNING marathons")
    for query in ("run", "marathon", "Runs", "who ran the MARATHON"):
        assert service.found(query) == [conversation_id]


HOSTILE = [
    '"', '""', "'", "zebra AND crossing", "zebra NOT crossing", "NEAR(zebra crossing, 2)", "NEAR(", "zebra*", "*", "-zebra",
    "text:zebra", "col:zebra", ":", "zebra:", "^zebra", "{zebra}", "(zebra", "zebra)", "((((", "zebra OR", "OR", "AND", "NOT",
    '"zebra', 'ze"bra', "zebra; DROP TABLE messages", "zebra' OR 1=1 --", "\\", "%", "_", "🎉", "🦓 zebra 🎉",
    "x) OR conv:c2 OR text:(x", '" OR text:"secret', "\ue000", "\u200b", "+", "zebra+crossing", "zebra,crossing", "\ufeffzebra",
    "\x01\x02\x1b[31m", "𝔷𝔢𝔟𝔯𝔞", "ZEBRA", "the of and", "\u202ezebra", "a\tb\nc", "İstanbul", "ﬁ", "ß", "\U0010ffff", "\ufffe",
]  # fmt: skip


@pytest.fixture
def own(service: Service) -> str:
    """Return a conversation about a zebra."""
    return service.conversation_of("the zebra crossing of İstanbul")


@pytest.fixture
def secret(service: Service) -> str:
    """Return a conversation that has what an operator would look for."""
    return service.conversation_of(
        "secret c2 x text conv zebra OR AND NOT NEAR the of and crossing a b c col drop table"
    )


@each("query", HOSTILE)
def test_no_character_of_a_query_is_an_operator(
    service: Service, own: str, secret: str, query: str
) -> None:
    answer = service.search(query, conversation_id=own)
    assert {result.conversation_id for result in answer.results} <= {own}
    assert {hit.conversation_id for hit in answer.hits} <= {own}
    assert not answer.degraded
    assert list(answer.legs_run) == LEGS
    anywhere = service.search(query)
    assert {hit.conversation_id for hit in anywhere.hits} <= {own, secret}
    assert not anywhere.degraded


@each(
    "query",
    [
        "zebra*",
        "-zebra",
        "text:zebra",
        '"zebra',
        "(zebra",
        "zebra AND",
        "zebra\u0301",
        "\ufeffzebra",
    ],
)
def test_the_words_around_an_operator_are_searched_for(
    service: Service, own: str, query: str
) -> None:
    assert service.found(query) == [own]


@each("word", ["İstanbul", "STRASSE", "naïve", "Ǆ", "ﬁn", "O'Neill", "C3PO", "x_y", "Σίσυφος"])
def test_a_word_is_found_by_itself_and_by_its_lower_case(service: Service, word: str) -> None:
    conversation_id = service.conversation_of(f"so {word} it was")
    assert service.found(word) == [conversation_id]
    assert service.found(word.lower()) == [conversation_id]


BEGUN = [
    ("popul", "popular"), ("Downe", "Downey"), ("database migr", "migration"), ("migratio", "migration"),
    ("meeting universit", "university"), ("versicherun", "Versicherung"), ("Mül", "Müller"), ("Verkauf", "Verkäufer"),
    ("Where is the popul", "popular"), ("велос", "велосипеды"),
]  # fmt: skip


@pytest.fixture
def texts(service: Service) -> dict[str, str]:
    """Return conversations by the word that they are about."""
    messages = {
        "popular": "Most popular brain scans of the month",
        "Downey": "Downey Soccer Club meets on Sunday",
        "migration": "The database migration is done, and the database is fine",
        "university": "We had lunch at the university",
        "Versicherung": "Die Versicherung hat uns heute einen Brief geschrieben, und das ist gut",
        "Müller": "Café Müller is closed",
        "Verkäufer": "Der Verkäufer war nicht da und ich bin wieder gegangen",
        "велосипеды": "Мы купили новые велосипеды для детей",
    }
    service.conversation_of("The database is slow and the meeting was long, where is the tea")
    return {word: service.conversation_of(text) for word, text in messages.items()}


@each(("query", "word"), BEGUN)
def test_the_last_word_of_a_search_is_found_and_marked_before_it_is_typed_to_its_end(
    service: Service, texts: dict[str, str], query: str, word: str
) -> None:
    answer = service.search(query)
    assert answer.hits[0].conversation_id == answer.results[0].conversation_id == texts[word]
    assert word in marked(answer.hits[0].snippet)


def test_a_word_that_was_said_comes_before_those_that_begin_with_it(service: Service) -> None:
    longer = service.conversation_of("My portfolio lost money")
    word = service.conversation_of("The port of Hamburg")
    assert service.found("port") == [word, longer]
    # of a sentence, or where more is typed behind it, the last word is whole
    assert service.found("what did we say about the port") == [word]
    for query in ("port?", "port ", "portugal", "po"):
        assert longer not in service.found(query)


IDENTIFIERS = [
    # query, words that are marked in the first message, of which there is one
    ("parser", "Parser"), ("request parser", "Request Parser"), ("http headers", "HTTP Header"), ("ready", "Ready"),
    ("HttpRequestPars", "HttpRequestParser"), ("Decoder", "Decoder"), ("SnakeCaseName", "snake case name"),
    ("snake name", "snake name"), ("pars", "Parser"),
]  # fmt: skip


@pytest.fixture
def code(service: Service) -> str:
    """Return a conversation about code, beside another one."""
    service.conversation_of("McDonald has an iPhone of a GmbH")
    return service.conversation_of(
        "HttpRequestParser fails",
        "Then ask isReady first",
        "parseHTTPHeader: it is in v2",
        "Der SpeicherDecoder ist kaputt, und das ist nicht gut",
        "call snake_case_name",
    )


@each(("query", "marks"), IDENTIFIERS)
def test_identifiers_are_found_and_marked_by_the_words_in_them(
    service: Service, code: str, query: str, marks: str
) -> None:
    hit = service.search(query).hits[0]
    assert (hit.conversation_id, marked(hit.snippet)) == (code, marks.split())


def test_the_ends_of_names_are_no_words(service: Service, code: str) -> None:
    assert [service.found(it) for it in ("donald", "phone", "class", "bH")] == [[]] * 4


def test_the_words_in_identifiers_leave_the_index_with_their_message(
    service: Service, server: RunningServer
) -> None:
    service.delete(service.conversation_of("HttpRequestParser fails", "שָׁלוֹם"))
    service.conversation_of("Nothing else")
    server.stop()
    with apsw.Connection(str(server.folder / INDEX)) as connection:
        terms = [str(row[0]) for row in connection.execute("SELECT term FROM turns_vocabulary")]
    connection.close()
    assert sorted(terms) == ["els", "noth"]


def test_points_of_hebrew_are_passed_over_in_texts_and_queries(service: Service) -> None:
    both = {service.conversation_of(it) for it in ("שָׁלוֹם לְכֻלָּם", "אמר שלום והלך")}
    service.conversation_of("Nothing else")
    for query in ("שלום", "שָׁלוֹם", "\ufb2aלום"):
        hits = service.search(query).hits
        assert {it.conversation_id for it in hits} == both
        assert {word for it in hits for word in marked(it.snippet)} == {"שָׁלוֹם", "שלום"}


def test_a_minus_does_not_exclude(service: Service) -> None:
    conversation_id = service.conversation_of("zebra crossing")
    assert service.found("zebra -crossing NOT crossing") == [conversation_id]


def test_ten_thousand_words_are_answered(service: Service) -> None:
    conversation_id = service.conversation_of(
        "word7 word77 word777", *("word1 word2 word3" for _ in range(5))
    )
    answer = service.search(" ".join(f"word{n % 1000}" for n in range(6500)))
    assert answer.results[0].conversation_id == conversation_id
    assert answer.hits[0].turn_number == 1
    short = " ".join(f"w{n}" for n in range(10_000))
    assert service.found(short) == []


@each("query", ["", " ", "\n\t\u2003", "a\0b", "\0", "x" * 65537, "ü" * 32769])
def test_a_query_that_cannot_be_asked_is_refused(service: Service, query: str) -> None:
    failure = failure_of(lambda: service.search(query))
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        ("query",),
    )


def test_the_longest_query_is_answered(service: Service) -> None:
    conversation_id = service.conversation_of("zebra")
    assert service.found("zebra " + "ü" * 32765) == [conversation_id]


def test_a_query_of_nothing_but_stop_words_searches_for_those(service: Service) -> None:
    conversation_id = service.conversation_of("to be or not to be", "something else entirely")
    assert service.found("to be or not to be") == [conversation_id]
    assert service.search("the and").total_matches == 0


SCRIPTS: list[tuple[str, str, str | None]] = [
    ("我想去北京大学学习", "北京", "北京"),
    ("我想去北京大学学习", "大学", "大学"),
    ("我想去北京大学学习", "京", "京"),
    ("我想去北京大学学习", "北京大学", "北京大学"),
    ("他喜欢龙井茶", "龙井茶", "龙井茶"),
    ("今日は天気がいいですね", "天気", "天気"),
    ("コーヒーを飲みました", "コーヒー", "コーヒー"),
    ("ｶﾀｶﾅも", "ｶﾀｶﾅ", "ｶﾀｶﾅ"),
    ("안녕하세요 서울에서 만나요", "서울", "서울"),
    ("회의는 내일입니다", "회의", "회의"),
    ("ฉันชอบอาหารไทยมาก", "อาหาร", "อาหาร"),
    ("Un café très chaud", "cafe", "café"),
    ("Un cafe tres chaud", "café", "cafe"),
    ("Un cafe\u0301 chaud", "café", "café"),
    ("Er wohnt in Köln", "koln", "Köln"),
    ("Привет, как дела в Москве", "москве", "Москве"),
    ("Καλημέρα κόσμε", "ΚΌΣΜΕ", "κόσμε"),
    ("مرحبا بالعالم", "بالعالم", "بالعالم"),
    ("שלום עולם", "עולם", "עולם"),
    ("नमस्ते दुनिया", "दुनिया", None),
    ("Meeting with 北京 team", "北京 team", "北京"),
    ("order no. 4711-A", "4711", "4711"),
    ("mail me at ana@example.org", "example.org", "example"),
]


@pytest.fixture
def others(service: Service) -> str:
    """Return a conversation of other texts in many scripts."""
    return service.conversation_of(
        "完全不同的话题",
        "まったく別の話",
        "전혀 다른 이야기",
        "เรื่องอื่น",
        "something else",
        "बिल्कुल अलग",
    )


@each(("text", "query", "mark"), SCRIPTS)
def test_every_script_is_found(
    service: Service, others: str, text: str, query: str, mark: str | None
) -> None:
    conversation_id = service.conversation_of(text)
    answer = service.search(query)
    service.delete(conversation_id)  # the next case has it to itself
    assert answer.results[0].conversation_id == conversation_id != others
    assert answer.hits[0].conversation_id == conversation_id
    if mark:
        assert mark in composed(marked(answer.hits[0].snippet))


def composed(texts: list[str]) -> list[str]:
    return [unicodedata.normalize("NFC", it) for it in texts]


@each("query", ["上海", "京北", "学大", "東京タワー", "부산", "ภูเก็ต"])
def test_characters_that_never_stood_together_are_not_found(service: Service, query: str) -> None:
    service.conversation_of("我想去北京大学学习", "今日は天気がいい", "서울에서 만나요")
    assert service.found(query) == []


@pytest.mark.parametrize("word", ["学生ががく", "서울", "tiếng", "café", "ё"])
def test_decomposed_text_is_found_by_composed_words_and_back(service: Service, word: str) -> None:
    texts = [unicodedata.normalize(form, word) for form in ("NFC", "NFD")]
    both = {service.conversation_of(text) for text in texts}
    for query in texts:
        answer = service.search(query)
        assert {result.conversation_id for result in answer.results} == both
        # a snippet is as it was written
        assert sorted(it for hit in answer.hits for it in marked(hit.snippet)) == sorted(texts)


def test_a_query_with_more_words_than_are_looked_up_says_so(service: Service) -> None:
    conversation_id = service.conversation_of("zebra crossing")
    words = " ".join(f"word{number}" for number in range(1_500))
    answer = service.search(f"zebra {words}")
    assert [it.conversation_id for it in answer.results] == [conversation_id]
    assert {it.leg: it.reason for it in answer.degraded} == dict.fromkeys(LEGS, KEYWORD_BUDGET)
    long = service.search("zebra " + "zebra crossing " * 2_000)
    assert [it.leg for it in long.degraded] == LEGS
