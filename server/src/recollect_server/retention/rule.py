"""Rules of retention: which conversations are deleted or unindexed by themselves, and which
communications with third parties are deleted, and when.
"""

import re
from dataclasses import dataclass

from recollect_server.kernel.domain.ids import is_space_name
from recollect_server.people.communication import Trust


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """A rule, with one bound: of two that are wanted, two rules have one each."""

    text: str
    """The rule as it is written in the settings."""
    space: str = ""
    """Empty: every space."""
    channel: str = ""
    """Empty: every channel."""
    idle: int = 0
    """Milliseconds without a message after which the rule is about a conversation; 0: no bound."""
    conversations: int | None = None
    """Conversations that may be there: of more, the rule is about those that are idle for longest.
    A rule that unindexes counts those that are not unindexed.
    """
    bytes: int | None = None
    """Bytes that their transcripts may have together; counted likewise."""
    keeps_anchors: bool = True
    """True if anchors that came from a conversation stay."""
    unindexes: bool = False
    """True if the conversations stay, and searches leave them out."""
    is_about_third_parties: bool = False
    """True if it deletes communications with third parties, and no conversations. It is idle then:
    no other bound is for them.
    """
    trust: Trust | None = None
    """Trust in the third parties it is about; None: all but those that are blocked, whose block
    would go too.
    """

    def is_for(self, space: str) -> bool:
        return self.space in ("", space)


@dataclass(frozen=True, slots=True)
class Retired:
    """A conversation that a rule deletes or unindexes, or a communication that it deletes."""

    conversation_id: str
    """Or the communication's."""
    channel: str
    update_time: int
    bytes: int
    rule: str
    reason: str
    """A sentence without text of the conversation."""


@dataclass(frozen=True, slots=True)
class RetentionReceipt:
    """Record of a conversation or communication that a rule deleted or unindexed, and when."""

    retired: Retired
    time: int


_WORDS = "space=NAME, channel=NAME, idle=90d, conversations=1000, bytes=2g, anchors=keep|delete"
_WORDS_OF_COMMUNICATIONS = "space=NAME, channel=NAME, idle=90d, trust=untrusted|known|blocked"
_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "": 1}
_DAY = 86_400_000
_UNITS = {"m": 60_000, "h": 3_600_000, "d": _DAY}
_MOST_DAYS = 36_500


def parse_rule(text: str) -> RetentionRule:
    """Return the rule of a text as `delete channel=web idle=90d`. Raises ValueError, which says
    what is wrong.
    """
    action, *words = text.split()
    if action not in ("delete", "unindex"):
        raise ValueError(f"{text!r} does not begin with `delete` or `unindex`")
    third_parties = words[:1] == ["communications"]
    if third_parties and action == "unindex":
        raise ValueError(f"{text!r}: communications are deleted, and never unindexed")
    words = words[1:] if third_parties else words
    allowed = _WORDS_OF_COMMUNICATIONS if third_parties else _WORDS
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value or name not in re.findall(r"(\w+)=", allowed):
            raise ValueError(f"{word!r} is none of {allowed}")
        if name in values:
            raise ValueError(f"{text!r} says {name} twice")
        values[name] = value
    if third_parties and "idle" not in values:
        raise ValueError(f"{text!r} needs idle, the one bound of communications")
    bounds = values.keys() & {"idle", "conversations", "bytes"}
    if len(bounds) != 1:
        raise ValueError(f"{text!r} needs one of idle, conversations and bytes, and only one")
    if action == "unindex" and "anchors" in values:
        raise ValueError(f"{text!r}: anchors is for `delete` alone: they stay when it unindexes")
    space, channel = values.get("space", ""), values.get("channel", "")
    if space and not is_space_name(space):
        raise ValueError(f"{space!r} is not the name of a space")
    if channel != channel.lower():
        raise ValueError(f"{channel!r} is no channel: they are in lower case")
    anchors = values.get("anchors", "keep")
    if anchors not in ("keep", "delete"):
        raise ValueError(f"anchors={anchors} is neither keep nor delete")
    if (trust := values.get("trust")) not in (None, *Trust):
        raise ValueError(f"trust={trust} is none of {', '.join(Trust)}")
    return RetentionRule(
        " ".join(text.split()),
        space,
        channel,
        _number(values["idle"], _UNITS, _MOST_DAYS * _DAY) if "idle" in values else 0,
        _number(values["conversations"], {"": 1}) if "conversations" in values else None,
        _number(values["bytes"], _SIZES) if "bytes" in values else None,
        anchors == "keep",
        action == "unindex",
        third_parties,
        Trust(trust) if trust else None,
    )


def parse_rules(text: str) -> tuple[RetentionRule, ...]:
    """Return the rules of a text, which semicolons divide. Raises ValueError."""
    return tuple(parse_rule(rule) for rule in text.split(";") if rule.strip())


def _number(text: str, units: dict[str, int], most: int = 1 << 62) -> int:
    digits = text.rstrip("".join(units))
    unit = text[len(digits) :]
    if not (digits.isascii() and digits.isdigit()) or unit not in units:
        forms = ", ".join(f"30{it}" for it in units)
        raise ValueError(f"{text!r} is not a number such as {forms}")
    value = int(digits) * units[unit]
    if not 1 <= value <= most:
        raise ValueError(f"{text!r} is too {'large' if value else 'small'}")
    return value
