"""The mailbox in a `From` header, read by the grammar of RFC 5322, 3.4, with the comments, spaces
and dots that its obsolete forms allow.

`email.utils.parseaddr` answers otherwise before the fix of CVE-2023-27043 than after it: in
`alex@example.org <mallory@bad.example>` it took the first address, which anybody can write there,
and not the one that the mail is from. The server reads senders with it, and the imports mailboxes.
"""

import re

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | "(?P<quoted>(?:[^"\\]|\\.)*+)"
    | (?P<literal>\[[^\[\]\\\s]*+\])
    | (?P<atom>[^\s\x00-\x20\x7f()<>\[\]:;@\\,."]++)
    | (?P<special>[<>@.(])
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_COMMENT = re.compile(r"[^()\\]|\\.|(?P<bracket>[()])", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MAX = 4096
"""Characters of a mailbox."""


def read_mailbox(text: str) -> tuple[str, str]:
    """Return the display name and the address of one mailbox; two empty texts for what is none.

    More than one address is none, unless the name before an address is the same one.
    """
    tokens, comments = _tokens(text)
    if ("special", "<") not in tokens:
        address = _address(tokens)
        return (" ".join(comments) if address else "", address)
    at = tokens.index(("special", "<"))
    phrase = tokens[:at]
    address = _address(tokens[at + 1 : -1]) if tokens[-1] == ("special", ">") else ""
    is_phrase = all(kind != "literal" and part not in "<>@" for kind, part in phrase if kind != "quoted")  # fmt: skip
    if not address or not (is_phrase or _address(phrase).lower() == address.lower()):
        return "", ""
    shown = "".join(
        _ESCAPED.sub(r"\1", part) if kind == "quoted" else part for kind, part in phrase
    )
    return " ".join(shown.split()) or " ".join(comments), address


def _tokens(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the tokens of a text, with a space between those that one parts, and its comments. A
    text that is not of the grammar has no tokens.
    """
    tokens: list[tuple[str, str]] = []
    comments = []
    at = 0 if len(text) <= _MAX else -1
    while 0 <= at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return [], []
        at = match.end()
        kind = match.lastgroup or ""
        if match[0] == "(":
            end = _end_of_comment(text, at)
            if end < 0:
                return [], []
            comments.append(" ".join(_ESCAPED.sub(r"\1", text[at : end - 1]).split()))
            at, kind = end, "space"
        if kind != "space":
            tokens.append((kind, match[kind]))
        elif tokens and tokens[-1][0] != "space":
            tokens.append(("space", " "))
    while tokens and tokens[-1][0] == "space":
        tokens.pop()
    return tokens, comments


def _end_of_comment(text: str, at: int) -> int:
    """Return the position behind a comment that begins before `at`, -1 if it has no end."""
    depth = 1
    while depth and (match := _IN_COMMENT.match(text, at)):
        depth += {"(": 1, ")": -1}.get(match["bracket"] or "", 0)
        at = match.end()
    return -1 if depth else at


def _address(tokens: list[tuple[str, str]]) -> str:
    """Return the address that tokens are, empty if they are none or more than one."""
    shown = ""
    before = ("special", "")
    count = 0
    for token in (it for it in tokens if it[0] != "space"):
        kind, part = token
        if kind == "special" and part not in ("@", "."):
            return ""
        if kind != "special" and before[0] != "special":
            return ""  # two words, with nothing between them
        if count and (kind == "quoted" or (part == "." and before[1] == "@")):
            return ""
        if kind == "literal" and before[1] != "@":
            return ""
        count += part == "@" and kind == "special"
        shown += f'"{part}"' if kind == "quoted" else part
        before = token
    local, _, domain = shown.rpartition("@")
    return shown if count == 1 and local and domain and not local.isspace() else ""
