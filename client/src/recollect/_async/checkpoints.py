# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.checkpoints`."""

from collections.abc import AsyncIterator, Iterable

from recollect._async.invoker import Invoker
from recollect._shared import answers, calls
from recollect._types.checkpoint import (
    CheckpointRecord,
    CheckpointRecordPage,
    CheckpointThread,
    CheckpointThreadPage,
    FoundCheckpointRecords,
    RemovedCheckpointRecords,
)


class Checkpoints:
    """Calls that keep the state of programs, at `client.checkpoints`: records by thread, beside the
    conversations and never among them.

    A thread is named as the program likes, and begins with its first records. In all methods an
    argument that is `None` is left to the server's default, and `timeout` bounds the call in
    seconds, retries included, instead of the client's own.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def put_records(
        self,
        thread_id: str,
        records: Iterable[CheckpointRecord],
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> int:
        """Store records, all or none, durable on return, and return how many were stored: those
        with `keep_existing` whose key is there are not.

        >>> await client.checkpoints.put_records("run-1", [CheckpointRecord("step/0001", b"state")])
        """
        return await self._invoker.run(
            calls.PUT_RECORDS(
                thread_id=thread_id,
                records=[answers.PutRecord(it, it.keep_existing) for it in records],
                request_id=request_id,
            ),
            timeout,
        )

    async def get_records(
        self,
        thread_id: str,
        keys: Iterable[str],
        *,
        timeout: float | None = None,
    ) -> FoundCheckpointRecords:
        """Return the records of these keys that the thread has. A large answer is cut: ask again
        for the keys behind `keys_answered`.

        >>> found = await client.checkpoints.get_records("run-1", ["step/0001"])
        """
        return await self._invoker.run(calls.GET_RECORDS(thread_id=thread_id, keys=keys), timeout)

    async def list_records(
        self,
        thread_id: str,
        *,
        prefix: str | None = None,
        after_key: str | None = None,
        descending: bool = False,
        keys_only: bool = False,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> CheckpointRecordPage:
        """Return the records whose keys begin with `prefix`, in the order of the keys.

        >>> page = await client.checkpoints.list_records("run-1", prefix="step/", descending=True)
        >>> print([record.key for record in page.records])
        """
        return await self._invoker.run(
            calls.LIST_RECORDS(
                thread_id=thread_id,
                prefix=prefix,
                after_key=after_key,
                descending=descending,
                keys_only=keys_only,
                limit=limit,
            ),
            timeout,
        )

    async def remove_records(
        self,
        thread_id: str,
        keys: Iterable[str],
        *,
        timeout: float | None = None,
    ) -> RemovedCheckpointRecords:
        """Remove records for good, their values from every file of the service.

        >>> await client.checkpoints.remove_records("run-1", ["step/0001"])
        """
        return await self._invoker.run(
            calls.REMOVE_RECORDS(thread_id=thread_id, keys=keys), timeout
        )

    def list_threads(
        self,
        *,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[CheckpointThread]:
        """Iterate over all threads, page by page. `timeout` bounds each page.

        >>> async for thread in client.checkpoints.list_threads():
        ...     print(thread.thread_id)
        """
        return self._invoker.iterate(calls.LIST_THREADS(page_size=page_size), timeout)

    async def list_threads_page(
        self,
        *,
        page_token: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> CheckpointThreadPage:
        """Return one page of `list_threads`: the first, or with `page_token` the one after another.

        >>> page = await client.checkpoints.list_threads_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.checkpoints.list_threads_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_THREADS(page_size=page_size, page_token=page_token), timeout
        )

    async def delete_thread(
        self,
        thread_id: str,
        *,
        timeout: float | None = None,
    ) -> int:
        """Delete a thread for good, to its last byte, and return how many bytes that were; 0 if
        there is no such thread.

        >>> await client.checkpoints.delete_thread("run-1")
        """
        return await self._invoker.run(calls.DELETE_THREAD(thread_id=thread_id), timeout)
