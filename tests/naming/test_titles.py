"""Offline titles and abbreviations as a reader sees them, in several languages."""

import json
from pathlib import Path

import pytest
from recollect_server.domain.budget import estimate_tokens
from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import MAX_ABBREVIATION
from recollect_server.inference.extractive import Extractive
from recollect_server.inference.sentences import split

from tests.cases import each
from tests.naming.conftest import Talk

DIALOGUES: dict[str, list[list[str]]] = json.loads(
    (Path(__file__).parent / "dialogues.json").read_bytes()
)
TITLES = {
    "de": "Das Ventil an der Heizung im Bad tropft",
    "fr": "Organiser un voyage de trois jours à Lyon",
    "es": "Preparar una entrevista de trabajo para un puesto",
    "pt": "Montar um plano de treino",
    "ru": "Выбрать ноутбук для монтажа видео",
    "zh": "制定一个三天的成都旅行计划",
    "ja": "母の誕生日に京都で一泊する旅行の計画",
    "ar": "كتابة رسالة إلى المدرسة بخصوص غياب ابنتي ليلى",
}


def dialogue(language: str) -> list[str]:
    return [content for _, content in DIALOGUES[language]]


@each("language", DIALOGUES)
def test_a_title_is_the_first_request_in_the_words_of_its_language(
    talk: Talk, language: str
) -> None:
    assert Extractive().write_notes(talk(*dialogue(language)), "").title == TITLES[language]


@each("language", DIALOGUES)
def test_an_abbreviation_has_whole_sentences_with_their_speakers_in_every_language(
    talk: Talk, language: str
) -> None:
    abbreviation = Extractive().write_notes(talk(*dialogue(language)), "").abbreviation
    assert estimate_tokens(abbreviation) <= MAX_ABBREVIATION
    assert abbreviation.startswith("User: ")
    rest = abbreviation
    for content in dialogue(language):
        for sentence in split(content):
            rest = rest.replace(sentence, "")
    for label in ("User (decided):", "User:", "Agent (open):", "Agent:"):
        rest = rest.replace(label, "")
    assert not rest.strip()


@each(
    ("opening", "title"),
    [
        (
            "Hi! Can you please help me plan a trip to Kyoto for my parents?",
            "Plan a Trip to Kyoto for My Parents",
        ),
        ("Hello. I was wondering how to clean a cast iron pan.", "How to Clean a Cast Iron Pan"),
        (
            "What's the go with the RV parks around Mt Cook Village?",
            "The RV Parks Around Mt Cook Village",
        ),
        ("What is the status on the ferry to Bergen?", "The Ferry to Bergen"),
        ("I currently need to find a tenant for the flat.", "Find a Tenant for the Flat"),
        (
            "I want to swap them for single-arm dumbbell rows for a new challenge.",
            "Swap Them for Single-Arm Dumbbell Rows",
        ),
        (
            "What's the next high-priority task for the script development?",
            "Next High-Priority Task for the Script Development",
        ),
        (
            "Hi. That marketing mess with promotion stacking is still a headache.",
            "Marketing Mess with Promotion Stacking",
        ),
        ("That is about Kyoto and its temples.", "That Is About Kyoto and Its Temples"),
        (
            "I'm kinda stressed about this book club meeting at the East Janethaven library.",
            "Book Club Meeting at the East Janethaven Library",
        ),
        (
            "I've been thinking about my sneaker collection and I realized how much it cost.",
            "My Sneaker Collection",
        ),
        (
            "I'm thinking about the Kyoto trip, but not in the summer.",
            "The Kyoto Trip, but Not in the Summer",
        ),
        ("I'm looking forward to the Kyoto trip in May.", "The Kyoto Trip in May"),
        ("I've been thinking we cancel the party.", "I've Been Thinking We Cancel the Party"),
        # what is feared is no fact
        ("I'm worried that the exam is cancelled.", "I'm Worried That the Exam Is Cancelled"),
        ("I'm not worried about the visa interview.", "I'm Not Worried About the Visa Interview"),
        ("I've been thinking about Kyoto.", "I've Been Thinking About Kyoto"),
        ("Why is the web server so slow?", "Why Is the Web Server So Slow"),
        ("What is a pangolin?", "What Is a Pangolin"),
        (
            "How do I explain a gap in my resume to a recruiter from Siemens in Berlin?",
            "How to Explain a Gap in My Resume",
        ),
        ("Do not book the flight to Oslo yet.", "Do Not Book the Flight to Oslo Yet"),
        (
            "The parcel is late, can you write a complaint to the shop?",
            "Write a Complaint to the Shop",
        ),
    ],
)
def test_a_title_is_the_request_itself_shortened_at_a_phrase(
    talk: Talk, opening: str, title: str
) -> None:
    assert Extractive().write_notes(talk(opening, "Yes."), "").title == title


@each(
    ("opening", "title"),
    [
        # What is wished stands in the condition: the question behind it names nothing.
        (
            "So if I wanted to calculate the probability of two kings, how would I do that?",
            "Calculate the Probability of Two Kings",
        ),
        (
            "If I wanted to insure my violin instead, would the process be exactly the same?",
            "Insure My Violin Instead",
        ),
        (
            "If I had to repair the pump of a dishwasher, what should I do?",
            "Repair the Pump of a Dishwasher",
        ),
        # The question behind the condition names it.
        (
            "Since you brought up my weight, let's plan a breakfast with more protein.",
            "Plan a Breakfast with More Protein",
        ),
        (
            "Based on all of your knowledge, generate a packing list for Iceland.",
            "Generate a Packing List for Iceland",
        ),
        (
            "Given that I've spent 575 euros on shoes, and my limit is 650, should I buy sandals?",
            "Should I Buy Sandals",
        ),
        ("Regarding the pottery course in Ghent, I've paid.", "The Pottery Course in Ghent"),
        # What follows "if" in an indirect question.
        (
            "Can you help me figure out if I should insure my violin?",
            "Should I Insure My Violin",
        ),
        (
            "Would you happen to know if the harbour museum sells day tickets?",
            "The Harbour Museum Sells Day Tickets",
        ),
        # A later request that points back names less than the sentence before it.
        (
            "I'm considering a course in glass blowing, and I want to know if this is a good idea.",
            "A Course in Glass Blowing",
        ),
        # What is asked for, not that advice is.
        (
            "Could you offer some guidance on how to prune old apple trees?",
            "How to Prune Old Apple Trees",
        ),
        (
            "I'm having trouble with the gears of my bicycle.",
            "The Gears of My Bicycle",
        ),
        ("When can we visit the aquarium?", "When Can We Visit the Aquarium"),
        (
            "Wenn ich die Wahrscheinlichkeit von zwei Königen berechnen wollte, wie ginge das?",
            "Die Wahrscheinlichkeit von zwei Königen berechnen",
        ),
        (
            "Si je voulais calculer la probabilité de deux rois, ce serait pareil ?",
            "Calculer la probabilité de deux rois",
        ),
        (
            "Si quisiera calcular la probabilidad de sacar dos reyes, ¿sería igual?",
            "Calcular la probabilidad de sacar dos reyes",
        ),
        ("如果我想计算抽到两张国王的概率，应该怎么做？", "计算抽到两张国王的概率"),
    ],
)
def test_a_title_is_no_condition_but_what_is_asked_under_it(
    talk: Talk, opening: str, title: str
) -> None:
    assert Extractive().write_notes(talk(opening, "Yes."), "").title == title


@pytest.mark.parametrize(
    ("opening", "title"),
    [
        # The request at the end says what one asks of anything; its subject stands before it.
        (
            "I'm trying to repair a cast iron stove, can you help me understand how to do that?",
            "Repair a Cast Iron Stove",
        ),
        (
            "I moved my beehives to the orchard in Ghent, how can I stay on track?",
            "I Moved My Beehives to the Orchard",
        ),
        (
            "I'm kinda worried about my visa interview, how can I avoid that?",
            "My Visa Interview",
        ),
        # The later one is the title where it names its subject.
        ("I'm stuck, can you translate the lease of my flat?", "Translate the Lease of My Flat"),
    ],
)
def test_a_later_request_is_the_title_only_if_it_names_its_subject(
    talk: Talk, opening: str, title: str
) -> None:
    assert Extractive().write_notes(talk(opening, "Yes."), "").title == title


@each(
    ("opening", "title"),
    [
        ("Let's get back to the budget of the museum.", "The Budget of the Museum"),
        ("Continue with the chapter about glaciers.", "The Chapter About Glaciers"),
        ("Discuss the pricing of our ferry tickets.", "The Pricing of Our Ferry Tickets"),
        ("Continue with it.", "Continue with It"),
        ("We will not discuss the pricing of the ferry.", "We Will Not Discuss the Pricing"),
        (
            "On continue la traduction du contrat qui est dans ma boîte ?",
            "La traduction du contrat",
        ),
        ("Sigamos con la presentación para el cliente.", "La presentación para el cliente"),
        (
            "Continuiamo con la traduzione del contratto, che non è finita.",
            "La traduzione del contratto, che non è finita",
        ),
        ("Vamos continuar com o contrato de aluguel da casa?", "O contrato de aluguel da casa"),
        ("Laten we verder gaan met het werkplan voor de tuin.", "Het werkplan voor de tuin"),
        ("继续讨论搬家的预算和时间安排吧。", "搬家的预算和时间安排"),
    ],
)
def test_a_title_names_what_is_taken_up_again(talk: Talk, opening: str, title: str) -> None:
    assert Extractive().write_notes(talk(opening, "👍"), "").title == title


@each(
    ("opening", "title"),
    [
        (
            "Compare the Pixel 9 and the iPhone 16 for photography.",
            "Compare the Pixel 9 and the iPhone 16",
        ),
        (
            "Please write a resignation letter to my manager, Mrs. Thompson, with a notice period.",
            "Write a Resignation Letter to My Manager",
        ),
        (
            "I have a final submission deadline of July 10 at the university in Ghent.",
            "I Have a Final Submission Deadline",
        ),
        (
            "Finalize my testament and I used WillMaker Pro for the first draft of it.",
            "Finalize My Testament",
        ),
        (
            "Reschedule my meeting from April 20 to June 1 with the attorney.",
            "Reschedule My Meeting",
        ),
        (
            "Invite the neighbours and I don't want Bob there at the party on Sunday.",
            "Invite the Neighbours and I Don't Want Bob",
        ),
        (
            "invite the neighbours and i dont want bob there at the party on sunday",
            "Invite the Neighbours and I Don't Want Bob",
        ),
    ],
)
def test_a_title_cuts_no_name_no_figure_and_no_clause_in_two(
    talk: Talk, opening: str, title: str
) -> None:
    assert Extractive().write_notes(talk(opening, "Yes."), "").title == title


def test_a_negation_before_the_end_of_a_request_stays_in_the_title(talk: Talk) -> None:
    turns = ("मोटोरोला तो चीनी कंपनी का है, नहीं चाहिए।", "तब सैमसंग ठीक रहेगा।")
    title = Extractive().write_notes(talk(*turns), "").title
    assert title == "मोटोरोला तो चीनी कंपनी का है, नहीं चाहिए"


def test_a_title_is_looked_at_and_listened_to(talk: Talk) -> None:
    turns = ("Look at lexer.rs and tell me why test_escape fails on Windows.", "A line ending.")
    title = Extractive().write_notes(talk(*turns), "").title
    assert title == "Look at lexer.rs and Tell Me Why test_escape"


def test_a_title_of_another_language_is_not_in_title_case(talk: Talk) -> None:
    turns = (
        "Merhaba, 10 Haziran'da Ankara'dan Londra'ya uçak bileti arıyorum.",
        "Pegasus 4.200 lira, Türk Hava Yolları 6.800 lira.",
        "Pegasus'ta bagaj dahil mi?",
        "Hayır, bagaj dahil değil.",
    )
    assert Extractive().write_notes(talk(*turns), "").title == "Pegasus'ta bagaj dahil mi"


def test_a_greeting_of_the_agent_is_no_title(talk: Talk) -> None:
    turns = ("Hello!", "Hello! How can I help you today?")
    assert Extractive().write_notes(talk(*turns), "").title == "Small Talk"
    longer = (*turns, "just saying hi", "Good to hear from you.")
    assert Extractive().write_notes(talk(*longer), "").title == "Just Saying Hi"


def test_a_title_skips_small_talk_before_the_first_request(talk: Talk) -> None:
    turns = (
        "Good morning! How are you?",
        "Fine, thanks. And you?",
        "Great. Please translate my lease into Dutch.",
        "Done.",
    )
    assert Extractive().write_notes(talk(*turns), "").title == "Translate My Lease into Dutch"


@each(
    ("opening", "title"),
    [
        (
            "hey so im going to lisbon next thursday with my mum, what can we do for 3 days",
            "Lisbon Next Thursday with My Mum",
        ),
        ("hi can u help me pick a name for my kitten", "Pick a Name for My Kitten"),
        ("whats a good recipe for lentil soup for 6 ppl", "A Good Recipe for Lentil Soup"),
        ("Hi-fi speakers for a small kitchen", "Hi-fi Speakers for a Small Kitchen"),
        ("hello world in rust with cargo", "Hello World in Rust with Cargo"),
        (
            "okay so um what I need is I have this meeting on monday with the uh school about my "
            "son Theo because he was in trouble so can you give me a list of things I ask them",
            "Meeting on Monday with the School",
        ),
        ("im dying to know how grantchester ends", "How Grantchester Ends"),
        (
            'translate to spanish: "My name is Peter Novak and I work as a chef in Chicago."',
            "Translate to Spanish",
        ),
        ("bonjour mon vélo pliant grince beaucoup", "Mon vélo pliant grince beaucoup"),
        (
            "oi preciso de ajuda pra escrever um email pro meu chefe pedindo férias em maio",
            "Escrever um email pro meu chefe pedindo férias",
        ),
        ("привет кот не ест второй день", "Кот не ест второй день"),
    ],
)
def test_a_title_begins_with_no_greeting_and_no_filler_of_hurried_text(
    talk: Talk, opening: str, title: str
) -> None:
    assert Extractive().write_notes(talk(opening, "👍"), "").title == title


@pytest.mark.parametrize(
    ("contents", "title"),
    [
        (
            (
                "hi ich muss morgen um 8 in köln sein, wann muss ich in frankfurt losfahren",
                "Der ICE um 6:29 Uhr ab Frankfurt Hbf ist um 7:35 Uhr in Köln.",
                "ne warte, ich meinte düsseldorf nicht köln",
                "Nach Düsseldorf nehmen Sie den ICE um 6:05 Uhr, Ankunft 7:41 Uhr.",
            ),
            "Wann muss ich in frankfurt losfahren",
        ),
        (
            (
                "find me a quiet hotel in bruges",
                "The Prinsenhof in Bruges is quiet.",
                "no wait, i meant ghent not bruges",
                "The Verhaegen in Ghent is quiet.",
                "can i bring my dog to the verhaegen",
                "Yes, dogs are welcome in the Verhaegen.",
            ),
            "Bring My Dog to the Verhaegen",
        ),
        (
            (
                "my son theo got in trouble at school, what do i ask at the meeting with the school",
                "Ask what happened and what the school offers.",
                "great and the deputy head mrs okafor comes to the meeting at school",
                "Then address the plan of the school to Mrs Okafor, the deputy head.",
            ),
            "My Son Theo Got in Trouble at School",
        ),
    ],
)
def test_a_title_is_no_correction_no_reply_and_nothing_that_was_corrected(
    talk: Talk, contents: tuple[str, ...], title: str
) -> None:
    assert Extractive().write_notes(talk(*contents), "").title == title


@pytest.mark.parametrize(
    ("contents", "title"),
    [
        (
            (
                "vuelos baratos a lisboa en mayo",
                "Los martes son más baratos.",
                "salgo desde valencia",
                "Hay uno directo por 45 euros.",
                "quiero llevar una maleta grande",
                "La maleta cuesta 30 euros.",
            ),
            "Vuelos baratos a lisboa en mayo",
        ),
        (
            (
                "ricetta lasagne senza glutine",
                "Usa una pasta di riso.",
                "per sei persone",
                "Servono 500 grammi di pasta di riso.",
                "vorrei prepararle la sera prima",
                "Si possono tenere in frigo.",
            ),
            "Ricetta lasagne senza glutine",
        ),
        (
            (
                "quiet hotels near the harbour in ghent",
                "The Verhaegen is quiet.",
                "we arrive late on friday",
                "The desk is open until midnight.",
                "can you ask them for a baby bed",
                "They have one.",
            ),
            "Quiet Hotels Near the Harbour in Ghent",
        ),
        (
            (
                "ok start from where you left off",
                "Chapter two is about glaciers.",
                "can you describe the glaciers of Norway",
                "They shrink.",
            ),
            "Describe the Glaciers of Norway",
        ),
    ],
)
def test_a_first_message_of_few_words_is_what_is_asked_for(
    talk: Talk, contents: tuple[str, ...], title: str
) -> None:
    assert Extractive().write_notes(talk(*contents), "").title == title


LETTER = (
    "Hello Marta,\n\nI'm allergic to shellfish, could you please order something else for the team "
    "lunch?\n\nCheers\nBob\n\nSent from my iPhone"
)


@pytest.mark.parametrize(
    ("contents", "title"),
    [
        (
            (
                LETTER,
                "Shall I order the vegetarian menu for Bob?",
                "which restaurants in ghent have a vegetarian menu for ten people",
                "The Verhaegen and the Prinsenhof.",
            ),
            "Which Restaurants in Ghent Have a Vegetarian Menu",
        ),
        (
            (f"Subject: Re: Lunch of the team on Friday\n\n{LETTER}", "👍"),
            "Lunch of the Team on Friday",
        ),
        (
            (
                "Dear Ms Novak,\nI am writing about the position of ward manager.\nYours sincerely\nJ. Roe",
                "👍",
            ),
            "The Position of Ward Manager",
        ),
    ],
)
def test_a_pasted_letter_is_named_by_its_subject_and_gives_way_to_what_the_user_asks(
    talk: Talk, contents: tuple[str, ...], title: str
) -> None:
    assert Extractive().write_notes(talk(*contents), "").title == title


@each(
    ("opening", "answer", "title"),
    [
        (
            "ffmpeg -i in.mov -c:v libx264 -crf 23 out.mp4 the video has no sound after converting",
            "Add -c:a aac.",
            "Ffmpeg the Video Has No Sound After Converting",
        ),
        (
            "der befehl tar -czf backup.tar.gz /home/ina --exclude=.cache nimmt den cache trotzdem mit",
            "Das Muster muss vor dem Pfad stehen.",
            "Der befehl tar nimmt den cache trotzdem mit",
        ),
        (
            "SELECT name, COUNT(*) FROM users GROUP BY name returns nothing",
            "The table users is empty.",
            "The Table Users Is Empty",
        ),
        (
            "UPDATE users SET email = lower(email)\nis this safe on a table with many rows?",
            "Do it in batches.",
            "Is This Safe on a Table",
        ),
        ("why does grep -r foo --include=*.py find nothing", "👍", "Why Does Grep Find Nothing"),
        (
            "fix this\n\ndef add(a, b)\n    return a + b",
            "A colon is missing.",
            "A Colon Is Missing",
        ),
        # no code, though it has a mark or a word of it
        (
            "what is the difference between -l and -L in curl",
            "👍",
            "Difference Between -l and -L in Curl",
        ),
        ("what does a LEFT JOIN do", "👍", "What Does a LEFT JOIN Do"),
        ("merge auth.py and config.yaml into one", "👍", "Merge auth.py and config.yaml into One"),
        ("WHERE IS MY ORDER FROM MAY", "👍", "WHERE IS MY ORDER from MAY"),
        (
            "how do I center a <div> inside another <div> with css",
            "👍",
            "How to Center a <div> Inside Another <div>",
        ),
    ],
)
def test_a_title_is_the_sentence_around_a_command_not_the_command(
    talk: Talk, opening: str, answer: str, title: str
) -> None:
    assert Extractive().write_notes(talk(opening, answer), "").title == title


@pytest.mark.parametrize(
    ("opening", "unwanted"),
    [
        ("Appreciate your support with the memorial, as always.", "Appreciate"),
        ("If I wanted to calculate the odds of a memorial coin, I would draw it.", "If I"),
    ],
)
def test_thanks_and_a_condition_are_no_title(talk: Talk, opening: str, unwanted: str) -> None:
    lines = [
        opening,
        "Sure.",
        "The memorial for the soldiers opens on Sunday by the old harbour.",
        "Good.",
    ]
    assert unwanted not in Extractive().write_notes(talk(*lines), "").title


def test_a_title_follows_what_most_of_the_conversation_is_about(talk: Talk) -> None:
    later = [
        text
        for at in range(8)
        for text in (f"How much do pangolins eat in {at} weeks?", f"Pangolins eat {at} kilos.")
    ]
    title = Extractive().write_notes(talk("Can you rename this file?", "Done.", *later), "").title
    assert "Pangolins" in title


def test_who_decided_what_and_what_is_open_is_said(talk: Talk) -> None:
    turns = (
        "Which hotel in Ghent has a pool?",
        "The hotel Harmony has a pool and costs 140 euros.",
        "Let's book the hotel Harmony for two nights in May.",
        "Booked for 3 to 5 May. Which credit card should pay the deposit?",
    )
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert "User (decided): Let's book the hotel Harmony for two nights in May." in abbreviation
    assert abbreviation.endswith("Agent (open): Which credit card should pay the deposit?")


@pytest.mark.parametrize(
    ("turns", "decision"),
    [
        (
            (
                "Which strudel can I bake for eight guests on Sunday?",
                "A pumpkin strudel with spinach, or one with apples and raisins.",
                "Sounds great, let's go with the strudel.",
                "Fine.",
            ),
            "User (decided): Sounds great, let's go with the strudel.",
        ),
        (
            (
                "Ik zoek een laptop voor mijn studie architectuur, tot 1500 euro.",
                "De Asus ProArt of de Lenovo Legion.",
                "Dan neem ik de ProArt.",
                "Prima.",
            ),
            "User (decided): Dan neem ik de ProArt.",
        ),
    ],
)
def test_a_short_decision_for_what_was_offered_is_told(
    talk: Talk, turns: tuple[str, ...], decision: str
) -> None:
    assert decision in Extractive().write_notes(talk(*turns), "").abbreviation


def test_a_short_encouragement_is_not_told(talk: Talk) -> None:
    turns = ("Which strudel can I bake for eight guests on Sunday?", "One with apples and raisins.")
    abbreviation = (
        Extractive().write_notes(talk(*turns, "Let's execute.", "Fine."), "").abbreviation
    )
    assert "execute" not in abbreviation


@pytest.mark.parametrize(
    "opening",
    [
        "Lass uns mit dem Umzug nach Hamburg weitermachen.",
        "Laten we verder gaan met het werkplan voor de tuin.",
        "Давай вернёмся к плану ремонта ванной.",
    ],
)
def test_to_take_a_subject_up_again_is_no_decision(talk: Talk, opening: str) -> None:
    assert Extractive().write_notes(talk(opening), "").abbreviation == f"User: {opening}"


def test_a_question_is_not_open_once_somebody_answered_it_in_a_word(talk: Talk) -> None:
    turns = ("Please fix the lexer on Windows.", "Done.", "Does clippy complain about it?", "No.")
    assert "(open)" not in Extractive().write_notes(talk(*turns), "").abbreviation


@pytest.mark.parametrize(
    ("last", "cue"),
    [
        ("ok should i cite harvard or mla in the essay", "User (open)"),
        ("and where do i get the vaccine in dublin", "User (open)"),
        ("how much is the essay worth in points", "User (open)"),
        ("what a relief, the essay is done.", "User"),
        ("do the dishes before you write the essay", "User"),
    ],
)
def test_a_hurried_question_needs_no_question_mark_to_be_open(
    talk: Talk, last: str, cue: str
) -> None:
    turns = ("my essay about the roman republic is due on friday", "Begin with the Gracchi.", last)
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert f"{cue}: {last}" in abbreviation


def test_a_question_of_polite_japanese_needs_no_question_mark_to_be_open(talk: Talk) -> None:
    turns = ("子どもの遠足のお弁当のメニューを考えてください。", "デザートも必要ですか。")
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert abbreviation.endswith("Agent (open): デザートも必要ですか。")


def test_a_korean_sentence_gets_a_full_stop_of_its_own_script(talk: Talk) -> None:
    turns = ("등록했는데 그래도 푸시가 안 돼요", "키를 에이전트에 추가해 보세요.")
    assert "안 돼요." in Extractive().write_notes(talk(*turns), "").abbreviation


def test_what_is_not_decided_is_not_called_so(talk: Talk) -> None:
    abbreviation = (
        Extractive()
        .write_notes(talk("We have not decided on the hotel Harmony in Ghent."), "")
        .abbreviation
    )
    assert abbreviation == "User: We have not decided on the hotel Harmony in Ghent."


def test_a_denial_without_an_apostrophe_is_no_decision(talk: Talk) -> None:
    turns = ("is the hotel by the river quiet", "Yes.", "i dont think i'll take the hotel", "OK.")
    assert "(decided)" not in Extractive().write_notes(talk(*turns), "").abbreviation


def test_speakers_have_their_names_where_they_are_stored() -> None:
    messages = [
        Message(
            Role.USER,
            "The pottery class begins in May.",
            sender="Melanie",
            sequence=2,
            turn_number=1,
        ),
        Message(
            Role.ASSISTANT,
            "I will bring the glaze for the bowls.",
            sender="Caroline",
            sequence=3,
            turn_number=1,
        ),
    ]
    abbreviation = Extractive().write_notes(messages, "").abbreviation
    assert (
        abbreviation
        == "Melanie: The pottery class begins in May. Caroline: I will bring the glaze for the bowls."
    )


def test_a_sentence_that_leans_on_another_is_told_only_with_it(talk: Talk) -> None:
    facts = [
        f"The reactor number {at} of plant {at % 7} was inspected by the team of engineer {at * 3}."
        for at in range(30)
    ]
    turns = [f"{fact} They found a crack in valve {at}." for at, fact in enumerate(facts)]
    abbreviation = Extractive().write_notes(talk(*turns), "").abbreviation
    assert abbreviation.count("They found") <= abbreviation.count("The reactor")
