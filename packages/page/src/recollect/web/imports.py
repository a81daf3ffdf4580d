"""Imports of files that a person chose on the page.

A file goes to disk as it comes, and a program of its own reads it and appends through the contract
as the caller (`python -m recollect.imports`): whatever the file holds, this process sees its bytes
and the lines that the program prints. The program begins before the file comes, and removes it
where this process ends first.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect._bounded_http import connection_of
from recollect._shared.endpoint import SYSTEM, Endpoint
from recollect.v1 import scope_pb2
from recollect.web.forwarding import Forwarder
from recollect.web.protocols import NO_STORE, RequestRefused

_KIND = "application/octet-stream"
_PROGRAM = "recollect.imports"
_MOST = 2
"""Imports at the same time."""
_UPLOAD_SECONDS = 900.0
"""The time that a file may take to arrive."""
_MEMORY = 3 << 30
"""Bytes of memory that the program may map."""
_PROCESSOR_SECONDS = 1800
"""Processor time that it may take."""
_DISK_FACTOR = 4
"""A temporary file of the program may be so many times as large as a file to import."""
_PART = 1 << 20
"""Bytes that are written to disk at a time."""
_SCOPES = frozenset(
    {
        scope_pb2.SCOPE_CONVERSATIONS_READ,
        scope_pb2.SCOPE_CONVERSATIONS_WRITE,
        scope_pb2.SCOPE_CONVERSATIONS_MANAGE,
    }
)
"""The scopes of the calls of an import."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:]+")
_LONGEST_NAME = 200
"""Bytes of a file's name."""


class Imports:
    """Runs an import for a caller, one at a time, and some for all."""

    def __init__(self, endpoint: Endpoint, most_bytes: int) -> None:
        self._endpoint = endpoint
        self._most_bytes = most_bytes
        self._running: set[str] = set()

    async def answer(
        self, request: Request, caller: str, forwarder: Forwarder, token: str | None
    ) -> ASGIApp:
        """Take a file in and begin its import. Return the answer, which streams the lines of the
        program. Raises RequestRefused.
        """
        if request.headers.get("content-type") != _KIND:
            raise RequestRefused(415, "invalid_argument", f"content-type: must be {_KIND}")
        if not self._most_bytes:
            text = "this page imports nothing: --max-import of recollect-web is 0, or its extra `imports` is not installed"
            raise RequestRefused(None, "unimplemented", text)
        if caller in self._running or len(self._running) >= _MOST:
            whose = "of yours runs" if caller in self._running else f"runs for {_MOST} people"
            text = f"an import {whose} already: begin this one when that has ended"
            raise RequestRefused(None, "resource_exhausted", text)
        metadata = forwarder.metadata(request, token)
        ends = ExitStack()  # closed once, whichever way it ends
        self._running.add(caller)
        ends.callback(self._running.discard, caller)
        try:
            await _check(forwarder, token)
            folder = Path(tempfile.mkdtemp(prefix="recollect-import-"))
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            program = await _start(folder)
            ends.callback(_end, program)
            path = await self._receive(request, folder)
            self._order(program, path, dict(metadata), request.query_params.get("owner", ""))
        except BaseException:
            ends.close()
            raise

        async def lines() -> AsyncIterator[bytes]:
            async for it in _lines(program):
                yield it
            ends.close()  # before the answer ends: the next file may come at once

        async def running(scope: Scope, receive: Receive, send: Send) -> None:
            answer = StreamingResponse(lines(), headers=NO_STORE, media_type="application/x-ndjson")
            try:
                await answer(scope, receive, send)
            finally:
                ends.close()

        return running

    async def _receive(self, request: Request, folder: Path) -> Path:
        """Write the body to a file of the name that the request gives. Raises RequestRefused."""
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self._most_bytes:
            raise self._too_large()
        if (connection := connection_of(request.scope)) is not None:
            connection.extend_body(_UPLOAD_SECONDS)
        inner = folder / "file"  # readers look beside a file, and into the folder above it
        inner.mkdir()
        path = inner / _file_name(request.query_params.get("name", ""))
        size, part = 0, bytearray()
        try:
            with path.open("xb") as file:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > self._most_bytes:
                        raise self._too_large()
                    part += chunk
                    if len(part) >= _PART:
                        await asyncio.to_thread(file.write, part)
                        part = bytearray()
                file.write(part)
        except OSError as error:
            text = f"the folder of temporary files takes no more: {error.strerror}"
            raise RequestRefused(None, "resource_exhausted", text) from None
        return path

    def _too_large(self) -> RequestRefused:
        text = (
            f"the file has more than {self._most_bytes // 1_000_000} MB, which --max-import of"
            " recollect-web allows"
        )
        return RequestRefused(413, "resource_exhausted", text)

    def _order(
        self,
        program: asyncio.subprocess.Process,
        path: Path,
        metadata: dict[str, str],
        owner: str,
    ) -> None:
        """Have the program import the file."""
        tls = self._endpoint.tls
        order: dict[str, Any] = {
            "path": str(path),
            "memory": _MEMORY,
            "processor_seconds": _PROCESSOR_SECONDS,
            "disk": _DISK_FACTOR * self._most_bytes,
            "target": self._endpoint.target,
            "token": metadata.get("authorization", "").removeprefix("Bearer ") or None,
            "space": metadata.get("recollect-space"),
            "owner": owner,
        }
        if tls is not None:
            order["ca"] = tls.roots.decode() if tls.roots else SYSTEM
            order["cert"] = (
                (tls.chain.decode(), tls.key.decode()) if tls.chain and tls.key else None
            )
        assert program.stdin is not None
        program.stdin.write(json.dumps(order).encode() + b"\n")


async def _start(folder: Path) -> asyncio.subprocess.Process:
    """Start the program, which waits for its order."""
    # -P: no module comes from the current folder, in which the file is
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        _PROGRAM,
        folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={it: value for it, value in os.environ.items() if not it.startswith("RECOLLECT_")},
        start_new_session=True,  # Ctrl-C is for this process, which ends the program
    )


def _end(program: asyncio.subprocess.Process) -> None:
    """End the program, unless it has."""
    if program.returncode is None:
        program.kill()


async def _check(forwarder: Forwarder, token: str | None) -> None:
    """Raise RequestRefused for a caller who may not import, before the file comes."""
    caller = await forwarder.check(token or "")
    if missing := sorted(_SCOPES - set(caller.scopes)):
        names = ", ".join(scope_pb2.Scope.Name(it).removeprefix("SCOPE_").lower() for it in missing)
        text = f"this token may not import: it lacks {names}"
        raise RequestRefused(None, "permission_denied", text)


async def _lines(program: asyncio.subprocess.Process) -> AsyncIterator[bytes]:
    """Yield what the program prints, and a line that says so where it broke off."""
    assert program.stdout is not None
    while part := await program.stdout.read(_PART):
        yield part
    if code := await program.wait():
        reason = f"with status {code}"
        if code == -signal.SIGXCPU:
            reason = "because it took too much processor time"
        elif code < 0:
            reason = f"by {signal.Signals(-code).name}"
        yield json.dumps({"failed": f"reading the file ended {reason}"}).encode() + b"\n"


def _file_name(name: str) -> str:
    """Return a name of a file in one folder, with the end of what a person's file is called: the
    readers know some files by their names.
    """
    safe = _UNSAFE.sub("-", name).strip().encode("utf-8", "replace")[-_LONGEST_NAME:]
    shown = safe.decode("utf-8", "ignore").lstrip(".")
    return shown or "file"
