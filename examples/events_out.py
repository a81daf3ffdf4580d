"""Send what happens to a webhook, to NATS or to Kafka: each update once it is stored, in order, at
least once.

    export EVENTS_SECRET=whsec_$(head -c 24 /dev/urandom | base64)
    python examples/events_out.py CURSOR https://example.com/hook
    python examples/events_out.py CURSOR nats://127.0.0.1:4222/recollect.updates
    python examples/events_out.py CURSOR kafka://127.0.0.1:9092/recollect

An update is a CloudEvent in JSON, signed as Standard Webhooks says. Behind each delivery its cursor
is written to the file CURSOR, where the next start goes on; without that file it begins with what
happens from now on. NATS needs `pip install nats-py`, and a JetStream stream with the subject;
Kafka `pip install aiokafka`, and the topic.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from recollect import AsyncClient, ConversationList, LoadedConversation, MessageDelta, Update

Send = Callable[[str, bytes, dict[str, str]], Awaitable[Any]]
"""Sends an event of a conversation: its id, the event, its headers."""


def event_of(update: Update) -> dict[str, Any]:
    """Return an update as a CloudEvent. The same update has the same id each time."""
    kind = "Reset" if update.reset else type(update.kind).__name__
    return {
        "specversion": "1.0",
        "id": update.cursor or f"reset-{update.time.timestamp()}",
        "source": "recollect",
        "type": f"recollect.{kind}",
        "subject": update.conversation_id,
        "time": update.time.isoformat(),
        "datacontenttype": "application/json",
        "data": asdict(update.kind),
    }


def signed(event_id: str, body: bytes, secret: bytes) -> dict[str, str]:
    """Return the headers of a body, with the signature of Standard Webhooks."""
    moment = str(int(time.time()))
    text = b".".join([event_id.encode(), moment.encode(), body])
    signature = base64.b64encode(hmac.digest(secret, text, hashlib.sha256)).decode()
    return {
        "content-type": "application/cloudevents+json", "webhook-id": event_id,
        "webhook-timestamp": moment, "webhook-signature": f"v1,{signature}",
    }  # fmt: skip


def keep(file: Path, cursor: str) -> None:
    """Write a cursor to the disk, whole: until then the file has the one before it."""
    part = file.with_suffix(".new")
    with part.open("w") as stream:
        stream.write(cursor)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


async def to(address: str) -> Send:
    """Return what sends to an address, and returns once the receiver has the event."""
    if address.startswith("nats:"):
        import nats

        stream = (await nats.connect(address)).jetstream()
        subject = urlsplit(address).path.removeprefix("/")
        return lambda _, body, headers: stream.publish(
            subject, body, headers={**headers, "Nats-Msg-Id": headers["webhook-id"]}
        )

    if address.startswith("kafka:"):
        from aiokafka import AIOKafkaProducer

        brokers, topic = urlsplit(address).netloc, urlsplit(address).path.removeprefix("/")
        # The broker says how large an event may be, not its client.
        producer = AIOKafkaProducer(
            bootstrap_servers=brokers, acks="all", max_request_size=64 * 2**20
        )
        await producer.start()
        return lambda conversation, body, headers: producer.send_and_wait(
            topic,
            body,
            key=conversation.encode(),
            headers=[(name, value.encode()) for name, value in headers.items()],
        )

    def post(body: bytes, headers: dict[str, str]) -> None:
        urlopen(Request(address, body, headers), timeout=30).close()  # noqa: S310 - the caller's

    return lambda _, body, headers: asyncio.to_thread(post, body, headers)


async def main(file: Path, address: str, secret: bytes) -> None:
    """Send every update behind the cursor in a file. An event that is refused holds up the rest."""
    send = await to(address)
    cursor = file.read_text() if file.exists() else None
    async with AsyncClient() as client, client.conversations.watch(cursor=cursor) as watch:
        async for update in watch:
            is_snapshot = isinstance(update.kind, ConversationList | LoadedConversation)
            if not isinstance(update.kind, MessageDelta) and (update.reset or not is_snapshot):
                event = event_of(update)
                body = json.dumps(event, default=lambda it: it.isoformat()).encode()
                delay = 1.0
                while True:
                    try:
                        await send(event["subject"], body, signed(event["id"], body, secret))
                        break
                    except Exception as error:  # noqa: BLE001 - whatever it is, the event stays due
                        print(f"{event['id']} again in {delay:.0f} s: {error!r}", file=sys.stderr)
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, 60)
            if update.cursor:
                keep(file, update.cursor)


if __name__ == "__main__":
    key = base64.b64decode(os.environ["EVENTS_SECRET"].removeprefix("whsec_"))
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], key))
