# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.admin`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta

from recollect._async.invoker import Invoker
from recollect._shared import calls
from recollect._types.admin.jobs import Job
from recollect._types.admin.retention import (
    RetentionPreview,
    RetentionReceipt,
    RetentionReceiptPage,
    RetentionRuleList,
)
from recollect._types.admin.settings import (
    ChangedSetting,
    SettingList,
)
from recollect._types.admin.spaces import (
    Backup,
    BackupPage,
    CreatedSpace,
    Space,
    SpacePage,
    SpaceReceipt,
    SpaceReceiptPage,
    StoredBackup,
)
from recollect._types.admin.stats import (
    Stats,
)
from recollect._types.admin.tokens import (
    NewToken,
    RotatedToken,
    Token,
    TokenPage,
    TokenUse,
    TokenUsePage,
)
from recollect._types.admin.verifications import (
    Verification,
)


class Admin:
    """Calls that administer the server, at `client.admin`.

    Every call needs the scope `admin`. A token for certain spaces administers those alone; settings
    need a token for every space. `timeout` bounds a call in seconds, retries included, instead of
    the client's own.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def list_settings(
        self,
        *,
        timeout: float | None = None,
    ) -> SettingList:
        """Return all settings with their sources, defaults and ranges.

        >>> for setting in (await client.admin.list_settings()).settings:
        ...     print(setting.key, setting.value, setting.source)
        """
        return await self._invoker.run(calls.LIST_SETTINGS(), timeout)

    async def set_setting(
        self,
        key: str,
        value: str | None = None,
        *,
        reset: bool = False,
        timeout: float | None = None,
    ) -> ChangedSetting:
        """Set a setting in the server's file, and at once where it can be. `reset` takes it out of
        the file, so that its default counts.

        >>> changed = await client.admin.set_setting("idle_timeout", "5m")
        >>> print(changed.setting.value, changed.restart_needed)
        """
        return await self._invoker.run(
            calls.SET_SETTING(key=key, value=value, reset=reset), timeout
        )

    def list_spaces(
        self,
        *,
        query: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Space]:
        """Iterate over all spaces, by name, page by page. `query` is looked for in the names.
        `timeout` bounds each page.

        >>> async for space in client.admin.list_spaces():
        ...     print(space.name, space.state, space.conversations)
        """
        return self._invoker.iterate(calls.LIST_SPACES(query=query, page_size=page_size), timeout)

    async def list_spaces_page(
        self,
        *,
        page_token: str | None = None,
        query: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> SpacePage:
        """Return one page of `list_spaces`: the first, or with `page_token` the one after another,
        with the same filters.

        >>> page = await client.admin.list_spaces_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.admin.list_spaces_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_SPACES(query=query, page_size=page_size, page_token=page_token), timeout
        )

    async def create_space(
        self,
        name: str,
        *,
        timeout: float | None = None,
    ) -> CreatedSpace:
        """Make a space, unless there is one.

        >>> made = await client.admin.create_space("ada")
        >>> print(made.created)
        """
        return await self._invoker.run(calls.CREATE_SPACE(name=name), timeout)

    async def delete_space(
        self,
        name: str,
        *,
        timeout: float | None = None,
    ) -> SpaceReceipt:
        """Delete a space with all its data, for good. Its tokens stay: revoke them too.

        >>> receipt = await client.admin.delete_space("ada")
        >>> print(receipt.conversations, receipt.delete_time)
        """
        return await self._invoker.run(calls.DELETE_SPACE(name=name), timeout)

    def list_space_receipts(
        self,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[SpaceReceipt]:
        """Iterate over the receipts of all deleted spaces, the newest first, page by page.
        `timeout` bounds each page.

        >>> async for receipt in client.admin.list_space_receipts():
        ...     print(receipt.name, receipt.delete_time, receipt.conversations)
        """
        return self._invoker.iterate(calls.LIST_SPACE_RECEIPTS(page_size=page_size), timeout)

    async def list_space_receipts_page(
        self,
        *,
        page_token: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> SpaceReceiptPage:
        """Return one page of `list_space_receipts`: the first, or with `page_token` the one after
        another.

        >>> page = await client.admin.list_space_receipts_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.admin.list_space_receipts_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_SPACE_RECEIPTS(page_size=page_size, page_token=page_token), timeout
        )

    async def verify(
        self,
        *,
        space: str | None = None,
        timeout: float | None = None,
    ) -> Verification:
        """Begin to compare the logs of a space with its index and vectors, while it is served, and
        return at once. One that waits or is under way is returned instead.

        >>> await client.admin.verify()
        """
        return await self._invoker.run(calls.VERIFY(space=space), timeout)

    async def get_verification(
        self,
        *,
        space: str | None = None,
        timeout: float | None = None,
    ) -> Verification | None:
        """Return the newest verification of a space since the server started; `None` if there was
        none.

        >>> verification = await client.admin.get_verification()
        >>> if verification is not None and verification.state == "done":
        ...     print(verification.problem_count, verification.problems)
        """
        return await self._invoker.run(calls.GET_VERIFICATION(space=space), timeout)

    def list_tokens(
        self,
        *,
        include_ended: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Token]:
        """Iterate over the tokens, the newest first, page by page. `timeout` bounds each page.

        >>> async for token in client.admin.list_tokens():
        ...     print(token.id, token.kind, token.spaces, token.expire_time)
        """
        return self._invoker.iterate(
            calls.LIST_TOKENS(include_ended=include_ended, page_size=page_size), timeout
        )

    async def list_tokens_page(
        self,
        *,
        page_token: str | None = None,
        include_ended: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> TokenPage:
        """Return one page of `list_tokens`: the first, or with `page_token` the one after another,
        with the same filters.

        >>> page = await client.admin.list_tokens_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.admin.list_tokens_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_TOKENS(
                include_ended=include_ended, page_size=page_size, page_token=page_token
            ),
            timeout,
        )

    async def create_token(
        self,
        kind: str,
        *,
        scopes: Iterable[str] | None = None,
        spaces: Iterable[str] | None = None,
        conversation_id: str | None = None,
        channel: str | None = None,
        expire_time: datetime | None = None,
        limits: Mapping[str, float] | None = None,
        note: str | None = None,
        timeout: float | None = None,
    ) -> NewToken:
        """Create a token. Its `secret` is answered this once. A call whose answer was lost is not
        repeated: look at the list, and revoke what nobody holds.

        >>> created = await client.admin.create_token("reader", note="the page on the wall")
        >>> print(created.token.id, created.secret)
        """
        return await self._invoker.run(
            calls.CREATE_TOKEN(
                kind=kind,
                scopes=scopes,
                spaces=spaces,
                conversation_id=conversation_id,
                channel=channel,
                expire_time=expire_time,
                limits=limits,
                note=note,
            ),
            timeout,
        )

    async def revoke_token(
        self,
        token_id: str,
        *,
        timeout: float | None = None,
    ) -> Token:
        """Revoke a token. Its open streams end within a second.

        >>> await client.admin.revoke_token(created.token.id)
        """
        return await self._invoker.run(calls.REVOKE_TOKEN(token_id=token_id), timeout)

    async def rotate_token(
        self,
        token_id: str,
        *,
        expire_time: datetime | None = None,
        overlap: timedelta | None = None,
        timeout: float | None = None,
    ) -> RotatedToken:
        """Create a token that allows the same as another one, which ends after `overlap`.

        >>> rotated = await client.admin.rotate_token(created.token.id)
        >>> print(rotated.secret, rotated.replaced.expire_time)
        """
        return await self._invoker.run(
            calls.ROTATE_TOKEN(token_id=token_id, expire_time=expire_time, overlap=overlap), timeout
        )

    def list_token_uses(
        self,
        token_id: str,
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[TokenUse]:
        """Iterate over the use of a token: its calls by day, space, method and address, the newest
        day first, page by page. `timeout` bounds each page.

        >>> async for use in client.admin.list_token_uses(created.token.id):
        ...     print(use.day, use.method, use.peer, use.calls, use.refused_calls)
        """
        return self._invoker.iterate(
            calls.LIST_TOKEN_USES(
                token_id=token_id, start_time=start_time, end_time=end_time, page_size=page_size
            ),
            timeout,
        )

    async def list_token_uses_page(
        self,
        token_id: str,
        *,
        page_token: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> TokenUsePage:
        """Return one page of `list_token_uses`: the first, or with `page_token` the one after
        another, with the same filters.

        >>> page = await client.admin.list_token_uses_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.admin.list_token_uses_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_TOKEN_USES(
                token_id=token_id,
                start_time=start_time,
                end_time=end_time,
                page_size=page_size,
                page_token=page_token,
            ),
            timeout,
        )

    async def backup(
        self,
        *,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Backup:
        """Have the server copy its spaces into a new folder of its setting `backup_dir`. Give it a
        `timeout` that suits what is kept.

        >>> made = await client.admin.backup(timeout=600)
        >>> print(made.path, made.conversations)
        """
        return await self._invoker.run(calls.BACKUP(name=name), timeout)

    def list_backups(
        self,
        *,
        in_bucket: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[StoredBackup]:
        """Iterate over the backups in the server's setting `backup_dir`, the newest first, page by
        page; with `in_bucket` over the copies in its bucket (`backup_url`) instead. `timeout`
        bounds each page.

        >>> async for it in client.admin.list_backups():
        ...     print(it.name, it.create_time, it.bytes, it.complete, it.encrypted)
        """
        return self._invoker.iterate(
            calls.LIST_BACKUPS(page_size=page_size, in_bucket=in_bucket), timeout
        )

    async def list_backups_page(
        self,
        *,
        page_token: str | None = None,
        in_bucket: bool = False,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> BackupPage:
        """Return one page of `list_backups`: the first, or with `page_token` the one after another,
        with the same filters.

        >>> page = await client.admin.list_backups_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.admin.list_backups_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_BACKUPS(page_size=page_size, page_token=page_token, in_bucket=in_bucket),
            timeout,
        )

    async def list_jobs(
        self,
        *,
        space: str | None = None,
        timeout: float | None = None,
    ) -> tuple[Job, ...]:
        """Return the background jobs of a space, with their failures by conversation.

        >>> for job in await client.admin.list_jobs():
        ...     print(job.name, job.state, job.due, job.failures)
        """
        return await self._invoker.run(calls.LIST_JOBS(space=space), timeout)

    async def get_stats(
        self,
        *,
        space: str | None = None,
        timeout: float | None = None,
    ) -> Stats:
        """Return what a space holds and what is left to do there.

        >>> stats = await client.admin.get_stats()
        >>> print(stats.space.conversations, stats.space.notes.failures)
        """
        return await self._invoker.run(calls.GET_STATS(space=space), timeout)

    async def list_retention_rules(
        self,
        *,
        space: str | None = None,
        timeout: float | None = None,
    ) -> RetentionRuleList:
        """Return the rules of retention about a space.

        >>> print([it.rule for it in (await client.admin.list_retention_rules()).rules])
        """
        return await self._invoker.run(calls.LIST_RETENTION_RULES(space=space), timeout)

    async def preview_retention(
        self,
        *,
        space: str | None = None,
        retention: str | None = None,
        limit: int | None = None,
        every_space: bool = False,
        timeout: float | None = None,
    ) -> RetentionPreview:
        """Return what the rules of retention would delete in a space now, and why. `retention`
        tries other rules than those in force.

        >>> plan = await client.admin.preview_retention(retention="delete channel=web idle=365d")
        >>> for it in plan.conversations:
        ...     print(it.conversation_id, it.reason)
        """
        return await self._invoker.run(
            calls.PREVIEW_RETENTION(
                space=space, retention=retention, limit=limit, every_space=every_space
            ),
            timeout,
        )

    def list_retention_receipts(
        self,
        *,
        space: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[RetentionReceipt]:
        """Iterate over all that rules deleted in a space, the newest first, page by page. `timeout`
        bounds each page.

        >>> async for it in client.admin.list_retention_receipts():
        ...     print(it.time, it.conversation.conversation_id, it.conversation.rule)
        """
        return self._invoker.iterate(
            calls.LIST_RETENTION_RECEIPTS(space=space, page_size=page_size), timeout
        )

    async def list_retention_receipts_page(
        self,
        *,
        page_token: str | None = None,
        space: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> RetentionReceiptPage:
        """Return one page of `list_retention_receipts`: the first, or with `page_token` the one
        after another, with the same filters.

        >>> page = await client.admin.list_retention_receipts_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.admin.list_retention_receipts_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_RETENTION_RECEIPTS(space=space, page_size=page_size, page_token=page_token),
            timeout,
        )
