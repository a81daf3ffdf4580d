"""Questions that name a date, over a history in which every day has the same words."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from recollect import Client, ContextFormat, DateRange, InvalidArgument, Message

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect
from tests.waiting import until, until_embedded

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)  # a Wednesday
FIRST = datetime(2026, 8, 1, 9, tzinfo=UTC)
QUESTIONS = [
    # question, first day, last day
    ("What did we say about Alpha last week?", "2026-11-09", "2026-11-15"),
    ("What did we say about Alpha yesterday?", "2026-11-17", "2026-11-17"),
    ("What about Alpha three days ago?", "2026-11-15", "2026-11-15"),
    ("How was Alpha in September?", "2026-09-01", "2026-09-30"),
    ("How was Alpha on 13 October?", "2026-10-13", "2026-10-13"),
    ("How was Alpha on 13/10/2026?", "2026-10-13", "2026-10-13"),
    ("How was Alpha a few days ago?", "2026-11-11", "2026-11-16"),
    ("Wie war Alpha vor ein paar Tagen?", "2026-11-11", "2026-11-16"),
    ("How was Alpha on Monday?", "2026-11-16", "2026-11-16"),
    ("Was haben wir letzte Woche über Alpha gesagt?", "2026-11-09", "2026-11-15"),
    ("Was war gestern mit Alpha?", "2026-11-17", "2026-11-17"),
    ("Was war vor drei Tagen mit Alpha?", "2026-11-15", "2026-11-15"),
    ("Wie war Alpha im September?", "2026-09-01", "2026-09-30"),
    ("Wie war Alpha am 13. Oktober?", "2026-10-13", "2026-10-13"),
    ("Qu'a-t-on dit d'Alpha la semaine dernière ?", "2026-11-09", "2026-11-15"),
    ("Qu'a-t-on dit d'Alpha hier ?", "2026-11-17", "2026-11-17"),
    ("Et Alpha il y a trois jours ?", "2026-11-15", "2026-11-15"),
    ("Comment était Alpha en septembre ?", "2026-09-01", "2026-09-30"),
    ("Comment était Alpha le 13 octobre ?", "2026-10-13", "2026-10-13"),
    ("¿Qué dijimos de Alpha la semana pasada?", "2026-11-09", "2026-11-15"),
    ("¿Qué dijimos de Alpha ayer?", "2026-11-17", "2026-11-17"),
    ("¿Y Alpha hace tres días?", "2026-11-15", "2026-11-15"),
    ("¿Cómo estaba Alpha en septiembre?", "2026-09-01", "2026-09-30"),
    ("¿Cómo estaba Alpha el 13 de octubre?", "2026-10-13", "2026-10-13"),
    ("Cosa abbiamo detto di Alpha la settimana scorsa?", "2026-11-09", "2026-11-15"),
    ("Com'era Alpha tre giorni fa?", "2026-11-15", "2026-11-15"),
    ("Como estava Alpha na semana passada?", "2026-11-09", "2026-11-15"),
    ("Como estava Alpha em setembro?", "2026-09-01", "2026-09-30"),
    ("先週、 Alpha について何を話した？", "2026-11-09", "2026-11-15"),
    ("昨日の Alpha は？", "2026-11-17", "2026-11-17"),
    ("10月13日の Alpha は？", "2026-10-13", "2026-10-13"),
    ("上周我们说了 Alpha 什么？", "2026-11-09", "2026-11-15"),
    ("三天前 Alpha 怎么样？", "2026-11-15", "2026-11-15"),
]


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """Connect a client to a history with one conversation a day."""
    with Client(server.target) as connected:
        day = FIRST
        while day < NOW:
            server.clock.now = int(day.timestamp() * 1000)
            name = connected.conversations.create("web").id
            connected.conversations.append_turn(name, [Message.user("Please look at Alpha.")])
            day += timedelta(1)
        server.clock.now = int(NOW.timestamp() * 1000)
        yield connected


def test_the_right_time_comes_first_in_search_and_in_a_context_and_no_other_is_cut_off(
    client: Client,
) -> None:
    here = client.conversations.create("web").id
    wrong: list[str] = []
    for number, (question, first, last) in enumerate(QUESTIONS):
        days = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).days + 1
        answer = client.recall.search(question, limit=40)
        times_of: dict[str, Sequence[datetime | None]] = {
            "hits": [it.date for it in answer.hits][:days],
            "results": [it.date for it in answer.results][:days],
        }
        if number % 5 == 0:  # the same ranking: a part of them is enough
            context = client.recall.build_context(here, question, budget=1000)
            times_of["context"] = [it.message.timestamp for it in context.cold][:1]
        for where, times in times_of.items():
            inside = sum(first <= f"{it:%Y-%m-%d}" <= last for it in times)
            if not times or inside < len(times):
                wrong.append(f"{question} {where}: {inside} of {len(times)}")
        assert len(answer.results) > days, question
    assert wrong == []


def test_a_day_of_a_question_begins_and_ends_as_in_its_time_zone(
    client: Client, server: RunningServer
) -> None:
    times = {
        "today in Tokyo": datetime(2026, 11, 20, 16, tzinfo=UTC),  # 01:00 on the 21st there
        "yesterday in Tokyo": datetime(2026, 11, 20, 14, tzinfo=UTC),
        "two days ago in Tokyo": datetime(2026, 11, 19, 14, tzinfo=UTC),
        "winter in Berlin": datetime(2026, 10, 25, 22, 30, tzinfo=UTC),  # on the 25th, of 25 hours
    }
    here = client.conversations.create("web").id
    for text, time in times.items():
        server.clock.now = int(time.timestamp() * 1000)
        client.conversations.append_turn(here, [Message.user(f"I booked the dentist, {text}.")])
    server.clock.now = int(datetime(2026, 11, 20, 23, tzinfo=UTC).timestamp() * 1000)
    new = client.conversations.create("web").id

    def first(question: str, zone: str | None = None) -> str:
        hit = client.recall.search(question, time_zone=zone).hits[0]
        context = client.recall.build_context(
            new, question, time_zone=zone, format=ContextFormat.XML, budget=400
        )
        assert hit.snippet.split(", ")[1] in context.rendered
        return hit.snippet.split(", ")[1].rstrip(".")

    assert first("What did I book today?", "Asia/Tokyo") == "today in Tokyo"
    assert first("What did I book yesterday?", "Asia/Tokyo") == "yesterday in Tokyo"
    assert first("What did I book yesterday?") == "two days ago in Tokyo"
    assert first("What did I book on 25 October?", "Europe/Berlin") == "winter in Berlin"
    with Client(server.target, time_zone="Asia/Tokyo") as there:
        hit = there.recall.search("What did I book yesterday?").hits[0]
        assert "yesterday in Tokyo" in hit.snippet
        assert "T08:00, Saturday, Asia/Tokyo" in there.recall.build_context(here).rendered
        last = there.insight.usage().rows[-1].bucket_start
        assert last.isoformat() == "2026-11-20T15:00:00+00:00"
    client.admin.set_setting("time_zone", "Asia/Tokyo")
    assert first("What did I book yesterday?") == "yesterday in Tokyo"
    assert first("What did I book yesterday?", "UTC") == "two days ago in Tokyo"
    for form in (ContextFormat.XML, ContextFormat.RECALL_BLOCK, ContextFormat.OPENAI_MESSAGES):
        text = client.recall.build_context(new, "What did I book today?", format=form).rendered
        assert "2026-11-21T08:00, Saturday, Asia/Tokyo" in text
        assert "2026-11-21" in text.partition("today in Tokyo")[0].rpartition("booked")[0][40:]
    own = client.recall.build_context(here, "Thanks", format=ContextFormat.XML).rendered
    assert 'time="2026-11-21T01:00"' in own  # the clock's time there, without a Z
    with pytest.raises(InvalidArgument, match="time_zone: is not the name of a time zone"):
        client.recall.search("today", time_zone="Mars/Olympus")
    with pytest.raises(InvalidArgument, match="time_zone: is not the name of a time zone"):
        client.recall.build_context(here, "today", time_zone="../Tokyo")
    for wrong, why in {
        "Mars/Olympus": "'Mars/Olympus' is not the name of a time zone",
        "UTC; tom=Mars/Olympus": "'Mars/Olympus' is not the name of a time zone",
        "UTC; /=UTC": "'/' is not the name of a space",
        "tom=UTC; UTC; tom=Asia/Tokyo": "names two time zones for tom",
        "UTC; UTC": "names two time zones for other spaces",
        "UTC; tom=": "'' is not the name of a time zone",
        "UTC; =Asia/Tokyo": "'' is not the name of a space",
    }.items():
        with pytest.raises(InvalidArgument, match=f"value: {why}"):
            client.admin.set_setting("time_zone", wrong)
    client.admin.create_space("tom")
    client.admin.set_setting("time_zone", "UTC; tom=Asia/Tokyo;")
    with Client(server.target, space="tom") as tom:
        theirs = tom.conversations.create("web", messages=[Message.user("Hello")]).id
        assert "T08:00, Saturday, Asia/Tokyo" in tom.recall.build_context(theirs).rendered
        assert "23:00Z, Friday" in client.recall.build_context(here).rendered
        starts = [it.insight.usage().rows[-1].bucket_start.hour for it in (tom, client)]
        assert starts == [15, 0]


def test_a_question_of_nothing_but_a_date_finds_what_was_said_then(client: Client) -> None:
    hits = client.recall.search("last week?", limit=7).hits
    assert len(hits) == 7
    assert {f"{it.date:%Y-%m-%d}" for it in hits} == {f"2026-11-{day:02}" for day in range(9, 16)}


def test_the_words_of_a_relative_date_find_nothing_by_themselves(
    client: Client, server: RunningServer
) -> None:
    server.clock.now = int((NOW - timedelta(60)).timestamp() * 1000)
    name = client.conversations.create("web").id
    client.conversations.append_turn(
        name, [Message.user("Last week the last of us had a weak week.")]
    )
    server.clock.now = int(NOW.timestamp() * 1000)
    best = client.recall.search("What about Alpha last week?", limit=3).hits
    assert {it.conversation_id for it in best}.isdisjoint({name})


def test_by_meaning_too_the_week_that_is_asked_about_comes_first(start_server: Start) -> None:
    server = start_server(embedder="onnx")
    by_day: dict[int, str] = {}
    with Client(server.target) as connected:
        for days in (3, 9, 16, 30):
            server.clock.now = int((NOW - timedelta(days)).timestamp() * 1000)
            by_day[days] = connected.conversations.create("web").id
            connected.conversations.append_turn(
                by_day[days], [Message.user("The car needs new tyres before winter.")]
            )
        server.clock.now = int(NOW.timestamp() * 1000)

        def hits(question: str) -> list[str] | None:
            answer = connected.recall.search(question)
            return None if answer.degraded else [it.conversation_id for it in answer.hits]

        until(lambda: len(hits("vehicle upkeep") or ()) == len(by_day))
        for question, days in (
            ("vehicle upkeep last week", 9),
            ("vehicle upkeep two weeks ago", 16),
        ):
            assert (hits(question) or [])[0] == by_day[days]
            assert len(hits(question) or []) == len(by_day)
        assert (hits("last week?") or [])[0] == by_day[9]
        here = connected.conversations.create("web").id
        built = connected.recall.build_context(here, "vehicle upkeep last week", budget=150)
        assert built.cold[0].conversation_id == by_day[9]


TIMES_ALONE = {
    # a question that names nothing but a time, and the first of what was said then
    "What did we do on Monday?": "The car needs new tyres.",
    "What did I ask yesterday?": "Can I water the roses in winter?",
    "Was war letzte Woche?": "The concert starts at eight.",
    "¿Qué dijimos en agosto?": "Mary gets the spare key.",
    "What did I ask about on 15 July?": "The invoice lacks the address.",
}


def test_a_question_of_nothing_but_a_time_is_answered_by_what_was_said_then(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    history = {
        datetime(2026, 11, 17, 9, tzinfo=UTC): "Can I water the roses in winter?",
        datetime(2026, 11, 16, 9, tzinfo=UTC): "The car needs new tyres.",
        datetime(2026, 11, 11, 9, tzinfo=UTC): "The concert starts at eight.",
        datetime(2026, 11, 3, 9, tzinfo=UTC): "Was gibt es heute zu essen? Was machen wir damit?",
        datetime(2026, 10, 3, 9, tzinfo=UTC): "What else did we do, and what did they ask?",
        datetime(2026, 8, 14, 9, tzinfo=UTC): "Mary gets the spare key.",
        datetime(2026, 7, 28, 9, tzinfo=UTC): "My voucher 15 is refused, which I ask about.",
        datetime(2026, 7, 15, 9, tzinfo=UTC): "The invoice lacks the address.",
        datetime(2026, 3, 1, 9, tzinfo=UTC): "The swimming course begins on 3 August.",
    }
    with Client(server.target) as connected:
        for moment, text in history.items():
            server.clock.now = int(moment.timestamp() * 1000)
            connected.conversations.create("web", messages=[Message.user(text)])
        server.clock.now = int(NOW.timestamp() * 1000)
        here = connected.conversations.create("web").id
        until_embedded(connect(server), server)
        for question, expected in TIMES_ALONE.items():
            best = connected.recall.search(question).hits[0]
            assert (best.snippet, best.score >= 0.3) == (expected, True), question
            cold = connected.recall.build_context(here, question, budget=150).cold
            assert cold[0].message.content == expected, question
        # what was said of that day counts, whenever it was said
        best = connected.recall.search("What happened on 3 August?").hits[0]
        assert "swimming" in best.snippet


def test_a_time_of_all_that_is_stored_makes_no_message_fit(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    server.clock.now = int(datetime(2025, 6, 1, tzinfo=UTC).timestamp() * 1000)
    service = connect(server)
    fitting = service.conversation_of("The numbers of 2025 are in")
    named = service.conversation_of("We replaced the boiler in the cellar")
    service.rename(named, "Heating 2025")
    others = [service.conversation_of(it) for it in ("The garden is full", "Dinner was late")]
    server.clock.now = int(NOW.timestamp() * 1000)
    assert service.found("2025") == [fitting, named]
    assert service.found("Heating 2025")[0] == named
    before = service.search("How was the garden?").hits[0].score
    dated = service.search("How was the garden in 2025?")
    assert [dated.hits[0].conversation_id, dated.results[0].conversation_id] == [others[0]] * 2
    unfit = {it.conversation_id: it.score for it in dated.hits}
    assert all(unfit.get(it, 0) < before / 2 for it in (named, others[1]))
    server.clock.now += 1
    service.conversation_of("A year later")  # now the time tells something
    assert set(service.found("2025")) == {fitting, named, *others}


ALIKE = {
    # a question of a day, and two messages that answer it alike
    "What did I cook on 4 January?": (
        "I cooked lentil soup for the children.",
        "I cooked a mushroom risotto for the children.",
    ),
    "What did Tom say about the budget on 4 January?": (
        "Tom said that the budget is too small.",
        "Tom said that the budget was approved.",
    ),
    "Where did I go running on 4 January?": (
        "I went running along the river.",
        "I went running in the forest.",
    ),
    "Which film did we see on 4 January?": (
        "We saw the film about the whales.",
        "We saw the film about the old pianist.",
    ),
}
BESIDES = (
    "The weather is grey.",
    "The bakery was closed.",
    "My phone is slow.",
    "The train is late.",
)


def _wait_until_read(client: Client) -> None:
    until(lambda: not client.recall.search("anything").degraded)


def test_what_was_said_on_the_day_that_is_named_comes_before_what_was_said_in_its_week(
    start_server: Start,
) -> None:
    server = start_server(embedder="onnx")
    with Client(server.target) as connected:
        connected.admin.create_space("turned")
    wrong: list[str] = []
    for space, turn in (("default", 1), ("turned", -1)):
        with Client(server.target, space=space) as connected:
            alike = [it[::turn] for it in ALIKE.values()]
            of_days = {4: [first for first, _ in alike], 9: [second for _, second in alike]}
            for day in range(1, 21):
                server.clock.now = int(datetime(2026, 1, day, 9, tzinfo=UTC).timestamp() * 1000)
                texts = [BESIDES[day % len(BESIDES)], *of_days.get(day, [])]
                connected.conversations.create("web", messages=[*map(Message.user, texts)])
            _wait_until_read(connected)
            for question in ALIKE:
                best = connected.recall.search(question).hits[0]
                if best.date.day != 4:
                    wrong.append(f"{space}: {question} {best.snippet}")
    assert wrong == []


@each(
    ("question", "text"),
    [
        ("What happened on 13 October?", "Yesterday I bought a canoe from a neighbour."),
        ("What did we do on 2026-10-13?", "I bought a canoe yesterday."),
        ("Was ist am 13. Oktober passiert?", "Gestern habe ich ein Kanu gekauft."),
        ("¿Qué pasó el 13 de octubre?", "Ayer compré una canoa."),
        ("10月13日に何があった？", "昨日カヌーを買いました。"),
    ],
)
def test_what_somebody_says_of_yesterday_is_of_the_day_before_it(
    question: str, text: str, client: Client, server: RunningServer
) -> None:
    def append(day: int, content: str) -> str:
        server.clock.now = int(datetime(2026, 10, day, 8, tzinfo=UTC).timestamp() * 1000)
        name = client.conversations.create("web").id
        client.conversations.append_turn(name, [Message.user(content)])
        return name

    right, wrong = append(14, text), append(17, text)
    server.clock.now = int(NOW.timestamp() * 1000)
    assert client.recall.search(question).hits[0].conversation_id == right
    # what a period holds is all that is searched
    until = datetime(2026, 10, 14, tzinfo=UTC)
    within = client.recall.search(question, date_range=DateRange(end=until)).hits
    assert within
    assert right not in {it.conversation_id for it in within}
    for name in (right, wrong):
        client.conversations.delete(name)
