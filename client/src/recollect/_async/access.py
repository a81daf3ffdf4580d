# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.access`."""

from recollect._async.invoker import Invoker
from recollect._shared import calls
from recollect._types.access import Caller


class Access:
    """Calls that tell what this client may do, at `client.access`."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def who_am_i(
        self,
        *,
        timeout: float | None = None,
    ) -> Caller:
        """Return the caller as the server knows it: the kind of its token, its scopes, its space.

        >>> caller = await client.access.who_am_i()
        >>> if "recall" in caller.scopes:
        ...     print(f"may search {caller.space}")
        """
        return await self._invoker.run(calls.WHO_AM_I(), timeout)
