"""`examples/events_out.py`, with a real HTTP server, a real NATS server and a real broker that
speaks Kafka's protocol behind it.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nats
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from recollect import Client, Message

from tests.conftest import RunningServer
from tests.programs import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SECRET = f"whsec_{base64.b64encode(b'0' * 24).decode()}"
NATS = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")

Start = Callable[[Path, str], "subprocess.Popen[bytes]"]


@pytest.fixture
def guide() -> dict[str, Any]:
    """Run the guide's blocks, and return their names."""
    names: dict[str, Any] = {}
    text = (ROOT / "docs" / "guides" / "events.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "events.md", "exec"), names)  # noqa: S102 - of our own guide
    return names


@pytest.fixture
def start(server: RunningServer) -> Iterator[Start]:
    """Return a function that starts the program, which has its first cursor then."""
    programs: list[subprocess.Popen[bytes]] = []

    def begin(cursor: Path, address: str) -> "subprocess.Popen[bytes]":
        environment = os.environ | {"RECOLLECT_ADDRESS": server.target, "EVENTS_SECRET": SECRET}
        command = [sys.executable, str(ROOT / "examples/events_out.py"), str(cursor), address]
        programs.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        until(cursor.exists)
        return programs[-1]

    yield begin
    for it in programs:
        it.kill()
        it.wait()


class Hook:
    """A webhook's receiver: it keeps what it gets, and answers as `before_answer` says."""

    def __init__(self, verified: Callable[..., bool]) -> None:
        self.events: list[dict[str, Any]] = []
        self.are_signed: list[bool] = []
        self.types: set[str] = set()
        self.before_answer: Callable[[int], int] = lambda _: 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                is_other = verified(self.headers, body + b" ", SECRET)
                hook.are_signed.append(verified(self.headers, body, SECRET) and not is_other)
                hook.types.add(self.headers["content-type"])
                hook.events.append(json.loads(body))
                self.send_response(hook.before_answer(len(hook.events)))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def contents(self) -> list[str]:
        return [it for event in self.events for it in contents_of(event)]


def contents_of(event: dict[str, Any]) -> list[str]:
    return [it["content"] for it in event["data"].get("messages", ())]


@pytest.fixture
def hook(guide: dict[str, Any]) -> Iterator[Hook]:
    it = Hook(guide["verified"])
    yield it
    it.server.shutdown()
    it.server.server_close()


def say(client: Client, *texts: str) -> None:
    conversation = client.conversations.create("web")
    for text in texts:
        client.conversations.append_turn(conversation.id, [Message.user(text)])


def test_a_webhook_gets_signed_events_in_order_also_after_a_refusal(
    client: Client, hook: Hook, start: Start, tmp_path: Path
) -> None:
    say(client, "before")
    start(tmp_path / "cursor", hook.address)
    hook.before_answer = lambda count: 503 if count == 3 else 200
    say(client, "a", "b", "c")
    until(lambda: len(hook.events) == 5)
    assert hook.contents() == ["a", "b", "b", "c"]
    first = hook.events[1]
    [conversation, _] = client.conversations.list()
    assert {key: first[key] for key in ("specversion", "source", "type", "subject")} == {
        "specversion": "1.0",
        "source": "recollect",
        "type": "recollect.ConversationUpdated",
        "subject": conversation.id,
    }
    ids = [it["id"] for it in hook.events]
    assert len(set(ids)) == 4
    assert ids[2] == ids[3]
    until(lambda: (tmp_path / "cursor").read_text() == ids[-1])
    assert all(hook.are_signed)
    assert hook.types == {"application/cloudevents+json"}


def test_a_program_killed_between_delivery_and_cursor_delivers_again_and_loses_nothing(
    client: Client, hook: Hook, start: Start, tmp_path: Path
) -> None:
    program = start(tmp_path / "cursor", hook.address)

    def kill_at_third(count: int) -> int:
        if count == 3:
            program.kill()
            program.wait()
        return 200

    hook.before_answer = kill_at_third
    say(client, "a", "b")
    until(lambda: program.poll() is not None)
    say(client, "c")
    start(tmp_path / "cursor", hook.address)
    until(lambda: hook.contents()[-1:] == ["c"])
    assert hook.contents() == ["a", "b", "b", "c"]
    ids = [it["id"] for it in hook.events]
    assert [*dict.fromkeys(ids)] == [*ids[:3], *ids[4:]]


@pytest.fixture
def jetstream(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Return a function that starts NATS' server with JetStream, anew after it was started before,
    and returns its address.
    """
    if NATS is None:
        pytest.skip("there is no nats-server: .ci/prepare installs it")
    port, folder = free_port(), tmp_path / "nats"
    running: list[subprocess.Popen[bytes]] = []

    def begin() -> str:
        for it in running:
            it.kill()
            it.wait()
        command = [NATS, "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return f"nats://127.0.0.1:{port}"

    yield begin
    for it in running:
        it.kill()
        it.wait()


async def kept_by(server: str, count: int) -> list[Any]:
    """Return the messages of the stream, once there are so many."""
    connection = await nats.connect(server)
    stream = connection.jetstream()
    while (await stream.stream_info("recollect")).state.messages < count:
        await asyncio.sleep(0.05)
    messages = [await stream.get_msg("recollect", seq) for seq in range(1, count + 1)]
    assert (await stream.stream_info("recollect")).state.messages == count
    await connection.close()
    return messages


def test_nats_keeps_each_event_once_in_order_whatever_dies(
    client: Client,
    guide: dict[str, Any],
    jetstream: Callable[[], str],
    start: Start,
    tmp_path: Path,
) -> None:
    server, cursor = jetstream(), tmp_path / "cursor"
    asyncio.run(guide["prepare"](server))
    program = start(cursor, f"{server}/recollect.updates")
    first = cursor.read_text()
    say(client, "a", "b")
    asyncio.run(kept_by(server, 3))
    # Killed behind its deliveries, and before it could write a cursor.
    program.kill()
    program.wait()
    cursor.write_text(first)
    start(cursor, f"{server}/recollect.updates")
    jetstream()  # and the receiver dies too
    say(client, "c")
    messages = asyncio.run(kept_by(server, 5))
    events = [json.loads(it.data) for it in messages]
    assert [text for it in events for text in contents_of(it)] == ["a", "b", "c"]
    for event, it in zip(events, messages, strict=True):
        assert guide["verified"](it.headers, it.data, SECRET)
        assert it.headers["Nats-Msg-Id"] == event["id"]


@pytest.fixture
def broker() -> Iterator[str]:
    """Start a broker that speaks Kafka's protocol and keeps its records in memory. Return its
    address.
    """
    program = shutil.which("tansu")
    if program is None:
        pytest.skip("there is no broker of Kafka's protocol: tansu is not on the PATH")
    address = f"127.0.0.1:{free_port()}"
    with (
        subprocess.Popen(
            [program, "broker", "--listener-url", f"tcp://{address}",
             "--advertised-listener-url", f"tcp://{address}", "--storage-engine", "memory://tansu/"],
            stdout=subprocess.DEVNULL,
        ) as running
    ):  # fmt: skip
        yield address
        running.kill()


async def make_topic(address: str) -> None:
    """Make a topic of two partitions, once the broker answers."""
    while True:
        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        with suppress(KafkaError, OSError):
            await admin.start()
            await admin.create_topics([NewTopic("recollect", 2, 1)])
            await admin.close()
            return
        await admin.close()
        await asyncio.sleep(0.05)


async def read_records(address: str, count: int) -> list[Any]:
    """Return the first records of the topic, in the order of their partitions."""
    async with AIOKafkaConsumer(
        "recollect", bootstrap_servers=address, auto_offset_reset="earliest"
    ) as consumer:
        records = [await consumer.getone() for _ in range(count)]
        more = await consumer.getmany(timeout_ms=200)
    assert not more
    return sorted(records, key=lambda it: (it.partition, it.offset))


def test_kafka_has_the_events_of_a_conversation_in_one_partition_at_least_once(
    client: Client, guide: dict[str, Any], broker: str, start: Start, tmp_path: Path
) -> None:
    asyncio.run(make_topic(broker))
    cursor = tmp_path / "cursor"
    program = start(cursor, f"kafka://{broker}/recollect")
    first = cursor.read_text()
    say(client, "a", "b")
    sent = asyncio.run(read_records(broker, 3))
    # Killed behind its deliveries, and before it could write a cursor.
    program.kill()
    program.wait()
    cursor.write_text(first)
    say(client, "c")
    start(cursor, f"kafka://{broker}/recollect")
    records = asyncio.run(read_records(broker, 8))
    assert all(guide["verified"](dict_of(it), it.value, SECRET) for it in records)
    assert {dict_of(it)["content-type"] for it in records} == {"application/cloudevents+json"}
    events = [json.loads(it.value) for it in records]
    assert [it.key.decode() for it in records] == [it["subject"] for it in events]
    twice = {json.loads(it.value)["id"] for it in sent}
    assert len(twice) == 3
    assert len({it["id"] for it in events}) == 5
    for conversation in client.conversations.list():
        own = [(it, event) for it, event in zip(records, events, strict=True) if event["subject"] == conversation.id]  # fmt: skip
        assert len({it.partition for it, _ in own}) == 1
        texts = [text for _, event in own for text in contents_of(event)]
        assert texts in (["a", "b", "a", "b"], ["c"])


def test_kafka_gets_an_event_that_is_larger_than_a_megabyte(
    client: Client, broker: str, start: Start, tmp_path: Path
) -> None:
    asyncio.run(make_topic(broker))
    start(tmp_path / "cursor", f"kafka://{broker}/recollect")
    texts = ["a" * 800_000, "b" * 800_000]
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, [Message.user(it) for it in texts])
    *_, record = asyncio.run(read_records(broker, 2))
    assert contents_of(json.loads(record.value)) == texts


def dict_of(record: Any) -> dict[str, str]:
    """Return the headers of a record."""
    return {name: value.decode() for name, value in record.headers}
