"""The dates that a question names, as ranges of time."""

import time
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from recollect_server.recall.dates import words as date_words
from recollect_server.recall.dates.dates import Mention, read_dates, without_dates

from tests.cases import each

NOW = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1000)  # a Wednesday


def shown(mention: Mention) -> str:
    begin, end = (
        datetime.fromtimestamp(it / 1000, UTC).date() for it in (mention.begin, mention.end)
    )
    return f"{begin}/{(end - date.resolution)}"


DATED = [
    # English
    ("What did we decide last week?", "2026-11-09/2026-11-15"),
    ("What happened on 13 October?", "2026-10-13/2026-10-13"),
    ("What happened on December 3rd?", "2025-12-03/2025-12-03"),
    ("the picture of December 1,2023", "2023-12-01/2023-12-01"),
    ("Where was she in March?", "2026-03-01/2026-03-31"),
    ("Where was she in December 2022?", "2022-12-01/2022-12-31"),
    ("what did I say on Monday?", "2026-11-16/2026-11-16"),
    ("what did I say last Wednesday?", "2026-11-11/2026-11-11"),
    ("and Monday last week?", "2026-11-09/2026-11-09"),
    ("between 3 and 5 May", "2026-05-03/2026-05-05"),
    ("from 28 April to 3 May 2024", "2024-04-28/2024-05-03"),
    ("from March to May", "2026-03-01/2026-05-31"),
    ("three days ago", "2026-11-15/2026-11-15"),
    ("a couple of things two weeks ago", "2026-11-02/2026-11-08"),
    ("in the last 3 days", "2026-11-15/2026-11-18"),
    ("since June", "2026-06-01/2026-11-18"),
    ("since last week", "2026-11-09/2026-11-18"),
    ("since 13 October", "2026-10-13/2026-11-18"),
    ("what did we say since Monday?", "2026-11-16/2026-11-18"),
    ("what did we say on Monday, since when it rains?", "2026-11-16/2026-11-16"),
    ("in May last year", "2025-05-01/2025-05-31"),
    ("over the weekend", "2026-11-14/2026-11-15"),
    ("What did he buy in 2021?", "2021-01-01/2021-12-31"),
    ("the log of 2026-02-28", "2026-02-28/2026-02-28"),
    ("a few days ago", "2026-11-11/2026-11-16"),
    ("a couple of weeks ago", "2026-10-12/2026-11-08"),
    ("in the last few weeks", "2026-10-14/2026-11-18"),
    ("on 24/12/2025", "2025-12-24/2025-12-24"),
    ("on 12/24/2025", "2025-12-24/2025-12-24"),
    ("vor ein paar Tagen", "2026-11-11/2026-11-16"),
    ("vor einigen Wochen", "2026-10-12/2026-11-08"),
    ("il y a quelques jours", "2026-11-11/2026-11-16"),
    ("hace unos días", "2026-11-11/2026-11-16"),
    ("qualche giorno fa", "2026-11-11/2026-11-16"),
    ("há alguns dias", "2026-11-11/2026-11-16"),
    ("een paar dagen geleden", "2026-11-11/2026-11-16"),
    ("op 24-12-2025", "2025-12-24/2025-12-24"),
    ("kilka dni temu", "2026-11-11/2026-11-16"),
    ("несколько дней назад", "2026-11-11/2026-11-16"),
    ("birkaç gün önce", "2026-11-11/2026-11-16"),
    ("geçen hafta sonu", "2026-11-14/2026-11-15"),
    ("数日前", "2026-11-11/2026-11-16"),
    ("几天前", "2026-11-11/2026-11-16"),
    ("며칠 전", "2026-11-11/2026-11-16"),
    # German
    ("Was haben wir gestern besprochen?", "2026-11-17/2026-11-17"),
    ("Und letzte Woche?", "2026-11-09/2026-11-15"),
    ("am 13. Oktober", "2026-10-13/2026-10-13"),
    ("im März", "2026-03-01/2026-03-31"),
    ("Was war seit letztem Montag?", "2026-11-16/2026-11-18"),
    ("vor drei Tagen", "2026-11-15/2026-11-15"),
    ("vor einer Woche", "2026-11-09/2026-11-15"),
    ("vom 3. bis 5. Mai", "2026-05-03/2026-05-05"),
    ("am 13.10.2025", "2025-10-13/2025-10-13"),
    # French
    ("Qu'est-ce qu'on a dit la semaine dernière ?", "2026-11-09/2026-11-15"),
    ("Qu'ai-je dit hier ?", "2026-11-17/2026-11-17"),
    ("le 13 octobre", "2026-10-13/2026-10-13"),
    ("il y a trois jours", "2026-11-15/2026-11-15"),
    ("l'année dernière", "2025-01-01/2025-12-31"),
    ("du 3 au 5 mai", "2026-05-03/2026-05-05"),
    # Spanish
    ("¿Qué dijimos la semana pasada?", "2026-11-09/2026-11-15"),
    ("hace tres días", "2026-11-15/2026-11-15"),
    ("el lunes pasado", "2026-11-16/2026-11-16"),
    ("desde el lunes", "2026-11-16/2026-11-18"),
    ("el 13 de octubre de 2025", "2025-10-13/2025-10-13"),
    ("entre el 3 y el 5 de mayo", "2026-05-03/2026-05-05"),
    # Italian, Portuguese, Dutch, Swedish, Polish, Russian, Turkish
    ("Cosa abbiamo detto la settimana scorsa?", "2026-11-09/2026-11-15"),
    ("tre giorni fa", "2026-11-15/2026-11-15"),
    ("na semana passada", "2026-11-09/2026-11-15"),
    ("há três dias", "2026-11-15/2026-11-15"),
    ("vorige week", "2026-11-09/2026-11-15"),
    ("förra veckan", "2026-11-09/2026-11-15"),
    ("w zeszłym tygodniu", "2026-11-09/2026-11-15"),
    ("на прошлой неделе", "2026-11-09/2026-11-15"),
    ("geçen hafta", "2026-11-09/2026-11-15"),
    # Parts
    ("What did we plan in the first week of 2024?", "2024-01-01/2024-01-07"),
    ("the second week of January", "2026-01-08/2026-01-14"),
    ("in the last week of March 2026", "2026-03-25/2026-03-31"),
    ("What was decided in early June?", "2026-06-01/2026-06-10"),
    ("by the end of March", "2026-03-21/2026-03-31"),
    ("in mid-July 2025", "2025-07-11/2025-07-20"),
    ("in the middle of May", "2026-05-11/2026-05-20"),
    ("early 2025", "2025-01-01/2025-04-30"),
    ("at the beginning of last month", "2026-10-01/2026-10-10"),
    ("in the second half of 2025", "2025-07-01/2025-12-31"),
    ("on the weekend of 12 May 2023", "2023-05-12/2023-05-14"),
    ("the weekend of August 15, 2026", "2026-08-15/2026-08-16"),
    ("in the week of May 12, 2026", "2026-05-11/2026-05-17"),
    ("Anfang Juni", "2026-06-01/2026-06-10"),
    ("in der zweiten Woche im Januar", "2026-01-08/2026-01-14"),
    ("Ende März", "2026-03-21/2026-03-31"),
    ("am Wochenende vom 12. Mai 2023", "2023-05-12/2023-05-14"),
    ("début juin", "2026-06-01/2026-06-10"),
    ("à la fin du mois de mars", "2026-03-21/2026-03-31"),
    ("la première semaine de janvier", "2026-01-01/2026-01-07"),
    ("a mediados de julio", "2026-07-11/2026-07-20"),
    ("la segunda semana de enero", "2026-01-08/2026-01-14"),
    ("la última semana de enero", "2026-01-25/2026-01-31"),
    ("a fine marzo", "2026-03-21/2026-03-31"),
    ("no fim de março", "2026-03-21/2026-03-31"),
    ("eind maart", "2026-03-21/2026-03-31"),
    ("в начале июня", "2026-06-01/2026-06-10"),
    ("3月初", "2026-03-01/2026-03-10"),
    ("3月下旬", "2026-03-21/2026-03-31"),
    ("1月的第二周", "2026-01-08/2026-01-14"),
    ("3월 말", "2026-03-21/2026-03-31"),
    # Seasons, quarters, and what ends now
    ("What did we plan last summer?", "2026-06-01/2026-08-31"),
    ("where was I last autumn", "2025-09-01/2025-11-30"),
    ("last winter", "2025-12-01/2026-02-28"),
    ("this summer", "2026-06-01/2026-08-31"),
    ("in the spring of 2024", "2024-03-01/2024-05-31"),
    ("in winter 2024", "2024-01-01/2024-12-31"),
    ("the fall of last year", "2025-09-01/2025-11-30"),
    ("im letzten Sommer", "2026-06-01/2026-08-31"),
    ("Herbst 2025", "2025-09-01/2025-11-30"),
    ("l'été dernier", "2026-06-01/2026-08-31"),
    ("la primavera pasada", "2026-03-01/2026-05-31"),
    ("l'estate scorsa", "2026-06-01/2026-08-31"),
    ("o verão passado", "2026-06-01/2026-08-31"),
    ("afgelopen zomer", "2026-06-01/2026-08-31"),
    ("förra sommaren", "2026-06-01/2026-08-31"),
    ("zeszłego lata", "2026-06-01/2026-08-31"),
    ("прошлым летом", "2026-06-01/2026-08-31"),
    ("geçen yaz", "2026-06-01/2026-08-31"),
    ("去年夏天", "2025-06-01/2025-08-31"),
    ("2024年の夏", "2024-06-01/2024-08-31"),
    ("작년 가을", "2025-09-01/2025-11-30"),
    ("last quarter", "2026-07-01/2026-09-30"),
    ("this quarter", "2026-10-01/2026-12-31"),
    ("in Q3 2025", "2025-07-01/2025-09-30"),
    ("in the fourth quarter of last year", "2025-10-01/2025-12-31"),
    ("im dritten Quartal 2025", "2025-07-01/2025-09-30"),
    ("le premier trimestre de 2025", "2025-01-01/2025-03-31"),
    ("2025年第二季度", "2025-04-01/2025-06-30"),
    ("What did I cook in the past month?", "2026-10-18/2026-11-18"),
    ("over the last week", "2026-11-11/2026-11-18"),
    ("the past weekend", "2026-11-14/2026-11-15"),
    ("the Monday before last", "2026-11-09/2026-11-09"),
    ("the Wednesday before last", "2026-11-04/2026-11-04"),
    ("the other day", "2026-11-11/2026-11-16"),
    ("neulich", "2026-11-11/2026-11-16"),
    ("el otro día", "2026-11-11/2026-11-16"),
    # Japanese, Chinese, Korean
    ("先週何を話した？", "2026-11-09/2026-11-15"),
    ("先週の月曜日", "2026-11-09/2026-11-09"),
    ("10月13日", "2026-10-13/2026-10-13"),
    ("三日前", "2026-11-15/2026-11-15"),
    ("上周我们说了什么？", "2026-11-09/2026-11-15"),
    ("上周一", "2026-11-09/2026-11-09"),
    ("上个月", "2026-10-01/2026-10-31"),
    ("지난주에 뭐라고 했지?", "2026-11-09/2026-11-15"),
    ("10월 13일", "2026-10-13/2026-10-13"),
]


@each(("question", "expected"), DATED)
def test_a_date_in_a_question_is_the_range_that_it_names(question: str, expected: str) -> None:
    assert [shown(it) for it in read_dates(question, NOW)] == [expected]


NAMED = {
    "2026-11-16/2026-11-16": "the day before yesterday, the night before last, vorgestern, avant-hier, anteayer,"
    " antes de ayer, antier, l'altro ieri,"
    " anteontem, eergisteren, i förrgår, przedwczoraj, позавчера, önceki gün, 一昨日, おととい, 前天, 그저께, 그제",
    "2026-11-17/2026-11-17": "yesterday, last night, gestern, hier, ayer, anoche, ieri, ontem, gisteren, gisteravond, igår,"
    " i går kväll, wczoraj, вчера, dün, dün gece, 昨日, 昨夜, 昨晩, きのう, 昨天, 昨晚, 어제, 어젯밤",
    "2026-11-18/2026-11-18": "today, tonight, this morning, heute, aujourd'hui, ce soir, hoy, esta mañana, oggi, stasera, hoje,"
    " vandaag, vanavond, idag, i morse, dzisiaj, сегодня, bugün, bu sabah, 今日, 今天, 오늘",
    "2026-11-02/2026-11-08": "the week before last, a fortnight ago, vorletzte Woche, la semana antepasada, semana retrasada,"
    " förrförra veckan, на позапрошлой неделе",
    "2026-11-14/2026-11-15": "at the weekend, am Wochenende, ce week-end, in het weekend",
    "2025-01-01/2025-12-31": "l'an dernier, i fjol",
}  # fmt: skip


@each(("expected", "words"), NAMED.items())
def test_a_day_is_named_by_a_word_of_its_own(expected: str, words: str) -> None:
    named = {word: [shown(it) for it in read_dates(word, NOW)] for word in words.split(", ")}
    assert named == {word: [expected] for word in named}


@each("question", [
        "", "You may march on", "What is the plan?", "on 0000-13-99", "room 1234", "on 31 February",
        "next Monday", "every Friday", "nächsten Montag", "tomorrow", "来週の月曜日", "2000 calories", "one of those days",
        "Was steht hier?", "the last day", "何か月かかりますか", "I paid $2023",
        "a few days in Rome are enough", "I need a second", "It may rain", "he sat down", "24/7 support", "page 24/12",
        "on 03/04/2025", "1/2/3/2024", "un par de días en Roma", "ein paar Tage in Rom", "the few weeks that we need",
        "this winter", "in winter we ski", "the fall of Rome", "a spring broke", "j'ai été malade", "sommar", "Q3",
        "When was my last fall?", "What if this falls apart?",
    ])  # fmt: skip
def test_what_names_no_past_time_is_no_date(question: str) -> None:
    assert read_dates(question, NOW) == ()


@pytest.mark.parametrize(
    ("question", "expected"),
    [("31 February 2022", "2022-02-01/2022-02-28"), ("99 May 2020", "2020-05-01/2020-05-31")],
)
def test_of_a_day_that_does_not_exist_the_month_counts(question: str, expected: str) -> None:
    assert [shown(it) for it in read_dates(question, NOW)] == [expected]


def test_a_month_of_a_history_that_ended_long_ago_is_its_own() -> None:
    newest = int(datetime(2023, 8, 1, tzinfo=UTC).timestamp() * 1000)
    assert [shown(it) for it in read_dates("in March", NOW, newest)] == ["2023-03-01/2023-03-31"]
    assert [shown(it) for it in read_dates("last week", NOW, newest)] == ["2026-11-09/2026-11-15"]


@each(("question", "expected"), [
        ("last summer", "2025-12-01/2026-02-28"), ("winter 2024", "2024-06-01/2024-08-31"),
        ("summer 2024", "2024-01-01/2024-12-31"),
    ])  # fmt: skip
def test_seasons_are_those_of_the_hemisphere(question: str, expected: str) -> None:
    zone = ZoneInfo("Australia/Brisbane")
    [it] = read_dates(question, NOW, zone=zone)
    days = (datetime.fromtimestamp(at / 1000, zone) for at in (it.begin, it.end - 1))
    assert "/".join(str(day.date()) for day in days) == expected


def test_a_text_full_of_dates_asks_about_none_of_them() -> None:
    assert read_dates("\n".join(f"2026-10-{day:02} it rained" for day in range(1, 20)), NOW) == ()


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("What did we decide last week?", "What did we decide  ?"),
        ("la semaine dernière, le bateau", " , le bateau"),
        ("先週何を話した？", " 何を話した?"),
        ("What happened on 13 October?", "What happened on 13 October?"),
    ],
)
def test_the_words_of_a_relative_date_are_no_words_to_search_for(question: str, rest: str) -> None:
    assert without_dates(question, read_dates(question, NOW)) == rest


@pytest.mark.parametrize("now", [2**62, -(2**62)])
def test_a_moment_that_no_calendar_has_names_no_time(now: int) -> None:
    assert read_dates("What was in May?", now) == ()


def test_a_question_without_a_date_costs_next_to_nothing() -> None:
    question = "Which of the two boats did Alex want to buy from the neighbour, and for how much?"
    read_dates(question, NOW)
    began = time.process_time()
    for _ in range(200):
        read_dates(question, NOW)
    assert (time.process_time() - began) / 200 < 0.001


def test_a_long_text_of_spaces_and_figures_is_read_in_no_time() -> None:
    began = time.process_time()
    for text in (
        "1 " * 2000,
        " " * 4000,
        "last " * 1000,
        "3 and " * 1000,
        "年" * 4000,
        "1月" * 2000,
    ):
        read_dates(text, NOW)
    assert time.process_time() - began < 2


def test_the_names_are_those_of_the_cldr() -> None:
    pytest.importorskip("babel", reason="Babel, which has the names of the CLDR, is not installed")
    from bench.date_words import written

    def tokens(text: str) -> list[str]:
        return text.replace(",", " ").replace("(", " ").replace(")", " ").split()

    assert tokens(written()) == tokens(Path(date_words.__file__).read_text())
