"""AdminService: the settings, spaces, jobs, tokens and backups of a server, and what it keeps."""

import math
from typing import Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.access.principal import Principal
from recollect_server.access.token_uses import TokenUses
from recollect_server.access.tokens import Tokens
from recollect_server.admin.backups import BackupAdministration, ListedBackup
from recollect_server.admin.jobs import JobAdministration, JobOverview
from recollect_server.admin.server import ServerState, ServerWatch
from recollect_server.admin.spaces import (
    RetentionAdministration,
    SpaceAdministration,
    SpaceOverview,
    Verification,
    VerificationAdministration,
)
from recollect_server.admin.statistics import WHOLE, Statistics
from recollect_server.backup.names import backup_time
from recollect_server.contract.admin_token_service import TokenHandlers
from recollect_server.contract.convert import CursorSeal, optional_timestamp, page_size, timestamp
from recollect_server.contract.handling import Call
from recollect_server.kernel.domain.errors import SpaceNotFound
from recollect_server.kernel.domain.filters import Page, PageEnd
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.setting import Setting, SettingChange, SettingList
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.log.space_removal import SpaceReceipt
from recollect_server.retention.rule import RetentionRule, Retired, parse_rules

_MAX_PROBLEMS = 100
_MOST_TORN = 20
_USUAL_PREVIEWED, _MOST_PREVIEWED = 100, 1000


class RunningSettings(Protocol):
    def list(self) -> SettingList:
        """Return all settings."""

    def set(self, key: str, value: str) -> SettingChange:
        """Set a setting. Raises InvalidField, StorageUnavailable."""

    def reset(self, key: str) -> SettingChange:
        """Let a setting have its default again. Raises InvalidField, StorageUnavailable."""


class AdminHandlers(TokenHandlers):
    def __init__(
        self,
        settings: RunningSettings,
        spaces: SpaceAdministration,
        server: ServerWatch,
        backups: BackupAdministration,
        jobs: JobAdministration,
        retention: RetentionAdministration,
        verifications: VerificationAdministration,
        tokens: Tokens,
        uses: TokenUses,
        seal: CursorSeal,
        clock: Clock,
    ) -> None:
        super().__init__(tokens, uses, seal, clock)
        self._settings = settings
        self._spaces = spaces
        self._server = server
        self._backups = backups
        self._jobs = jobs
        self._retention = retention
        self._verifications = verifications

    # Settings -------------------------------------------------------------------------------------

    def ListSettings(
        self, request: api.ListSettingsRequest, call: Call
    ) -> api.ListSettingsResponse:
        listed = self._settings.list()
        return api.ListSettingsResponse(
            settings=map(_setting_to, listed.settings), file=listed.file, locked=listed.locked
        )

    def SetSetting(self, request: api.SetSettingRequest, call: Call) -> api.SetSettingResponse:
        changed = (
            self._settings.reset(request.key)
            if request.reset
            else self._settings.set(request.key, request.value)
        )
        is_retention = request.key == "retention" and changed.in_force
        return api.SetSettingResponse(
            setting=_setting_to(changed.setting),
            restart_needed=not changed.in_force,
            retention_start_time=optional_timestamp(
                self._retention.last_start() if is_retention else None
            ),
        )

    # Spaces ---------------------------------------------------------------------------------------

    def ListSpaces(self, request: api.ListSpacesRequest, call: Call) -> api.ListSpacesResponse:
        after = self._seal.place(request, request.page_token)
        names = self._spaces.names(
            lambda name: (
                request.query in name
                and call.principal.is_for(name)
                and (after is None or name > after[1])
            )
        )
        page = Page.of(names, page_size(request.page_size), lambda name: (0, name))
        return api.ListSpacesResponse(
            spaces=[_space_to(self._spaces.overview(name)) for name in page.entries],
            next_page_token=self._seal.page_token(request, page.end()),
        )

    def CreateSpace(self, request: api.CreateSpaceRequest, call: Call) -> api.CreateSpaceResponse:
        space, is_new = self._spaces.create(request.name)
        return api.CreateSpaceResponse(space=_space_to(space), created=is_new)

    def DeleteSpace(self, request: api.DeleteSpaceRequest, call: Call) -> api.DeleteSpaceResponse:
        receipt = self._spaces.delete(_space_of(call.principal, request.name))
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
        name = _space_of(call.principal, request.space)
        answer = api.GetStatsResponse(space=_statistics_to(name, self._spaces.statistics(name)))
        answer.space.held_messages, answer.space.held_because = self._spaces.held(name)
        if call.principal.is_for_every_space:
            answer.server.CopyFrom(_server_to(self._server.state(), *self._spaces.counts()))
        return answer

    # Backups --------------------------------------------------------------------------------------

    def Backup(self, request: api.BackupRequest, call: Call) -> api.BackupResponse:
        self._backups.check_folder()
        spaces = self._spaces.names(call.principal.is_for)
        if not spaces:
            raise SpaceNotFound(call.principal.space)
        is_whole = call.principal.is_for_every_space
        made = self._backups.make(request.name, spaces, is_whole=is_whole)
        return api.BackupResponse(
            path=str(made.path),
            spaces=made.spaces,
            conversations=made.copied.logs[Kind.CONVERSATION],
            external_communications=made.copied.logs[Kind.COMMUNICATION],
            bytes=made.copied.bytes,
            problem_count=len(made.copied.problems),
            problems=made.copied.problems[:_MAX_PROBLEMS],
        )

    def ListBackups(self, request: api.ListBackupsRequest, call: Call) -> api.ListBackupsResponse:
        size = page_size(request.page_size)
        before = self._seal.place(request, request.page_token)
        if request.in_bucket:
            return self._copies(request, call, before, size)
        is_listed = None if call.principal.is_for_every_space else call.principal.is_for
        backups = self._backups.listed(is_listed, before, size + 1)
        page = Page.of(backups, size, lambda it: it.place)
        return api.ListBackupsResponse(
            backups=map(_backup_to, page.entries),
            next_page_token=self._seal.page_token(request, page.end()),
        )

    def _copies(
        self, request: api.ListBackupsRequest, call: Call, before: PageEnd | None, size: int
    ) -> api.ListBackupsResponse:
        """Return a page of the copies in the bucket."""
        if not call.principal.is_for_every_space:
            return api.ListBackupsResponse()
        names = self._backups.copies(before[1] if before else None, size + 1)
        page = Page.of(names, size, lambda it: (0, it))
        return api.ListBackupsResponse(
            backups=map(_copy_to, page.entries),
            next_page_token=self._seal.page_token(request, page.end()),
        )

    # Jobs -----------------------------------------------------------------------------------------

    def ListJobs(self, request: api.ListJobsRequest, call: Call) -> api.ListJobsResponse:
        name = _space_of(call.principal, request.space)
        return api.ListJobsResponse(jobs=[_job_to(name, job) for job in self._jobs.list(name)])

    # Retention ------------------------------------------------------------------------------------

    def ListRetentionRules(
        self, request: api.ListRetentionRulesRequest, call: Call
    ) -> api.ListRetentionRulesResponse:
        space = _space_of(call.principal, request.space)
        rules = self._retention.rules(space)
        return api.ListRetentionRulesResponse(
            rules=[_rule_to(it, self._retention.start(it)) for it in rules]
        )

    def PreviewRetention(
        self, request: api.PreviewRetentionRequest, call: Call
    ) -> api.PreviewRetentionResponse:
        spaces = (
            self._spaces.names(call.principal.is_for)
            if request.every_space
            else [_space_of(call.principal, request.space)]
        )
        rules = parse_rules(request.retention) if request.retention else None
        limit = min(request.limit or _USUAL_PREVIEWED, _MOST_PREVIEWED)
        plan = self._retention.preview(spaces, rules, limit)
        return api.PreviewRetentionResponse(
            conversations=[_retired_to(it.retired, it.name, it.space) for it in plan.shown],
            has_more=plan.total > len(plan.shown),
            total=plan.total,
            is_most=plan.is_most,
        )

    def ListRetentionReceipts(
        self, request: api.ListRetentionReceiptsRequest, call: Call
    ) -> api.ListRetentionReceiptsResponse:
        space = _space_of(call.principal, request.space)
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

    # Verifications --------------------------------------------------------------------------------

    def Verify(self, request: api.VerifyRequest, call: Call) -> api.VerifyResponse:
        space = _space_of(call.principal, request.space)
        return api.VerifyResponse(verification=_verification_to(self._verifications.start(space)))

    def GetVerification(
        self, request: api.GetVerificationRequest, call: Call
    ) -> api.GetVerificationResponse:
        space = _space_of(call.principal, request.space)
        newest = self._verifications.newest(space)
        return api.GetVerificationResponse(
            verification=None if newest is None else _verification_to(newest)
        )


def _setting_to(it: Setting) -> admin_pb2.Setting:
    return admin_pb2.Setting(
        key=it.key,
        value=it.value,
        default_value=it.default,
        source=admin_pb2.SettingSource.Value(f"SETTING_SOURCE_{it.source.upper()}"),
        group=it.group,
        group_label=it.group_label,
        label=it.label,
        help=it.help,
        type=admin_pb2.SettingType.Value(f"SETTING_TYPE_{it.type.upper()}"),
        choices=it.choices,
        minimum=it.minimum,
        maximum=it.maximum,
        minimum_excluded=it.minimum_excluded,
        masked=it.masked,
        restart_needed=it.restart_needed,
        pending=it.pending,
        pending_value=it.pending_value,
        locked=it.locked,
        environment_name=it.environment_name,
    )


def _receipt_to(it: SpaceReceipt) -> admin_pb2.SpaceReceipt:
    return admin_pb2.SpaceReceipt(
        name=it.name,
        delete_time=timestamp(it.time),
        conversations=it.conversations,
        external_communications=it.communications,
        bytes=it.size,
    )


def _space_to(it: SpaceOverview) -> admin_pb2.Space:
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


def _backup_to(it: ListedBackup) -> admin_pb2.StoredBackup:
    key_id = it.stored.key_id
    problem = "its start is damaged" if key_id == "" else it.problem
    return admin_pb2.StoredBackup(
        name=it.stored.path.name,
        path=str(it.stored.path.absolute()),
        create_time=Timestamp(seconds=int(it.stored.time.timestamp())),
        complete=it.stored.is_complete and not problem,
        encrypted=key_id is not None,
        key_id=key_id or "",
        bytes=it.bytes,
        problem=problem,
        spaces=it.contents.spaces,
        conversations=it.contents.conversations,
        external_communications=it.contents.communications,
        damaged_lines=it.contents.damaged,
    )


def _copy_to(name: str) -> admin_pb2.StoredBackup:
    time = backup_time(name)
    assert time is not None  # other names are none of a copy
    created = Timestamp(seconds=int(time.timestamp()))
    return admin_pb2.StoredBackup(name=name, create_time=created, complete=True)


def _server_to(it: ServerState, spaces: int, open_spaces: int) -> admin_pb2.ServerStats:
    return admin_pb2.ServerStats(
        version=it.version,
        start_time=timestamp(it.started),
        spaces=spaces,
        open_spaces=open_spaces,
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
        torn_transcripts=len(it.torn),
        torn_bytes=sum(it.torn.values()),
        torn_files=list(it.torn)[:_MOST_TORN],
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
    left = math.ceil(embedded.seconds_left or 0)
    return admin_pb2.EmbeddingStats(
        problem="" if embedded.condition == WHOLE else embedded.condition,
        vectors=embedded.vectors,
        other_language_vectors=embedded.beside,
        bytes=embedded.size,
        waiting_conversations=embedded.waiting,
        share=embedded.share,
        time_left=Duration(seconds=left) if left else None,
    )


def _job_to(space: str, it: JobOverview) -> admin_pb2.Job:
    return admin_pb2.Job(
        name=it.name,
        help=it.help,
        space=space,
        state=admin_pb2.JobState.Value(f"JOB_STATE_{it.state.name}"),
        due=it.due,
        failed=it.failed,
        failures=[
            admin_pb2.JobFailure(conversation_id=conversation_id, reason=reason)
            for conversation_id, reason in it.failures
        ],
        last_run_time=optional_timestamp(it.ran_at),
    )


def _rule_to(rule: RetentionRule, start: int | None) -> admin_pb2.RetentionRule:
    return admin_pb2.RetentionRule(
        rule=rule.text,
        space=rule.space,
        channel=rule.channel,
        idle_seconds=rule.idle // 1000,
        conversations=rule.conversations,
        bytes=rule.bytes,
        keeps_anchors=rule.keeps_anchors,
        unindexes=rule.unindexes,
        deletes_communications=rule.is_about_third_parties,
        start_time=optional_timestamp(start),
    )


def _retired_to(it: Retired, name: str = "", space: str = "") -> admin_pb2.RetiredConversation:
    return admin_pb2.RetiredConversation(
        conversation_id=it.conversation_id,
        channel=it.channel,
        update_time=timestamp(it.update_time),
        bytes=it.bytes,
        rule=it.rule,
        reason=it.reason,
        name=name,
        space=space,
    )


def _verification_to(it: Verification) -> admin_pb2.Verification:
    findings = it.findings
    return admin_pb2.Verification(
        space=it.space,
        state=admin_pb2.VerificationState.Value(f"VERIFICATION_STATE_{it.state.name}"),
        create_time=timestamp(it.created),
        logs=findings.logs,
        total_logs=findings.total,
        conversations=findings.conversations,
        messages=findings.messages,
        external_communications=findings.communications,
        threads=findings.threads,
        problem_count=findings.problem_count,
        problems=[
            admin_pb2.VerificationProblem(id=log, problem=problem)
            for log, problem in list(findings.problems)
        ],
        failure=it.failure,
        end_time=optional_timestamp(it.ended),
    )


def _space_of(principal: Principal, name: str) -> str:
    """Return the space that a request names; that of the call if it names none. Raises
    SpaceNotFound for one that the caller does not administer, as if there were none.
    """
    if name and not principal.is_for(name):
        raise SpaceNotFound(name)
    return name or principal.space
