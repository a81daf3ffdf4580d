"""Addresses in one form each, so that one person on one channel is one address, however a provider
writes it.

Every function gives a normal form its own form back, and the empty text for what is no address.

A normal form has a number's digits as they were given, for an answer goes there. In some countries
one number has two of them, and providers use both: `spellings` has all that are one number.
"""

import re
import unicodedata
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from functools import lru_cache
from itertools import chain

from recollect._shared.mailboxes import read_mailbox

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
_AROUND = "".join(_TURNS) + "​⁠﻿ "  # what a pasted address may have around it
_PHONES = frozenset({WHATSAPP, "signal", "sms"})
_PHONE = re.compile(r"\+?[0-9 ().\-/]*")
# servers on which the part before the @ is a phone number
_PERSONAL = frozenset({"s.whatsapp.net", "c.us"})
_LEFT_OUT = {"52": (2, "1"), "54": (2, "9"), "55": (4, "9")}
"""By country: where a digit stands that providers write or leave out."""
_DECLARED_PHONE = re.compile(r"[0-9]+")
_DECLARED = {
    # a number, an id on a server of accounts (not on one of groups, lists and channels), or an id
    # that businesses get, `US.13491208655302741918`
    WHATSAPP: re.compile(
        r"[0-9]+(@(?!g\.us|broadcast|newsletter)[a-z.]+)?|[a-z]{2}\.[0-9a-z.]*[0-9][0-9a-z.]*"
    ),
    # a number, a name with its number, or an id
    "signal": re.compile(
        r"[0-9]+|[a-z_][a-z0-9_]+\.[0-9]{2,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    ),
}
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


def is_address(channel: str, address: str) -> bool:
    """Return whether a normal form is an address that somebody may have on a channel; on a channel
    of an unknown kind anything is.
    """
    if channel in _PHONES:
        return _DECLARED.get(channel, _DECLARED_PHONE).fullmatch(address) is not None
    return bool(address)


@lru_cache(4096)
def spellings(channel: str, address: str) -> tuple[str, ...]:
    """Return all normal forms that are one address with this one, itself among them, in order.

    Mobile numbers of Brazil have a ninth digit that those of older accounts lack, numbers of Mexico
    had a 1 before them until 2019, and mobile ones of Argentina have a 9 where they are called from
    abroad: providers write either. In each of the three the digits without it are one subscriber's.
    """
    if channel not in _PHONES or not address.isdigit():
        return (address,)
    at, digit = _LEFT_OUT.get(address[:2], (0, ""))
    if at and len(address) == 12:
        short, long = address, address[:at] + digit + address[at:]
    elif at and len(address) == 13 and address[at] == digit:
        short, long = address[:at] + address[at + 1 :], address
    else:
        return (address,)
    # eight digits that begin otherwise are a landline of Brazil, and nine a mobile number of others
    is_landline = address.startswith("55") and short[at] not in "6789"
    is_one = not is_landline and (_is_mobile(short) or _is_mobile(long))
    return (short, long) if is_one else (address,)


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
    name = read_mailbox(display_name(text))[0]
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
    address = read_mailbox(text.strip(_AROUND).removeprefix("mailto:"))[1].lower()
    if any(character.isspace() for character in address):
        return ""
    return address if read_mailbox(address)[1] == address else ""


@lru_cache(4096)
def _phone(text: str) -> str:
    text = _typed(text).lower().removeprefix("whatsapp:").removeprefix("tel:").strip()
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
    is_national = "(0)" in name or (len(digits) == 14 and digits.startswith("54"))
    return _international(digits) if is_national else digits


def _typed(text: str) -> str:
    """Return a number as it is typed: what is displayed has marks of direction, other dashes and
    spaces, and the digits of a script.
    """
    if text.isascii():
        return text
    characters: list[str] = []
    for character in text:
        match unicodedata.category(character):
            case "Cf":
                pass
            case "Pd":
                characters.append("-")
            case "Zs":
                characters.append(" ")
            case "Nd":
                characters.append(str(unicodedata.digit(character)))
            case _:
                characters.append("-" if character == "\N{MINUS SIGN}" else character)
    return "".join(characters)


def _international(digits: str) -> str:
    """Return a number without what is called within its country alone: `+49 (0)30 1234`, and in
    Argentina `+54 11 15 1234-5678`.
    """
    import phonenumbers  # the rules of all countries: 4 MiB that most servers never need

    with suppress(phonenumbers.NumberParseException):
        parsed = phonenumbers.parse(f"+{digits}", None)
        if phonenumbers.is_possible_number(parsed):
            form = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
            return form.removeprefix("+")
    return digits


def _is_mobile(digits: str) -> bool:
    """Return whether the plan of a country has a number for mobile telephones."""
    import phonenumbers

    with suppress(phonenumbers.NumberParseException):
        kind = phonenumbers.number_type(phonenumbers.parse(f"+{digits}", None))
        return kind in (
            phonenumbers.PhoneNumberType.MOBILE,
            phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE,
        )
    return False
