"""ExternalCommunicationService: third parties: their communications, trust and escalations."""

from recollect.v1 import external_communication_pb2
from recollect.v1 import external_communication_service_pb2 as api

from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import (
    DIRECTIONS,
    TRUSTS,
    CursorSeal,
    communication_to,
    escalation_to,
    external_message_to,
    optional_milliseconds,
    page_size,
    removed_from,
    snippet_fields,
    timestamp,
)
from recollect_server.contract.handling import Call, Send, deadline_of
from recollect_server.contract.streams import Streams
from recollect_server.kernel.domain.ids import MAX_LINES
from recollect_server.kernel.domain.live import Live
from recollect_server.people.communication import CommunicationFilter, CommunicationSearch
from recollect_server.people.communication_service import External, Match
from recollect_server.people.communication_stream import LiveCommunications
from recollect_server.people.identities import Identities
from recollect_server.text.addresses import normal_address

_USUAL_LIMIT, _MAX_LIMIT = 10, 100
_USUAL_DELETED, _MAX_DELETED = 100, 1000


class ExternalCommunicationHandlers:
    def __init__(
        self,
        external: External,
        live: LiveCommunications,
        identities: Identities,
        streams: Streams,
        answers: Answers,
        seal: CursorSeal,
        timeout: Live[float],
    ) -> None:
        """`timeout` is how many seconds a search may take at most."""
        self._external = external
        self._live = live
        self._identities = identities
        self._streams = streams
        self._answers = answers
        self._seal = seal
        self._timeout = timeout

    def ListCommunications(
        self, request: api.ListCommunicationsRequest, call: Call
    ) -> api.ListCommunicationsResponse:
        parties = (request.party,) if request.party else ()
        chosen = CommunicationFilter(
            TRUSTS.get(request.trust),
            request.open_escalations_only,
            parties=parties,
            identities=self._addresses(parties),
        )
        page = self._external.page(
            chosen, page_size(request.page_size), self._seal.place(request, request.page_token)
        )
        fitting, following = self._answers.fitting_page(page, communication_to)
        return api.ListCommunicationsResponse(
            communications=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def _addresses(
        self, parties: tuple[str, ...], channels: tuple[str, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Return the channels and addresses of the parties that a caller names; of none without
        one.
        """
        if not parties:
            return ()
        return self._identities.addresses_of(parties, channels or self._external.channels())

    def GetCommunication(
        self, request: api.GetCommunicationRequest, call: Call
    ) -> api.GetCommunicationResponse:
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
        deadline = deadline_of(call.context, self._timeout.now)
        query = CommunicationSearch(
            request.query,
            self._addresses((request.party,)) if request.party else None,
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
        party = normal_address(request.channel, request.party)
        communication = self._external.register(
            request.channel,
            party,
            TRUSTS[request.trust],
            tuple(dict.fromkeys(request.scopes)),
            request.request_id,
        )
        return api.RegisterContactResponse(communication=communication_to(communication))

    def SetTrust(self, request: api.SetTrustRequest, call: Call) -> api.SetTrustResponse:
        communication = self._external.set_trust(
            request.communication_id,
            TRUSTS[request.trust],
            tuple(dict.fromkeys(request.scopes)),
            request.request_id,
        )
        return api.SetTrustResponse(communication=communication_to(communication))

    def RecordReply(self, request: api.RecordReplyRequest, call: Call) -> api.RecordReplyResponse:
        communication, reply = self._external.record_reply(
            request.communication_id, request.text, request.scope, request.request_id
        )
        return api.RecordReplyResponse(
            communication=communication_to(communication), message=external_message_to(reply)
        )

    def DeleteCommunications(
        self, request: api.DeleteCommunicationsRequest, call: Call
    ) -> api.DeleteCommunicationsResponse:
        parties, channels = tuple(request.parties), tuple(request.channels)
        receipt = self._external.delete_many(
            CommunicationFilter(
                ids=tuple(request.communication_ids),
                channels=channels,
                parties=parties,
                identities=self._addresses(parties, channels),
            ),
            min(request.limit or _USUAL_DELETED, _MAX_DELETED),
            request.request_id,
            dry_run=request.dry_run,
            deleting=call.record,
        )
        return api.DeleteCommunicationsResponse(
            communication_ids=receipt.conversations,
            removed=removed_from(receipt.removed),
            has_more=receipt.has_more,
            delete_time=timestamp(receipt.time),
            failure=receipt.failure,
        )

    def RedactExternalMessage(
        self, request: api.RedactExternalMessageRequest, call: Call
    ) -> api.RedactExternalMessageResponse:
        done = self._external.redact(
            request.communication_id,
            min(request.sequence, MAX_LINES + 1),
            call.principal.token_id,
            request.request_id,
        )
        return api.RedactExternalMessageResponse(
            communication=communication_to(done.communication),
            message=external_message_to(done.message),
            escalation=escalation_to(done.escalation) if done.escalation else None,
            redact_time=timestamp(done.time),
            duplicate=done.duplicate,
        )

    def ListEscalations(
        self, request: api.ListEscalationsRequest, call: Call
    ) -> api.ListEscalationsResponse:
        place = self._seal.place(request, request.page_token)
        size = page_size(request.page_size)
        page = self._external.escalations(
            request.communication_id, size, place, resolved=request.include_resolved
        )
        fitting, following = self._answers.fitting_page(page, escalation_to)
        return api.ListEscalationsResponse(
            escalations=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def ResolveEscalation(
        self, request: api.ResolveEscalationRequest, call: Call
    ) -> api.ResolveEscalationResponse:
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
        cursor = self._seal.position(request.cursor)
        self._streams.open(self._live, LiveCommunications.subscribe, cursor, 1, call, send)


def match_to(match: Match) -> external_communication_pb2.CommunicationMatch:
    """Return a search hit as a message of the contract."""
    return external_communication_pb2.CommunicationMatch(
        communication=communication_to(match.communication),
        sequence=match.message.sequence,
        direction=DIRECTIONS[match.message.direction],
        timestamp=timestamp(match.message.timestamp),
        **snippet_fields(match.snippet),
        score=match.score,
    )
