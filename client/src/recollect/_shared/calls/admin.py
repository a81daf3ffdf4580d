"""The calls of AdminService."""

from functools import partial

from recollect._shared.fill import fill
from recollect._shared.read_admin import read
from recollect._shared.rpc import Call, Method
from recollect._types.admin import (
    ChangedSetting,
    RetentionPreview,
    RetentionReceiptPage,
    RetentionRuleList,
    SettingList,
    SpacePage,
    Stats,
    TokenPage,
)
from recollect.v1 import admin_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["AdminService"]
_LIST_SETTINGS = Method(_SERVICE, "ListSettings", pb.ListSettingsRequest, pb.ListSettingsResponse)
_SET_SETTING = Method(_SERVICE, "SetSetting", pb.SetSettingRequest, pb.SetSettingResponse)
_LIST_SPACES = Method(_SERVICE, "ListSpaces", pb.ListSpacesRequest, pb.ListSpacesResponse)
_LIST_TOKENS = Method(_SERVICE, "ListTokens", pb.ListTokensRequest, pb.ListTokensResponse)
_LIST_RETENTION_RULES = Method(
    _SERVICE, "ListRetentionRules", pb.ListRetentionRulesRequest, pb.ListRetentionRulesResponse
)
_PREVIEW_RETENTION = Method(
    _SERVICE, "PreviewRetention", pb.PreviewRetentionRequest, pb.PreviewRetentionResponse
)
_LIST_RETENTION_RECEIPTS = Method(
    _SERVICE,
    "ListRetentionReceipts",
    pb.ListRetentionReceiptsRequest,
    pb.ListRetentionReceiptsResponse,
)
_GET_STATS = Method(_SERVICE, "GetStats", pb.GetStatsRequest, pb.GetStatsResponse)


def list_settings() -> Call[pb.ListSettingsRequest, pb.ListSettingsResponse, SettingList]:
    """Return the call of ListSettings."""
    return Call(_LIST_SETTINGS, pb.ListSettingsRequest(), partial(read, SettingList))


def set_setting(
    key: str, value: str | None, reset: bool
) -> Call[pb.SetSettingRequest, pb.SetSettingResponse, ChangedSetting]:
    """Return the call of SetSetting."""
    request = fill(pb.SetSettingRequest(), key=key, value=value, reset=reset)
    return Call(_SET_SETTING, request, partial(read, ChangedSetting))


def list_spaces(
    query: str | None, page_size: int | None, page_token: str | None
) -> Call[pb.ListSpacesRequest, pb.ListSpacesResponse, SpacePage]:
    """Return the call of ListSpaces."""
    request = fill(pb.ListSpacesRequest(), query=query, page_size=page_size, page_token=page_token)
    return Call(_LIST_SPACES, request, partial(read, SpacePage))


def list_tokens(
    include_ended: bool, page_size: int | None, page_token: str | None
) -> Call[pb.ListTokensRequest, pb.ListTokensResponse, TokenPage]:
    """Return the call of ListTokens."""
    request = fill(
        pb.ListTokensRequest(),
        include_ended=include_ended,
        page_size=page_size,
        page_token=page_token,
    )
    return Call(_LIST_TOKENS, request, partial(read, TokenPage))


def get_stats(space: str | None) -> Call[pb.GetStatsRequest, pb.GetStatsResponse, Stats]:
    """Return the call of GetStats."""
    return Call(_GET_STATS, fill(pb.GetStatsRequest(), space=space), partial(read, Stats))


def list_retention_rules(
    space: str | None,
) -> Call[pb.ListRetentionRulesRequest, pb.ListRetentionRulesResponse, RetentionRuleList]:
    """Return the call of ListRetentionRules."""
    request = fill(pb.ListRetentionRulesRequest(), space=space)
    return Call(_LIST_RETENTION_RULES, request, partial(read, RetentionRuleList))


def preview_retention(
    space: str | None, retention: str | None, limit: int | None
) -> Call[pb.PreviewRetentionRequest, pb.PreviewRetentionResponse, RetentionPreview]:
    """Return the call of PreviewRetention."""
    request = fill(pb.PreviewRetentionRequest(), space=space, retention=retention, limit=limit)
    return Call(_PREVIEW_RETENTION, request, partial(read, RetentionPreview))


def list_retention_receipts(
    space: str | None, page_size: int | None, page_token: str | None
) -> Call[pb.ListRetentionReceiptsRequest, pb.ListRetentionReceiptsResponse, RetentionReceiptPage]:
    """Return the call of ListRetentionReceipts."""
    request = fill(
        pb.ListRetentionReceiptsRequest(), space=space, page_size=page_size, page_token=page_token
    )
    return Call(_LIST_RETENTION_RECEIPTS, request, partial(read, RetentionReceiptPage))
