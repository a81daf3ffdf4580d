# Generated from recollect/_async/admin.py by scripts/unasync.py: edit that one.
"""`client.admin`."""

from recollect._shared.calls import admin as calls
from recollect._sync.invoker import Invoker
from recollect._types.admin import SettingList, SpacePage, Stats, TokenPage


class Admin:
    """Administers the server. Found at `client.admin`.

    Every call needs the scope `admin`. A token for certain spaces administers those alone; settings
    need a token for every space. `timeout` bounds a call in seconds, retries included, instead of
    the client's own.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    def list_settings(self, *, timeout: float | None = None) -> SettingList:
        """Return all settings with their sources, defaults and ranges.

        >>> for setting in (client.admin.list_settings()).settings:
        ...     print(setting.key, setting.value, setting.source)
        """
        return self._invoker.run(calls.list_settings(), timeout)

    def list_spaces(
        self,
        *,
        query: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> SpacePage:
        """Return a page of spaces, by name. `query` is looked for in the names.

        >>> for space in (client.admin.list_spaces()).spaces:
        ...     print(space.name, space.state, space.conversations)
        """
        return self._invoker.run(calls.list_spaces(query, page_size, page_token), timeout)

    def list_tokens(
        self,
        *,
        include_ended: bool = False,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> TokenPage:
        """Return a page of tokens, the newest first.

        >>> for token in (client.admin.list_tokens()).tokens:
        ...     print(token.id, token.kind, token.spaces, token.expire_time)
        """
        call = calls.list_tokens(include_ended, page_size, page_token)
        return self._invoker.run(call, timeout)

    def get_stats(self, *, space: str | None = None, timeout: float | None = None) -> Stats:
        """Return what a space holds and what is left to do there.

        >>> stats = client.admin.get_stats()
        >>> print(stats.space.conversations, stats.space.notes.failures)
        """
        return self._invoker.run(calls.get_stats(space), timeout)
