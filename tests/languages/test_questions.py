"""Sentences that ask without a mark at their end, and those that only begin as if they did."""

from recollect_server.text.text import is_question

from tests.cases import each

ASKING = {
    "en": """
        where did you two meet
        what's your favourite film
        whats up
        how do i reset my password
        hey where are you
        John, when is the party
        which hotel did you stay at
        how many kids do you have
        what kind of dog did you get
        what time is it
        did you eat already
        are you free tomorrow
        have you seen my keys
        can you send me the link
        is it raining
        is there any milk left
        why didn't you call
        how about a walk
        who is coming tonight
        does the shop open on Sundays
        ok and why not
        what's for lunch
        should i call them
    """,
    "de": """
        wo habt ihr euch kennengelernt
        wo wohnst du
        wann kommt ihr an
        wie geht es dir
        wie lange dauert das
        was kostet das Ticket
        wie alt ist dein Hund
        hast du Hunger
        habt ihr morgen Zeit
        warum hast du nicht angerufen
        können Sie mir helfen
        wer ist das
        was für ein Auto hast du
    """,
    "fr": """
        où habites-tu
        est-ce que tu viens
        as-tu faim
        comment ça va
        comment tu t'appelles
        qu'est-ce que tu fais
        où est la gare
        tu habites où
        c'est quoi
        pourquoi tu pleures
        avez-vous des enfants
        quel âge as-tu
    """,
    "es": """
        dónde vives
        cuándo vienes
        qué hiciste ayer
        qué te pasa
        cómo te llamas
        cómo se conocieron
        por qué no viniste
        cuántos años tienes
        quién es tu jefe
        que haces
    """,
    "it": """
        dove vivi
        come stai
        come ti chiami
        cosa fai stasera
        quanti anni hai
        quanto costa
        dove vi siete conosciuti
        quando vieni
    """,
    "pt": """
        onde você mora
        o que você fez ontem
        quantos anos você tem
        como vocês se conheceram
        qual é o seu nome
    """,
    "nl": """
        waar woon je
        waar hebben jullie elkaar ontmoet
        hoe gaat het
        wat doe je
        heb je honger
        hoe laat is het
        wanneer kom je thuis
    """,
    "sv, no, da": """
        var bor du
        vad gör du
        hur mår du
        hvor bor du
        hvad laver du
        har du tid i morgon
    """,
    "pl": """
        czy masz czas
        gdzie mieszkasz
        gdzie się poznaliście
        co robisz
        ile kosztuje bilet
        kto to jest
    """,
    "ru": """
        где ты живёшь
        как дела
        как тебя зовут
        сколько стоит билет
        что ты делаешь
        где вы познакомились
        знаешь ли ты его
    """,
    "tr": """
        geliyor musun
        nerede oturuyorsun
    """,
}
TELLING = {
    "en": """
        what's important is that we meet
        how people do that is beyond me
        what we do there is a secret
        how things are there
        when I was young, we had a farm
        when I was young we had a farm
        what a day
        what a lovely day it was
        what I did was wait
        where I live it rains a lot
        how nice of you
        how nice it is to see you
        how much I loved that film
        what you said made me think
        which is why I left
        which was great
        who knows
        do the dishes
        do it now
        have a nice day
        had I known I would have come
        is what it is
        was the best day of my life
        was there yesterday
        did the shopping
        will do
        can do
        whatever you want
        why I moved here
        should you need anything call me
        the best thing is how it looks
        whose idea was a good one
        how cool is that
        what matters is that you came
        what did help was the new medicine
        may all your wishes come true
        yes
        ok see you tomorrow
        I like it here
        it was where we met
        what he was thinking nobody knows
        should he call, tell him that I am out
        how did it go, it went well I think
        whoever did that is in trouble
        Which is to say no
        what would help is to sleep
        the code runs-on: ubuntu
    """,
    "de": """
        wer will kann kommen
        gibt's ja nicht
        wann immer er kommt
        was immer es kostet
        wo ich wohne gibt es keinen Bus
        was für ein Tag
        wie schön du bist
        wie gut er kocht
        was du willst
        wer das sagt lügt
        wie du meinst
        weil du da bist
        als ich jung war
        war das schön
        wann immer du willst
        was ich noch sagen wollte
        wie schön
        hast du Zeit, komm vorbei
        als du kamst war ich weg
        wer nicht hören will muss fühlen
    """,
    "fr": """
        c'est quand même bien
        vraiment dit-elle
        dit-il en riant
        qui est très bon
        quand j'étais petit
        quel beau jour
        quelle chance
        où que tu sois
        comme tu veux
        comment dire
        je ne sais pas où
        on verra quand
        qui vivra verra
        asseyez-vous
        tu sais où
        qui sait
    """,
    "es": """
        qué me importa
        cómo se nota
        qué bonito
        qué bien
        qué día tan largo
        cuando era pequeño vivía allí
        donde vivo hay playa
        como te dije
        que tengas un buen día
        cuánto te quiero
        cómo me gusta
        por eso no vine
        quién pudiera
        lo que haces es bueno
    """,
    "it": """
        quando sono arrivato pioveva
        dove sono cresciuto c'è il mare
        come sei bella
        quando torni chiamami
        quando ero piccolo
        dove vivo io piove
        che bella giornata
        perché ero stanco
        come ti ho detto
        quanto ti amo
        che fortuna
        quando arrivi chiamami
    """,
    "pt": """
        como você é linda
        como é bom
        o que você disse é verdade
        tudo bem
        quando eu era criança
        onde eu moro chove
        que dia lindo
        o que você quiser
        como eu te disse
    """,
    "nl": """
        wat is het koud
        wat ben je mooi
        moet je zien
        wat een dag
        waar ik woon is het rustig
        wat leuk
        wat leuk dat je er bent
        hoe mooi
        toen ik jong was
        heb je honger, eet dan iets
    """,
    "sv, no, da": """
        var bra
        när jag var liten
        hvor fint
        hvor vakker du er
        vad fint
        hur som helst
    """,
    "pl": """
        jak piękne jest życie
        dał mi spokój
        oddał to mi
        co to za dzień
        jak się cieszę
        gdzie nasz dom tam spokój
        kiedy byłem mały
        co za dzień
        jak pięknie
        jak zwykle
        gdzie mieszkam jest cicho
    """,
    "ru": """
        вряд ли он придёт
        едва ли это так
        когда я был маленьким
        где я живу тихо
        как ты красива
        какой день
        что я сказал
    """,
    "tr": """
        çok güzel
        nerede olursa olsun
    """,
}


def lines(table: dict[str, str]) -> list[tuple[str, str]]:
    return [
        (language, it.strip()) for language, of in table.items() for it in of.strip().split("\n")
    ]


@each(("language", "sentence"), lines(ASKING))
def test_a_sentence_that_begins_as_a_question_asks_without_a_mark(
    language: str, sentence: str
) -> None:
    assert is_question(sentence)
    assert is_question(f"{sentence[0].upper()}{sentence[1:]}")


@each(("language", "sentence"), lines(TELLING))
def test_what_begins_with_the_same_words_and_tells_is_no_question(
    language: str, sentence: str
) -> None:
    assert not is_question(sentence)
    assert not is_question(f"{sentence}.")


@each("sentence", [it for _, it in lines(ASKING)])
def test_a_full_stop_ends_no_question(sentence: str) -> None:
    assert not is_question(f"{sentence}.")
