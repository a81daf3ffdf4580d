"""The gate that every call passes: who calls, whether the caller may, and which space the call is
about.

A call brings its token in the metadata `authorization: Bearer rcl_…`, and may name a space in
`recollect-space`. Health checks pass by the gate; everything else needs a token once the data
folder has one, or always (setting `auth`). Nothing here holds a token: an error names what is wrong
with it and no part of it.

A token can also confine its caller: one for one conversation names no other, one of a channel
speaks from there, and one for certain spaces does not deal with the whole server. All that is
decided by the request alone, before its handler runs. A token for one conversation may make the
calls of `OWN` and no others, whatever its scopes: all that they name is that conversation, and
where they name none (`List`, `StreamUpdates`) it is filled in.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor
from recollect.v1 import scope_pb2

from recollect_server.access.limits import Buckets, Rate
from recollect_server.access.principal import (
    EVERY_SPACE,
    PermissionDenied,
    Principal,
    Scope,
    Unauthenticated,
)
from recollect_server.access.token import Grant, Token
from recollect_server.access.token_uses import TokenUses
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.errors import InvalidField, LimitExceeded
from recollect_server.kernel.domain.ids import SPACE_RULE, is_space_name

log = structlog.get_logger("recollect.gate")

SPACE_KEY = "recollect-space"
"""Metadata that names the space of a call."""
TOKEN_KEY = "authorization"  # noqa: S105 - a key of metadata
"""Metadata that has the token of a call."""
METRICS = "GET /metrics"
"""Method in the use of tokens of a reader of metrics."""

Ended = Callable[[Principal], str]
"""Returns why a caller that was admitted would not be any more; empty if it would be."""
EndStreams = Callable[[Ended], None]
"""Ends the open streams of callers that would not be admitted any more."""

_MAX_PRINCIPALS = 4096  # callers, by space and connection, that are kept between their calls
_CONTRACT = "recollect.v1"
_BEARER = re.compile(r"bearer +(\S+)", re.ASCII | re.IGNORECASE)
_ANONYMOUS = (
    "the call brings no token, and this server needs one: send it as the metadata "
    "`authorization: Bearer rcl_…`; `recollect-server token create` makes one"
)
_LOOK_SECONDS = 0.25  # between two looks at the ledger and the open streams
_QUIET_SECONDS = 5.0  # without a call and a stream, after which a call looks at the ledger itself


class Gate:
    """Admits calls. Safe to call from any thread."""

    def __init__(
        self,
        default_space: str,
        tokens: Tokens,
        uses: TokenUses | None = None,
        *,
        token_required: bool = False,
    ) -> None:
        """`default_space` is that of calls that name none. `token_required` False: calls need a
        token once there is one. `uses` counts the readers of metrics.
        """
        self._default_space = default_space
        self._tokens = tokens
        self._uses = uses
        self._token_required = token_required
        self._refusals = Refusals()
        self._needed: dict[str, frozenset[Scope]] = {}
        self._principals: dict[tuple[str, str, str], tuple[Token | None, Principal]] = {}
        """Callers by token, space and connection, with the token as it was read."""
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._counting = threading.Lock()  # guards `_streams`
        self._streams = 0
        """Streams that were admitted and have not ended: while there is one, nobody rests. Many are
        not open yet, as one of a space that is being read.
        """
        self._resuming = threading.Lock()
        self._rests = False
        """Nobody follows the ledger until the next call."""
        self._called = time.monotonic()
        self._follower: threading.Thread | None = None

    def admit(self, method: MethodDescriptor, context: grpc.ServicerContext) -> Principal:
        """Return the caller of a call of this method.

        Raises Unauthenticated, PermissionDenied, InvalidField of the metadata, and LimitExceeded
        for a peer whose tokens were refused too often.
        """
        authorizations: list[str | bytes] = []
        spaces: list[str | bytes] = []
        for key, value in context.invocation_metadata() or ():
            if key == TOKEN_KEY:
                authorizations.append(value)
            elif key == SPACE_KEY:
                spaces.append(value)
        if method.server_streaming:
            self._count_stream(context)
        self._called = time.monotonic()
        if self._rests:
            self._resume()
        peer = context.peer()
        name = method.full_name
        if (scopes := self._needed.get(name)) is None:
            scopes = self._needed[name] = scopes_of(method)
        if not (self._token_required or self._tokens.any(surely=Scope.ADMIN in scopes)):
            if not scopes:
                raise PermissionDenied(_name(method), "nobody may call it")
            space = _named(spaces) if spaces else self._default_space
            return self._principal(None, space, peer)
        token = self._authenticate(authorizations, peer)
        grant = token.grant
        if not (scopes and scopes <= grant.scopes):
            scope = min(scopes - grant.scopes) if scopes else ""
            raise _denied(
                token,
                method,
                f"a {grant.kind} token lacks the scope {scope}" if scope else "nobody may call it",
                scope,
            )
        space = _named(spaces) if spaces else ""
        if space and not grant.allows(space):
            raise _denied(token, method, f"the token is not for the space {space}")
        return self._principal(token, space or self._space_of(grant), peer)

    def _space_of(self, grant: Grant) -> str:
        """Return the space of a token's calls that name none."""
        return self._default_space if grant.spaces[0] == EVERY_SPACE else grant.spaces[0]

    def _principal(self, token: Token | None, space: str, peer: str) -> Principal:
        """Return the caller who presented a token, or none: to make one costs more than to find it
        again.
        """
        key = (token.id if token else "", space, peer)
        entry = self._principals.get(key)
        if entry is not None and entry[0] is token:
            return entry[1]
        if token is None:
            principal = Principal(space=space, peer=peer)
        else:
            grant = token.grant
            principal = Principal(
                token.id,
                grant.kind,
                grant.scopes,
                space,
                grant.conversation_id,
                grant.channel,
                peer,
                grant.spaces,
                grant.expires,
            )
        if len(self._principals) >= _MAX_PRINCIPALS:
            self._principals.clear()
        self._principals[key] = token, principal
        return principal

    def refusal(self, authorization: str, peer: str) -> str:
        """Return why a caller may not read about the server as a whole, by its token; empty if it
        may.
        """
        self._called = time.monotonic()
        if self._rests:
            self._resume()
        try:
            token = self._authenticate([authorization] if authorization else [], peer)
        except (Unauthenticated, LimitExceeded) as error:
            return str(error)
        is_refused = EVERY_SPACE not in token.grant.spaces
        if self._uses is not None:
            caller = Principal(token.id, token.grant.kind, space="", peer=peer)
            self._uses.count(caller, METRICS, is_refused=is_refused)
        if is_refused:
            return "the token is not for every space: make one with --kind monitor --space '*'"
        return ""

    def caller_of(
        self, metadata: Iterable[tuple[str, str | bytes]], peer: Callable[[], str]
    ) -> tuple[str, str] | None:
        """Return what tells a caller from others before a call is admitted, and its space: the id
        of its token, or its connection where no token is needed; None for one that has no valid
        token. The space is empty where the call will be refused for what it names.
        """
        values = dict(metadata or ())
        named = values.get(SPACE_KEY, self._default_space)
        space = named if isinstance(named, str) and is_space_name(named) else ""
        if not (self._token_required or self._tokens.has_any):
            return peer(), space
        presented = values.get(TOKEN_KEY)
        match = _BEARER.fullmatch(presented) if isinstance(presented, str) else None
        try:
            token = self._tokens.verify(match[1]) if match else None
        except Unauthenticated:
            return None
        if token is None:
            return None
        if SPACE_KEY not in values:
            space = self._space_of(token.grant)
        return token.id, space if token.grant.allows(space) else ""

    def ended(self, principal: Principal) -> str:
        """Return why a caller that was admitted would not be any more; empty if it would be."""
        if principal.token_id:
            return self._tokens.ended(principal.token_id)
        return _ANONYMOUS if self._token_required or self._tokens.any() else ""

    def follow(self, *end_streams: EndStreams) -> None:
        """Follow the ledger of tokens from now on, and end the streams of callers whose token
        ended. Call it once.
        """

        def look() -> None:
            while not self._stopping.wait(_LOOK_SECONDS):
                try:
                    self._tokens.refresh()
                    for end in end_streams:
                        end(self.ended)
                except Exception:  # revocations must not stop counting, whatever one look raises
                    log.exception("tokens_not_followed")
                else:
                    if not self._streams and self._is_quiet():
                        self._rest()

        self._follower = threading.Thread(target=look, name="tokens", daemon=True)
        self._follower.start()

    def stop(self) -> None:
        """Follow the ledger no more."""
        self._stopping.set()
        self._awake.set()
        if self._follower is not None:
            self._follower.join()

    def _count_stream(self, context: grpc.ServicerContext) -> None:
        """Count a stream until it ends, before its call is noted: who rests looks the other way
        round.
        """
        with self._counting:
            self._streams += 1
        if not context.add_callback(self._forget_stream):
            self._forget_stream()

    def _forget_stream(self) -> None:
        with self._counting:
            self._streams -= 1

    def _is_quiet(self) -> bool:
        return time.monotonic() - self._called > _QUIET_SECONDS

    def _rest(self) -> None:
        """Look no more until the next call, which looks before it is admitted."""
        self._awake.clear()
        self._rests = True
        # A call either sees that, or is seen here.
        if not self._is_quiet() or self._stopping.is_set():
            self._rests = False
            return
        self._awake.wait()

    def _resume(self) -> None:
        """Look at the ledger before the first call after a rest, and follow it again."""
        with self._resuming:
            if self._rests:
                self._tokens.refresh()
                self._rests = False
                self._awake.set()

    def _authenticate(self, authorizations: list[str | bytes], peer: str) -> Token:
        if not authorizations:
            raise Unauthenticated(_ANONYMOUS)
        try:
            if len(authorizations) > 1:
                raise Unauthenticated(f"the call brings {len(authorizations)} tokens: send one")
            (value,) = authorizations
            match = _BEARER.fullmatch(value) if isinstance(value, str) else None
            if match is None:
                raise Unauthenticated("`authorization` is not `Bearer` and a token")
            return self._tokens.verify(match[1])
        except Unauthenticated:
            self._refusals.count(peer)
            raise


def _named(names: list[str | bytes]) -> str:
    """Return the space that a call names. Raises InvalidField."""
    if len(names) > 1:
        raise InvalidField.of(SPACE_KEY, f"is set {len(names)} times: set this metadata once")
    (name,) = names
    if not isinstance(name, str) or not is_space_name(name):
        raise InvalidField.of(
            SPACE_KEY,
            f"is not the name of a space: {SPACE_RULE}",
        )
    return name


def scopes_of(method: MethodDescriptor) -> frozenset[Scope]:
    """Return the scopes that a method needs: those that the contract names. A method of another
    contract (reflection) needs any token; one of ours that names none has none.
    """
    if method.containing_service.file.package != _CONTRACT:
        return frozenset({Scope.ANY})
    named = method.GetOptions().Extensions[scope_pb2.scope]
    return frozenset(
        Scope(scope_pb2.Scope.Name(it).removeprefix("SCOPE_").lower().replace("_", "."))
        for it in named
    )


class Refusals:
    """Slows peers that present wrong tokens. Safe to call from any thread.

    A connection may present ten wrong tokens at once, and one more every two seconds; all
    connections of a host together a hundred, and one more every second. Beyond that they learn of a
    wrong token only that they have to wait. A valid token is admitted whatever else its address
    sends, so that a stranger behind the same proxy shuts nobody out; to find one of 256 random bits
    no rate suffices. On a Unix socket, to which only the owner of the data may connect, nobody is
    slowed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` answers the time now in seconds."""
        self._clock = clock
        self._connections = Buckets(Rate.of(0.5, 1000, 10))
        self._hosts = Buckets(Rate.of(1, 1000, 100))

    def count(self, peer: str) -> None:
        """Count a wrong token. Raises LimitExceeded if the peer has to wait before the next one."""
        if not (host := _host_of(peer)):
            return
        now = round(1000 * self._clock())
        # what a connection presents too fast is not charged to others of its host
        if wait := self._connections.take(peer, now) or self._hosts.take(host, now):
            raise LimitExceeded("refused_tokens", "peer", wait)


def _host_of(peer: str) -> str:
    """Return the host of a peer as `ipv4:127.0.0.1:50000`; empty for one without a port."""
    return "" if peer.startswith("unix:") else peer.rpartition(":")[0]


def _denied(
    token: Token, method: MethodDescriptor, reason: str, scope: str = ""
) -> PermissionDenied:
    error = PermissionDenied(_name(method), reason, scope)
    error.principal = Principal(token.id, token.grant.kind, space="")
    return error


def _name(method: MethodDescriptor) -> str:
    return f"{method.containing_service.name}/{method.name}"


OWN: dict[str, tuple[str, ...]] = {
    "ConversationService/Create": ("conversation_id",),
    "ConversationService/Get": ("conversation_id",),
    "ConversationService/List": (),
    "ConversationService/Load": ("conversation_id",),
    "ConversationService/AppendTurn": ("conversation_id",),
    "ConversationService/StreamUpdates": ("conversation_ids", "load_conversation_id"),
    "ConversationService/PublishDelta": ("conversation_id",),
    "ConversationService/Switch": ("from_conversation_id", "to_conversation_id"),
    "ConversationService/Rename": ("conversation_id",),
    "ConversationService/SetModel": ("conversation_id",),
    "ConversationService/SetTopics": ("conversation_id",),
    "ConversationService/Archive": ("conversation_id",),
    "ConversationService/UpdateMetadata": ("conversation_id",),
    "ConversationService/RecordCompression": ("conversation_id",),
    "ConversationService/RecordAbbreviation": ("conversation_id",),
    "ConversationService/SetTurnMemory": ("conversation_id",),
    "ConversationService/ListTurnMemory": ("conversation_id",),
    "ConversationService/RegenerateNotes": ("conversation_id",),
    "ConversationService/Delete": ("conversation_id",),
    "AccessService/WhoAmI": (),
}
"""Calls that a token for one conversation may make, and their fields that name conversations."""

_FILLED_IN = {
    "ConversationService/Load": "conversation_id",
    "ConversationService/StreamUpdates": "conversation_ids",
}
"""Calls that mean any conversation where this field is unset."""
_WHOLE = ("AdminService/ListSettings", "AdminService/SetSetting")
"""Calls about the whole server."""
_MAY_BE_UNSET = ("from_conversation_id", "to_conversation_id", "load_conversation_id")


def confine(method: MethodDescriptor, request: Any, principal: Principal) -> None:
    """Refuse a request that goes beyond the conversation, the channel or the spaces of its caller,
    and fill in what the caller means by naming none. Raises PermissionDenied.
    """
    name = f"{method.containing_service.name}/{method.name}"
    if principal.conversation_id:
        _to_conversation(name, request, principal.conversation_id)
    if principal.channel:
        _to_channel(name, request, principal.channel)
    is_new = name == "AdminService/CreateSpace" and not principal.is_for(request.name)
    if (name in _WHOLE and not principal.is_for_every_space) or is_new:
        raise PermissionDenied(
            name,
            "it is about the whole server, and the token is for certain spaces: use an admin token"
            " for every space (recollect-server token create --kind admin --space '*')",
        )


def _to_conversation(name: str, request: Any, own: str) -> None:
    if name not in OWN:
        raise PermissionDenied(name, "the token is for one conversation")
    for field in OWN[name]:
        value = getattr(request, field)
        if field == _FILLED_IN.get(name) and not value:
            if isinstance(value, str):
                setattr(request, field, own)
            else:
                value.append(own)
            continue
        named = [value] if isinstance(value, str) else value
        if any(it != own for it in named) and not (field in _MAY_BE_UNSET and not value):
            raise PermissionDenied(
                name, f"the token is for one conversation, and {field} is not it"
            )
    if name == "ConversationService/Create" and request.pinned:
        raise PermissionDenied(
            name, "the token is for one conversation, and pinning takes another one's place"
        )


def _to_channel(name: str, request: Any, own: str) -> None:
    match name:
        case "ConversationService/AppendTurn":
            # from its own channel, whatever it says: into a conversation that is pinned on another
            # one it is refused
            for message in request.messages:
                message.channel = own
        case "ConversationService/Create" | "ChannelService/Receive" if request.channel != own:
            raise PermissionDenied(name, f"the token speaks from {own}, and channel is not it")
        case "ConversationService/Create":
            for message in request.messages:
                message.ClearField("channel")  # the conversation's own
