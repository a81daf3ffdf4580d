"""`recollect chat`: a minimal prompt that keeps what is said. A command of the user's may answer:
the context goes in, the answer comes out, and those who watch see it grow.
"""

import codecs
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from recollect import (
    AppendedTurn,
    Client,
    CliOrigin,
    CommandReply,
    Conversation,
    Message,
    StoredInConversation,
    Unimplemented,
)
from recollect._shared.plain import plain
from recollect.cli.exits import FAILED, REFUSED, Ended
from recollect.cli.options import Shell, with_shell
from recollect.cli.printing import clean, console, json_line, warn

CHANNEL = "cli"
_LEAVE = {"/quit", "/exit"}


@click.command()
@click.option(
    "--name",
    default="default",
    show_default=True,
    metavar="NAME",
    help="Which conversation: cli:NAME.",
)
@click.option("--answer-with", metavar="COMMAND", help="A shell command that answers.")
@with_shell
def chat(shell: Shell, name: str, answer_with: str | None) -> None:
    """Talk, one line at a time; every line is kept in the conversation cli:NAME.

    Recollect has no model: without --answer-with nobody answers, and this keeps notes. With it,
    every line runs COMMAND in a shell. It reads the conversation's working context, one JSON
    message a line and the one to answer last, and what it prints is the answer: shown as it comes,
    live to all watchers, and stored when the command ends well.

    The server answers /new, /model, /history, /clear and /help. /quit, or the end of the input,
    leaves.
    """
    if not shell.as_json:
        console().print(
            clean(
                f"Kept in {CHANNEL}:{name}. /help says what there is; /quit or Ctrl-D leaves.",
                "dim",
            )
        )
    while (line := _next_line(shell)) is not None:
        text = line.strip()
        if text in _LEAVE:
            break
        if not text:
            continue
        try:
            # One id for each line that is typed: retries of the client store it once.
            received = shell.client.channels.receive(
                CHANNEL, uuid.uuid4().hex, line, origin=CliOrigin(session_name=name)
            ).outcome
        except Unimplemented as error:
            raise Ended(
                f"this server knows no channels, which chat needs: {error}", REFUSED
            ) from error
        if isinstance(received, CommandReply):
            if shell.as_json:
                json_line({"reply": received.text, "conversationId": received.conversation.id})
            else:
                console().print(clean(received.text, "yellow"))
            continue
        if not isinstance(received, StoredInConversation):
            raise Ended("the server takes what is typed here for a third party's", FAILED)
        if shell.as_json:
            for message in received.messages:
                _record(received.conversation.id, message)
        if answer_with is None:
            continue
        try:
            stored = _answer(shell.client, answer_with, received.conversation, _show(shell))
        except _NoAnswer as error:
            if not sys.stdin.isatty():
                raise Ended(str(error), FAILED) from error
            warn(f"Error: {error}")
            continue
        if shell.as_json:
            for message in stored.messages:
                _record(received.conversation.id, message)
        else:
            console().print()


def _next_line(shell: Shell) -> str | None:
    """Return the next typed line; None at the end."""
    if sys.stdin.isatty() and not shell.as_json:
        with suppress(ModuleNotFoundError):
            import readline  # noqa: F401 - gives `input` its editing and history
        try:
            return input("> ")
        except EOFError:
            console().print()
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _show(shell: Shell) -> Any:
    if shell.as_json:
        return lambda _: None
    out = console()
    return lambda part: out.print(clean(part, "green"), end="")


def _record(conversation_id: str, message: Message) -> None:
    json_line({"conversationId": conversation_id} | plain(message))


class _NoAnswer(Exception):
    """The command gave none. The text says why."""


def _answer(
    client: Client, command: str, conversation: Conversation, show: Callable[[str], object]
) -> AppendedTurn:
    """Run `command` in a shell, show its output as it comes, and store it as the agent's answer.

    Its input are the messages of the working context as JSON lines, the one to answer last;
    `RECOLLECT_CONVERSATION_ID` and `RECOLLECT_MODEL` are in its environment. A command that fails
    or says nothing stores nothing. Raises _NoAnswer, RecollectError.
    """
    context = client.conversations.load(conversation.id)
    environment = os.environ | {
        "RECOLLECT_CONVERSATION_ID": conversation.id,
        "RECOLLECT_MODEL": conversation.model,
    }
    draft = f"chat-{uuid.uuid4().hex}"
    with (
        tempfile.TemporaryFile() as file
    ):  # not a pipe: a command that writes before it has read all would block both
        file.writelines(
            json.dumps(plain(message), ensure_ascii=False).encode() + b"\n"
            for message in context.messages
        )
        file.seek(0)
        # A shell is what the user asks for: they give a command line as they would type it.
        process = subprocess.Popen(  # noqa: S602
            command, shell=True, stdin=file, stdout=subprocess.PIPE, env=environment
        )
    with process:
        text = _pass_on(client, conversation.id, draft, process, show)
        status = process.wait()
    if status:
        raise _NoAnswer(
            f"the command that answers ended with exit code {status}; its answer is not stored"
        )
    if not text.strip():
        raise _NoAnswer("the command that answers said nothing")
    return client.conversations.append_turn(
        conversation.id, [Message.assistant(text.rstrip("\n"))], draft_id=draft
    )


def _pass_on(
    client: Client,
    conversation_id: str,
    draft: str,
    process: "subprocess.Popen[bytes]",
    show: Callable[[str], object],
) -> str:
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = ""
    while chunk := os.read(process.stdout.fileno(), 1 << 16):
        part = decoder.decode(chunk).replace("\0", "")
        client.conversations.publish_delta(conversation_id, draft, len(text), part)
        show(part)
        text += part
    return text
