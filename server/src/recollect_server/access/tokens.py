"""Tokens: created, revoked, replaced and verified.

The ledger is the truth, and has other writers: commands beside a running server. So a
long-lived verifier calls `refresh` now and then, which costs a look at the file's state.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from recollect_server.access import token as domain
from recollect_server.access.principal import (
    ALL_SCOPES,
    CUSTOM,
    KINDS,
    Principal,
    Scope,
    Unauthenticated,
)
from recollect_server.access.token import Grant, Token
from recollect_server.access.token_log import NO_FILE, TokenLines
from recollect_server.kernel.domain.errors import InvalidField, StorageUnavailable, TokenNotFound
from recollect_server.kernel.domain.time import Clock, from_text, to_text
from recollect_server.kernel.log.lines import fields_of

log = structlog.get_logger("recollect.tokens")

_CREATED, _REVOKED = "created", "revoked"
# compared with where no token has the id, so that an unknown id takes as long as a wrong secret
_NOBODY = bytes(32)


class Tokens:
    """The tokens of a server. Safe to call from any thread."""

    def __init__(self, ledger: TokenLines, clock: Clock) -> None:
        """Read the ledger. Raises LogUnavailable."""
        self._ledger = ledger
        self._clock = clock
        self._guard = threading.Lock()  # one refresh at a time
        self._mark = NO_FILE
        self._tokens: dict[str, Token] = {}
        self._any = False
        self._failure = ""
        """Why the ledger could not be read last; empty: it could."""
        self._read()

    @property
    def has_any(self) -> bool:
        """True if a token was ever created here, as of the last look at the ledger."""
        return self._any

    def any(self, *, surely: bool = False) -> bool:
        """Return True if a token was ever created here, also one that ended since.

        Until there is one, each question looks at the ledger's state: the first one, which another
        process may create, closes the server to others at once. A ledger in a database is looked at
        only where it must be known `surely`; elsewhere its followers learn of the token.
        """
        if not self._any and (surely or self._ledger.is_local):
            self.refresh()
        return self._any

    def all(self) -> tuple[Token, ...]:
        """Return all tokens, oldest first."""
        return tuple(self._tokens.values())

    def get(self, token_id: str) -> Token:
        """Return the token of an id. Raises TokenNotFound."""
        try:
            return self._tokens[token_id]
        except KeyError:
            raise TokenNotFound(token_id) from None

    def limits_of(self, token_id: str) -> Mapping[str, float]:
        token = self._tokens.get(token_id)
        return token.grant.limits if token else {}

    def verify(self, presented: str) -> Token:
        """Return the token that a caller presented. Raises Unauthenticated."""
        try:
            token_id, secret = domain.parse(presented)
        except ValueError as error:
            raise Unauthenticated(f"the token is not valid: {error}") from None
        token = self._tokens.get(token_id)
        if token is None:  # a new token counts at once
            # Whatever this returns: another thread may have read it since the look above.
            self.refresh()
            token = self._tokens.get(token_id)
        if token is None:
            token = Token("", Grant("", frozenset(), ()), 0, _NOBODY)
        if not token.fits(secret):
            raise Unauthenticated(
                "the token is not valid: this server has no such token, ask its operator for another"
            )
        # only to a caller that has the secret
        if reason := self.ended(token_id):
            ended = Unauthenticated(reason)
            ended.principal = Principal(token.id, token.grant.kind, space="")
            raise ended
        return token

    def ended(self, token_id: str) -> str:
        """Return a sentence that says why a token is not valid any more; empty if it is valid."""
        current = self._tokens.get(token_id)
        if current is None:
            return "the token is not valid any more: this server has no such token"
        match current.end(self._clock()):
            case "":
                return ""
            case "expired":
                when = to_text(current.grant.expires)
                return f"the token expired at {when}: ask the server's operator for another"
            case _:
                return "the token was revoked: ask the server's operator for another"

    def create(self, grant: Grant, replaces: str = "") -> tuple[Token, str]:
        """Create a token, durably; return it, and the text that its holder presents, which nobody
        can learn again. Raises InvalidField, StorageUnavailable.
        """
        grant.check()
        return self._create(grant, {"replaces": replaces} if replaces else {})

    def rotate(
        self,
        token_id: str,
        expires: int,
        overlap: int,
        *,
        keep_lifetime: bool = True,
        check: Callable[[Grant], None] = lambda _: None,
    ) -> tuple[Token, str]:
        """Create a token like another one, which ends after `overlap` milliseconds, or earlier if
        it was to end earlier. Until then both are valid.

        `expires` is the end of the new one; 0: as long after its beginning as that of the other, or
        never (also without `keep_lifetime`). `check` may refuse what the new one would allow.
        Raises TokenNotFound, InvalidField, StorageUnavailable.
        """
        old = self.get(token_id)
        now = self._clock()
        if reason := old.end(now):
            raise InvalidField.of("token_id", f"{token_id} is {reason}: create another one")
        if not expires and keep_lifetime and old.grant.expires:
            expires = now + old.grant.expires - old.created
        grant = replace(old.grant, expires=expires)
        check(grant)
        return self._create(grant, {"replaces": old.id, "replacedEnds": to_text(now + overlap)})

    def revoke(self, token_id: str) -> Token:
        """Revoke a token, durably. A second time changes nothing. Raises TokenNotFound,
        StorageUnavailable.
        """
        token = self.get(token_id)
        if not token.revoked:
            now = to_text(self._clock())
            self._ledger.append({"type": "token", "event": _REVOKED, "id": token_id, "time": now})
            self.refresh()
        return self.get(token_id)

    def refresh(self) -> bool:
        """Read the ledger again if it changed; return whether it had. A ledger that cannot be read
        leaves the tokens as they are.
        """
        with self._guard:
            try:
                if self._ledger.mark() == self._mark:
                    return False
                self._read()
            except StorageUnavailable as error:
                if self._failure != str(error):
                    log.warning("tokens_not_read", reason=str(error))
                self._failure = str(error)
                return False
            self._failure = ""
        return True

    def _create(self, grant: Grant, more: dict[str, Any]) -> tuple[Token, str]:
        token_id, secret = domain.new_id(), domain.new_secret()
        line: dict[str, Any] = {
            "type": "token",
            "event": _CREATED,
            "id": token_id,
            "time": to_text(self._clock()),
            "kind": grant.kind,
            "spaces": grant.spaces,
            "sha256": domain.digest_of(secret).hex(),
        }
        if grant.kind == CUSTOM:
            line["scopes"] = sorted(grant.scopes - {Scope.ANY})
        if grant.expires:
            line["expires"] = to_text(grant.expires)
        optional: dict[str, Any] = {
            "conversationId": grant.conversation_id,
            "channel": grant.channel,
            "note": grant.note,
            "limits": dict(grant.limits),
        }
        line |= {name: value for name, value in optional.items() if value}
        self._ledger.append(line | more)
        self.refresh()
        return self.get(token_id), domain.token_text(token_id, secret)

    def _read(self) -> None:
        # the mark first: what is written between the two is read again the next time
        mark = self._ledger.mark()
        lines = [fields_of(line) for line in self._ledger.raw()]
        tokens: dict[str, Token] = {}
        for number, line in enumerate(lines, 1):
            if line is None:
                # It may have been a revocation: what was valid before it is valid no more.
                log.error("damaged_line", ledger="tokens", line=number)
                tokens = {name: _distrusted(it) for name, it in tokens.items()}
                continue
            try:
                _apply(tokens, line)
            except (KeyError, TypeError, ValueError) as error:
                log.error("line_not_known", ledger="tokens", line=number, reason=str(error))
                if (token := tokens.get(str(line.get("id")))) is not None:
                    tokens[token.id] = _distrusted(token)
        self._mark, self._tokens = mark, tokens
        # A ledger that was emptied or removed while a server runs opens it to nobody.
        self._any = self._any or bool(lines)


def _distrusted(token: Token) -> Token:
    return replace(token, revoked=token.revoked or token.created)


def _apply(tokens: dict[str, Token], line: dict[str, Any]) -> None:
    """Apply one event. Raises KeyError, TypeError, ValueError for one that is not known."""
    token_id = _text(line, "id")
    match _text(line, "type"), _text(line, "event"):
        case "token", "created":
            token = _token_of(token_id, line)
            tokens[token_id] = token
            if token.replaces in tokens and "replacedEnds" in line:
                old = tokens[token.replaces]
                tokens[old.id] = old.ending_at(_moment(line, "replacedEnds"))
        case "token", "revoked":
            tokens[token_id] = replace(tokens[token_id], revoked=from_text(_text(line, "time")))
        case _, event:
            raise ValueError(f"{event} is no event of this version")


def _token_of(token_id: str, line: dict[str, Any]) -> Token:
    kind = _text(line, "kind")
    # of a newer version's scopes, those that this one has
    named = frozenset(map(Scope, set(_texts(line.get("scopes", ()))) & ALL_SCOPES)) | {Scope.ANY}
    limits = line.get("limits", {})
    if not isinstance(limits, dict) or any(type(it) not in (int, float) for it in limits.values()):
        raise TypeError("limits are not numbers")
    digest = bytes.fromhex(_text(line, "sha256"))
    if len(digest) != len(_NOBODY):
        raise ValueError("sha256 is not a SHA-256")
    grant = Grant(
        kind,
        KINDS.get(kind, named),
        _texts(line["spaces"]),
        _moment(line, "expires"),
        _text(line, "note", ""),
        _text(line, "conversationId", ""),
        _text(line, "channel", ""),
        limits,
    )
    created = from_text(_text(line, "time"))
    return Token(token_id, grant, created, digest, replaces=_text(line, "replaces", ""))


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a text, which is required unless there is a default. Raises KeyError, TypeError."""
    value = fields[name] if default is None else fields.get(name, default)
    if type(value) is not str:
        raise TypeError(f"{name} is not a text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    """Return a list of texts. Raises TypeError."""
    if any(type(value) is not str for value in values):
        raise TypeError("an entry of a list is not a text")
    return tuple(values)


def _moment(fields: dict[str, Any], name: str) -> int:
    """Return an optional time, 0 if it is missing. Raises TypeError, ValueError."""
    value = fields.get(name)
    return 0 if value is None else from_text(value)
