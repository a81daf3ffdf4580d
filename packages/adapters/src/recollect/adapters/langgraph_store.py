"""A store of LangGraph whose values Recollect keeps, beside the checkpoints of its threads.

A store is a thread of `client.checkpoints` (`langgraph-store/NAME`), so that its values have the
promises of a checkpoint: durable on return, stored once, deleted to the last byte, and neither
searched nor listed with conversations. An item is a record; a second one, of an item with a time to
live, has the time of the read that prolonged it last.

Keys, their parts escaped:

    item/LABEL/…/LABEL//KEY
    read/LABEL/…/LABEL//KEY
    part/OWNER/DIGEST/NUMBER       pieces of a value that is larger than one request takes
"""

import asyncio
import math
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import mul
from typing import Any
from urllib.parse import unquote

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from recollect import CheckpointRecord, Client
from recollect.adapters.checkpoint_values import Values, packed, pieces_of, records_of, unpacked

_ITEM, _READ = "item", "read"  # none longer than the first: a key has 1024 characters
_PROLONGED_LEAST = 0.05
"""Share of its time to live by which a read prolongs an item at least: each such read writes."""

_Place = tuple[tuple[str, ...], str]
"""A namespace and a key."""
_Vectors = dict[str, list[float]]
"""Vectors by the texts that were embedded."""


@dataclass
class _Stored:
    """An item as it is stored."""

    place: _Place
    value: dict[str, Any]
    vectors: dict[str, bytes]
    """Vectors by the path of their text."""
    created: float
    updated: float
    ttl: float | None
    """Minutes; None: it stays."""
    prolonged: float | None = None
    """Time of the read that prolonged it."""

    @property
    def expires(self) -> float:
        """End of its time, in seconds since 1970."""
        return math.inf if self.ttl is None else (self.prolonged or self.updated) + self.ttl * 60

    def fields(self) -> dict[str, Any]:
        """Return the arguments that an `Item` and a `SearchItem` share."""
        return {
            "namespace": self.place[0],
            "key": self.place[1],
            "value": self.value,
            "created_at": datetime.fromtimestamp(self.created, UTC),
            "updated_at": datetime.fromtimestamp(self.updated, UTC),
        }


class RecollectStore(BaseStore):
    """A store whose values are durable when a call returns, and seen by every process that opens it
    by its name. Safe to use from many threads and tasks; the asynchronous methods call in threads.

    The values put by one batch are all stored or none, up to 6 MiB; its reads come before them, and
    its deletes behind.
    A search reads every value below its prefix, and orders them by their last change, newest first;
    with `index` and a query, by similarity.

    >>> store = RecollectStore(Client())
    >>> store.put(("memories", "alex"), "tea", {"text": "green"})
    """

    supports_ttl = True

    def __init__(
        self,
        client: Client,
        *,
        name: str = "default",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open a store of this name in the client's space.

        `index` embeds values with a function of the program's own, as in LangGraph's stores; `ttl`
        has the default time to live and whether reads prolong it. `serde` turns values into bytes:
        an `EncryptedSerializer` lets the server see none of them, only namespaces and keys.
        """
        self.ttl_config = ttl
        self.index_config = index.copy() if index else None
        self.embeddings = ensure_embeddings(index["embed"]) if index else None
        self._paths = _tokenized((index.get("fields") or ["$"]) if index else [])
        self._values = Values(client)
        self._thread = f"langgraph-store/{name}"
        self._serde = serde or JsonPlusSerializer()
        self._clock = clock

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations: reads first, then writes, of which the last one of each key counts.

        Raises InvalidNamespaceError, ValueError for an unknown operator of a filter,
        RecollectError.
        """
        every = [*ops]
        documents, queries = self._texts(every)
        vectors: _Vectors = {}
        queried: _Vectors = {}
        if self.embeddings is not None:
            if documents:
                embedded = self.embeddings.embed_documents(documents)
                vectors.update(zip(documents, embedded, strict=True))
            queried.update((it, self.embeddings.embed_query(it)) for it in queries)
        return self._answers(every, vectors, queried)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations as `batch` does."""
        every = [*ops]
        documents, queries = self._texts(every)
        vectors: _Vectors = {}
        queried: _Vectors = {}
        if self.embeddings is not None:
            if documents:
                embedded = await self.embeddings.aembed_documents(documents)
                vectors.update(zip(documents, embedded, strict=True))
            embedded = await asyncio.gather(*map(self.embeddings.aembed_query, queries))
            queried.update(zip(queries, embedded, strict=True))
        return await asyncio.to_thread(self._answers, every, vectors, queried)

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over, and return how many there were. Until then they only
        are not read any more. One that is put anew at the same moment may go with them.
        """
        now = self._clock()
        stored = self._stored(self._values.below(self._thread, f"{_ITEM}/"))
        expired = [it.place for it in stored.values() if it.expires <= now]
        self._write({it: PutOp(*it, None) for it in expired}, {})
        return len(expired)

    # Reading --------------------------------------------------------------------------------------

    def _answers(self, ops: list[Op], vectors: _Vectors, queried: _Vectors) -> list[Result]:
        keys_to_get = {_key(_ITEM, _place_of(it)) for it in ops if isinstance(it, GetOp)}
        stored = self._live(self._values.get(self._thread, keys_to_get))
        below: dict[tuple[str, ...], list[_Stored]] = {}
        results: list[Result] = []
        read: dict[_Place, _Stored] = {}
        for op in ops:
            result: Result = None
            if isinstance(op, GetOp):
                it = stored.get(_place_of(op))
                result = Item(**it.fields()) if it else None
                items = [it] if it else []
            elif isinstance(op, SearchOp):
                prefix = tuple(op.namespace_prefix)
                if prefix not in below:
                    records = self._values.below(self._thread, _prefix(prefix))
                    newest = sorted(self._live(records).values(), key=lambda it: -it.updated)
                    below[prefix] = newest
                ranked = _ranked(op, below[prefix], queried)[op.offset : op.offset + op.limit]
                result = [SearchItem(**it.fields(), score=score) for score, it in ranked]
                items = [it for _, it in ranked]
            elif isinstance(op, ListNamespacesOp):
                result = self._namespaces(op)
                items = []
            else:
                items = []
            if isinstance(op, GetOp | SearchOp) and op.refresh_ttl:
                read |= {it.place: it for it in items if it.ttl is not None}
            results.append(result)
        writes = {_place_of(it): it for it in ops if isinstance(it, PutOp)}
        self._prolong(it for place, it in read.items() if place not in writes)
        self._write(writes, vectors)
        return results

    def _live(self, records: Mapping[str, bytes]) -> dict[_Place, _Stored]:
        """Return the items of records whose time is not over."""
        now = self._clock()
        return {place: it for place, it in self._stored(records).items() if it.expires > now}

    def _stored(self, records: Mapping[str, bytes]) -> dict[_Place, _Stored]:
        stored = {}
        for key, record in records.items():
            fields, (typed,) = unpacked(record)
            place = _place(key)
            stored[place] = _Stored(place, **fields, **self._serde.loads_typed(typed))
        prolonged = {_key(_READ, place): it for place, it in stored.items() if it.ttl is not None}
        for key, record in self._values.get(self._thread, prolonged).items():
            fields, _ = unpacked(record)
            if fields["updated"] == prolonged[key].updated:  # else it is of a value before this one
                prolonged[key].prolonged = fields["prolonged"]
        return stored

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        literal: list[str] = []
        for label in next((it.path for it in conditions if it.match_type == "prefix"), ()):
            if label == "*":
                break
            literal.append(label)
        keys = self._values.keys(self._thread, _prefix(literal))
        namespaces = {_place(key)[0] for key in keys}
        matching = {it for it in namespaces if all(_matches(each, it) for each in conditions)}
        return sorted({it[: op.max_depth] for it in matching})[op.offset : op.offset + op.limit]

    # Writing --------------------------------------------------------------------------------------

    def _write(self, puts: Mapping[_Place, PutOp], vectors: _Vectors) -> None:
        """Store items, and remove those without a value."""
        if not puts:
            return
        keys = {place: _key(_ITEM, place) for place in puts}
        earlier = self._values.get_raw(self._thread, keys.values())
        unused = {piece for value in earlier.values() for piece in pieces_of(value)}
        replaced = self._values.assembled(self._thread, earlier)
        records: list[CheckpointRecord] = []
        now = self._clock()
        for place, op in puts.items():
            if op.value is None:
                unused |= {keys[place], _key(_READ, place)}
                continue
            created = (
                unpacked(replaced[keys[place]])[0]["created"] if keys[place] in replaced else now
            )
            fields = {"created": created, "updated": now, "ttl": op.ttl}
            content = {"value": {**op.value}, "vectors": self._vectors(op, vectors)}
            records += records_of(keys[place], packed(fields, self._serde.dumps_typed(content)))
        self._values.put(self._thread, records)
        self._values.remove(self._thread, sorted(unused - {it.key for it in records}))

    def _prolong(self, items: Iterable[_Stored]) -> None:
        """Prolong items that were read. It is a record of its own: another process may have put a
        new value meanwhile.
        """
        now = self._clock()
        records: list[CheckpointRecord] = []
        for it in items:
            seconds = (it.ttl or 0) * 60
            if now + seconds - it.expires > seconds * _PROLONGED_LEAST:
                fields = {"updated": it.updated, "prolonged": now}
                records += records_of(_key(_READ, it.place), packed(fields))
        self._values.put(self._thread, records)

    # Vectors --------------------------------------------------------------------------------------

    def _texts(self, ops: Iterable[Op]) -> tuple[list[str], list[str]]:
        """Return the texts to embed of documents and of queries."""
        documents: dict[str, None] = {}
        queries: dict[str, None] = {}
        for op in ops:
            validate_op_namespace(op)
            if self.embeddings is None:
                continue
            if isinstance(op, PutOp):
                documents.update(dict.fromkeys(text for _, text in self._indexed(op)))
            elif isinstance(op, SearchOp) and op.query:
                queries[op.query] = None
        return [*documents], [*queries]

    def _indexed(self, op: PutOp) -> list[tuple[str, str]]:
        """Return the texts of a value that are embedded, with their paths."""
        if self.embeddings is None or op.value is None or op.index is False:
            return []
        paths = self._paths if op.index is None else _tokenized(op.index)
        return [
            (f"{path}.{number}", text)
            for path, tokens in paths
            for number, text in enumerate(get_text_at_path(op.value, tokens))
        ]

    def _vectors(self, op: PutOp, vectors: _Vectors) -> dict[str, bytes]:
        return {path: array("f", vectors[text]).tobytes() for path, text in self._indexed(op)}


def _ranked(
    op: SearchOp, items: Iterable[_Stored], queried: _Vectors
) -> list[tuple[float | None, _Stored]]:
    """Return the items that a filter lets pass: by similarity those with vectors, then the rest."""
    passing = [it for it in items if _passes(it.value, op.filter or {})]
    query = queried.get(op.query or "")
    if query is None:
        return [(None, it) for it in passing]
    scored = [
        (max(_similarity(query, it) for it in stored.vectors.values()), stored)
        for stored in passing
        if stored.vectors
    ]
    scored.sort(key=lambda it: -it[0])
    return [*scored, *((None, it) for it in passing if not it.vectors)]


def _similarity(query: Sequence[float], stored: bytes) -> float:
    vector = array("f")
    vector.frombytes(stored)
    lengths = math.hypot(*query) * math.hypot(*vector)
    return sum(map(mul, query, vector)) / lengths if lengths else 0.0


def _passes(value: Any, conditions: Mapping[str, Any]) -> bool:
    fields = value if isinstance(value, Mapping) else {}
    return all(_equals(fields.get(name), it) for name, it in conditions.items())


def _equals(value: Any, expected: Any) -> bool:
    """Compare as LangGraph's stores do: objects by the named fields, `$gt` and the like."""
    if isinstance(expected, Mapping):
        if any(it.startswith("$") for it in expected):
            return all(_compares(value, operator, it) for operator, it in expected.items())
        return isinstance(value, Mapping) and _passes(value, expected)
    if isinstance(expected, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(expected)
        return same and all(map(_equals, value, expected))
    return bool(value == expected)


def _compares(value: Any, operator: str, limit: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == limit)
        case "$ne":
            return bool(value != limit)
        case "$gt" | "$gte" | "$lt" | "$lte":
            texts = isinstance(value, str) and isinstance(limit, str)
            if not texts and not all(isinstance(it, int | float) for it in (value, limit)):
                return False
            if operator in {"$gt", "$gte"}:
                return bool(value > limit or (operator == "$gte" and value == limit))
            return bool(value < limit or (operator == "$lte" and value == limit))
    raise ValueError(f"a filter has no operator {operator}: use $eq, $ne, $gt, $gte, $lt or $lte")


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    return all(it in {"*", namespace[start + at]} for at, it in enumerate(path))


def _tokenized(paths: Iterable[str]) -> list[tuple[str, Any]]:
    return [(path, path if path == "$" else tokenize_path(path)) for path in paths]


def _place_of(op: GetOp | PutOp) -> _Place:
    return tuple(op.namespace), op.key


def _key(kind: str, place: _Place) -> str:
    namespace, key = place
    return "/".join(map(_escaped, [kind, *namespace, "", key]))


def _prefix(labels: Iterable[str]) -> str:
    """Return what the keys of all items of a namespace and of those below it begin with."""
    return "".join(f"{_escaped(it)}/" for it in [_ITEM, *labels])


def _place(key: str) -> _Place:
    _, *namespace, _, name = map(unquote, key.split("/"))
    return tuple(namespace), name


def _escaped(part: str) -> str:
    """Escape what separates parts, and no more: a key has 1024 characters."""
    return part.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
