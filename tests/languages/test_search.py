"""Search finds a word in the other forms that its language has, and marks it."""

import time
from collections import Counter
from pathlib import Path

import apsw
import orjson
import pytest
from recollect_server.kernel.index.migrations import OLDEST
from recollect_server.text.analysis import MARKER, MARKER_END, MARKERS

from tests.at_rest import INDEX
from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service
from tests.server.searching import marked
from tests.server_cli.conftest import run

# The language, a message, a question with other forms of its words, and the words that are marked.
FORMS = [
    ("ar", "زرنا المهندسين في مكتبهم الجديد أمس", "أين المهندس؟", "المهندسين"),
    ("cs", "Ve středu jedeme vlakem do Brna a vezmeme s sebou kola", "Jaké vlaky jedou", "vlakem"),
    ("da", "Vi så hundene løbe i haven, og de var våde", "Hvor er hunden?", "hundene"),
    ("de", "Die Zahnärzte haben mir zwei neue Termine gegeben", "Wann ist mein Termin?", "Termine"),
    ("es", "Estuvimos trabajando toda la noche en las traducciones", "¿Quién trabajó?", "trabajando"),
    ("fi", "Olemme ostaneet uudet polkupyörät lapsille", "Missä polkupyörä on?", "polkupyörät"),
    ("fr", "Elle a mangé tous les gâteaux que nous avions achetés", "Qui mange le gâteau ?", "gâteaux"),
    ("hi", "मैंने कल दो नई किताबें खरीदीं", "मेरी किताब कहाँ है?", "किताबें"),
    ("hu", "A kertben ültettem három új almafát", "Hol van a kert?", "kertben"),
    ("id", "Kami sudah membeli makanan untuk kucing itu", "Di mana dia membelinya?", "membeli"),
    ("it", "Abbiamo comprato le biciclette per i bambini", "Dove ho comprato la bicicletta?", "biciclette"),
    ("nl", "We hebben twee nieuwe fietsen gekocht voor de kinderen", "Waar is mijn fiets?", "fietsen"),
    ("no", "Vi har kjøpt nye bøker til barna og meg", "Hva heter boka om barnet?", "barna"),
    ("pl", "Pojechaliśmy pociągiem do Krakowa i tam zostaliśmy", "Kiedy jedzie pociąg?", "pociągiem"),
    ("pt", "Nós compramos as bicicletas para os meninos ontem", "Quem comprou a bicicleta?", "bicicletas"),
    ("ro", "Am cumpărat două biciclete noi pentru copii", "Unde este bicicleta mea?", "biciclete"),
    ("ru", "Мы купили новые велосипеды для детей", "Где мой велосипед?", "велосипеды"),
    ("sv", "Vi tvättade bilarna och åkte sedan hem", "Var är min bil?", "bilarna"),
    ("tr", "Çocuklar için iki yeni kitap aldım ama çok pahalıydı", "Kitaplarım nerede?", "kitap"),
]  # fmt: skip


@pytest.fixture(scope="module")
def history(shared: Service) -> dict[str, str]:
    """Return conversations by language, each with one message."""
    shared.conversation_of(
        "Nothing of this kind was said.", "We bought new bicycles for the children"
    )
    return {language: shared.conversation_of(text) for language, text, _, _ in FORMS}


@each(("language", "question", "mark"), [(it[0], *it[2:]) for it in FORMS])
def test_a_word_is_found_and_marked_in_the_forms_of_its_language(
    shared: Service, history: dict[str, str], language: str, question: str, mark: str
) -> None:
    hits = shared.search(question).hits
    assert [hit.conversation_id for hit in hits][:1] == [history[language]]
    assert mark in marked(hits[0].snippet)


def test_what_is_marked_by_its_letters_is_no_stop_word_of_the_text(service: Service) -> None:
    pairs = [*map(orjson.loads, (Path(__file__).parent / "marks.jsonl").read_bytes().splitlines())]
    conversations = [service.conversation_of(it["text"]) for it in pairs]
    marks: Counter[str] = Counter()
    for pair, conversation in zip(pairs, conversations, strict=True):
        hits = service.search(pair["question"], limit=len(pairs)).hits
        of_text = [marked(it.snippet) for it in hits if it.conversation_id == conversation]
        shown, right = Counter(*of_text), Counter(pair["marks"])
        marks += Counter(right=(shown & right).total(), wrong=(shown - right).total())
        assert shown.keys().isdisjoint({"in", "an", "was", "die", "war"}), pair["question"]
    assert marks["right"] >= 40  # of 41
    # words of other sense alone (red, gift, chat, cave), "Die" as a name may be written, and three
    # times "a": in no English text, and where nothing else of the text is found
    assert marks["wrong"] <= 8


def test_a_question_of_nothing_but_stop_words_marks_them(service: Service) -> None:
    service.conversation_of("Who was there?")
    assert marked(service.search("who was").hits[0].snippet) == ["Who", "was"]


@each(
    ("text", "question", "marks"),
    [
        ("Im Mai fahren wir mit Will nach Wien, das Hotel ist gebucht.", "Who is Will?", ["Will"]),
        (
            "Ich habe gestern Die Hard im Kino gesehen, der Film war gut.",
            "Die Hard",
            ["Die", "Hard"],
        ),
        ("IT Termin Dienstag", "Was macht die IT?", ["IT"]),
        ("me Termin Dienstag Raum Wartung Server", "Wann war der ME Termin?", ["me", "Termin"]),
        ("Wir waren gestern in der Stadt, und es war sehr voll.", "Der", ["der"]),
    ],
)
def test_a_stop_word_that_is_a_name_or_all_that_is_found_is_marked(
    service: Service, text: str, question: str, marks: list[str]
) -> None:
    service.conversation_of("We saw the old house of the doctor, and it was empty.")
    conversation = service.conversation_of(text)
    hits = {it.conversation_id: it for it in service.search(question).hits}
    assert marked(hits[conversation].snippet) == marks


def test_a_question_in_english_finds_names_in_other_languages(service: Service) -> None:
    conversation = service.conversation_of(
        "Wir haben die Clusters mit Kubernetes in Barcelona aufgesetzt"
    )
    assert service.found("Kubernetes cluster") == [conversation]
    assert service.found("the trip to Barcelona") == [conversation]


def test_a_message_cannot_write_the_marker_of_a_language_into_the_index(
    service: Service, server: RunningServer
) -> None:
    # else every search would look at each of these words
    words = " ".join(f"{MARKER}{word}" for word in (*MARKERS.values(), *map(str, range(200))))
    conversation = service.conversation_of(f"{words} {MARKER}de0 harbour")
    assert service.found("harbour") == [conversation]
    assert service.found("199") == [conversation]
    with apsw.Connection(str(server.folder / INDEX)) as connection:
        query = "SELECT count(*) FROM turns_vocabulary WHERE term >= ? AND term < ?"
        assert connection.execute(query, (MARKER, MARKER_END)).get <= 1  # of its own language
    connection.close()


def test_stop_words_of_the_questions_language_find_nothing(service: Service) -> None:
    service.conversation_of("Wie ist das denn mit der Arbeit in dem neuen Haus?")
    assert service.found("Wann und wo ist der Zahnarzt mit dem Termin?") == []


def test_letters_without_an_accent_stand_for_those_with_one(service: Service) -> None:
    ids = [
        service.conversation_of(text)
        for text in (
            "The office in Łódź is closed",
            "Die Straße am Fluß ist gesperrt, wir müssen über die Brücke",
            "Hôm nay tôi đi khám bệnh với bác sĩ",
            "The flight to Tromsø was late",
        )
    ]
    queries = ("lodz", "strasse", "kham benh", "tromso")
    assert [service.found(query) for query in queries] == [[it] for it in ids]


@pytest.mark.parametrize(
    ("text", "question", "mark"),
    [
        ("我把书放在桌子上了", "书在哪里", "书"),
        ("小猫昨天生病了", "你的猫叫什么名字", "猫"),
        ("昨日、猫が庭にいました", "猫はどこですか", "猫"),
        ("他喜欢喝茶", "茶", "茶"),
    ],
)
def test_words_of_one_character_are_found_within_a_question(
    service: Service, text: str, question: str, mark: str
) -> None:
    service.conversation_of("今天天气很好", "完全不同的话题", "今日は天気がいい")
    conversation = service.conversation_of(text)
    answer = service.search(question)
    assert answer.hits[0].conversation_id == conversation
    assert mark in marked(answer.hits[0].snippet)


def test_a_text_is_found_and_marked_however_its_characters_are_written(service: Service) -> None:
    written = [
        ("予約番号は１２３４５６７です", "1234567", ["１２３４５６７"]),
        ("ｶﾀｶﾅ で入力", "カタカナ", ["ｶﾀｶﾅ"]),
        ("the of\ufb01ce \ufb02oor plan", "office floor", ["of\ufb01ce", "\ufb02oor"]),
        ("code ＡＢＣ１２３ ok", "ABC123", ["ＡＢＣ１２３"]),
        ("order 7654321 sent", "７６５４３２１", ["7654321"]),
        ("Die Ver\u00adsiche\u00adrungspolice", "Versicherungspolice", ["Ver\u00adsiche\u00adrungspolice"]),
        ("the pass\u200bword hint", "password", ["pass\u200bword"]),
        ("so 25° and Zoë™ it is", "zoe", ["Zoë"]),
        ("Great job 🎉🥹see you", "🥹", ["🥹"]),
        ("Well done 👍🏽 indeed", "👍", ["👍"]),
        ("می\u200cخواهم بروم", "خواهم", ["خواهم"]),
    ]  # fmt: skip
    conversations = [service.conversation_of(text) for text, _, _ in written]
    for conversation, (text, query, marks) in zip(conversations, written, strict=True):
        hit = service.search(query).hits[0]
        assert (hit.conversation_id, marked(hit.snippet)) == (conversation, marks), text


def test_a_code_is_found_with_and_without_its_separators(service: Service) -> None:
    texts = ["We decided in ADR-016 to mirror it.", "Serial E619-1609 is broken.", "On Windows 10",
             "ADR-017 is about logs.", "It was COVID19"]  # fmt: skip
    conversations = dict(zip(texts, map(service.conversation_of, texts), strict=True))
    for query, at in (("ADR016", 0), ("E6191609", 1), ("windows10", 2), ("covid-19", 4)):
        assert service.found(query)[0] == conversations[texts[at]], query


def test_a_word_that_nobody_wrote_is_found_in_near_spellings(service: Service) -> None:
    classes = service.conversation_of("The agility classes start on Monday")
    dog = service.conversation_of("Вчера вечером мы долго говорили про эту большую собаку")
    service.conversation_of("Something else about Martin")
    for query, conversation in (("agilty clases", classes), ("agiltiy", classes), ("сабаку", dog)):
        assert service.found(query)[0] == conversation, query
    assert marked(service.search("agilty").hits[0].snippet) == ["agility"]
    assert service.found("marzzin") == service.found("clues") == []  # two slips away


def test_hindi_words_are_whole_and_not_their_consonants(service: Service) -> None:
    conversation = service.conversation_of("किताब मेज़ पर रखी है")
    service.conversation_of("वह काम तब करेगा")
    assert service.found("किताब") == [conversation]


@pytest.mark.parametrize(
    ("spelling", "other"),
    [("फ़ाइल", "फाइल"), ("हिन्दी", "हिंदी"), ("चाँद", "चांद"), ("संबंध", "सम्बन्ध"), ("कंपनी", "कम्पनी")],
)
def test_a_hindi_word_is_found_and_marked_in_its_other_spelling(
    service: Service, spelling: str, other: str
) -> None:
    conversation = service.conversation_of(f"कल मैंने {spelling} के बारे में बहुत कुछ पढ़ा था")
    service.conversation_of("आज मौसम बहुत अच्छा है और हम बाहर जा रहे हैं")
    hits = service.search(other).hits
    assert [hit.conversation_id for hit in hits] == [conversation]
    assert marked(hits[0].snippet) == [spelling]


def test_notes_are_found_in_the_forms_of_their_language(service: Service) -> None:
    conversation = service.conversation_of("Ja, gut, das machen wir.")
    service.abbreviate(conversation, "Sie haben die Zahnärzte in der Stadt verglichen.", ["städte"])
    result = service.search("Welcher Zahnarzt ist es?").results[0]
    assert result.conversation_id == conversation
    assert marked(result.snippet) == ["Zahnärzte"]


def test_deleting_a_message_takes_its_stems_along(service: Service, server: RunningServer) -> None:
    left = service.conversation_of("Die Häuser in der Straße sind verkauft, und wir müssen suchen")
    service.conversation_of("Nothing else")
    service.delete(left)
    server.stop()
    with apsw.Connection(str(server.folder / INDEX)) as connection:
        terms = [str(row[0]) for row in connection.execute("SELECT term FROM turns_vocabulary")]
    connection.close()
    assert sorted(terms) == ["els", "noth"]


def test_an_index_of_a_version_with_words_in_another_form_is_made_anew(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation = service.conversation_of("Die Zahnärzte haben mir zwei neue Termine gegeben")
    server.stop()
    with apsw.Connection(str(server.folder / INDEX)) as connection:
        connection.pragma("user_version", OLDEST - 1)
    connection.close()
    verified = run("verify", "--data-dir", server.data_dir)
    assert "index: cannot be used: the index is of version" in verified.stdout
    assert "the next start makes it anew\n" in verified.stdout
    started = start_server()
    assert started.app.recovered.rebuilt
    again = connect(started)
    assert again.found("Wo ist der Zahnarzt?") == [conversation]


def test_a_word_of_450_000_letters_holds_up_nobody(service: Service) -> None:
    for letter in ("é", "ő", "ы", "ü"):
        before = time.process_time()
        conversation_id = service.conversation_of(letter * 450_000)
        assert service.get(conversation_id).message_count == 1  # behind what was queued
        assert time.process_time() - before < 2, letter
