"""The calls of AdminService."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from recollect._shared.fill import fill, invalid
from recollect._shared.read_admin import read
from recollect._shared.rpc import Call, Method
from recollect._types.admin.jobs import Job, JobList
from recollect._types.admin.retention import (
    RetentionPreview,
    RetentionReceiptPage,
    RetentionRuleList,
)
from recollect._types.admin.settings import ChangedSetting, SettingList
from recollect._types.admin.spaces import (
    Backup,
    CreatedSpace,
    DeletedSpace,
    SpacePage,
    SpaceReceipt,
    SpaceReceiptPage,
)
from recollect._types.admin.stats import Stats
from recollect._types.admin.tokens import NewToken, RevokedToken, RotatedToken, Token, TokenPage
from recollect._types.admin.verifications import (
    NewestVerification,
    StartedVerification,
    Verification,
)
from recollect.v1 import admin_service_pb2 as pb
from recollect.v1 import scope_pb2

_SERVICE = pb.DESCRIPTOR.services_by_name["AdminService"]
_LIST_SETTINGS = Method(_SERVICE, "ListSettings", pb.ListSettingsRequest, pb.ListSettingsResponse)
_SET_SETTING = Method(_SERVICE, "SetSetting", pb.SetSettingRequest, pb.SetSettingResponse)
_LIST_SPACES = Method(_SERVICE, "ListSpaces", pb.ListSpacesRequest, pb.ListSpacesResponse)
_CREATE_SPACE = Method(_SERVICE, "CreateSpace", pb.CreateSpaceRequest, pb.CreateSpaceResponse)
_DELETE_SPACE = Method(_SERVICE, "DeleteSpace", pb.DeleteSpaceRequest, pb.DeleteSpaceResponse)
_LIST_SPACE_RECEIPTS = Method(
    _SERVICE, "ListSpaceReceipts", pb.ListSpaceReceiptsRequest, pb.ListSpaceReceiptsResponse
)
_VERIFY = Method(_SERVICE, "Verify", pb.VerifyRequest, pb.VerifyResponse)
_GET_VERIFICATION = Method(
    _SERVICE, "GetVerification", pb.GetVerificationRequest, pb.GetVerificationResponse
)
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
_CREATE_TOKEN = Method(_SERVICE, "CreateToken", pb.CreateTokenRequest, pb.CreateTokenResponse)
_REVOKE_TOKEN = Method(_SERVICE, "RevokeToken", pb.RevokeTokenRequest, pb.RevokeTokenResponse)
_ROTATE_TOKEN = Method(_SERVICE, "RotateToken", pb.RotateTokenRequest, pb.RotateTokenResponse)
_BACKUP = Method(_SERVICE, "Backup", pb.BackupRequest, pb.BackupResponse)
_LIST_JOBS = Method(_SERVICE, "ListJobs", pb.ListJobsRequest, pb.ListJobsResponse)
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


def create_space(
    name: str,
) -> Call[pb.CreateSpaceRequest, pb.CreateSpaceResponse, CreatedSpace]:
    """Return the call of CreateSpace."""
    return Call(
        _CREATE_SPACE, fill(pb.CreateSpaceRequest(), name=name), partial(read, CreatedSpace)
    )


def delete_space(
    name: str,
) -> Call[pb.DeleteSpaceRequest, pb.DeleteSpaceResponse, SpaceReceipt]:
    """Return the call of DeleteSpace."""
    request = fill(pb.DeleteSpaceRequest(), name=name)
    return Call(_DELETE_SPACE, request, lambda it: read(DeletedSpace, it).receipt)


def list_space_receipts(
    page_size: int | None, page_token: str | None
) -> Call[pb.ListSpaceReceiptsRequest, pb.ListSpaceReceiptsResponse, SpaceReceiptPage]:
    """Return the call of ListSpaceReceipts."""
    request = fill(pb.ListSpaceReceiptsRequest(), page_size=page_size, page_token=page_token)
    return Call(_LIST_SPACE_RECEIPTS, request, partial(read, SpaceReceiptPage))


def verify(space: str | None) -> Call[pb.VerifyRequest, pb.VerifyResponse, Verification]:
    """Return the call of Verify."""
    request = fill(pb.VerifyRequest(), space=space)
    return Call(_VERIFY, request, lambda it: read(StartedVerification, it).verification)


def get_verification(
    space: str | None,
) -> Call[pb.GetVerificationRequest, pb.GetVerificationResponse, Verification | None]:
    """Return the call of GetVerification."""
    request = fill(pb.GetVerificationRequest(), space=space)
    return Call(_GET_VERIFICATION, request, lambda it: read(NewestVerification, it).verification)


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


def create_token(
    kind: str,
    scopes: Iterable[str] | None,
    spaces: Iterable[str] | None,
    conversation_id: str | None,
    channel: str | None,
    expire_time: datetime | None,
    limits: Mapping[str, float] | None,
    note: str | None,
) -> Call[pb.CreateTokenRequest, pb.CreateTokenResponse, NewToken]:
    """Return the call of CreateToken."""
    request = fill(
        pb.CreateTokenRequest(),
        kind=kind,
        scopes=None if scopes is None else [_scope(index, it) for index, it in enumerate(scopes)],
        spaces=spaces,
        conversation_id=conversation_id,
        channel=channel,
        expire_time=expire_time,
        note=note,
    )
    for name, number in (limits or {}).items():
        try:
            request.limits[name] = number
        except (TypeError, ValueError):
            raise invalid("limits", f"takes numbers by name, and {name!r} is {number!r}") from None
    return Call(_CREATE_TOKEN, request, partial(read, NewToken))


def revoke_token(
    token_id: str,
) -> Call[pb.RevokeTokenRequest, pb.RevokeTokenResponse, Token]:
    """Return the call of RevokeToken."""
    request = fill(pb.RevokeTokenRequest(), token_id=token_id)
    return Call(_REVOKE_TOKEN, request, lambda it: read(RevokedToken, it).token)


def rotate_token(
    token_id: str, expire_time: datetime | None, overlap: timedelta | None
) -> Call[pb.RotateTokenRequest, pb.RotateTokenResponse, RotatedToken]:
    """Return the call of RotateToken."""
    request = fill(pb.RotateTokenRequest(), token_id=token_id, expire_time=expire_time)
    if overlap is not None:
        request.overlap.FromTimedelta(overlap)
    return Call(_ROTATE_TOKEN, request, partial(read, RotatedToken))


def _scope(index: int, name: str) -> "scope_pb2.Scope.ValueType":
    """Return the contract's number of a scope such as `conversations.read`."""
    try:
        return scope_pb2.Scope.Value(f"SCOPE_{name.upper().replace('.', '_')}")
    except (AttributeError, ValueError):
        raise invalid(f"scopes[{index}]", f"is {name!r}, which is not a scope") from None


def backup(name: str | None) -> Call[pb.BackupRequest, pb.BackupResponse, Backup]:
    """Return the call of Backup."""
    return Call(_BACKUP, fill(pb.BackupRequest(), name=name), partial(read, Backup))


def list_jobs(
    space: str | None,
) -> Call[pb.ListJobsRequest, pb.ListJobsResponse, tuple[Job, ...]]:
    """Return the call of ListJobs."""
    return Call(
        _LIST_JOBS, fill(pb.ListJobsRequest(), space=space), lambda it: read(JobList, it).jobs
    )


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
