"""Conversations of the command line `llm`: its database `logs.db`.

Until 0.31 each response was a row of `responses`. Since 0.32 messages are a tree (`messages`, with
their `parts`), and a thread leads to its newest one; a thread that goes on with an older
conversation has the id of that, and repeats its messages.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any

from recollect import Attachment, Role, ToolCall
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import MAX_ITEM, Reading
from recollect.imports.talks import Talk, attachment
from recollect.imports.values import fields_of, mapping, objects, text_of

NAME = "llm"
_MAGIC = b"SQLite format 3\x00"
_Row = dict[str, Any]
_OLDEST = {"conversations", "responses"}


def _is_head(head: bytes) -> bool:
    return head.startswith(_MAGIC) and b"responses" in head  # of the tables' definitions


def read(reading: Reading, _: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of a database."""
    if reading.path is None:
        yield Skip(reading.name, "a database is read as a file only: unpack it first")
        return
    try:
        with closing(sqlite3.connect(f"{reading.path.resolve().as_uri()}?mode=ro", uri=True)) as it:
            it.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ITEM)
            it.set_authorizer(_allow)
            ((damage,),) = it.execute("PRAGMA quick_check(1)")
            if damage != "ok":
                reason = f"the database is damaged ({damage}): what can be read of it comes"
                yield Skip(reading.name, reason)
            yield from _conversations(_Logs(it), reading.name)
    except (sqlite3.Error, KeyError, TypeError, AttributeError, ValueError) as error:
        # Columns may be missing, and each may hold a value of any type.
        yield Skip(reading.name, f"no logs of llm that can be read: {error}")


def _allow(action: int, *_: str | None) -> int:
    """Deny what never ends: a database of strangers may have a view that makes rows for ever."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_RECURSIVE else sqlite3.SQLITE_OK


class _Logs:
    """The tables of a database. Older ones have fewer tables and columns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._connection = connection
        self._indexes: set[str] = set()
        # A view may have more rows than anybody can read.
        sql = (
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        self._tables = {it["name"] for it in self._all(sql)}
        if missing := sorted(_OLDEST - self._tables):
            raise sqlite3.OperationalError(f"no such table: {missing[-1]}")

    def responses(self) -> Iterator[_Row]:
        """Yield the responses with their conversations, together and in their order. Of those with
        one id there is one, though a database of strangers may lack the keys that say so.
        """
        return self._all(
            "SELECT r.*, coalesce(c.id, r.id) AS own, coalesce(c.name, '') AS title FROM responses r"
            " LEFT JOIN (SELECT id, min(name) AS name FROM conversations GROUP BY id) c"
            " ON c.id = r.conversation_id GROUP BY r.id ORDER BY own, r.datetime_utc, r.id"
        )

    def threads(self) -> Iterator[_Row]:
        """Yield the threads, which databases of older versions have none of."""
        if "threads" not in self._tables:
            return iter(())
        return self._all("SELECT * FROM threads ORDER BY datetime_utc, id")

    def of(self, table: str, column: str, value: Any, order: str = "rowid") -> list[_Row]:
        """Return the rows of a table that have a value in a column, in an order."""
        if table not in self._tables:
            return []
        index = f"{table}_{column}"
        if index not in self._indexes:  # one of our own: llm has none for most
            self._indexes.add(index)
            self._connection.executescript(
                f"CREATE TEMP TABLE of_{index} AS SELECT {column} AS owner, {order} AS place,"
                f" rowid AS item FROM main.{table};"
                f"CREATE INDEX temp.by_{index} ON of_{index} (owner, place)"
            )
        sql = f"SELECT t.* FROM temp.of_{index} o JOIN main.{table} t ON t.rowid = o.item"
        return list(self._all(f"{sql} WHERE o.owner = ? ORDER BY o.place, o.item", value))

    def row(self, table: str, column: str, value: Any) -> _Row:
        """Return the first row of a table that has a value in a column; an empty one for none."""
        return next(iter(self.of(table, column, value)), {})

    def chain(self, tip: str) -> list[_Row]:
        """Return the messages from the first to one."""
        rows: dict[str, _Row] = {}
        while tip and tip not in rows and (row := self.row("messages", "hash", tip)):
            rows[tip] = row
            tip = str(row["parent_hash"] or "")
        return list(rows.values())[::-1]

    def files(self, ids: Iterable[Any]) -> list[Attachment]:
        """Return files by their ids."""
        rows = (self.row("attachments", "id", it) or {"id": it} for it in ids)
        return [_file(it) for it in rows]

    def _all(self, sql: str, *values: Any) -> Iterator[_Row]:
        return iter(self._connection.execute(sql, values))


def _conversations(logs: _Logs, name: str) -> Iterator[Plan | Skip]:
    with_responses: set[str] = set()
    for own, rows in groupby(logs.responses(), key=lambda row: str(row["own"])):
        talk: Talk | None = None
        system = ""
        for row in rows:
            if talk is None:
                where = f"{name} conversation {own}"
                begins = row["datetime_utc"]
                talk = Talk(NAME, own, where, title=row["title"], create_time=begins)
            if row.get("system") not in (None, "", system):
                talk.hide(row["system"])
            system = row.get("system") or system
            _add(talk, logs, row)
        if talk:
            with_responses.add(own)
            if thread := logs.row("threads", "id", own):
                _add_thread(talk, logs, thread, is_begun=True)
            yield talk.plan()
    for thread in logs.threads():
        own = str(thread["id"])
        if own not in with_responses:
            where, title = f"{name} thread {own}", thread["name"] or ""
            talk = Talk(NAME, own, where, title=title, create_time=thread["datetime_utc"])
            _add_thread(talk, logs, thread)
            yield talk.plan()


def _add(talk: Talk, logs: _Logs, row: _Row) -> None:
    own, time = str(row["id"]), row["datetime_utc"]
    for it in logs.of("tool_results", "response_id", own):
        name = f"{own}/result-{it['id']}"
        call_id, error = it.get("tool_call_id") or "", it.get("exception")
        output = it.get("output") or error or ""
        talk.result(name, it["name"], output, time, call_id=call_id, isError=bool(error))
    rows = logs.of("prompt_attachments", "response_id", own, "[order]")
    files = logs.files(it["attachment_id"] for it in rows)
    rows = logs.of("prompt_fragments", "response_id", own, "[order]")
    fragments = [logs.row("fragments", "id", it["fragment_id"]).get("content") for it in rows]
    prompt = "\n".join(filter(None, (*fragments, row["prompt"])))
    talk.say(Role.USER, f"{own}/prompt", prompt, time, attachments=files)
    calls = [
        ToolCall(it.get("tool_call_id") or f"{own}/{it['id']}", it["name"], it["arguments"] or "")
        for it in logs.of("tool_calls", "response_id", own)
    ]
    talk.think(row.get("reasoning") or "")
    text = row["response"] or ""
    talk.hidden += not talk.say(Role.ASSISTANT, own, text, time, calls=calls, model=row["model"])


def _file(row: _Row) -> Attachment:
    return attachment(
        row.get("url") or (f"file://{row['path']}" if row.get("path") else f"llm:{row['id']}"),
        media_type=row.get("type") or "",
        size=len(row["content"]) if row.get("content") else None,
    )


def _add_thread(talk: Talk, logs: _Logs, thread: _Row, *, is_begun: bool = False) -> None:
    """Add the messages of a thread. Where the conversation is begun, the first ones are in it."""
    turns = logs.of("turns", "thread_id", str(thread["id"]), "datetime_utc")
    chain = logs.chain(str(thread["tip_message_hash"] or ""))
    if is_begun and turns:
        places = {str(row["hash"]): at for at, row in enumerate(chain)}
        first = places.get(str(turns[0]["parent_message_hash"] or ""), -1)
        begins = [at for at in range(first) if chain[at]["role"] == "assistant"]
        chain = chain[begins[-1] + 1 if begins else 0 :]
    by_end = {str(it["tip_message_hash"]): it for it in turns}
    waiting: list[_Row] = []
    for row in chain:
        waiting.append(row)
        if turn := by_end.get(str(row["hash"])):
            for it in waiting:
                _add_message(talk, logs, it, turn["datetime_utc"], turn["model"] or "")
            waiting = []
    for it in waiting:
        _add_message(talk, logs, it, thread["datetime_utc"], "")


def _add_message(talk: Talk, logs: _Logs, row: _Row, time: Any, model: str) -> None:
    own, role = str(row["hash"]), row["role"]
    texts, files, calls = list[str](), list[Attachment](), list[ToolCall]()
    for number, part in enumerate(logs.of("parts", "message_hash", own, "position"), start=1):
        fields = mapping(json.loads(part["payload"] or "{}"), "payload of a part")
        text = part["text"] or _text(logs, fields)
        match part["type"]:
            case "text":
                texts.append(text)
            case "reasoning":
                talk.think(text)
            case "attachment":
                files += logs.files([text_of(fields_of(fields, "attachment"), "id")])
            case "tool_call":
                call_id = text_of(fields, "tool_call_id") or f"{own}/{number}"
                arguments = json.dumps(fields.get("arguments"), ensure_ascii=False)
                calls.append(ToolCall(call_id, text_of(fields, "name"), arguments))
            case "tool_result":
                error, call_id = text_of(fields, "exception"), text_of(fields, "tool_call_id")
                name, output = text_of(fields, "name"), text_of(fields, "output") or error
                place = own if number == 1 else f"{own}/{number}"
                of_result = logs.files(text_of(it, "id") for it in objects(fields, "attachments"))
                talk.result(
                    place,
                    name,
                    output,
                    time,
                    call_id=call_id,
                    isError=bool(error),
                    files=[it.uri for it in of_result],
                )
            case kind:
                talk.note(f"a part of the type {kind!r:.40} is not read", own)
    text = "\n\n".join(filter(None, texts))
    if role == "assistant":
        talk.say(Role.ASSISTANT, own, text, time, calls=calls, attachments=files, model=model)
    elif role == "user":
        talk.say(Role.USER, own, text, time, attachments=files)
    elif role != "tool":
        talk.hide(text)


def _text(logs: _Logs, fields: dict[str, Any]) -> str:
    """Return the text of a part that consists of fragments and what stands between them."""
    pieces = objects(fields, "text_ref")
    texts = (logs.row("fragments", "id", it.get("fragment")).get("content") for it in pieces)
    return "".join(text or text_of(it, "literal") for it, text in zip(pieces, texts, strict=True))


FORMAT = Format(NAME, "llm", read, is_head=_is_head)
