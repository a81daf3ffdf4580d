"""AdminService: retention."""

from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.domain.retention import RetentionRule, Retired, parse_rules
from recollect_server.services.administration.retention import RetentionAdministration
from recollect_server.transport.admin.reach import space_of
from recollect_server.transport.convert import timestamp
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import CursorSeal, page_size

_USUAL, _MOST = 100, 1000


class RetentionHandlers:
    def __init__(self, retention: RetentionAdministration, seal: CursorSeal) -> None:
        self._retention = retention
        self._seal = seal

    def ListRetentionRules(
        self, request: api.ListRetentionRulesRequest, call: Call
    ) -> api.ListRetentionRulesResponse:
        space = space_of(call.principal, request.space)
        return api.ListRetentionRulesResponse(rules=map(_rule_to, self._retention.rules(space)))

    def PreviewRetention(
        self, request: api.PreviewRetentionRequest, call: Call
    ) -> api.PreviewRetentionResponse:
        space = space_of(call.principal, request.space)
        rules = parse_rules(request.retention) if request.retention else None
        limit = min(request.limit or _USUAL, _MOST)
        due, has_more = self._retention.preview(space, rules, limit)
        return api.PreviewRetentionResponse(conversations=map(_retired_to, due), has_more=has_more)

    def ListRetentionReceipts(
        self, request: api.ListRetentionReceiptsRequest, call: Call
    ) -> api.ListRetentionReceiptsResponse:
        space = space_of(call.principal, request.space)
        after = self._seal.place(request, request.page_token)
        receipts, following = self._retention.receipts(
            space, after[0] if after else None, page_size(request.page_size)
        )
        return api.ListRetentionReceiptsResponse(
            receipts=[
                admin_pb2.RetentionReceipt(
                    conversation=_retired_to(it.retired), time=timestamp(it.time)
                )
                for it in receipts
            ],
            next_page_token=self._seal.page_token(request, (following, "") if following else None),
        )


def _rule_to(rule: RetentionRule) -> admin_pb2.RetentionRule:
    return admin_pb2.RetentionRule(
        rule=rule.text,
        space=rule.space,
        channel=rule.channel,
        idle_seconds=rule.idle // 1000,
        conversations=rule.conversations,
        bytes=rule.bytes,
        keeps_anchors=rule.keeps_anchors,
        unindexes=rule.unindexes,
    )


def _retired_to(it: Retired) -> admin_pb2.RetiredConversation:
    return admin_pb2.RetiredConversation(
        conversation_id=it.conversation_id,
        channel=it.channel,
        update_time=timestamp(it.update_time),
        bytes=it.bytes,
        rule=it.rule,
        reason=it.reason,
    )
