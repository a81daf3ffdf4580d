"""AdminService: the spaces, and what each holds."""

import math

from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.services.administration.server import ServerState, ServerWatch
from recollect_server.services.administration.spaces import SpaceAdministration, SpaceOverview
from recollect_server.services.upkeep.statistics import WHOLE, Statistics
from recollect_server.storage.logs.space_removal import SpaceReceipt
from recollect_server.transport.admin.reach import space_of
from recollect_server.transport.convert import timestamp
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import CursorSeal, page_size


class SpaceHandlers:
    def __init__(self, spaces: SpaceAdministration, server: ServerWatch, seal: CursorSeal) -> None:
        self._spaces = spaces
        self._server = server
        self._seal = seal

    def ListSpaces(self, request: api.ListSpacesRequest, call: Call) -> api.ListSpacesResponse:
        size = page_size(request.page_size)
        after = self._seal.place(request, request.page_token)
        names = self._spaces.names(
            lambda name: (
                request.query in name
                and call.principal.is_for(name)
                and (after is None or name > after[1])
            )
        )
        return api.ListSpacesResponse(
            spaces=[space_to(self._spaces.overview(name)) for name in names[:size]],
            next_page_token=self._seal.page_token(
                request, (0, names[size - 1]) if len(names) > size else None
            ),
        )

    def CreateSpace(self, request: api.CreateSpaceRequest, call: Call) -> api.CreateSpaceResponse:
        space, is_new = self._spaces.create(request.name)
        return api.CreateSpaceResponse(space=space_to(space), created=is_new)

    def DeleteSpace(self, request: api.DeleteSpaceRequest, call: Call) -> api.DeleteSpaceResponse:
        receipt = self._spaces.delete(space_of(call.principal, request.name))
        return api.DeleteSpaceResponse(receipt=_receipt_to(receipt))

    def ListSpaceReceipts(
        self, request: api.ListSpaceReceiptsRequest, call: Call
    ) -> api.ListSpaceReceiptsResponse:
        after = self._seal.place(request, request.page_token)
        receipts, following = self._spaces.receipts(
            call.principal.is_for, after[0] if after else None, page_size(request.page_size)
        )
        return api.ListSpaceReceiptsResponse(
            receipts=map(_receipt_to, receipts),
            next_page_token=self._seal.page_token(request, (following, "") if following else None),
        )

    def GetStats(self, request: api.GetStatsRequest, call: Call) -> api.GetStatsResponse:
        name = space_of(call.principal, request.space)
        answer = api.GetStatsResponse(space=_statistics_to(name, self._spaces.statistics(name)))
        if call.principal.is_for_every_space:
            answer.server.CopyFrom(_server_to(self._server.state(), *self._spaces.counts()))
        return answer


def _receipt_to(it: SpaceReceipt) -> admin_pb2.SpaceReceipt:
    return admin_pb2.SpaceReceipt(
        name=it.name,
        delete_time=timestamp(it.time),
        conversations=it.conversations,
        external_communications=it.communications,
        bytes=it.size,
    )


def space_to(it: SpaceOverview) -> admin_pb2.Space:
    return admin_pb2.Space(
        name=it.name,
        state=admin_pb2.SpaceState.Value(f"SPACE_STATE_{it.state.name}"),
        is_default=it.is_default,
        conversations=it.totals.conversations,
        messages=it.totals.messages,
        bytes=it.totals.size,
        external_communications=it.totals.communications,
        index_problem=it.totals.problem,
    )


def _server_to(
    it: ServerState, spaces: int, open_spaces: int, suspended: int
) -> admin_pb2.ServerStats:
    return admin_pb2.ServerStats(
        version=it.version,
        start_time=timestamp(it.started),
        spaces=spaces,
        open_spaces=open_spaces,
        suspended_spaces=suspended,
        model_spending=admin_pb2.ModelSpending(
            day=it.spent.day, calls=it.spent.calls, tokens=it.spent.tokens, cost=it.spent.cost
        ),
        limited=it.limited,
        most_limited=[
            admin_pb2.LimitReached(of=row.of, name=row.name, limit=row.limit, refused=row.count)
            for row in it.most_limited
        ],
    )


def _statistics_to(name: str, it: Statistics) -> admin_pb2.SpaceStats:
    return admin_pb2.SpaceStats(
        space=name,
        conversations=it.conversations,
        messages=it.messages,
        transcript_bytes=it.transcript_bytes,
        index_problem="" if it.index == WHOLE else it.index,
        index_bytes=it.index_bytes,
        not_indexed_yet=it.not_indexed_yet,
        embedding=_embedding_to(it),
        notes=admin_pb2.NoteStats(
            waiting_conversations=it.notes.without,
            failed_conversations=it.notes.failed,
            failures=[
                admin_pb2.JobFailure(conversation_id=conversation_id, reason=reason)
                for conversation_id, reason in it.notes.failures
            ],
        ),
        contexts=admin_pb2.ContextStats(
            contexts=it.hits.get("contexts", 0),
            hot_in_memory=it.hits.get("hot_in_memory", 0),
            cold_asked=it.hits.get("cold_asked", 0),
            hot_messages=it.hits.get("hot", 0),
            warm_messages=it.hits.get("warm", 0),
            cold_messages=it.hits.get("cold", 0),
        ),
        torn_transcripts=it.torn,
        torn_bytes=it.torn_bytes,
        unfinished_deletes=it.deletes_to_finish,
        external=admin_pb2.ExternalStats(
            communications=it.parties.communications,
            messages=it.parties.messages,
            bytes=it.parties.size,
            not_indexed_yet=it.parties.not_indexed_yet,
            open_escalations=it.parties.open_escalations,
        ),
        limited_senders=it.limited,
        most_limited=[
            admin_pb2.LimitedSender(channel=row.channel, sender=row.sender, refused=row.refused)
            for row in it.worst_limited
        ],
    )


def _embedding_to(it: Statistics) -> admin_pb2.EmbeddingStats:
    embedded = it.embedded
    answer = admin_pb2.EmbeddingStats(
        problem="" if embedded.condition == WHOLE else embedded.condition,
        vectors=embedded.vectors,
        other_language_vectors=embedded.beside,
        bytes=embedded.size,
        waiting_conversations=embedded.waiting,
        share=embedded.share,
    )
    if embedded.seconds_left:
        answer.time_left.FromSeconds(math.ceil(embedded.seconds_left))
    return answer
