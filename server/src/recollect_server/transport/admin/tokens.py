"""AdminService: the tokens."""

from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.domain.principal import EVERY_SPACE, Principal
from recollect_server.domain.time import Clock
from recollect_server.domain.tokens import Token
from recollect_server.services.tokens import Tokens
from recollect_server.transport.access_service import scope_numbers
from recollect_server.transport.checks import Checks
from recollect_server.transport.convert import timestamp
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import Seal, page_size


class TokenHandlers:
    """The handlers of the calls about tokens."""

    def __init__(self, tokens: Tokens, seal: Seal, clock: Clock) -> None:
        self._tokens = tokens
        self._seal = seal
        self._clock = clock

    def ListTokens(self, request: api.ListTokensRequest, call: Call) -> api.ListTokensResponse:
        """Return a page of tokens."""
        checks = Checks()
        checks.not_negative("page_size", request.page_size)
        checks.done()
        size, now = page_size(request.page_size), self._clock()
        before = self._seal.place(request, request.page_token)
        self._tokens.refresh()
        tokens = sorted(
            (
                token
                for token in self._tokens.all()
                if is_within_reach(call.principal, token)
                and (request.include_ended or not token.end(now))
                and (before is None or (token.created, token.id) < before)
            ),
            key=lambda token: (token.created, token.id),
            reverse=True,
        )
        last = tokens[size - 1] if len(tokens) > size else None
        return api.ListTokensResponse(
            tokens=[token_to(token, now) for token in tokens[:size]],
            next_page_token=self._seal.page_token(
                request, (last.created, last.id) if last else None
            ),
        )


def is_within_reach(principal: Principal, token: Token) -> bool:
    """Return whether a token is for no other spaces than its administrator."""
    return principal.is_for_every_space or all(
        space != EVERY_SPACE and principal.is_for(space) for space in token.grant.spaces
    )


def token_to(token: Token, now: int) -> admin_pb2.Token:
    """Return a token as the contract has it."""
    grant = token.grant
    answer = admin_pb2.Token(
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
    )
    if grant.expires:
        answer.expire_time.CopyFrom(timestamp(grant.expires))
    return answer
