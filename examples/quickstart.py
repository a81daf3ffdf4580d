"""Recollect in one minute: begin a conversation, write into it, load it, name it, find it again.

    recollect-server serve &
    python examples/quickstart.py [TARGET]

TARGET is the server's address, else RECOLLECT_ADDRESS, else 127.0.0.1:50051.
"""

import sys
from textwrap import shorten

from recollect import Client, Message, RecollectError, ToolCall


def main(target: str | None) -> None:
    """Run the tour against the server at `target`."""
    with Client(target) as client:
        conversation = client.conversations.create("web", participants=["alex"])
        print(f"Created   {conversation.id} on {conversation.channel}")

        # A turn is one user message and everything the agent produced in answer. All of it is
        # stored, or nothing.
        first = client.conversations.append_turn(
            conversation.id,
            [
                Message.user("Why was the server so slow last night?", sender="alex"),
                Message.assistant(
                    "Let me look.", tool_calls=[ToolCall("call-1", "df", '{"path": "/"}')]
                ),
                Message.tool("/dev/sda1  97%", tool_call_id="call-1"),
                Message.assistant("The disk is almost full: 97 %, most of it old logs."),
            ],
        )
        second = client.conversations.append_turn(
            conversation.id,
            [
                Message.user(
                    "Then let us rotate the logs daily and keep two weeks.", sender="alex"
                ),
                Message.assistant("Done: logrotate runs every night at three and keeps 14 files."),
            ],
        )
        for turn in (first, second):
            print(f"Appended  turn {turn.turn_number} with {len(turn.messages)} messages")

        # What an agent reads before it answers: the newest turns, within a budget.
        loaded = client.conversations.load(conversation.id)
        print(f"Loaded    {len(loaded.messages)} messages:")
        for message in loaded.messages:
            print(
                f"            {message.turn_number}  {message.sender or message.role:<10} {shorten(message.content, 64)}"
            )

        renamed = client.conversations.rename(conversation.id, "Slow Server, Full Disk")
        print(f"Renamed   it is now called {renamed.title!r}")

        question = "how long do we keep the rotated logs?"
        answer = client.recall.search(question, limit=3)
        print(f"Searched  {question!r}, conversations found: {answer.total_matches}")
        for result in answer.results:
            snippet = shorten(result.snippet_text, 90)
            print(
                f"            {shorten(result.conversation_name, 48)}, turn {result.matched_turns[0]}: {snippet}"
            )


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
    except RecollectError as error:
        sys.exit(f"Error: {error}")  # it says what is wrong, and what to do
