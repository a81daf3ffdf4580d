"""The vocabulary of topics that the conversations of a space share: a near label is reused before a
new one is made.
"""

import re
from collections.abc import Mapping, Sequence

MAX_LABELS = 200
"""Labels of a space that are known to the writer of notes, the most used first."""
_MAX_NEW = 2
"""Labels of a conversation that no other has; each that it shares makes that one less, down to
one.
"""
_MAX_REUSED = 3
_SAID = 3  # times that each word of a label was said in a conversation that it fits

_SHORT = 100  # words of a conversation in which a topic need not be said more than once

_FILLER_WORDS = """
able absolutely action actions actually add advice afternoon ago allergic amazing amount another answer anybody anymore april
area ask aspect august available aware away awesome back bad based beautiful beginning behind best better big bit boost brand
bring build bunch busy call care case certain chance change chat check choice choose choosing clear close common complete
concern confidence consider context cool correct couple course create current cut daily date day days december decide deep
definitely detail details difference different direction early easy effect effective effort eight either end energy enjoy ensure
etc evening event everybody everyone everything exact example excited exciting experience extra fact fair fantastic fast
favorite february feel feeling final find finding finds fine first fit five focus follow form forward free fresh friday friendly
full fun future general generate give glad goal goals god good great group guess guy guys habit hand happy hard head hear heart
help helpful hey high hmm hold hope hour hours huge idea ideas immediate impact important impressive improve include including
information initial inspiring interest interesting issue item january joy july june key kind know large last late later lead
learn least leave less let level life light like line list little live long look lot love low main major make making man march
matter may maybe mean means meet mention mentioned mind minute minutes moment monday month months morning move much name need
needs new next nice night nine nobody note nothing november number october offer ok okay old one open option options order part
parts past people perfect person perspective phase piece place plan plans play please plus point points positive possible power
practically practice prepare present pretty previous probably problem process progress proud provide put question quick quite
ready real really reason recent recommend related remember repetitions request response rest result resulting results right room
run saturday scene second section sense september series serious session set seven several share short show side sign
significant similar simple situation six skip slightly slow small smart solid solution somebody someone something soon sort
sound sounds space special specific spend start starting starts state stay step steps stop stopped story strategy strong stuff
style subject suddenly suggest suggestion suggestions summary sunday super support sure system take talk task team tell telling
ten term test text thanks thing things think thinking third thought thoughts thursday time times tip tips today together
tomorrow tonight tool top topic total touch track true try tuesday turn two type uh um understand unique upcoming update us use
used useful user usual value version view visit wait walk want watch way ways wednesday week weekend weekly weeks welcome well
whatever whole will wish within woman wonder wonderful word words work working world worry worth would write yeah year years yes
yesterday young
"""
_FILLER = frozenset(_FILLER_WORDS.split())
"""Words that name no topic by themselves: they are said in conversations about anything."""
_FIGURE = re.compile(r"\d+(?:st|nd|rd|th|h\d*|hrs?|mins?|kg|mg|ml|cm|mm|km|am|pm|usd|eur)")
"""A figure with its unit; "5g", "3d" and "401k" name something."""
_PIECES = frozenset({"n", "t", "s", "d", "m", "ll", "re", "ve", "gon", "na", "wan", "ta", "y"})
"""Remains of contractions that are written apart (`do n't`, `gon na`)."""


def stems(topic: str) -> frozenset[str]:
    """Return the words of a topic in the form by which two topics are compared: without the ends of
    English plurals.
    """
    return frozenset(_stem(word) for word in topic.split("-") if word)


def is_filler(topic: str) -> bool:
    """Return whether a topic names nothing: a number is in it, or it has only words that are said
    about anything.
    """
    words = topic.split("-")
    return any(word.isdigit() or word in _PIECES for word in words) or all(
        word in _FILLER or len(word) < 2 or _FIGURE.fullmatch(word) for word in words
    )


def shared(topics: Sequence[str], labels: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return topics without fillers, each as the label that other conversations have for it, where
    there is one.

    `labels` are those of the space with how often each is used, the most used first. A label that
    several conversations have also stands for a narrower topic that has all of its words.
    """
    same: dict[frozenset[str], str] = {}
    wide: list[tuple[frozenset[str], str]] = []
    for label, count in labels:
        if not is_filler(label):
            same.setdefault(stems(label), label)
            if count > 1:
                wide.append((stems(label), label))
    pairs: list[tuple[str, str]] = []
    for topic in topics:
        if not is_filler(topic):
            key = stems(topic)
            pairs.append(
                (topic, same.get(key) or next((label for words, label in wide if words < key), ""))
            )
    new = [topic for topic, label in pairs if not label]
    unshared = set(new[: max(1, _MAX_NEW - len({label for _, label in pairs if label}))])
    return tuple(
        dict.fromkeys(label or topic for topic, label in pairs if label or topic in unshared)
    )


def telling(topics: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the topics whose every word occurs several times, or else the first that is no filler.

    A rule has only the words themselves: one that occurs once or twice seldom names a subject of
    other conversations.
    """
    topics = [topic for topic in map(str.lower, topics) if not is_filler(topic.replace(" ", "-"))]
    least = min(_SAID, 1 + sum(counts.values()) // _SHORT)
    often = [
        topic for topic in topics if min(counts.get(word, 0) for word in topic.split()) >= least
    ]
    return often or topics[:1]


def fitting(labels: Sequence[tuple[str, int]], frequencies: Mapping[str, int]) -> list[str]:
    """Return the labels of a space whose every word occurs several times in a conversation, the
    most frequent first.

    `frequencies`: the number of times that each word occurs, lower case.
    """
    counts: dict[str, int] = {}
    for word, count in frequencies.items():
        counts[_stem(word)] = counts.get(_stem(word), 0) + count
    fits = [
        (min(counts.get(word, 0) for word in stems(label)), label)
        for label, count in labels
        if count > 1 and not is_filler(label)
    ]
    ranked = sorted((it for it in fits if it[0] >= _SAID), key=lambda it: -it[0])
    return [label for _, label in ranked[:_MAX_REUSED]]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and re.search(r"(?:ch|sh|ss|x|z)es$", word):
        return word[:-2]
    return (
        word[:-1]
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
        else word
    )
