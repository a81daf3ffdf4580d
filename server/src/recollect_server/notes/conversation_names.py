"""The name of a conversation that has no title: the subject of its mails, the other side, or what
was asked for first.
"""

import re

from recollect_server.kernel.domain.message import Message, Role
from recollect_server.notes.offline.phrases import NEGATION
from recollect_server.notes.offline.sentences import split
from recollect_server.text.addresses import OWNERS_ALONE
from recollect_server.text.languages import STOP_WORDS, says_little
from recollect_server.text.prose import unwrapped
from recollect_server.text.text import UNSPACED_RUN, is_question, one_line, sentences
from recollect_server.text.topics import content_words

NO_WORDS, ANSWER, GREETING, WORDS, REQUEST = range(5)
"""Ranks of what a conversation may be called by: an answer of the agent; of a person a greeting,
other words that name nothing ("Good to see you"), and a sentence that says what it is about. The
first one of the highest rank gives the name.
"""

MAX_NAME = 80  # characters, as of a title
_MAX_WORDS, _MAX_CHARACTERS, _MAX_UNSPACED = 12, 64, 28  # of a request
_LEAST_WORDS = 3  # that stay of one that ends with words which say nothing
_LEAST_UNSPACED = 4  # characters of a request in a script without spaces
_BEGINNING = 2_000  # characters of a message that are looked at
_ELLIPSIS = "…"
_LABELS = {
    "email": "Email",
    "whatsapp": "WhatsApp",
    "discord": "Discord",
    "signal": "Signal",
    "slack": "Slack",
    "sms": "SMS",
    "telegram": "Telegram",
}
"""Channels as people spell them. Case alone tells a spelling from the label."""

_REPLY = re.compile(r"(?:(?:re|fwd?|aw|wg|tr|rv|sv)\s*:\s*)+", re.IGNORECASE)
_PAUSE = re.compile(r"(?:[,;:]| ?[–—-])\s+|[，、；]\s*")
_PICTURE = re.compile(r"[\[(][^\])]*[\])]?\W*")
"""A description of a picture, or of what somebody does."""
_AROUND = " \t.,;:!。、，；：！"


def name_of(title: str, channel: str, subject: str, party: str, request: str) -> str:
    """Return the name of a conversation with these parts, of which each may be empty; empty where
    all are.
    """
    if title:
        return title
    if subject and (words := _REPLY.sub("", one_line(subject), count=1).strip()):
        return _clipped(words, MAX_NAME)
    if party and channel not in OWNERS_ALONE:
        label = f" ({_LABELS.get(channel, channel)})"
        return _clipped(one_line(party), MAX_NAME - len(label)) + label
    return request


def request_of(message: Message, least: int) -> tuple[int, str]:
    """Return the rank of a message as a source of its conversation's name, and the name: its first
    sentence that says what it is about, or else its first sentence, shortened as a title.

    The words of a person rank before those of an agent without a name. The rank is `NO_WORDS` and
    the name empty unless the rank is higher than `least`.
    """
    is_person = message.role is Role.USER or bool(message.sender and message.role is Role.ASSISTANT)
    if not message.content or (not is_person and least >= ANSWER):
        return NO_WORDS, ""
    text = unwrapped(message.content[:_BEGINNING])
    if least >= WORDS and not content_words(text):
        return NO_WORDS, ""
    parts = split(text)
    rank = ANSWER
    if is_person:
        worths = [_worth(it) for it in parts] or [0]
        parts = parts[worths.index(max(worths)) :]
        rank = (GREETING, WORDS, WORDS if message.sender else REQUEST, REQUEST)[max(worths)]
    sentence = next(iter(parts or sentences(text.strip("`~ \n"))), "")
    words = shortened(_without_lead(sentence) if rank is REQUEST else sentence)
    return (rank, words) if words and rank > least else (NO_WORDS, "")


def shortened(sentence: str) -> str:
    """Return a sentence as a title would say it: its first words, up to one that says something."""
    text = one_line(sentence).strip(_AROUND)
    if not text:
        return ""
    if any(len(run) > _LEAST_UNSPACED for run in UNSPACED_RUN.findall(text)):
        return _clipped(text, _MAX_UNSPACED)
    words = text.split()
    fitting = words[:_MAX_WORDS]
    while len(fitting) > 1 and len(" ".join(fitting)) + (fitting != words) > _MAX_CHARACTERS:
        fitting.pop()
    if len(fitting) == len(words):
        return _clipped(text, _MAX_CHARACTERS)
    while len(fitting) > _LEAST_WORDS and fitting[-1].lower().strip(_AROUND) in STOP_WORDS:
        fitting.pop()
    return _clipped(" ".join(fitting).rstrip(_AROUND), _MAX_CHARACTERS - 1) + _ELLIPSIS


def _worth(sentence: str) -> int:
    """Return how well a sentence names a conversation: 0 is a greeting or a picture, 1 are words, 2
    words of which one names something, 3 two such words, or a question with one.
    """
    if _PICTURE.fullmatch(sentence):
        return 0
    if names := len(content_words(sentence)):
        is_long = sentence.count(" ") > 1 or UNSPACED_RUN.match(sentence)  # not "Joanna?"
        return 3 if names > 1 or (is_long and is_question(sentence)) else 2
    is_unspaced = any(len(run) >= _LEAST_UNSPACED for run in UNSPACED_RUN.findall(sentence))
    has_words = any(map(str.isalpha, sentence)) and " " in sentence and not says_little(sentence)
    return int(is_unspaced or has_words)


def _without_lead(sentence: str) -> str:
    """Return a sentence without the clauses before it that name nothing and deny nothing: "Guess
    what, ".
    """
    while (pause := _PAUSE.search(sentence)) and not (
        content_words(lead := sentence[: pause.start()]) or NEGATION.search(lead)
    ):
        rest = sentence[pause.end() :]
        sentence = rest[:1].upper() + rest[1:] if sentence[:1].isupper() else rest
    return sentence


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(_AROUND) + _ELLIPSIS
