"""ExternalCommunicationService: check, call, convert, return."""

from functools import partial

from recollect.v1 import external_communication_service_pb2 as api

from recollect_server.domain.addresses import OWNERS_ALONE, normal_address
from recollect_server.domain.external import Trust
from recollect_server.domain.filters import CommunicationFilter, CommunicationSearch
from recollect_server.domain.live import Live
from recollect_server.services.external.external import External
from recollect_server.services.external.live import LiveCommunications
from recollect_server.transport.answers import Answers
from recollect_server.transport.checks import MAX_ADDRESS, Checks, Limits
from recollect_server.transport.checks_channel import check_declared
from recollect_server.transport.convert import optional_milliseconds
from recollect_server.transport.convert_external import (
    TRUSTS,
    communication_to,
    escalation_to,
    external_message_to,
    match_to,
)
from recollect_server.transport.handling import Call, Send, deadline_of
from recollect_server.transport.pages import Seal, page_size
from recollect_server.transport.streams import Streams

_MAX_SCOPES = 32
_MAX_QUERY = 64 * 1024
_USUAL_LIMIT, _MAX_LIMIT = 10, 100
_MAX_ANSWER = 16 * 1024
_NO_TRUST = "is required: TRUST_UNTRUSTED, TRUST_KNOWN or TRUST_BLOCKED"


class ExternalCommunicationHandlers:
    """The handlers of ExternalCommunicationService."""

    def __init__(
        self,
        external: External,
        live: LiveCommunications,
        streams: Streams,
        limits: Limits,
        answers: Answers,
        seal: Seal,
        timeout: Live[float],
    ) -> None:
        """`timeout` is how many seconds a search may take at most."""
        self._external = external
        self._live = live
        self._streams = streams
        self._limits = limits
        self._answers = answers
        self._seal = seal
        self._timeout = timeout

    def ListCommunications(
        self, request: api.ListCommunicationsRequest, call: Call
    ) -> api.ListCommunicationsResponse:
        """Return a page of communications."""
        checks = Checks()
        checks.not_negative("page_size", request.page_size)
        checks.text("party", request.party, most=MAX_ADDRESS)
        if request.trust and request.trust not in TRUSTS:
            checks.refuse("trust", "is not a trust of this version")
        checks.done()
        chosen = CommunicationFilter(
            request.party, TRUSTS.get(request.trust), request.open_escalations_only
        )
        page = self._external.page(
            chosen, page_size(request.page_size), self._seal.place(request, request.page_token)
        )
        fitting, more = self._answers.fitting(map(communication_to, page.communications))
        last = page.communications[len(fitting) - 1] if more else None
        following = (last.update_time, last.id) if last else page.next
        return api.ListCommunicationsResponse(
            communications=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def GetCommunication(
        self, request: api.GetCommunicationRequest, call: Call
    ) -> api.GetCommunicationResponse:
        """Return a communication with a page of its messages."""
        checks = Checks()
        checks.communication_id("communication_id", request.communication_id)
        checks.not_negative("page_size", request.page_size)
        checks.done()
        place = self._seal.place(request, request.page_token)
        with self._answers.room(call.context) as keep:
            size, most = page_size(request.page_size), self._answers.max_bytes
            page = self._external.history(request.communication_id, size, place, most)
            return keep(
                api.GetCommunicationResponse(
                    communication=communication_to(page.communication),
                    messages=[external_message_to(it) for it in page.messages],
                    next_page_token=self._seal.page_token(request, page.next),
                )
            )

    def SearchCommunications(
        self, request: api.SearchCommunicationsRequest, call: Call
    ) -> api.SearchCommunicationsResponse:
        """Return the messages that match a query best."""
        deadline = deadline_of(call.context, self._timeout.now)
        checks = Checks()
        checks.said("query", request.query, _MAX_QUERY)
        checks.not_negative("limit", request.limit)
        checks.text("party", request.party, most=MAX_ADDRESS)
        checks.label("channel", request.channel)
        if request.trust and request.trust not in TRUSTS:
            checks.refuse("trust", "is not a trust of this version")
        checks.span(request.date_range, "start", "end", "date_range.")
        checks.communication_id("communication_id", request.communication_id, required=False)
        checks.done()
        query = CommunicationSearch(
            request.query,
            (normal_address(request.channel, request.party) if request.channel else "")
            or request.party,
            request.channel,
            TRUSTS.get(request.trust),
            optional_milliseconds(request.date_range, "start"),
            optional_milliseconds(request.date_range, "end"),
            request.communication_id,
        )
        matches, total = self._external.search(
            query, min(request.limit or _USUAL_LIMIT, _MAX_LIMIT), deadline
        )
        return api.SearchCommunicationsResponse(matches=map(match_to, matches), total_matches=total)

    def RegisterContact(
        self, request: api.RegisterContactRequest, call: Call
    ) -> api.RegisterContactResponse:
        """Set the trust in a party that may not have written yet."""
        checks = Checks()
        checks.label("channel", request.channel, required=True)
        if request.channel in OWNERS_ALONE:
            checks.refuse("channel", f"is {request.channel}, on which nobody but the owner writes")
        checks.text("party", request.party, least=1, most=MAX_ADDRESS)
        party = normal_address(request.channel, request.party)
        if request.party and not party:
            checks.refuse("party", f"is no address on {request.channel}")
        if request.channel != "sms":  # there a sender may be a word
            check_declared(checks, "party", request.channel, party)
        trust, scopes = _trust_from(checks, request)
        communication = self._external.register(
            request.channel, party, trust, scopes, request.request_id
        )
        return api.RegisterContactResponse(communication=communication_to(communication))

    def SetTrust(self, request: api.SetTrustRequest, call: Call) -> api.SetTrustResponse:
        """Set the trust in a party."""
        checks = Checks()
        checks.communication_id("communication_id", request.communication_id)
        trust, scopes = _trust_from(checks, request)
        communication = self._external.set_trust(
            request.communication_id, trust, scopes, request.request_id
        )
        return api.SetTrustResponse(communication=communication_to(communication))

    def RecordReply(self, request: api.RecordReplyRequest, call: Call) -> api.RecordReplyResponse:
        """Record a reply."""
        checks = Checks()
        checks.communication_id("communication_id", request.communication_id)
        checks.said("text", request.text, self._limits.message_bytes)
        if request.scope:
            checks.kebab("scope", request.scope)
        checks.request_id(request.request_id)
        checks.done()
        communication, reply = self._external.record_reply(
            request.communication_id, request.text, request.scope, request.request_id
        )
        return api.RecordReplyResponse(
            communication=communication_to(communication), message=external_message_to(reply)
        )

    def ListEscalations(
        self, request: api.ListEscalationsRequest, call: Call
    ) -> api.ListEscalationsResponse:
        """Return a page of escalations."""
        checks = Checks()
        checks.not_negative("page_size", request.page_size)
        checks.communication_id("communication_id", request.communication_id, required=False)
        checks.done()
        place = self._seal.place(request, request.page_token)
        size = page_size(request.page_size)
        page = self._external.escalations(
            request.communication_id, size, place, resolved=request.include_resolved
        )
        fitting, more = self._answers.fitting(map(escalation_to, page.escalations))
        last = page.escalations[len(fitting) - 1] if more else None
        following = (last.create_time, last.id) if last else page.next
        return api.ListEscalationsResponse(
            escalations=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def ResolveEscalation(
        self, request: api.ResolveEscalationRequest, call: Call
    ) -> api.ResolveEscalationResponse:
        """Record the owner's answer."""
        checks = Checks()
        checks.escalation_id("escalation_id", request.escalation_id)
        checks.said("answer", request.answer, _MAX_ANSWER)
        checks.request_id(request.request_id)
        checks.done()
        escalation = self._external.resolve_escalation(
            request.escalation_id, request.answer, request.request_id
        )
        return api.ResolveEscalationResponse(escalation=escalation_to(escalation))

    def StreamCommunicationUpdates(
        self,
        request: api.StreamCommunicationUpdatesRequest,
        call: Call,
        send: Send,
    ) -> None:
        """Open a stream of communication updates."""
        subscribe = partial(self._live.subscribe, self._seal.position(request.cursor))
        self._streams.open(self._live, subscribe, 1, call, send, resumed=bool(request.cursor))


def _trust_from(
    checks: Checks, request: api.SetTrustRequest | api.RegisterContactRequest
) -> tuple[Trust, tuple[str, ...]]:
    """Check how far a party is to be trusted, and return it. Raises InvalidField for all that is
    wrong with the request.
    """
    trust = TRUSTS.get(request.trust)
    if trust is None:
        checks.refuse("trust", "is not a trust of this version" if request.trust else _NO_TRUST)
    checks.topics("scopes", request.scopes, most=_MAX_SCOPES)
    if request.scopes and trust is not Trust.KNOWN:
        checks.refuse("scopes", "go with TRUST_KNOWN alone")
    checks.request_id(request.request_id)
    checks.done()
    assert trust is not None
    return trust, tuple(dict.fromkeys(request.scopes))
