"""A checkpointer of LangGraph: a graph's threads, kept by Recollect beside the conversations.

Each checkpoint is a record of its thread (`client.checkpoints`); so is each pending write, and each
value of a channel by its version, so that a step stores what it changed and nothing else. A
checkpoint is stored behind everything that it names, in one request if it fits: it is there whole
or not at all.

Keys, their parts escaped:

    checkpoint/NAMESPACE/ID
    write/NAMESPACE/CHECKPOINT/TASK/INDEX
    blob/NAMESPACE/CHANNEL/VERSION
    part/OWNER/DIGEST/NUMBER           pieces of a value that is larger than one request takes
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from recollect import CheckpointRecord, Client
from recollect.adapters.checkpoint_values import (
    PART,
    Typed,
    Values,
    key_of,
    owner_of,
    packed,
    parts_of,
    records_of,
    unpacked,
)

_CHECKPOINT, _WRITE, _BLOB = "checkpoint", "write", "blob"
_AT_ONCE = 50  # checkpoints that a list reads together
_EMPTY = "empty"  # type of a channel that has no value at a version

_Writes = list[tuple[str, str, Any]]
_Places = list[tuple[str, str]]  # namespaces and ids of checkpoints


class RecollectSaver(BaseCheckpointSaver[str]):
    """A checkpointer whose checkpoints are durable when a step is done, and deleted to the last
    byte. Safe to use from many threads and tasks; the asynchronous methods call in threads.

    >>> graph = builder.compile(checkpointer=RecollectSaver(Client()))
    >>> graph.invoke(state, {"configurable": {"thread_id": "alex"}})
    """

    def __init__(self, client: Client, *, serde: SerializerProtocol | None = None) -> None:
        """Keep checkpoints with a client. `serde` turns values into bytes; an `EncryptedSerializer`
        lets the server see none of them.
        """
        super().__init__(serde=serde)
        self._values = Values(client)

    # Checkpoints ----------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or the newest of its thread and namespace;
        None if there is none.
        """
        thread_id, namespace = _place(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id is None:
            newest = self._values.newest(thread_id, key_of(_CHECKPOINT, namespace, ""))
            if newest is None:
                return None
            return self._tuple(thread_id, namespace, parts_of(newest[0])[2], newest[1])
        key = key_of(_CHECKPOINT, namespace, checkpoint_id)
        value = self._values.get(thread_id, [key]).get(key)
        return None if value is None else self._tuple(thread_id, namespace, checkpoint_id, value)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the base class names it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of all threads without a config, the newest of each
        first. `filter` is compared with their metadata.
        """
        if limit is not None and limit <= 0:
            return
        left = limit
        for thread_id in self._values.threads() if config is None else [_thread(config)]:
            for namespace, checkpoint_id, value in self._listed(thread_id, config, before):
                metadata = self._metadata(value)
                if filter and any(metadata.get(name) != it for name, it in filter.items()):
                    continue
                yield self._tuple(thread_id, namespace, checkpoint_id, value)
                if left is not None:
                    left -= 1
                    if not left:
                        return

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the values of the channels that have new versions, durable on
        return. Return the config that names it.
        """
        thread_id, namespace = _place(config)
        bare: dict[str, Any] = {**checkpoint}
        values: dict[str, Any] = bare.pop("channel_values")
        records: list[CheckpointRecord] = []
        for channel, version in new_versions.items():
            typed = self.serde.dumps_typed(values[channel]) if channel in values else (_EMPTY, b"")
            records += records_of(
                key_of(_BLOB, namespace, channel, _version(version)), packed({}, typed)
            )
        value = packed(
            {"parent": get_checkpoint_id(config)},
            self.serde.dumps_typed(bare),
            self.serde.dumps_typed(get_checkpoint_metadata(config, metadata)),
        )
        records += records_of(key_of(_CHECKPOINT, namespace, checkpoint["id"]), value)
        self._values.put(thread_id, records)
        return _config(thread_id, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote before its checkpoint's step is done. A write that is there stays
        as it is, unless it is an error, an interrupt or the like.
        """
        thread_id, namespace = _place(config)
        checkpoint_id = str(get_checkpoint_id(config))
        records: list[CheckpointRecord] = []
        for position, (channel, it) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            value = packed({"channel": channel, "path": task_path}, self.serde.dumps_typed(it))
            key = key_of(_WRITE, namespace, checkpoint_id, task_id, str(index))
            records += records_of(key, value, keep_existing=index >= 0)
        if records:
            self._values.put(thread_id, records)

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """Return the version behind another. No two are the same, so that the branches of a thread
        do not share values.
        """
        number = int(str(current).split(".", maxsplit=1)[0]) if current is not None else 0
        return f"{number + 1:032}.{secrets.token_hex(8)}"

    # Whole threads --------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread for good, to its last byte."""
        self._values.delete(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs from all threads, with their writes and the values that
        only they have.
        """
        runs = set(run_ids)
        for thread_id in self._values.threads() if runs else ():
            run_ids_of = {
                (namespace, checkpoint_id): self._metadata(value).get("run_id")
                for namespace, checkpoint_id, value in self._listed(thread_id, None, None)
            }
            # Stores and other programs have threads without any checkpoint: those stay as they are.
            if not runs.isdisjoint(run_ids_of.values()):
                self._keep(thread_id, [it for it, run in run_ids_of.items() if run not in runs])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints, writes and values of a thread into another one."""
        # A checkpoint comes last: a copy that is cut short has none without its values.
        keys = self._values.keys(source_thread_id, "")
        keys.sort(key=lambda key: key.startswith(f"{_CHECKPOINT}/"))
        for start in range(0, len(keys), _AT_ONCE):
            values = self._values.get_raw(source_thread_id, keys[start : start + _AT_ONCE])
            self._values.put(target_thread_id, [CheckpointRecord(*it) for it in values.items()])

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the newest checkpoint of each namespace (`keep_latest`), or the threads
        (`delete`). Ancestors from which a `DeltaChannel` is made stay.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"strategy is keep_latest or delete, not {strategy!r}")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            newest = {
                namespace: checkpoint_id
                for _, namespace, checkpoint_id in map(
                    parts_of, self._values.keys(thread_id, f"{_CHECKPOINT}/")
                )
            }
            retained = [
                place
                for namespace, checkpoint_id in newest.items()
                for place in self._with_ancestors(thread_id, namespace, checkpoint_id)
            ]
            self._keep(thread_id, retained)

    # The same, asynchronously ---------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do as `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the base class names it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do as `list`."""
        checkpoints = self.list(config, filter=filter, before=before, limit=limit)
        while (it := await asyncio.to_thread(next, checkpoints, None)) is not None:
            yield it

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do as `put`."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Do as `put_writes`."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Do as `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do as `delete_for_runs`."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do as `copy_thread`."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do as `prune`."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    # Inside ---------------------------------------------------------------------------------------

    def _tuple(
        self, thread_id: str, namespace: str, checkpoint_id: str, value: bytes
    ) -> CheckpointTuple:
        fields, (checkpoint, metadata) = unpacked(value)
        bare: dict[str, Any] = self.serde.loads_typed(checkpoint)
        blobs = {
            channel: key_of(_BLOB, namespace, channel, _version(version))
            for channel, version in bare["channel_versions"].items()
        }
        stored = self._values.get(thread_id, blobs.values())
        typed = {
            channel: unpacked(stored[key])[1][0] for channel, key in blobs.items() if key in stored
        }
        values = {
            channel: self.serde.loads_typed(it) for channel, it in typed.items() if it[0] != _EMPTY
        }
        loaded: Any = {**bare, "channel_values": values}
        return CheckpointTuple(
            config=_config(thread_id, namespace, checkpoint_id),
            checkpoint=loaded,
            metadata=self.serde.loads_typed(metadata),
            parent_config=(
                _config(thread_id, namespace, fields["parent"]) if fields["parent"] else None
            ),
            pending_writes=self._writes(thread_id, namespace, checkpoint_id),
        )

    def _writes(self, thread_id: str, namespace: str, checkpoint_id: str) -> _Writes:
        writes: list[tuple[tuple[str, str, int], str, Typed]] = []
        prefix = key_of(_WRITE, namespace, checkpoint_id, "")
        for key, value in self._values.below(thread_id, prefix).items():
            *_, task_id, index = parts_of(key)
            fields, (typed,) = unpacked(value)
            order = writes_sort_key(fields["path"], task_id, int(index))
            writes.append((order, fields["channel"], typed))
        writes.sort(key=lambda it: it[0])
        return [(order[1], channel, self.serde.loads_typed(it)) for order, channel, it in writes]

    def _metadata(self, value: bytes) -> dict[str, Any]:
        metadata: dict[str, Any] = self.serde.loads_typed(unpacked(value)[1][1])
        return metadata

    def _listed(
        self, thread_id: str, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Iterator[tuple[str, str, bytes]]:
        """Yield the checkpoints of a thread, newest first: namespace, id and value."""
        configurable = config["configurable"] if config else {}
        namespace, only = configurable.get("checkpoint_ns"), configurable.get("checkpoint_id")
        end = get_checkpoint_id(before) if before else None
        prefix = f"{_CHECKPOINT}/" if namespace is None else key_of(_CHECKPOINT, namespace, "")
        keys = [
            key
            for key in self._values.keys(thread_id, prefix)
            if (not only or parts_of(key)[2] == only) and (not end or parts_of(key)[2] < end)
        ]
        keys.sort(key=lambda key: parts_of(key)[2], reverse=True)
        for start in range(0, len(keys), _AT_ONCE):
            chunk = keys[start : start + _AT_ONCE]
            values = self._values.get(thread_id, chunk)
            for key in chunk:
                if key in values:
                    yield parts_of(key)[1], parts_of(key)[2], values[key]

    def _with_ancestors(self, thread_id: str, namespace: str, checkpoint_id: str) -> _Places:
        """Return a checkpoint with the ancestors from which its delta channels are made."""
        retained: list[tuple[str, str]] = []
        needed: set[str] | None = None
        current: str | None = checkpoint_id
        while current is not None and needed != set():
            retained.append((namespace, current))
            ancestor = self.get_tuple(_config(thread_id, namespace, current))
            if ancestor is None:
                break
            if needed is None:
                needed = set(ancestor.metadata.get("counters_since_delta_snapshot", ()))
            needed -= set(ancestor.checkpoint["channel_values"])
            parent = ancestor.parent_config
            current = parent["configurable"]["checkpoint_id"] if parent else None
        return retained

    def _keep(self, thread_id: str, retained: _Places) -> None:
        """Remove every record of a thread but those of these checkpoints."""
        places = {key_of(_CHECKPOINT, *place): place for place in retained}
        needed = set(places)
        for start in range(0, len(places), _AT_ONCE):
            chunk = [*places][start : start + _AT_ONCE]
            for key, value in self._values.get(thread_id, chunk).items():
                bare = self.serde.loads_typed(unpacked(value)[1][0])
                needed |= {
                    key_of(_BLOB, places[key][0], channel, _version(version))
                    for channel, version in bare["channel_versions"].items()
                }
        every = self._values.keys(thread_id, "")
        writes = tuple(key_of(_WRITE, *place, "") for place in retained)
        needed |= {key for key in every if writes and key.startswith(writes)}
        owners = {owner_of(key) for key in needed}
        unused = [
            key
            for key in every
            if key not in needed and not (key.startswith(f"{PART}/") and parts_of(key)[1] in owners)
        ]
        if unused and not retained:
            self.delete_thread(thread_id)
            return
        self._values.remove(thread_id, unused)


def _thread(config: RunnableConfig) -> str:
    """Return the thread of a config. Raises ValueError if it names none."""
    thread_id = config.get("configurable", {}).get("thread_id")
    if thread_id in (None, ""):
        raise ValueError('the config names no thread: {"configurable": {"thread_id": "…"}}')
    return str(thread_id)


def _place(config: RunnableConfig) -> tuple[str, str]:
    return _thread(config), config["configurable"].get("checkpoint_ns", "")


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def _version(version: str | int | float) -> str:
    return json.dumps(version)  # a number and its digits are not the same version
