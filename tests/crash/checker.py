"""Holds a service that was started again against the history of the calls before: the model, and
every way of reading.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.domain.message import Message, Role

from tests.at_rest import lines_of
from tests.crash.digest import digest, gaps_in_the_update_log, rebuilt_digest
from tests.crash.history import (
    Call,
    History,
    Stored,
    Verdict,
    judge,
    judge_cursors,
    judge_last,
    refusal,
    stored_messages,
)
from tests.server.conftest import Service, agent, user

_ALL = {"max_turns": 1000, "max_tokens": 1_000_000}
_PATIENCE = 45.0  # seconds that a server may ask for a repeat: a killed one is waited for 30
_PAUSE = 0.05
_SEARCHED = 12  # messages of a history that are searched for


def check(history: History, service: Service, folder: Path, since: int = 0) -> Verdict:
    """Return what of the calls (from place `since` on) is lost, stored twice, or differs between
    two ways of reading.
    """
    calls = history.calls()[since:]
    whole = Verdict(wrong=judge_cursors(calls))
    listed = {
        conversation.id: conversation
        for page in service.pages(page_size=500)
        for conversation in page
    }
    for conversation_id, own in by_conversation(calls).items():
        deletes = [call for call in own if call.kind == "delete" and not call.refused]
        if conversation_id not in listed:
            if not deletes:
                whole.lost.append(f"{conversation_id} is not listed")
            continue
        if any(call.answered for call in deletes):
            whole.wrong.append(f"{conversation_id} was deleted and is there")
            continue
        conversation = service.get(conversation_id)
        stored = stored_messages(service.load(conversation_id, **_ALL).messages)
        verdict = judge(own, stored)
        whole.acknowledged += verdict.acknowledged
        whole.lost += verdict.lost
        whole.duplicated += verdict.duplicated
        whole.wrong += verdict.wrong
        whole.wrong += judge_last(own, "rename", conversation.title)
        whole.wrong += judge_last(own, "abbreviate", conversation.abbreviation)
        if conversation != listed[conversation_id]:
            whole.wrong.append(f"Get and List differ on {conversation_id}")
        if stored != in_transcript(folder / f"{conversation_id}.jsonl"):
            whole.wrong.append(f"Load and the transcript differ on {conversation_id}")
        if (conversation.message_count, conversation.turn_count) != (
            len(stored),
            stored[-1].turn_number if stored else 0,
        ):
            whole.wrong.append(f"Get counts wrong on {conversation_id}")
    whole.wrong += _not_found(
        service, [call for call in calls if call.kind == "append" and call.answered], set(listed)
    )
    return whole


def repeat(history: History, service: Service, since: int = 0) -> list[str]:
    """Repeat every call under its request id: answered ones must be answered alike, others are
    carried out now.

    Returns what went wrong. The history then has an answer for every call.
    """
    wrong: list[str] = []
    calls = history.calls()[since:]
    deleted = {call.conversation_id for call in calls if call.kind == "delete"}
    for call in calls:
        if call.refused or (call.kind == "create" and call.conversation_id in deleted):
            continue
        before = Call(
            call.kind, call.request_id, call.conversation_id, call.texts, stored=call.stored
        )
        try:
            note(call, _answered(service, call))
        except grpc.RpcError as error:
            # What belonged to a conversation goes with it, its requests too.
            if refusal(error) != "NOT_FOUND" or call.conversation_id not in deleted:
                wrong.append(f"{call.request_id} was refused: {error}")
            continue
        if call.answered and call.conversation_id not in deleted:
            if (call.conversation_id, call.stored) != (before.conversation_id, before.stored):
                wrong.append(
                    f"{call.request_id} was answered {before.stored}, and {call.stored} when it was repeated"
                )
        elif not call.answered:
            call.ended = history.now()
    return wrong


def _answered(service: Service, call: Call) -> object:
    """Make a call, again and again while the server asks for that. Raises grpc.RpcError."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return send(service, call)
        except grpc.RpcError as error:
            if refusal(error) or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)


def check_index(
    folder: Path, beside: Path, *, grown: bool = True, index: Path | None = None
) -> list[str]:
    """Return the differences between the index of a stopped server and one rebuilt from the
    transcripts in the folder `beside`. The index is in the folder of the transcripts, or in
    `index`.
    """
    own, anew = digest(index or folder), rebuilt_digest(folder, beside)
    wrong = [
        f"{table}: {own[table]} instead of {anew[table]}"
        for table in own
        if own[table] != anew[table]
    ]
    return wrong + (gaps_in_the_update_log(index or folder) if grown else [])


def send(service: Service, call: Call) -> object:
    """Make a call. Raises grpc.RpcError."""
    request_id, name = call.request_id, call.conversation_id
    messages = [agent(text) if place else user(text) for place, text in enumerate(call.texts)]
    match call.kind:
        case "create":
            return service.conversations.Create(
                api.CreateRequest(channel="web", messages=messages, request_id=request_id)
            )
        case "append":
            return service.append(name, *messages, request_id=request_id)
        case "rename":
            return service.rename(name, call.texts[0], request_id=request_id)
        case "abbreviate":
            return service.abbreviate(name, call.texts[0], request_id=request_id)
        case "delete":
            return service.delete(name, request_id=request_id)
    raise ValueError(call.kind)


def note(call: Call, answer: object) -> None:
    """Copy from an answer the values that the model needs."""
    if isinstance(answer, api.AppendTurnResponse | api.CreateResponse):
        call.stored, call.cursor = stored_messages(answer.messages), call.cursor or answer.cursor
    if isinstance(answer, api.CreateResponse):
        call.conversation_id = answer.conversation.id


def by_conversation(calls: Sequence[Call]) -> dict[str, list[Call]]:
    """Return the calls of each conversation whose id is known."""
    grouped: dict[str, list[Call]] = {}
    for call in calls:
        if call.conversation_id:
            grouped.setdefault(call.conversation_id, []).append(call)
    return grouped


def in_transcript(path: Path) -> tuple[Stored, ...]:
    """Return the messages of a transcript."""
    contents = [line.entry.content for line in lines_of(path) if line.entry]
    return tuple(
        Stored(message.sequence, message.turn_number, message.role is Role.USER, message.content)
        for message in contents
        if isinstance(message, Message)
    )


def _not_found(service: Service, answered: list[Call], listed: set[str]) -> list[str]:
    """Return answered messages that a search for their own word does not find, among the newest,
    which the index took in last.
    """
    wrong = []
    for call in [call for call in answered if call.conversation_id in listed][-_SEARCHED:]:
        hits = [
            (hit.conversation_id, hit.sequence)
            for hit in service.search(call.texts[-1].split()[0]).hits
        ]
        # its neighbours may follow
        if hits[:1] != [(call.conversation_id, call.stored[-1].sequence)]:
            wrong.append(f"a search for {call.texts[-1]!r} finds {hits}")
    return wrong
