"""Answers by a command of the user's: the context goes in, the answer comes out, and those who
watch see it grow.
"""

import codecs
import json
import os
import subprocess
import tempfile
import uuid
from collections.abc import Callable

from recollect import AppendedTurn, Client, Conversation, Message
from recollect._shared.plain import plain


class NoAnswer(Exception):
    """The command gave none. The text says why."""


def answer(
    client: Client, command: str, conversation: Conversation, show: Callable[[str], object]
) -> AppendedTurn:
    """Run `command` in a shell, show its output as it comes, and store it as the agent's answer.

    Its input are the messages of the working context as JSON lines, the one to answer last;
    `RECOLLECT_CONVERSATION_ID` and `RECOLLECT_MODEL` are in its environment. A command that fails
    or says nothing stores nothing. Raises NoAnswer, RecollectError.
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
        raise NoAnswer(
            f"the command that answers ended with exit code {status}; its answer is not stored"
        )
    if not text.strip():
        raise NoAnswer("the command that answers said nothing")
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
