"""The calls of AdminService."""

from functools import partial

from recollect._shared.fill import fill
from recollect._shared.read_admin import read
from recollect._shared.rpc import Call, Method
from recollect._types.admin import SettingList, SpacePage, Stats, TokenPage
from recollect.v1 import admin_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["AdminService"]
_LIST_SETTINGS = Method(_SERVICE, "ListSettings", pb.ListSettingsRequest, pb.ListSettingsResponse)
_LIST_SPACES = Method(_SERVICE, "ListSpaces", pb.ListSpacesRequest, pb.ListSpacesResponse)
_LIST_TOKENS = Method(_SERVICE, "ListTokens", pb.ListTokensRequest, pb.ListTokensResponse)
_GET_STATS = Method(_SERVICE, "GetStats", pb.GetStatsRequest, pb.GetStatsResponse)


def list_settings() -> Call[pb.ListSettingsRequest, pb.ListSettingsResponse, SettingList]:
    """Return the call of ListSettings."""
    return Call(_LIST_SETTINGS, pb.ListSettingsRequest(), partial(read, SettingList))


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
