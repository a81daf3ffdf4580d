"""The name of a conversation that has no title: the subject of its mails, the other side, or what
was asked for first.
"""

import re

from recollect_server.kernel.domain.message import Message, Role
from recollect_server.text.addresses import OWNERS_ALONE
from recollect_server.text.languages import STOP_WORDS, says_little
from recollect_server.text.prose import prose_of, unwrapped
from recollect_server.text.text import UNSPACED_RUN, one_line, sentences

NO_WORDS, ANSWER, GREETING, REQUEST = range(4)
"""Ranks of what a conversation may be called by: an answer, words of a user that ask for nothing
by themselves, and a request. The first one of the highest rank gives the name.
"""

MAX_NAME = 80  # characters, as of a title
_MAX_WORDS, _MAX_CHARACTERS, _MAX_UNSPACED = 9, 64, 28  # of a request
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
_HELLO = re.compile(
    r"(?:hi|hello|hey|dear|good (?:morning|afternoon|evening|day)|hallo|moin|servus|liebe[rs]?"
    r"|guten (?:tag|morgen|abend)|bonjour|bonsoir|salut|hola|buen(?:os|as) (?:d[ií]as|tardes|noches)"
    r"|olá|oi|bom dia|boa (?:tarde|noite)|ciao|buongiorno|salve|hoi|hej|merhaba|selam|привет"
    r"|здравствуйте|こんにちは|你好|您好)(?:\s[^\s,!.:;，！。]+)?\s*[,!.:;，！。、–—-]+\s*",
    re.IGNORECASE,
)
"""A greeting before a request, with a name or without one, and a mark that sets it off."""
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
    """Return the rank of a message as a source of its conversation's name, and the name: its
    request, or else its first sentence, shortened as a title.

    A user's request ranks before other words of a user, and these before an answer. The rank is
    `NO_WORDS` and the name empty unless the rank is higher than `least`.
    """
    is_user = message.role is Role.USER
    if not message.content or (not is_user and least >= ANSWER):
        return NO_WORDS, ""
    parts, bare = _parts(message.content)
    request = next((it for it in parts if _is_request(it)), "") if is_user else ""
    rank = REQUEST if request else GREETING if is_user else ANSWER
    words = shortened(request or next(iter(parts or sentences(bare)), ""))
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
    while len(fitting) > 1 and len(" ".join(fitting)) > _MAX_CHARACTERS:
        fitting.pop()
    if len(fitting) == len(words):
        return _clipped(text, _MAX_CHARACTERS)
    while len(fitting) > _LEAST_WORDS and fitting[-1].lower().strip(_AROUND) in STOP_WORDS:
        fitting.pop()
    return _clipped(" ".join(fitting).rstrip(_AROUND), _MAX_CHARACTERS - 1) + _ELLIPSIS


def _parts(content: str) -> tuple[list[str], str]:
    """Return the sentences of prose at the beginning of a message and all of its text, without a
    greeting.
    """
    text = unwrapped(content[:_BEGINNING])
    if (hello := _HELLO.match(text)) and hello.end() < len(text):
        text = text[hello.end() :]
    return prose_of(text), text.strip("`~ \n")


def _is_request(sentence: str) -> bool:
    """Return whether a sentence is of words, and of more than a greeting or thanks."""
    if any(len(run) >= _LEAST_UNSPACED for run in UNSPACED_RUN.findall(sentence)):
        return True
    return any(map(str.isalpha, sentence)) and " " in sentence and not says_little(sentence)


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(_AROUND) + _ELLIPSIS
