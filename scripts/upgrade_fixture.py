"""Let a release write a data folder, which later releases must open: `tests/fixtures/NAME`.

    python scripts/upgrade_fixture.py v0.2.0            # a tag, which names the fixture
    python scripts/upgrade_fixture.py b7b7fdd8 NAME     # another commit

The release is checked out into a temporary folder and installed there with its own constraints. Its
own server then takes the calls of `write`, over a folder and, if it knows that store, over a
PostgreSQL; calls and fields that it does not know yet are left out. Written are `answers.json`
(every question of `ask` with that release's answer), `data.tar.xz` (the folder) and
`database.sql.xz`. `tests/upgrade` opens them.

This file runs in two Pythons: in the tree's, and, with `--write`, in that of the release. What the
second one needs is gRPC and the release's own `recollect.v1`.
"""

import base64
import io
import json
import lzma
import os
import pkgutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import recollect.v1
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict, ParseDict

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"

Json = dict[str, Any]

_QUIET = {
    "RECOLLECT_EMBEDDER": "off",
    "RECOLLECT_ABBREVIATOR": "off",
    "RECOLLECT_LOG_LEVEL": "warning",
}
"""Settings under which a server writes nothing of its own."""


_FIRST_WITH_SPACES = "AccessService.WhoAmI"
"""A call that came with the spaces."""


class Calls:
    """The calls of the contract by name, as any release has them."""

    def __init__(self, address: str, token: str = "") -> None:
        for module in pkgutil.iter_modules(recollect.v1.__path__):
            if module.name.endswith("_pb2"):
                import_module(f"recollect.v1.{module.name}")
        self._channel = grpc.insecure_channel(address)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def __call__(self, name: str, space: str = "", **request: Any) -> Json | None:
        """Return the answer of `Service.Method`; None if the release does not have it."""
        method = _method(name)
        if method is None or (space and _method(_FIRST_WITH_SPACES) is None):
            return None
        callable_ = self._channel.unary_unary(
            f"/{method.containing_service.full_name}/{method.name}",
            message_factory.GetMessageClass(method.input_type).SerializeToString,
            message_factory.GetMessageClass(method.output_type).FromString,
        )
        try:
            answer = callable_(
                _message(method, request), metadata=self._of(space), wait_for_ready=True, timeout=60
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None
            raise
        return MessageToDict(answer, preserving_proto_field_name=True)

    def stream(self, name: str, **request: Any) -> Generator[Json, None, None]:
        """Yield what a stream sends. Close the iterator to end it."""
        method = _method(name)
        assert method is not None
        call = self._channel.unary_stream(
            f"/{method.containing_service.full_name}/{method.name}",
            message_factory.GetMessageClass(method.input_type).SerializeToString,
            message_factory.GetMessageClass(method.output_type).FromString,
        )(_message(method, request), metadata=self._of(""), timeout=60)
        try:
            for answer in call:
                yield MessageToDict(answer, preserving_proto_field_name=True)
        finally:
            call.cancel()

    def _of(self, space: str) -> tuple[tuple[str, str], ...]:
        return (*self._metadata, *((("recollect-space", space),) if space else ()))


def _method(name: str) -> Any:
    service, _, method = name.partition(".")
    try:
        described = descriptor_pool.Default().FindServiceByName(f"recollect.v1.{service}")
    except KeyError:
        return None
    return described.methods_by_name.get(method)


def _message(method: Any, request: Json) -> Any:
    message = message_factory.GetMessageClass(method.input_type)()
    return ParseDict(request, message, ignore_unknown_fields=True)


def write(call: Callable[..., Json | None]) -> Json:
    """Write an entry of every kind that a caller can cause. Return the ids of what was made."""
    chat = _id(call("ConversationService.Create", channel="web", model="m1", request_id="create-1"))
    ids: Json = {"chat": chat, "repeat": {"conversation_id": chat, "request_id": "turn-1"}}
    ids["repeat"]["messages"] = [
        {
            "role": "ROLE_USER",
            "content": "Where does the heron nest?",
            "sender": "u1",
            "sender_name": "Ada",
        },
        {
            "role": "ROLE_ASSISTANT",
            "content": "On the island. Let me look it up: naïve café, 鷺, 🪺.",
            "thinking_text": "A bird, then.",
            "usage": {"input": 12, "output": 7},
            "tool_calls": [{"id": "t1", "name": "atlas", "arguments": '{"bird": "heron"}'}],
            "metadata": {"mood": "calm", "depth": {"levels": [1, 2.5, None, True]}},
        },
        {"role": "ROLE_TOOL", "content": "island: yes", "tool_call_id": "t1"},
    ]
    append = _method("ConversationService.AppendTurn")
    # as this release knows it: a repeat is the same request to the last member
    ids["repeat"] = MessageToDict(_message(append, ids["repeat"]), preserving_proto_field_name=True)
    first = call("ConversationService.AppendTurn", **ids["repeat"]) or {}
    for number, text in enumerate(["The ferry leaves at nine.", "Bring the green notebook."], 2):
        attachment = {"media_type": "image/png", "uri": "file:///a.png", "bytes_length": 12}
        call(
            "ConversationService.AppendTurn",
            conversation_id=chat,
            request_id=f"turn-{number}",
            expected_turn=number - 1,
            messages=[
                {"role": "ROLE_USER", "content": text, "attachments": [attachment]},
                {"role": "ROLE_ASSISTANT", "content": f"Noted: {text}", "channel": "web"},
            ],
        )
    call("ConversationService.SetModel", conversation_id=chat, model="m2", request_id="model-1")
    call(
        "ConversationService.UpdateMetadata",
        conversation_id=chat,
        metadata={"project": "birds"},
        request_id="metadata-1",
    )
    call(
        "ConversationService.RecordCompression",
        conversation_id=chat,
        compressed_through=1,
        summary="They spoke of herons.",
        request_id="compression-1",
    )
    call(
        "ConversationService.SetTurnMemory",
        conversation_id=chat,
        turn_number=1,
        tier="CONTEXT_TIER_HOT",
        summary="They saw herons.",
        request_id="memory-1",
    )
    call(
        "ConversationService.RecordAbbreviation",
        conversation_id=chat,
        text="Herons nest on the island; the ferry leaves at nine.",
        topics=["birds"],
        writer="anthropic",
        writer_model="m1",
        request_id="abbreviation-1",
    )
    call(
        "ConversationService.Rename",
        conversation_id=chat,
        title="Herons and ferries",
        request_id="rename-1",
    )
    call(
        "ConversationService.SetTopics",
        conversation_id=chat,
        topics=["birds", "travel"],
        request_id="topics-1",
    )
    ids["fork"] = _id(
        call("ConversationService.Fork", conversation_id=chat, through_turn=2, request_id="fork-1")
    )
    other = _id(
        call(
            "ConversationService.Create",
            channel="cli",
            participants=["u1", "agent"],
            request_id="create-2",
        )
    )
    for number, text in enumerate(["The password is swordfish.", "Water the fern on Friday."], 1):
        call(
            "ConversationService.AppendTurn",
            conversation_id=other,
            request_id=f"other-{number}",
            messages=[{"role": "ROLE_USER", "content": text}],
        )
    call(
        "ConversationService.Rename",
        conversation_id=other,
        title="Plants",
        automatic=True,
        topics=["plants"],
        writer="anthropic",
        request_id="rename-2",
    )
    call(
        "ConversationService.RedactMessage",
        conversation_id=other,
        turn_number=1,
        request_id="redact-1",
    )
    call("ConversationService.Archive", conversation_id=other, request_id="archive-1")
    ids["other"] = other
    removed = _id(call("ConversationService.Create", channel="web", request_id="create-3"))
    call(
        "ConversationService.AppendTurn",
        conversation_id=removed,
        request_id="gone-1",
        messages=[{"role": "ROLE_USER", "content": "Forget the marmalade."}],
    )
    call("ConversationService.Delete", conversation_id=removed, request_id="delete-1")
    for key, value in (("home", "Bergen"), ("home", "Oslo"), ("pet", "heron")):
        call(
            "RecallService.SetAnchor",
            key=key,
            value=value,
            confidence=0.9,
            source={"conversation_id": chat, "sequence": first["messages"][0]["sequence"]},
            request_id=f"anchor-{value}",
        )
    call("RecallService.DeleteAnchor", key="pet", request_id="anchor-forget")
    _write_channels(call)
    records = [
        {"record": {"key": f"a/{number}", "value": base64.b64encode(b"\x00state").decode()}}
        for number in range(3)
    ]
    call("CheckpointService.PutRecords", thread_id="job-1", records=records, request_id="put-1")
    call("CheckpointService.RemoveRecords", thread_id="job-1", keys=["a/1"])
    work = call("ConversationService.Create", space="work", channel="web", request_id="create-1")
    call(
        "ConversationService.AppendTurn",
        space="work",
        conversation_id=_id(work),
        request_id="turn-1",
        messages=[{"role": "ROLE_USER", "content": "The heron of the other space."}],
    )
    # after what takes cursors back: deletes and redactions
    for number, text in enumerate(["The heron is back.", "It brought a fish."], 1):
        last = call(
            "ConversationService.AppendTurn",
            conversation_id=chat,
            request_id=f"last-{number}",
            messages=[{"role": "ROLE_USER", "content": text}],
        )
        ids.setdefault("cursor", (last or {}).get("cursor"))
    return ids


def _write_channels(call: Callable[..., Json | None]) -> None:
    """Write what comes in over channels: of an owner, of a stranger, a command, a deleted one."""
    owner = [
        {"channel": "whatsapp", "identity": "+4711"},
        {"channel": "email", "identity": "ada@example.org"},
        {"channel": "discord", "identity": "d1"},
    ]
    for number, identity in enumerate(owner):
        call("ChannelService.AddOwnerIdentity", **identity, request_id=f"owner-{number}")
    call(
        "ChannelService.LinkIdentities",
        person="ada",
        identities=owner[:2],
        request_id="link-1",
    )
    call(
        "ChannelService.RemoveOwnerIdentity", channel="discord", identity="d1", request_id="owner-9"
    )
    mail = {"message_id": "<1@example.org>", "subject": "Nests", "references": ["<0@example.org>"]}
    messages: list[Json] = [
        {"channel": "whatsapp", "sender": "+4711", "text": "Is the ferry late?", "whatsapp": {}},
        {"channel": "whatsapp", "sender": "+4711", "text": "/new", "whatsapp": {}},
        {"channel": "email", "sender": "ada@example.org", "text": "See my nests.", "email": mail},
        {
            "channel": "whatsapp",
            "sender": "+4799",
            "sender_name": "Bo",
            "text": "May I borrow the boat?",
            "whatsapp": {},
        },
    ]
    answers = [
        call("ChannelService.Receive", provider_message_id=f"p{number}", **message)
        for number, message in enumerate(messages)
    ]
    outside = (answers[3] or {}).get("external")
    if outside:
        communication = outside["communication"]["id"]
        call(
            "ExternalCommunicationService.SetTrust",
            communication_id=communication,
            trust="TRUST_KNOWN",
            scopes=["boat"],
            request_id="trust-1",
        )
        call(
            "ExternalCommunicationService.RecordReply",
            communication_id=communication,
            text="The boat is free on Sunday.",
            scope="boat",
            request_id="reply-1",
        )
        escalations = call("ExternalCommunicationService.ListEscalations") or {}
        for escalation in escalations.get("escalations", []):
            call(
                "ExternalCommunicationService.ResolveEscalation",
                escalation_id=escalation["id"],
                answer="Lend it.",
                request_id="resolve-1",
            )
    call(
        "ChannelService.Receive",
        channel="email",
        sender="ada@example.org",
        text="Drop this mail.",
        provider_message_id="p9",
        email={"message_id": "<9@example.org>", "subject": "Drop"},
    )
    listed = call("ConversationService.List", channels=["email"]) or {}
    for conversation in listed.get("conversations", []):
        if conversation.get("party", {}).get("subject") == "Drop":
            call(
                "ConversationService.Delete",
                conversation_id=conversation["id"],
                request_id="delete-2",
                force=True,
            )


def ask(call: Callable[..., Json | None]) -> list[Json]:
    """Ask everything that a release answers about its data. Return the questions with the answers;
    those that it does not know are left out.
    """
    answers: list[Json] = []

    def answer(name: str, space: str = "", **request: Any) -> Json:
        result = call(name, space=space, **request)
        if result is not None:
            answers.append({"call": name, "space": space, "request": request, "answer": result})
        return result or {}

    for space in ("", "work"):
        listed = answer("ConversationService.List", space, page_size=100)
        archived = call("ConversationService.List", space=space, archived="ARCHIVE_FILTER_ARCHIVED")
        everyone = {it["id"] for it in listed.get("conversations", [])}
        everyone |= {it["id"] for it in (archived or {}).get("conversations", [])}
        for conversation in sorted(everyone):
            answer("ConversationService.Get", space, conversation_id=conversation)
            answer("ConversationService.Load", space, conversation_id=conversation, max_turns=100)
            answer("RecallService.FetchContext", space, conversation_id=conversation)
            answer("ConversationService.ListTurnMemory", space, conversation_id=conversation)
        for words in ("heron", "ferry nine", "marmalade", "swordfish", "fern friday", "nests"):
            answer("RecallService.Search", space, query=words)
        answer("RecallService.Recent", space, limit=50)
        answer("RecallService.ListAnchors", space, include_superseded=True)
        answer("ConversationService.ListTopics", space)
        answer("ChannelService.ListOwnerIdentities", space)
        communications = answer("ExternalCommunicationService.ListCommunications", space)
        for communication in communications.get("communications", []):
            answer(
                "ExternalCommunicationService.GetCommunication",
                space,
                communication_id=communication["id"],
            )
        answer("ExternalCommunicationService.SearchCommunications", space, query="boat")
        answer("ExternalCommunicationService.ListEscalations", space, include_resolved=True)
        for thread in answer("CheckpointService.ListThreads", space).get("threads", []):
            answer("CheckpointService.ListRecords", space, thread_id=thread["thread_id"])
        answer("InsightService.Facets", space)
    return answers


def _id(answer: Json | None) -> str:
    return str((answer or {}).get("conversation", {}).get("id", ""))


@contextmanager
def _served(folder: Path, store: str) -> Iterator[Calls]:
    """Run the server of this Python over a folder."""
    address = f"unix:{folder}.socket"
    program = Path(sys.executable).parent / "recollect-server"
    command = [str(program), "serve", "--listen", address, "--data-dir", str(folder)]
    settings = {**os.environ, **_QUIET, **({"RECOLLECT_STORE": store} if store else {})}
    server = subprocess.Popen(command, env=settings)
    calls = Calls(address)
    try:
        yield calls
    finally:
        calls.close()
        server.send_signal(signal.SIGTERM)
        if server.wait(60):
            raise SystemExit(f"the server of the release ended with {server.returncode}")


def _write_of_release(folder: Path, store: str) -> Json:
    """Write with the release that is installed in this Python. Return the answers."""
    with _served(folder, store) as calls:
        ids = write(calls)
        answers = ask(calls)
    result = {"ids": ids, "answers": answers, "token": "", "time": int(time.time() * 1000)}
    if not store:
        result["token"] = _token(folder)
    return result


def _token(folder: Path) -> str:
    """Create a token that may do everything. Return it; empty if the release has no tokens."""
    if _method(_FIRST_WITH_SPACES) is None:
        return ""
    program = str(Path(sys.executable).parent / "recollect-server")
    output = subprocess.run(
        [program, "token", "create", "--kind", "admin", "--space", "*", "--data-dir", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return next(it for it in output.split() if it.startswith("rcl_"))


def missing_fixtures(root: Path) -> list[str]:
    """Return the releases before the current commit, by their tags, that have no fixture."""

    def tags(*arguments: str) -> set[str]:
        command = ["git", "tag", "--list", "v[0-9]*", *arguments]
        result = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
        return set(result.stdout.split())

    before = tags("--merged", "HEAD") - tags("--points-at", "HEAD")
    return sorted(tag for tag in before if not (root / FIXTURES.relative_to(ROOT) / tag).is_dir())


def main(arguments: list[str]) -> int:
    """Make a fixture."""
    if arguments[:1] == ["--write"]:
        folder, target, store = arguments[1:4]
        Path(target).write_text(json.dumps(_write_of_release(Path(folder), store)))
        return 0
    if not arguments:
        print("usage: python scripts/upgrade_fixture.py COMMIT [NAME]", file=sys.stderr)
        return 2
    commit, name = arguments[0], arguments[-1]
    with TemporaryDirectory() as work:
        python = _installed(commit, Path(work))
        make(python, FIXTURES / name, Path(work))
    return 0


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of this project into a folder. Python 3.11 has filters from 3.11.4 on."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(folder)  # noqa: S202 - nobody else made it


def _installed(commit: str, work: Path) -> Path:
    """Install a commit with its constraints. Return the path of its Python."""
    tree = work / "tree"
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        unpack(tar, tree)
    subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    python = work / "venv/bin/python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    extra = "[postgres]" if "\npostgres = [" in (tree / "server/pyproject.toml").read_text() else ""
    subprocess.run([*install, "./client", f"./server{extra}"], cwd=tree, check=True)
    return python


def make(python: Path, target: Path, work: Path) -> None:
    """Write a fixture with the release that a Python has installed."""
    target.mkdir(parents=True, exist_ok=True)
    data, answers = work / "data", work / "answers.json"
    run = [str(python), str(Path(__file__).resolve()), "--write"]
    environment = {it: value for it, value in os.environ.items() if it != "PYTHONPATH"}
    subprocess.run([*run, str(data), str(answers), ""], check=True, env=environment)
    (target / "answers.json").write_text(
        json.dumps(json.loads(answers.read_text()), indent=1, ensure_ascii=False) + "\n"
    )
    with tarfile.open(target / "data.tar.xz", "w:xz", preset=9) as tar:
        tar.add(data, "data")
    has_database = [str(python), "-c", "import recollect_server.run.postgres, psycopg"]
    if subprocess.run(has_database, check=False, capture_output=True).returncode == 0:
        from tests.postgres import running

        with running() as postgres:
            url = postgres.new_database()
            postgres.execute("DROP SCHEMA recollect CASCADE", url)  # today's, and it makes its own
            subprocess.run([*run, str(work / "index"), str(answers), url], check=True)
            dump = postgres.dump(url)
        (target / "database.sql.xz").write_bytes(lzma.compress(dump, preset=9))
        (target / "database.json").write_text(
            json.dumps(json.loads(answers.read_text()), indent=1, ensure_ascii=False) + "\n"
        )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
