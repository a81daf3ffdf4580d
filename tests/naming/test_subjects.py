"""Topics and titles of offline notes in other languages than English: right, or plainly absent."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from recollect_server.kernel.domain.message import Message
from recollect_server.notes.notes import spelt_words, title_of, topic_of
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.notes.offline.phrases import NEGATION
from recollect_server.text.languages import language_of, question_stop_words
from recollect_server.text.topics import said_anywhere

from tests.cases import each

Talk = Callable[..., list[Message]]

DIALOGUES = json.loads(Path(__file__).with_name("more_dialogues.json").read_text())

# What each conversation is about; what is not listed here is no topic of it.
RIGHT = {
    "nl-1": "piano verhuisbedrijf verhuizing dozen bus",
    "nl-2": "remblokken fiets velg",
    "nl-3": "sla tomaten balkon",
    "pl-1": "kuchni budżet remont szafki płytki",
    "pl-2": "karmę kot weterynarz",
    "pl-3": "wypowiedzenie właściciel mieszkania kaucji okres umowy",
    "tr-1": "müze bütçe otel kadıköy gezi",
    "tr-2": "bilgisayar disk dosyaları",
    "tr-3": "pasta buzdolabında çikolata fırın kızım",
    "ko-1": "버스 해변 한라산 렌터카 서귀포 숙소",
    "ko-2": "소리 세탁기 필터 동전 탈수",
    "ko-3": "자기소개 경험 면접 아르바이트 카페",
    "hi-1": "शादी मेहमान गाँव होटल बजट",
    "hi-2": "बैटरी फ़ोन",
    "hi-3": "दाल टमाटर मक्खन दही",
    "it-1": "corso scuola tedesco lingua figlio",
    "it-2": "olio motore libretto macchina",
    "it-3": "telefono camera sonno",
    "de-1": "teich pumpe genehmigung filter fische",
    "fr-1": "réunion ascenseur toiture devis travaux",
    "es-1": "contrato fibra sevilla compañía",
    "pt-1": "remédio medo cão veterinário trovões cama",
    "ru-1": "айфон компьютер кабель фотографии",
    "zh-1": "梳毛 猫粮 鱼油 掉毛",
    "ja-1": "医療費控除 交通費 領収書 タクシー 風邪薬",
    "ar-1": "فرن بيتزا معكرونة طماطم صلصة عجين",
}


def contents(name: str) -> list[str]:
    return [text for _, text in DIALOGUES[name]]


def test_every_language_of_the_dialogues_is_told() -> None:
    languages = {name: language_of(contents(name)) for name in DIALOGUES}
    assert languages == {name: name.partition("-")[0] for name in DIALOGUES}


@each("name", DIALOGUES)
def test_topics_are_what_the_conversation_is_about(talk: Talk, name: str) -> None:
    topics = Extractive().write_notes(talk(*contents(name)), "").topics
    right = RIGHT[name].split()
    assert set(topics) <= {topic_of(it) for it in right}


@each("name", DIALOGUES)
def test_a_topic_is_a_whole_word_without_articles(talk: Talk, name: str) -> None:
    language = name.partition("-")[0]
    text = " ".join(contents(name)).casefold().replace("i\u0307", "i")
    for topic in Extractive().write_notes(talk(*contents(name)), "").topics:
        assert topic in text
        assert topic not in question_stop_words(language) | said_anywhere(language)
        assert not topic.startswith(("l-", "d-", "die-", "les-"))


@each(
    "texts",
    [
        ("Guten Morgen! Wie geht es dir heute?", "Danke, mir geht es gut. Und wie geht es dir?"),
        ("안녕하세요! 오늘 기분이 어때요?", "좋아요, 감사합니다. 오늘은 어떠세요?"),
        ("你好！今天怎么样？", "我很好，谢谢你。你今天怎么样？"),
        ("Bonjour, comment allez-vous aujourd'hui ?", "Très bien, merci. Et vous, ça va ?"),
        ("Merhaba, bugün nasılsın?", "İyiyim, teşekkürler. Sen bugün nasılsın?"),
        ("नमस्ते! आप कैसे हैं?", "मैं ठीक हूँ, धन्यवाद। आप कैसे हैं?"),
        ("مرحبا! كيف حالك اليوم؟", "أنا بخير شكرا. وأنت كيف حالك اليوم؟"),
    ],
)
def test_a_greeting_has_no_topic(talk: Talk, texts: tuple[str, ...]) -> None:
    assert Extractive().write_notes(talk(*texts), "").topics == ()


@each(
    "sentence",
    [
        "Ik wil geen vlees in het menu.",
        "Nie chcę nowych płytek.",
        "Bu otelde havuz yok.",
        "हम होटल में शादी नहीं करेंगे।",
        "저는 고기를 안 먹어요.",
        "렌터카는 없어요.",
    ],
)
def test_a_negation_of_every_language_is_known(sentence: str) -> None:
    assert NEGATION.search(sentence)


def test_vowel_signs_belong_to_words() -> None:
    assert spelt_words("किताब की दुकान") == ["किताब", "की", "दुकान"]
    assert topic_of("शादी का बजट") == "शादी-का-बजट"
    assert topic_of("İstanbul Gezisi") == "istanbul-gezisi"
    assert title_of("Zaplanować remont kuchni") == "Zaplanować remont kuchni"


@pytest.mark.parametrize("language", ["zh", "ko", "ru", "hi"])
def test_notes_of_750_turns_take_less_than_5_seconds(talk: Talk, language: str) -> None:
    texts = [it for name in DIALOGUES if name.startswith(language) for it in contents(name)]
    long = talk(*(f"{texts[at % len(texts)]} {at}" for at in range(1500)))
    before = time.process_time()
    notes = Extractive().write_notes(long, "")
    assert (bool(notes.topics), time.process_time() - before < 5) == (True, True)


@pytest.mark.parametrize(
    ("turns", "topics"),
    [
        (
            (
                "我的网站登录以后总是跳回登录页，怎么办？",
                "请检查一下域名和设置。",
                "就这么办，域名先改。",
            ),
            ("域名",),
        ),
        (("SSH 키를 등록했는데 오류가 나요.", "키를 에이전트에 추가해 보세요."), ()),
    ],
)
def test_a_piece_of_a_phrase_and_a_noun_with_its_particle_are_no_topics(
    talk: Callable[..., list[Message]], turns: tuple[str, ...], topics: tuple[str, ...]
) -> None:
    assert Extractive().write_notes(talk(*turns), "").topics == topics
