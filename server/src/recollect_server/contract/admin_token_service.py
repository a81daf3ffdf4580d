"""AccessService, which tells a caller what it may do, and AdminService's calls about tokens. The
commands of the machine's operator make the same calls, without a server (`run.administration`).
"""

from collections.abc import Collection

from recollect.v1 import access_service_pb2, admin_pb2, scope_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.access.principal import EVERY_SPACE, PermissionDenied, Principal, Scope
from recollect_server.access.token import Grant, Token, scopes_of
from recollect_server.access.token_uses import TokenUse, TokenUses
from recollect_server.access.tokens import Tokens
from recollect_server.contract.convert import (
    CursorSeal,
    optional_milliseconds,
    optional_timestamp,
    page_size,
    timestamp,
)
from recollect_server.contract.handling import Call
from recollect_server.kernel.domain.errors import InvalidField, TokenNotFound
from recollect_server.kernel.domain.filters import Page
from recollect_server.kernel.domain.time import DAY, Clock, to_text


class AccessHandlers:
    def WhoAmI(
        self, request: access_service_pb2.WhoAmIRequest, call: Call
    ) -> access_service_pb2.WhoAmIResponse:
        caller = call.principal
        return access_service_pb2.WhoAmIResponse(
            token_id=caller.token_id,
            kind=caller.kind,
            scopes=scope_numbers(caller.scopes),
            spaces=caller.spaces,
            space=caller.space,
            conversation_id=caller.conversation_id,
            channel=caller.channel,
            expire_time=optional_timestamp(caller.expires or None),
        )


def scope_numbers(scopes: Collection[Scope]) -> list["scope_pb2.Scope.ValueType"]:
    """Return scopes as the contract has them, in the order of the enum."""
    return [_NUMBERS[scope] for scope in Scope if scope in scopes]


_NUMBERS = {
    scope: scope_pb2.Scope.Value(f"SCOPE_{scope.replace('.', '_').upper()}") for scope in Scope
}
SCOPES = {number: scope for scope, number in _NUMBERS.items() if scope is not Scope.ANY}
"""Scopes that a token may name, by their numbers in the contract."""


_DOT = "\1"  # in a page token, whose parts are separated by dots


class TokenHandlers:
    def __init__(self, tokens: Tokens, uses: TokenUses, seal: CursorSeal, clock: Clock) -> None:
        self._tokens = tokens
        self._uses = uses
        self._seal = seal
        self._clock = clock

    def ListTokens(self, request: api.ListTokensRequest, call: Call) -> api.ListTokensResponse:
        now = self._clock()
        before = self._seal.place(request, request.page_token)
        self._tokens.refresh()
        # the order of the ledger: clocks may differ, or stand still
        tokens = self._tokens.all()
        end = len(tokens) if before is None else _place_of(tokens, *before)
        listed = [
            (number, token)
            for number, token in enumerate(tokens[:end])
            if _is_within_reach(call.principal, token)
            and (request.include_ended or not token.end(now))
        ][::-1]
        page = Page.of(listed, page_size(request.page_size), lambda it: (it[0], it[1].id))
        return api.ListTokensResponse(
            tokens=[_token_to(token, now) for _, token in page.entries],
            next_page_token=self._seal.page_token(request, page.end()),
        )

    def CreateToken(self, request: api.CreateTokenRequest, call: Call) -> api.CreateTokenResponse:
        scopes = [SCOPES[number].value for number in request.scopes]
        grant = Grant(
            request.kind,
            scopes_of(request.kind, tuple(scopes)),
            tuple(dict.fromkeys(request.spaces)) or (call.principal.space,),
            optional_milliseconds(request, "expire_time") or 0,
            request.note,
            request.conversation_id,
            request.channel,
            dict(request.limits),
        )
        grant.check()
        if 0 < grant.expires <= self._clock():
            raise InvalidField.of("expire_time", "is in the past")
        _check_grant(call.principal, grant, "CreateToken")
        token, secret = self._tokens.create(grant)
        return api.CreateTokenResponse(token=_token_to(token, self._clock()), secret=secret)

    def RevokeToken(self, request: api.RevokeTokenRequest, call: Call) -> api.RevokeTokenResponse:
        token = self._reached(call.principal, request.token_id)
        revoked = self._tokens.revoke(token.id)
        return api.RevokeTokenResponse(token=_token_to(revoked, self._clock()))

    def RotateToken(self, request: api.RotateTokenRequest, call: Call) -> api.RotateTokenResponse:
        overlap = request.overlap.ToMilliseconds() if request.HasField("overlap") else DAY
        old = self._reached(call.principal, request.token_id)
        expires = optional_milliseconds(request, "expire_time") or 0
        if 0 < expires <= self._clock():
            raise InvalidField.of("expire_time", "is in the past")
        token, secret = self._tokens.rotate(
            old.id,
            expires,
            overlap,
            check=lambda grant: _check_grant(call.principal, grant, "RotateToken"),
        )
        return api.RotateTokenResponse(
            token=_token_to(token, self._clock()),
            secret=secret,
            replaced=_token_to(self._tokens.get(old.id), self._clock()),
        )

    def ListTokenUses(
        self, request: api.ListTokenUsesRequest, call: Call
    ) -> api.ListTokenUsesResponse:
        after = self._seal.place(request, request.page_token)
        if after is not None:
            last = (-after[0], tuple(after[1].replace(_DOT, ".").split("\0")))
        token = self._reached(call.principal, request.token_id)
        start = optional_milliseconds(request, "start_time") or 0
        end = optional_milliseconds(request, "end_time") or self._clock() + 1
        uses = [
            it
            for it in self._uses.read(token.id, start, end)
            if after is None or (-it.day, it.group) > last
        ]
        page = Page.of(
            uses,
            page_size(request.page_size),
            lambda it: (it.day, "\0".join(it.group).replace(".", _DOT)),
        )
        return api.ListTokenUsesResponse(
            uses=map(_use_to, page.entries),
            next_page_token=self._seal.page_token(request, page.end()),
        )

    def _reached(self, principal: Principal, token_id: str) -> Token:
        """Return a token that the caller administers. Raises TokenNotFound."""
        self._tokens.refresh()
        token = self._tokens.get(token_id)
        if not _is_within_reach(principal, token):
            raise TokenNotFound(token_id)
        return token


def _check_grant(principal: Principal, grant: Grant, method: str) -> None:
    """Check that a caller grants no more than it has: else a token for administration alone could
    make itself one that reads, and one that ends soon one that does not. Raises PermissionDenied.
    """
    beyond: list[str] = []
    if more := sorted(grant.scopes - principal.scopes):
        beyond.append(f"the scopes {', '.join(more)}")
    spaces = [it for it in grant.spaces if not principal.is_for_every_space]
    if more_spaces := [it for it in spaces if it == EVERY_SPACE or not principal.is_for(it)]:
        beyond.append(f"the spaces {', '.join(more_spaces)}")
    if principal.channel and grant.channel != principal.channel:
        beyond.append("other channels")
    if principal.expires and not 0 < grant.expires <= principal.expires:
        beyond.append(f"a time after {to_text(principal.expires)}")
    if beyond:
        denied = PermissionDenied(
            f"AdminService/{method}",
            f"the new token would be for {' and '.join(beyond)}, and the caller's own is not",
        )
        denied.principal = principal
        raise denied


def _place_of(tokens: tuple[Token, ...], number: int, token_id: str) -> int:
    """Return where the last token of a page is now: a line that went bad meanwhile moves those
    behind it.
    """
    for place, token in enumerate(tokens):
        if token.id == token_id:
            return place
    return number


def _is_within_reach(principal: Principal, token: Token) -> bool:
    """Return whether a token is for no other spaces than its administrator."""
    return principal.is_for_every_space or all(
        space != EVERY_SPACE and principal.is_for(space) for space in token.grant.spaces
    )


def _use_to(use: TokenUse) -> admin_pb2.TokenUse:
    return admin_pb2.TokenUse(
        day=to_text(use.day * DAY)[:10],
        space=use.group.space,
        method=use.group.method,
        peer=use.group.peer,
        calls=use.count.admitted,
        refused_calls=use.count.refused,
        last_call_time=timestamp(use.count.last),
    )


def _token_to(token: Token, now: int) -> admin_pb2.Token:
    grant = token.grant
    return admin_pb2.Token(
        id=token.id,
        kind=grant.kind,
        scopes=scope_numbers(grant.scopes),
        spaces=grant.spaces,
        conversation_id=grant.conversation_id,
        channel=grant.channel,
        state=admin_pb2.TokenState.Value(f"TOKEN_STATE_{(token.end(now) or 'valid').upper()}"),
        create_time=timestamp(token.created),
        replaces=token.replaces,
        limits=grant.limits,
        note=grant.note,
        expire_time=optional_timestamp(grant.expires or None),
    )
