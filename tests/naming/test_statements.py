"""The facts that the offline rule finds in what a user says about himself, and what it leaves
alone.
"""

import pytest
from recollect_server.domain.anchors import TENTATIVE
from recollect_server.domain.message import Message, Role
from recollect_server.inference.statements import anchors_in

from tests.cases import each

# Each list was written in different people's phrasings; the second one before the rule was ever run
# on it.
PHRASINGS = [
    ("I'm allergic to penicillin.", {"allergy.penicillin": "penicillin"}),
    ("We live in Porto now.", {"location": "Porto"}),
    ("my wife Ana will pick up the parcel", {"partner": "Ana"}),
    ("call me Sam", {"preferred_name": "Sam"}),
    ("Hi! My name's Priya Raman, nice to meet you.", {"name": "Priya Raman"}),
    ("always answer in metric units please", {"preference.units": "always answer in metric units"}),
    ("i'm vegetarian btw so no chicken", {"diet": "vegetarian"}),
    ("My birthday is on 14 March.", {"birthday": "14 March"}),
    (
        "I work as a paediatric nurse at St. Mary's Hospital in Leeds.",
        {"occupation": "paediatric nurse", "employer": "St. Mary's Hospital"},
    ),
    ("I've been a teacher for twelve years", {"occupation": "teacher"}),
    (
        "My mother tongue is Tamil, but I also speak Hindi.",
        {"language.tamil": "Tamil", "language.hindi": "Hindi"},
    ),
    ("We have two kids, Leo and Mia.", {"child.leo": "Leo", "child.mia": "Mia"}),
    ("We just moved to Lyon.", {"location": "Lyon"}),
    ("I'm lactose intolerant", {"allergy.lactose": "lactose (intolerance)"}),
    ("I was born on 3 May 1988.", {"birthday": "3 May 1988"}),
    ("I'm an accountant at Deloitte.", {"occupation": "accountant", "employer": "Deloitte"}),
    (
        "Please never use emojis when you reply.",
        {"preference.emojis": "never use emojis when you reply"},
    ),
]
OTHER_PHRASINGS = [
    ("Since I have a severe nut allergy, check every label.", {"allergy.nut": "nut"}),
    ("I'm based in Rotterdam these days.", {"location": "Rotterdam"}),
    ("My husband's name is Tomasz.", {"partner": "Tomasz"}),
    ("Everyone calls me Bea.", {"preferred_name": "Bea"}),
    ("I'm Kwame, a nurse from Accra.", {"name": "Kwame", "occupation": "nurse", "origin": "Accra"}),
    ("From now on, reply in Spanish.", {"preference.language": "reply in Spanish"}),
    ("We don't eat pork at home.", {"avoids.pork": "no pork"}),
    ("I turn 40 on June 9th", {"birthday": "June 9th"}),
    ("I drive a school bus for a living", {"occupation": "drive a school bus"}),
    ("I work for the city of Graz.", {"employer": "city of Graz"}),
    (
        "i speak french at home and english at work",
        {"language.french": "French", "language.english": "English"},
    ),
    ("Our daughter Nora starts school in September", {"child.nora": "Nora (daughter)"}),
    ("My home is in a small village near Bath.", {"location": "a small village near Bath"}),
    (
        "I can't eat gluten, I have celiac disease.",
        {"allergy.gluten": "gluten (coeliac disease)", "avoids.gluten": "no gluten"},
    ),
    ("my bday's the 2nd of november", {"birthday": "the 2nd of november"}),
    (
        "I run a small bakery in Ghent with my brother.",
        {"occupation": "run a small bakery in Ghent"},
    ),
    (
        "I'd rather you kept answers under five sentences.",
        {"preference.answer-length": "you kept answers under five sentences"},
    ),
    ("I'm vegan, what can I cook tonight?", {"diet": "vegan"}),
    ("I'm 34 and live in Dublin.", {"location": "Dublin"}),
    ("my name is lena and i live in berlin", {"name": "Lena", "location": "Berlin"}),
    ("Remember that my daughter is called Zoë.", {"child.zoe": "Zoë (daughter)"}),
    ("i live in germany now", {"location": "Germany"}),
    ("i live in turin since 2019", {"location": "Turin"}),
    (
        "I live here with my wife Meena and our two kids, Arjun and Tara.",
        {"partner": "Meena", "child.arjun": "Arjun", "child.tara": "Tara"},
    ),
    (
        "pls always give prices in pounds pls",
        {"preference.currency": "always give prices in pounds"},
    ),
    (
        "pls answer shorter from now on",
        {"preference.answer-length": "answer shorter from now on"},
    ),
    ("Hi! Quick one.\nI live in Leeds.\nAny good GP?", {"location": "Leeds"}),
]
OTHER_LANGUAGES = [
    ("Hallo, ich heiße Jonas Weber und wohne jetzt hier.", {"name": "Jonas Weber"}),
    ("Ich wohne jetzt in Hamburg.", {"location": "Hamburg"}),
    (
        "Ich bin allergisch gegen Haselnüsse und Erdnüsse.",
        {"allergy.haselnusse": "Haselnüsse", "allergy.erdnusse": "Erdnüsse"},
    ),
    ("Mein Geburtstag ist am 3. Mai.", {"birthday": "3. Mai"}),
    (
        "Antworte bitte immer auf Deutsch.",
        {"preference.language": "Antworte bitte immer auf Deutsch"},
    ),
    ("J'habite à Lyon depuis deux ans.", {"location": "Lyon"}),
    ("Je suis allergique aux arachides.", {"allergy.arachides": "arachides"}),
    ("Vivo en Madrid con mi novia Laura.", {"location": "Madrid", "partner": "Laura"}),
    ("Soy alérgica a los mariscos.", {"allergy.mariscos": "mariscos"}),
    ("Moro em Recife.", {"location": "Recife"}),
    ("Mi chiamo Giulia e abito a Torino.", {"name": "Giulia", "location": "Torino"}),
    ("Ik ben allergisch voor noten.", {"allergy.noten": "noten"}),
]
# A second statement behind the same "and" is no item of the list.
LISTS = [
    ("I'm allergic to nuts and milk.", {"allergy.nuts": "nuts", "allergy.milk": "milk"}),
    ("I'm allergic to nuts and live in Porto.", {"allergy.nuts": "nuts"}),
    ("I'm allergic to nuts and vegan.", {"allergy.nuts": "nuts"}),
    ("Sono allergica alle noci e al latte", {"allergy.noci": "noci", "allergy.latte": "latte"}),
    ("Sono allergica alle noci e abito a Torino", {"allergy.noci": "noci", "location": "Torino"}),
    (
        "Soy alérgica a las nueces y vivo en Madrid",
        {"allergy.nueces": "nueces", "location": "Madrid"},
    ),
    ("Sou alérgica a nozes e moro em Recife", {"allergy.nozes": "nozes", "location": "Recife"}),
    ("Ich bin allergisch gegen Nüsse und wohne in Hamburg", {"allergy.nusse": "Nüsse"}),
    (
        "Je suis allergique aux noix et j'habite à Lyon",
        {"allergy.noix": "noix", "location": "Lyon"},
    ),
    (
        "Je suis allergique au lait et aux fruits à coque",
        {"allergy.lait": "lait", "allergy.fruits-a-coque": "fruits à coque"},
    ),
]
NO_FACTS = [
    "I work as hard as I can.",
    "I live for this.",
    "I live in fear of my boss.",
    "i live in hope",
    "I live in Excel all day.",
    "I'm a failure.",
    "I'm a bit tired.",
    "I'm a huge fan of Deloitte.",
    "I'm a terrible cook.",
    "I'm allergic to mornings.",
    "I can't eat another bite.",
    "I was born ready.",
    "I'm not allergic to cats.",
    "I am not a vegetarian.",
    "I'm not a teacher.",
    "Don't call me Sam.",
    "I don't speak French.",
    "I live in Porto no longer.",
    "It's not that I'm allergic to nuts.",
    "I'm vegetarian no more.",
    "I used to live in Berlin.",
    "I lived in Berlin for years.",
    "I was a teacher.",
    "If I lived in Porto, I'd surf.",
    "If I live in Porto next year, what visa do I need?",
    "I'd love to live in Porto.",
    "I might move to Lyon.",
    "I'm moving to Lyon next year.",
    "I'm going to be a teacher.",
    "I wish my name was Sam.",
    "Maybe I'm allergic to nuts.",
    "I'm learning Spanish.",
    "Imagine my name is Napoleon.",
    "Pretend I'm a doctor at Deloitte.",
    "Act as my coach. I'm a teacher.",
    "You are a doctor. I'm a nurse named Sam.",
    "Let's play: I'm a knight and my name is Lancelot, you are the dragon.",
    "My character is called Thorin. I live in Erebor.",
    'She said "my name is Ann" to him.',
    "She said my name is Ann.",
    "He told me: I live in Rome.",
    "I live in Porto, you know, she said.",
    "My son is allergic to peanuts.",
    "My sister lives in Rome.",
    "My friend works as a nurse.",
    "My ex-wife Ana called.",
    "Is my birthday on 14 March?",
    "I live in Porto?",
    "Am I allergic to penicillin?",
    "Can you always answer in Spanish?",
    "How do I say I'm allergic to nuts in French?",
    "What do I tell someone who says: I'm allergic to nuts?",
    "Translate to German: I live in Porto and my name is Sam.",
    "Correct this sentence: I am allergic to nuts.",
    "Write a short story in the first person. My name is Jack. I live in Boston.",
    "As a user, I want to log in.",
    "> I live in Porto",
    "```I'm allergic to nuts```",
    "From: Bob\nTo: me\nI live in Rome.",
    "His e-mail:\nDear Sam,\nI live in Rome.\nBob",
    "User: I live in Rome.\nAssistant: Nice.",
    "On Friday Bob wrote:\nI live in Rome.",
    "They will call me tomorrow.",
    "Call me later.",
    "Call me Tomorrow.",
    "I'm German.",
    "Hi, I'm Scottish.",
    "I'm from the support team.",
    "My name is important to me.",
    "I work at Christmas.",
    "I prefer the second option.",
    "I prefer this one.",
    "I would prefer to go on Monday.",
    "Always check the oil before you drive.",
    "Write it in Spanish.",
    "My birthday is tomorrow.",
    "My wife Monday has an appointment.",
    "Ich wohne nicht in Hamburg.",
    "Ich wohne in Angst.",
    "Wohne ich in Hamburg?",
    "Wenn ich in Hamburg wohne, brauche ich ein Auto.",
    "Je n'habite pas à Lyon.",
    "No vivo en Madrid.",
    "El concierto en vivo en Madrid fue genial.",
    "Não moro em Recife.",
    "Non sono allergica alle noci.",
    "Ik woon niet in Utrecht.",
    "I'm allergic to sloppy work.",
    "i'm a doctor who fan",
    # text that was pasted without any mark
    "can you make this more polite\n\nHi Bob,\nI'm allergic to shellfish.\nMarta",
    "is this ok to send?\nHi Jim, I'm vegetarian so please order something for me",
    "does this sound ok\nI am a nurse and I live in Boston.",
    "reply to this: hey, I'm Mia and I live in Hull, is the flat still free?",
    "got this from my landlord\n\nHello, I'm Paul Green. I live in Dover.",
    "what should i answer\nMy husband Dan is a vegan. We live in Rome.",
    "what does my neighbour want?\n\nBonjour, je m'appelle Marc et j'habite à Lyon.",
    "tinder profile\nI'm a nurse. I live in Kent. I have a dog called Rex.",
    # a letter that is the whole message
    "Hi Sam,\n\nI live in Dover now, so please send the keys to my new address.\n\nPaul",
    "Hello Marta\nI'm allergic to shellfish, please order something else.\nCheers\nBob",
    "Good morning,\nmy name is Karl Fuchs. I work as a plumber at Rohr.\nKind regards\nK. Fuchs",
    "I'm vegetarian, so please order something for me.\n\nThanks,\nMia\n\nSent from my iPhone",
    "Guten Tag Herr Weber,\n\nich wohne in Hamburg und bin Lehrer.\n\nMit freundlichen Grüßen\nJ. K.",
    "ich bin Vegetarier, bitte bestellt etwas für mich\nLG Mia",
    "Bonjour Marc,\nJ'habite à Lyon et je suis allergique aux noix.\nCordialement,\nSophie",
    "Hola Luis:\nSoy vegetariana y vivo en Madrid.\nUn saludo,\nCarmen",
    "Ciao Anna,\nsono allergica alle noci e abito a Torino.\nBaci\nGiulia",
    "Oi Rui,\nmoro em Recife e sou vegetariana.\nAbraços\nBia",
    "Beste Jan,\nik woon in Utrecht.\nMet vriendelijke groet,\nEls",
]
OWN_WORDS = [
    "Hi there,\nI live in Porto now.",
    "Hi! I live in Porto now.\nThanks!",
    "Hello, I live in Porto now.\nBest restaurant for fish?",
    "I live in Porto now\nthanks\nand what about the tram",
    "I live in Porto now. Can you check this?\n\nHi Ana,\nI live in Rome now.\nBest,\nBob",
]


def facts(*messages: Message) -> dict[str, str]:
    return {it.key: it.value for it in anchors_in(messages) if it.value}


@each(("sentence", "expected"), PHRASINGS + OTHER_PHRASINGS + OTHER_LANGUAGES + LISTS)
def test_a_plain_statement_of_the_user_is_a_fact(sentence: str, expected: dict[str, str]) -> None:
    anchors = anchors_in([Message(Role.USER, sentence, sequence=2)])
    assert {anchor.key: anchor.value for anchor in anchors} == expected
    assert all(0 < anchor.confidence < TENTATIVE and anchor.sequence == 2 for anchor in anchors)


@each("content", NO_FACTS)
def test_idioms_questions_quotations_plans_and_what_others_are_state_no_fact(content: str) -> None:
    assert facts(Message(Role.USER, content)) == {}


@pytest.mark.parametrize("content", OWN_WORDS)
def test_a_greeting_and_thanks_make_no_letter_of_what_the_user_says(content: str) -> None:
    assert facts(Message(Role.USER, content)) == {"location": "Porto"}


def test_a_letter_that_came_by_e_mail_has_the_words_of_its_sender() -> None:
    letter = "Hi Recollect,\n\nI live in Porto now.\n\nBest regards,\nAna"
    assert facts(Message(Role.USER, letter)) == {}
    assert facts(Message(Role.USER, letter, sender="ana@example.org")) == {"location": "Porto"}


@pytest.mark.parametrize(("sentence", "expected"), [PHRASINGS[0], PHRASINGS[1], OTHER_PHRASINGS[4]])
def test_a_fact_in_quotation_marks_or_from_another_speaker_is_not_the_users(
    sentence: str, expected: dict[str, str]
) -> None:
    assert facts(Message(Role.USER, f"Thanks. {sentence}")) == expected
    for quoted in (
        f'"{sentence}"',
        f"“{sentence}”",
        f"„{sentence}“",
        f"« {sentence} »",
        f"> {sentence}",
        f"```\n{sentence}\n```",
    ):
        assert facts(Message(Role.USER, f"Look at this. {quoted}\n")) == {}
    assert facts(Message(Role.USER, "x" * 3_000 + f"\n{sentence}")) == {}
    assert facts(Message(Role.ASSISTANT, sentence)) == {}
    assert facts(Message(Role.TOOL, sentence)) == {}


# Written before the rule was run on them; the first six are those of a report.
DENIALS = [
    ("I'm not vegan anymore.", {"diet": "vegan"}),
    (
        "The test came back: I'm not allergic to peanuts after all.",
        {"allergy.peanuts": "peanuts"},
    ),
    ("Anna and I got divorced.", {"partner": ""}),
    ("Please call me Thomas from now on.", {"name": ""}),
    ("I no longer work at Bosch.", {"employer": "Bosch"}),
    ("I don't live in Berlin anymore.", {"location": "Berlin"}),
    ("Ich bin keine Veganerin mehr.", {"diet": "Veganerin"}),
    ("Ich arbeite nicht mehr bei Bosch.", {"employer": "Bosch"}),
    ("Wir haben uns scheiden lassen.", {"partner": ""}),
    ("Je ne suis plus végétarien.", {"diet": "végétarien"}),
    ("Je n'habite plus à Lyon.", {"location": "Lyon"}),
    ("Ya no vivo en Madrid.", {"location": "Madrid"}),
    ("Al final no soy alérgica a las nueces.", {"allergy.nueces": "nueces"}),
    ("Não sou mais vegetariano.", {"diet": "vegetariano"}),
    ("Já não moro em Lisboa.", {"location": "Lisboa"}),
    ("Non vivo più a Roma.", {"location": "Roma"}),
    ("Ik ben geen vegetariër meer.", {"diet": "vegetariër"}),
    ("I left Bosch last month.", {"employer": "Bosch", "location": "Bosch"}),
    ("I've stopped being vegetarian.", {"diet": "vegetarian"}),
    ("Turns out I'm not allergic to nuts after all.", {"allergy.nuts": "nuts"}),
    ("Our dog Luna died last week.", {"pet.luna": "Luna (dog)"}),
    ("My husband Mark passed away in March.", {"partner": "Mark"}),
    ("My wife Anna's dog died.", {}),
    ("My wife Anna said Rex has died.", {}),
    ("I'm not sure I'm vegan any more.", {}),
    ("I can't live in Berlin without a car.", {}),
    ("Ich bin nicht nur Vegetarier, sondern auch Veganer.", {}),
    ("I live in Ghent, not in Bruges.", {}),
    ("I'm vegan and I don't drink alcohol.", {}),
    ("It's not that I'm vegan, I just like beans.", {}),
    ("I'm not only vegan, I'm also allergic to nuts.", {}),
    ("My parents got divorced when I was ten.", {}),
    ("Are you not vegan anymore?", {}),
    ("He is not vegan anymore.", {}),
    ("We broke up the old path.", {}),
    ("If I'm not vegan anymore, what can I eat?", {}),
    ("My friend said: I'm not allergic to nuts.", {}),
    ("My wife Ana does not eat meat.", {}),
]


@each(("sentence", "denied"), DENIALS)
def test_a_denial_takes_back_what_it_denies(sentence: str, denied: dict[str, str]) -> None:
    facts = anchors_in([Message(Role.USER, sentence, 0, 2, 1)])
    assert {it.key: it.denies for it in facts if not it.value} == denied


def test_where_several_users_speak_nobody_is_known_to_be_the_owner() -> None:
    messages = [
        Message(Role.USER, "I live in Porto.", sender="ana"),
        Message(Role.USER, "Nice place.", sender="rui"),
    ]
    assert facts(messages[0]) == {"location": "Porto"}
    assert facts(*messages) == {}


def test_a_changed_fact_has_the_key_of_the_old_one() -> None:
    for one, other in (
        ("I live in Porto.", "We just moved to Lyon."),
        ("Always answer in metric units.", "From now on, use imperial units."),
        ("I'm vegan.", "We're vegetarian now."),
        ("I prefer short answers.", "I prefer detailed answers."),
    ):
        assert (
            facts(Message(Role.USER, one)).keys()
            == facts(Message(Role.USER, other)).keys()
            != set()
        )


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "part",
    [
        "I'm ",
        "my name is ",
        "' ",
        '"',
        "a, ",
        "I live in A",
        "> ",
        "De ",
        "Mr. ",
        "write a ",
        "I have two kids, Al, ",
        "\nBest regards",
        "\n \n",
        "Hi A,",
    ],
)
def test_a_message_of_nothing_but_beginnings_is_read_in_a_moment(part: str) -> None:
    assert len(facts(*[Message(Role.USER, (part * 3_000)[:2_990])] * 5)) < 5
