"""The calls of ExternalCommunicationService."""

from collections.abc import Iterable

from recollect._shared import read_external as read
from recollect._shared.calls import parts
from recollect._shared.fill import fill, invalid
from recollect._shared.rpc import Call, Method
from recollect._shared.watching import Element
from recollect._types.external import (
    CommunicationPage,
    CommunicationSearch,
    CommunicationUpdate,
    Escalation,
    EscalationPage,
    ExternalCommunication,
    LoadedCommunication,
    RecordedReply,
    Trust,
)
from recollect._types.recall import DateRange
from recollect.v1 import external_communication_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["ExternalCommunicationService"]
_LIST = Method(
    _SERVICE, "ListCommunications", pb.ListCommunicationsRequest, pb.ListCommunicationsResponse
)
_GET = Method(_SERVICE, "GetCommunication", pb.GetCommunicationRequest, pb.GetCommunicationResponse)
_SEARCH = Method(
    _SERVICE,
    "SearchCommunications",
    pb.SearchCommunicationsRequest,
    pb.SearchCommunicationsResponse,
)
_REGISTER = Method(
    _SERVICE, "RegisterContact", pb.RegisterContactRequest, pb.RegisterContactResponse
)
_SET_TRUST = Method(_SERVICE, "SetTrust", pb.SetTrustRequest, pb.SetTrustResponse)
_RECORD_REPLY = Method(_SERVICE, "RecordReply", pb.RecordReplyRequest, pb.RecordReplyResponse)
_LIST_ESCALATIONS = Method(
    _SERVICE, "ListEscalations", pb.ListEscalationsRequest, pb.ListEscalationsResponse
)
_RESOLVE_ESCALATION = Method(
    _SERVICE, "ResolveEscalation", pb.ResolveEscalationRequest, pb.ResolveEscalationResponse
)
_STREAM = Method(
    _SERVICE,
    "StreamCommunicationUpdates",
    pb.StreamCommunicationUpdatesRequest,
    pb.StreamCommunicationUpdatesResponse,
)

_TRUST_NUMBERS = {trust: number for number, trust in read.TRUSTS.items()}

CommunicationsCall = Call[
    pb.ListCommunicationsRequest, pb.ListCommunicationsResponse, CommunicationPage
]
EscalationsCall = Call[pb.ListEscalationsRequest, pb.ListEscalationsResponse, EscalationPage]
WatchCall = Call[
    pb.StreamCommunicationUpdatesRequest,
    pb.StreamCommunicationUpdatesResponse,
    Element[CommunicationUpdate],
]


def list_communications(
    page_size: int | None,
    page_token: str | None,
    party: str | None,
    trust: Trust | None,
    open_escalations_only: bool,
) -> CommunicationsCall:
    """Return the call of ListCommunications for one page."""
    request = fill(
        pb.ListCommunicationsRequest(),
        page_size=page_size,
        page_token=page_token,
        party=party,
        trust=None if trust is None else _trust(trust),
        open_escalations_only=open_escalations_only,
    )
    return Call(_LIST, request, read.communication_page)


def get_communication(
    communication_id: str, page_size: int | None, page_token: str | None
) -> Call[pb.GetCommunicationRequest, pb.GetCommunicationResponse, LoadedCommunication]:
    """Return the call of GetCommunication."""
    request = fill(
        pb.GetCommunicationRequest(),
        communication_id=communication_id,
        page_size=page_size,
        page_token=page_token,
    )
    return Call(_GET, request, read.loaded_communication)


def search_communications(
    query: str,
    limit: int | None,
    party: str | None,
    channel: str | None,
    trust: Trust | None,
    date_range: DateRange | None,
    communication_id: str | None,
) -> Call[pb.SearchCommunicationsRequest, pb.SearchCommunicationsResponse, CommunicationSearch]:
    """Return the call of SearchCommunications."""
    request = fill(
        pb.SearchCommunicationsRequest(),
        query=query,
        limit=limit,
        party=party,
        channel=channel,
        trust=None if trust is None else _trust(trust),
        date_range=parts.date_range(date_range),
        communication_id=communication_id,
    )
    return Call(_SEARCH, request, read.search)


def register_contact(
    channel: str, party: str, trust: Trust, scopes: Iterable[str] | None, request_id: str | None
) -> Call[pb.RegisterContactRequest, pb.RegisterContactResponse, ExternalCommunication]:
    """Return the call of RegisterContact."""
    request = fill(
        pb.RegisterContactRequest(),
        channel=channel,
        party=party,
        trust=_trust(trust),
        scopes=scopes,
        request_id=parts.request_id(request_id),
    )
    return Call(_REGISTER, request, lambda response: read.communication(response.communication))


def set_trust(
    communication_id: str, trust: Trust, scopes: Iterable[str] | None, request_id: str | None
) -> Call[pb.SetTrustRequest, pb.SetTrustResponse, ExternalCommunication]:
    """Return the call of SetTrust."""
    request = fill(
        pb.SetTrustRequest(),
        communication_id=communication_id,
        trust=_trust(trust),
        scopes=scopes,
        request_id=parts.request_id(request_id),
    )
    return Call(_SET_TRUST, request, lambda response: read.communication(response.communication))


def record_reply(
    communication_id: str, text: str, scope: str | None, request_id: str | None
) -> Call[pb.RecordReplyRequest, pb.RecordReplyResponse, RecordedReply]:
    """Return the call of RecordReply."""
    request = fill(
        pb.RecordReplyRequest(),
        communication_id=communication_id,
        text=text,
        scope=scope,
        request_id=parts.request_id(request_id),
    )
    return Call(_RECORD_REPLY, request, read.recorded_reply)


def list_escalations(
    page_size: int | None,
    page_token: str | None,
    communication_id: str | None,
    include_resolved: bool,
) -> EscalationsCall:
    """Return the call of ListEscalations for one page."""
    request = fill(
        pb.ListEscalationsRequest(),
        page_size=page_size,
        page_token=page_token,
        communication_id=communication_id,
        include_resolved=include_resolved,
    )
    return Call(_LIST_ESCALATIONS, request, read.escalation_page)


def resolve_escalation(
    escalation_id: str, answer: str, request_id: str | None
) -> Call[pb.ResolveEscalationRequest, pb.ResolveEscalationResponse, Escalation]:
    """Return the call of ResolveEscalation."""
    request = fill(
        pb.ResolveEscalationRequest(),
        escalation_id=escalation_id,
        answer=answer,
        request_id=parts.request_id(request_id),
    )
    return Call(_RESOLVE_ESCALATION, request, lambda response: read.escalation(response.escalation))


def watch(cursor: str | None) -> WatchCall:
    """Return the call of StreamCommunicationUpdates for the first connection of a watch."""
    return Call(_STREAM, fill(pb.StreamCommunicationUpdatesRequest(), cursor=cursor), read.updates)


def _trust(it: Trust) -> int:
    if it not in _TRUST_NUMBERS:
        raise invalid("trust", f"must be one of {', '.join(_TRUST_NUMBERS)}, not {it!r}")
    return _TRUST_NUMBERS[it]
