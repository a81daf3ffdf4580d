"""The language of a message is guessed, and English is never taken for another one."""

import json
import subprocess
import sys
import time
from pathlib import Path

from recollect_server.text.languages import guess_language, language_of

from tests.cases import each

DIALOGUES = json.loads((Path(__file__).parents[1] / "naming/dialogues.json").read_text())

SENTENCES = {
    "ar": "أين وضعت جواز سفري؟",
    "bg": "Какво каза тя за срещата?",
    "cs": "Kdy máme schůzku s tím právníkem?",
    "da": "Hvad synes du om den nye lejlighed?",
    "de": "Kannst du den Termin auf Dienstag verschieben?",
    "el": "Πού έβαλα το διαβατήριό μου;",
    "es": "¿Cuándo es la cita con el dentista?",
    "fa": "قرار دندان‌پزشکی کی است؟",
    "fi": "Milloin minulla on aika hammaslääkärille?",
    "fr": "Quand est-ce que je vois le dentiste ?",
    "he": "מתי התור שלי לרופא השיניים?",
    "hi": "मेरा पासपोर्ट कहाँ रखा है?",
    "hu": "Mikor lesz az időpontom a fogorvosnál?",
    "id": "Kapan saya harus pergi ke dokter gigi?",
    "it": "Quando devo andare dal dentista?",
    "ja": "歯医者の予約はいつですか",
    "ko": "치과 예약이 언제예요?",
    "nl": "Wanneer moet ik naar de tandarts?",
    "no": "Hva synes dere om den nye leiligheten?",
    "pl": "Kiedy mam wizytę u dentysty?",
    "pt": "Quando é que tenho a consulta com você?",
    "ro": "Când trebuie să merg la dentist?",
    "ru": "Когда у меня приём у зубного?",
    "sv": "När ska jag gå till tandläkaren?",
    "th": "นัดหมอฟันเมื่อไหร่",
    "tr": "Dişçi randevum ne zaman?",
    "uk": "Коли мені треба до стоматолога?",
    "vi": "Khi nào tôi phải đi khám răng?",
    "zh": "我什么时候去看牙医？",
}

ENGLISH = [
    "ok",
    "Ok, thanks!",
    "haha lol",
    "Maria",
    "Los Angeles",
    "São Paulo",
    "Ludwig van Beethoven",
    "Düsseldorf Hauptbahnhof",
    "de facto",
    "docker compose up -d",
    "git push --force origin main",
    "https://example.de/der/die/das?x=und",
    "/usr/share/de/la/el.mo",
    "import os\nfor x in range(3): print(x)",
    "def f(a, b): return a + b",
    "```\nder die das und nicht\n```",
    "SELECT * FROM die WHERE der = 1",
    "What does 谢谢你 mean?",
    "My friend Jürgen Müller is coming over",
    "Can you book a table at La Taverna de la Plaza?",
    "1234",
    "?!",
    "👍",
    "",
]


@each("language", SENTENCES)
def test_the_language_of_a_short_question_is_guessed(language: str) -> None:
    assert guess_language(SENTENCES[language]) == language


@each("language", DIALOGUES)
def test_every_turn_of_a_dialogue_has_the_language_of_the_dialogue(language: str) -> None:
    assert {guess_language(text) for _, text in DIALOGUES[language]} == {language}
    assert language_of(text for _, text in DIALOGUES[language]) == language


@each("text", ENGLISH)
def test_english_chat_names_and_code_are_never_taken_for_another_language(text: str) -> None:
    assert guess_language(text) in ("en", "")


def test_accents_may_be_left_out() -> None:
    assert guess_language("manana no puedo, tambien tengo que trabajar") == "es"
    assert guess_language("das waere schoen, koennen wir das naechste Woche machen?") == "de"


def test_a_text_with_a_few_foreign_words_has_the_language_of_the_others() -> None:
    assert guess_language("Запусти docker compose up, пожалуйста") == "ru"
    assert guess_language("He called it Schadenfreude, and then we all went home") == "en"


def test_of_a_long_text_only_the_beginning_is_looked_at() -> None:
    long = "Wann kommst du nach Hause? " * 20 + "the end of the story " * 100_000
    begin = time.process_time()
    assert guess_language(long) == "de"
    assert time.process_time() - begin < 0.05


def test_the_lists_are_read_when_a_text_is_guessed_not_when_the_server_is_imported() -> None:
    program = """
import sys
opened = []
sys.addaudithook(lambda event, of: opened.append(str(of[0])) if event == "open" else None)
import recollect_server.run.app
from recollect_server.text.languages import guess_language
def read(): return any(name.endswith("function_words.txt") for name in opened)
print(read(), guess_language("Ich habe das nicht gesehen, aber du hast recht."), read())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.split() == ["False", "de", "True"], run.stderr
