"""A server that is killed while it writes: its subscribers come back to the next one and miss
nothing.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import grpc

from tests.server.conftest import server_process
from tests.streaming.conftest import Recorder, Subscriber, Watched

Subscribe = Callable[..., Subscriber]


def test_a_subscriber_comes_back_after_a_kill_and_sees_every_acknowledged_append_once(
    tmp_path: Path, subscribe: Subscribe, watched: Watched
) -> None:
    with server_process(tmp_path / "data") as (process, address):
        service = Recorder(address, watched.written)
        watched.recorders.append(service)
        one = subscribe(address).ready()
        names = [service.create().id for _ in range(4)]

        def write(name: str) -> None:
            with contextlib.suppress(grpc.RpcError):
                for number in itertools.count():
                    service.turn(name, str(number))

        writers = [threading.Thread(target=write, args=(name,)) for name in names]
        for writer in writers:
            writer.start()
        one.until_count("conversation_updated", 100)
        process.kill()
        for writer in writers:
            writer.join()
        one.ended()
    acknowledged = {(it.conversation_id, it.sequences) for it in watched.written}
    with server_process(tmp_path / "data") as (_, address):
        again = Recorder(address, watched.written)
        watched.recorders.append(again)
        last = again.turn(names[0], "the last one")
        one.resume(address)
        one.until(lambda: one.cursor == last.cursor)
    delivered = [
        (
            update.conversation_id,
            tuple(message.sequence for message in update.conversation_updated.messages),
        )
        for update in one.updates
        if update.WhichOneof("kind") == "conversation_updated"
    ]
    assert acknowledged <= set(delivered)
    assert len(delivered) == len(set(delivered))
    assert not any(update.reset for update in one.updates)
