"""Lasting facts that a user states plainly of himself: "my name is", "call me", "I work as", "I live in", "I prefer"."""

import re
from collections.abc import Sequence

from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import FoundAnchor, topic_of
from recollect_server.inference.sentences import split

_NAME = r"([A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,2})"
_PLACE = r"((?:the )?[A-Z][\w'’-]+(?:,? [A-Z][\w'’-]+){0,3})"
_PHRASE = r"([^.,;:!?()\n]{2,80})"
_STATEMENTS = [
    ("name", re.compile(rf"\b[Mm]y name(?: is|'s|’s) {_NAME}"), 0.95),
    ("preferred_name", re.compile(rf"\b[Cc]all me {_NAME}"), 0.9),
    ("occupation", re.compile(rf"\bI work as (?:an? )?{_PHRASE}"), 0.85),
    ("location", re.compile(rf"\bI live in {_PLACE}"), 0.85),
    ("preference", re.compile(rf"\bI prefer {_PHRASE}"), 0.7),
]
_DOUBTFUL = re.compile(r"\b(?:if|suppose|imagine|pretend|would|wish|used to|not|never)\b|[\"“”]|\?\s*$", re.IGNORECASE)
_TIMES = frozenset(
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "January", "February", "March", "April", "May",
     "June", "July", "August", "September", "October", "November", "December", "Tomorrow", "Later", "Back", "Maybe", "When"]
)  # fmt: skip
_ENDS = re.compile(r" (?:and|but|because|so|when|while|since|which|where)\b.*", re.IGNORECASE)


def anchors_in(said: Sequence[Message]) -> tuple[FoundAnchor, ...]:
    """The facts in a user's words, in order; what is asked, quoted, supposed or denied is none."""
    found: list[FoundAnchor] = []
    for message in said:
        if message.role is not Role.USER:
            continue
        for sentence in split(message.content):
            for key, pattern, confidence in _STATEMENTS:
                match = pattern.search(sentence)
                if match is None or _DOUBTFUL.search(sentence[: match.end(1)]) or sentence.endswith("?"):
                    continue
                value = _ENDS.sub("", match[1]).strip()
                if not value or value.split()[0] in _TIMES:
                    continue
                # One value holds for a key at a time; of preferences there are many.
                name = f"{key}.{topic_of(value)}" if key == "preference" else key
                found.append(FoundAnchor(name, value, confidence, message.sequence))
    return tuple(found)
