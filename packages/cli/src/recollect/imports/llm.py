"""Conversations of the command line `llm`: its database `logs.db`."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from typing import Any

from recollect import Role, ToolCall
from recollect.imports.forms import Format, Options
from recollect.imports.plans import Plan, Skip
from recollect.imports.reading import Reading
from recollect.imports.talks import Talk, attachment

NAME = "llm"
_MAGIC = b"SQLite format 3\x00"
_Row = dict[str, Any]
_ROWS_OF = {
    "tool_calls": "SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id",
    "tool_results": "SELECT * FROM tool_results WHERE response_id = ? ORDER BY id",
    "attachments": (
        "SELECT a.* FROM attachments a JOIN prompt_attachments p ON p.attachment_id = a.id"
        " WHERE p.response_id = ? ORDER BY p.[order]"
    ),
}


def _is_head(head: bytes) -> bool:
    return head.startswith(_MAGIC) and b"responses" in head  # of the tables' definitions


def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
    """Yield the conversations of a database."""
    del options
    if reading.path is None:
        yield Skip(reading.name, "a database is read as a file only: unpack it first")
        return
    try:
        with closing(sqlite3.connect(f"{reading.path.resolve().as_uri()}?mode=ro", uri=True)) as it:
            ((damage,),) = it.execute("PRAGMA quick_check(1)")
            if damage != "ok":
                reason = f"the database is damaged ({damage}): what can be read of it comes"
                yield Skip(reading.name, reason)
            yield from _conversations(_Logs(it), reading.name)
    except sqlite3.Error as error:
        yield Skip(reading.name, f"no logs of llm that can be read: {error}")


class _Logs:
    """The tables of a database. Older ones have fewer tables and columns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._connection = connection
        self._tables = {it["name"] for it in self._all("SELECT name FROM sqlite_master")}

    def responses(self) -> Iterator[_Row]:
        """Yield the responses with their conversations, together and in their order."""
        return self._all(
            "SELECT r.*, coalesce(c.id, r.id) AS own, coalesce(c.name, '') AS title FROM responses r"
            " LEFT JOIN conversations c ON c.id = r.conversation_id ORDER BY own, r.datetime_utc, r.id"
        )

    def of(self, table: str, response: str) -> list[_Row]:
        """Return the rows of a table that belong to a response."""
        if table not in self._tables:
            return []
        return list(self._all(_ROWS_OF[table], response))

    def _all(self, sql: str, *values: str) -> Iterator[_Row]:
        return iter(self._connection.execute(sql, values))


def _conversations(logs: _Logs, name: str) -> Iterator[Plan | Skip]:
    for own, rows in groupby(logs.responses(), key=lambda row: str(row["own"])):
        talk: Talk | None = None
        system = ""
        for row in rows:
            if talk is None:
                where = f"{name} conversation {own}"
                begins = row["datetime_utc"]
                talk = Talk(NAME, own, where, title=row["title"], create_time=begins)
            talk.hidden += row.get("system") not in (None, "", system)
            system = row.get("system") or system
            _add(talk, logs, row)
        if talk:
            yield talk.plan()


def _add(talk: Talk, logs: _Logs, row: _Row) -> None:
    own, time = str(row["id"]), row["datetime_utc"]
    for it in logs.of("tool_results", own):
        name = f"{own}/result-{it['id']}"
        call_id, error = it.get("tool_call_id") or "", it.get("exception")
        output = it.get("output") or error or ""
        talk.result(name, it["name"], output, time, call_id=call_id, isError=bool(error))
    files = [
        attachment(
            it.get("url") or (f"file://{it['path']}" if it.get("path") else f"llm:{it['id']}"),
            media_type=it.get("type") or "",
            size=len(it["content"]) if it.get("content") else None,
        )
        for it in logs.of("attachments", own)
    ]
    talk.say(Role.USER, f"{own}/prompt", row["prompt"] or "", time, attachments=files)
    calls = [
        ToolCall(it.get("tool_call_id") or f"{own}/{it['id']}", it["name"], it["arguments"] or "")
        for it in logs.of("tool_calls", own)
    ]
    text = row["response"] or ""
    talk.hidden += not talk.say(Role.ASSISTANT, own, text, time, calls=calls, model=row["model"])


FORMAT = Format(NAME, "llm", read, is_head=_is_head)
