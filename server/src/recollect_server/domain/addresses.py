"""Addresses in one form each, so that one person on one channel is one address, however a provider
writes it.

Every function gives a normal form its own form back, and the empty text for what is no address.
"""

import re
import unicodedata
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.utils import parseaddr
from functools import lru_cache
from itertools import chain

EMAIL, WHATSAPP, DISCORD, CLI, WEB = "email", "whatsapp", "discord", "cli", "web"

OWNERS_ALONE = frozenset({WEB, CLI})
"""Channels on which nobody but the owner can write."""

MAX_DISPLAY_NAME = 256
"""Characters of a display name."""

_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that let text run from right to left: a name with one shows what stands behind it in
another order.
"""
_PHONES = frozenset({WHATSAPP, "signal", "sms"})
_PHONE = re.compile(r"\+?[0-9 ().\-/]*")
# servers on which the part before the @ is a phone number
_PERSONAL = frozenset({"s.whatsapp.net", "c.us"})
_MENTION = re.compile(r"<@!?([0-9]+)>")
_BRACKETED = re.compile(r"<([^<>]*)>")


def normal_address(channel: str, text: str) -> str:
    """Return the normal form of an address: phone numbers in digits, e-mail addresses in lower case
    without a display name.

    An address on a channel of an unknown kind keeps its case, because two cases may be two people.
    """
    text = _plain(text)
    if channel == EMAIL:
        return _mail_address(text)
    if channel in _PHONES:
        return _phone(text)
    if channel == DISCORD and (mention := _MENTION.fullmatch(text)):
        return mention[1]
    return text


def is_phone_channel(channel: str) -> bool:
    """Return whether addresses on a channel are phone numbers, or ids that have digits."""
    return channel in _PHONES


def display_name(text: str) -> str:
    """Return a display name on one line: control characters, and those that turn the direction of
    text, become spaces.
    """
    visible = "".join(
        " " if unicodedata.category(it) in _CONTROLS or it in _TURNS else it for it in text
    )
    return " ".join(visible.split())


def name_in(channel: str, text: str) -> str:
    """Return the display name that an address on e-mail has before it, as in `"Hanan"
    <hanan@example.org>`.
    """
    if channel != EMAIL or "<" not in text:
        return ""
    name = parseaddr(display_name(text))[0]
    # a name that is encoded wrongly is kept as it is written
    with suppress(HeaderParseError, LookupError, ValueError):
        name = str(make_header(decode_header(name)))  # `=?utf-8?b?…?=`
    return display_name(name.encode(errors="replace").decode())[:MAX_DISPLAY_NAME].rstrip()


def normal_group(text: str) -> str:
    """Return a WhatsApp group's whole JID, `120363@g.us`; the text may lack the server."""
    text = _plain(text).lower()
    return text if "@" in text or not text else f"{text}@g.us"


def normal_message_ids(*texts: str) -> tuple[str, ...]:
    """Return the ids in Message-ID, In-Reply-To or References headers, without angle brackets, in
    order, each once.

    A text may hold several, as References does. Upper and lower case differ (RFC 5322, 3.6.4).
    """
    if len(texts) == 1:
        return _message_ids(texts[0])
    return tuple(dict.fromkeys(chain.from_iterable(map(_message_ids, texts))))


@lru_cache(1024)  # of a message on its way the same headers are asked for some five times
def _message_ids(text: str) -> tuple[str, ...]:
    parts = _BRACKETED.findall(text) or text.split()
    return tuple(
        dict.fromkeys(
            name
            for part in parts
            if (name := "".join(part.split()).replace("<", "").replace(">", ""))
        )
    )


def _plain(text: str) -> str:
    """Return the text in compatibility form (full-width digits become digits), without space around
    it.
    """
    return text.strip() if text.isascii() else unicodedata.normalize("NFKC", text).strip()


@lru_cache(4096)  # to read one takes as long as to route a message
def _mail_address(text: str) -> str:
    address = parseaddr(text.removeprefix("mailto:"))[1].lower()
    local, at, domain = address.rpartition("@")
    if not (local and at and domain) or any(character.isspace() for character in address):
        return ""
    return address if parseaddr(address)[1] == address else ""


def _phone(text: str) -> str:
    text = text.lower().removeprefix("whatsapp:").removeprefix("tel:").strip()
    name, at, server = text.partition("@")
    if at:
        name = re.split("[:.]", name)[0]  # `1555000.0:12@…` is one of the devices of 1555000
        if server not in _PERSONAL:  # `…@lid` is a number too, and not that of a phone
            return f"{name}@{server}" if name and server else ""
    if not _PHONE.fullmatch(name):
        return name
    digits = "".join(character for character in name if character.isdigit())
    while digits.startswith("00"):
        digits = digits[2:]
    return digits
