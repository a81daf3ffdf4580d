"""A store of LangGraph that finds what was said, beside a program's own values."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from recollect import Client, InvalidArgument, NotFound
from recollect.adapters.clients import blocking
from recollect.adapters.langgraph_store import RecollectStore

ROOT = "conversations"
_MOST = 100


class RecallStore(BaseStore):
    """Conversations as items to search and to get. The namespace is `("conversations",)`, or
    `("conversations", CHANNEL)`; every other one is that of the values' own store.
    """

    def __init__(self, client: Client, values: BaseStore | None = None) -> None:
        """Read conversations with a client. `values` keeps a program's own values; by default
        Recollect does.

        >>> RecallStore(Client())
        """
        self._client = blocking(client)
        self._values = RecollectStore(client) if values is None else values
        self.supports_ttl = self._values.supports_ttl
        self.ttl_config = self._values.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations. Raises NotImplementedError for those that write to conversations;
        ValueError, RecollectError.
        """
        every = list(ops)
        theirs = [it for op in every for it in self._theirs(op)]
        answers = self._values.batch(theirs) if theirs else []
        return self._answers(every, answers)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations as `batch` does, those on conversations in a thread of its own."""
        every = list(ops)
        theirs = [it for op in every for it in self._theirs(op)]
        answers = await self._values.abatch(theirs) if theirs else []
        return await asyncio.to_thread(self._answers, every, answers)

    def _theirs(self, op: Op) -> list[Op]:
        """Return the operation for the store of values, if it concerns that."""
        if isinstance(op, ListNamespacesOp):
            return [op]
        namespace = op.namespace_prefix if isinstance(op, SearchOp) else op.namespace
        if tuple(namespace[:1]) == (ROOT,):
            if isinstance(op, PutOp):
                raise NotImplementedError(
                    "conversations are only to read here: append to them with RecollectMemory or"
                    " the client"
                )
            return []
        if isinstance(op, SearchOp) and not namespace:
            return [op._replace(limit=op.limit + op.offset, offset=0)]
        return [op]

    def _answers(self, ops: list[Op], theirs: list[Result]) -> list[Result]:
        """Return the answers to operations, with those of the store of values in their order."""
        values = iter(theirs)
        return [self._answer(op, next(values) if self._theirs(op) else None) for op in ops]

    def _answer(self, op: Op, value: Any) -> Result:
        match op:
            case GetOp() if tuple(op.namespace[:1]) == (ROOT,):
                return self._get(op)
            case SearchOp() if tuple(op.namespace_prefix[:1]) == (ROOT,):
                return self._search(op)
            case SearchOp() if not op.namespace_prefix:
                return self._search_all(op, value)
            case ListNamespacesOp():
                return self._namespaces(op, value)
        result: Result = value
        return result

    def _search_all(self, op: SearchOp, values: list[SearchItem]) -> list[SearchItem]:
        """Return the program's own values, and then the conversations."""
        left = op.limit + op.offset - len(values)
        if left > 0 and not op.filter:
            values = [*values, *self._search(op._replace(limit=left, offset=0))]
        return values[op.offset :]

    def _namespaces(
        self, op: ListNamespacesOp, values: list[tuple[str, ...]]
    ) -> list[tuple[str, ...]]:
        has_room = not op.match_conditions and op.offset == 0 and len(values) < op.limit
        return [*values, (ROOT,)] if has_room else values

    def _get(self, op: GetOp) -> Item | None:
        if len(op.namespace) > 2:
            return None
        channel = _channel(op.namespace)
        try:
            it = self._client.conversations.get(op.key)
        except (NotFound, InvalidArgument):  # no key of a conversation, or of none that there is
            return None
        if channel not in {None, it.channel}:
            return None
        value = {
            "name": it.name,
            "topics": list(it.topics),
            "abbreviation": it.abbreviation,
            "turns": it.turn_count,
        }
        return Item(
            value=value,
            key=it.id,
            namespace=(ROOT, it.channel),
            created_at=it.create_time,
            updated_at=it.update_time,
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if len(op.namespace_prefix) > 2:
            return []
        if op.filter:
            raise NotImplementedError(
                "this store has no filter but its namespace: (conversations, CHANNEL)"
            )
        if op.limit + op.offset > _MOST:
            raise ValueError(f"limit and offset: Recollect answers at most {_MOST} conversations")
        channel, most = _channel(op.namespace_prefix), op.limit + op.offset
        if not op.query:
            recent = self._client.recall.recent(channel=channel, limit=most)
            items = [
                _item(
                    it.conversation.id,
                    it.conversation.channel,
                    it.conversation.update_time,
                    None,
                    name=it.conversation.name,
                    snippet=it.snippet,
                    abbreviation=it.conversation.abbreviation,
                )
                for it in recent
            ]
        else:
            answer = self._client.recall.search(op.query, channel=channel, limit=most)
            items = [
                _item(
                    it.conversation_id,
                    it.channel,
                    it.date,
                    it.score,
                    name=it.conversation_name,
                    snippet=it.snippet_text,
                    abbreviation=it.abbreviation,
                    turns=list(it.matched_turns),
                )
                for it in answer.results
            ]
        return items[op.offset :]


def _item(key: str, channel: str, date: datetime, score: float | None, **value: Any) -> SearchItem:
    return SearchItem((ROOT, channel), key, value, date, date, score)


def _channel(namespace: Sequence[str]) -> str | None:
    """Return the channel of a namespace; None for all."""
    return namespace[1] if len(namespace) > 1 else None
