"""Minutes of appends with subscribers whose connections break at random: nothing lost, nothing
repeated, nothing out of order.
"""

import random
import threading
import time
from pathlib import Path

from recollect import Client, ConversationUpdated, Message, RetryPolicy

from bench.servers import recollect
from tests.streaming import checkers
from tests.streaming.proxy import Proxy

_SUBSCRIBERS = 10
_WRITERS = 4
_APPENDS_A_SECOND = 20  # of each writer


class Subscriber:
    """A watch by the client, over a connection of its own that breaks."""

    def __init__(self, target: str) -> None:
        self.proxy = Proxy(target)
        self.updates: list[checkers.Received] = []
        self.resets = 0
        self._client = Client(
            self.proxy.address, retry=RetryPolicy(initial_delay=0.02, max_delay=0.5)
        )
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        for update in self._client.conversations.watch():
            epoch, position = checkers.place(update.cursor)
            kind = update.kind
            sequences = (
                tuple(it.sequence or 0 for it in kind.messages)
                if isinstance(kind, ConversationUpdated)
                else ()
            )
            name = "change" if update.cursor else "message_delta"
            if self.updates:
                self.updates.append(
                    checkers.Received(
                        name, epoch, position, update.conversation_id, sequences, update.reset
                    )
                )
            else:
                self.updates.append(checkers.Received("conversation_list"))
            self.resets += update.reset

    def close(self) -> None:
        """End the watch."""
        self._client.close()
        self._thread.join(10)
        self.proxy.close()


def soak(data: Path, seconds: float) -> None:
    """Print what was lost and what was repeated."""
    with recollect(data, "--log-level", "warning") as (target, _):
        subscribers = [Subscriber(target) for _ in range(_SUBSCRIBERS)]
        while any(len(it.updates) < 2 for it in subscribers):  # their snapshots are of nothing
            time.sleep(0.01)  # between two looks
        end = time.monotonic() + seconds
        written: list[checkers.Written] = []

        def write(number: int) -> None:
            randomness = random.Random(number)
            with Client(target) as client:
                conversation = client.conversations.create("web").id
                while time.monotonic() < end:
                    messages = [
                        Message.user("x" * randomness.randint(1, 2000))
                        for _ in range(randomness.randint(1, 3))
                    ]
                    stored = client.conversations.append_turn(conversation, messages)
                    sequences = tuple(it.sequence or 0 for it in stored.messages)
                    written.append(
                        checkers.Written(conversation, sequences, *checkers.place(stored.cursor))
                    )
                    time.sleep(1 / _APPENDS_A_SECOND)  # the rate, at the most

        writers = [threading.Thread(target=write, args=(number,)) for number in range(_WRITERS)]
        for writer in writers:
            writer.start()
        drops = 0
        while time.monotonic() < end:
            time.sleep(random.uniform(0, 1))  # a drop comes at any moment
            proxy = random.choice(subscribers).proxy
            if random.random() < 0.5:
                proxy.break_now()
            else:
                proxy.break_after(random.randint(0, 20_000))
            drops += 1
        for writer in writers:
            writer.join()
        last = max(it.position for it in written)
        patience = time.monotonic() + 60
        while time.monotonic() < patience and any(
            it.updates[-1].position < last for it in subscribers
        ):
            time.sleep(0.05)  # between two looks
        lost = repeated = 0
        for it in subscribers:
            it.close()
            deliveries = [
                (update.conversation_id, sequence)
                for update in it.updates
                for sequence in update.sequences
            ]
            expected = {
                (append.conversation_id, sequence)
                for append in written
                for sequence in append.sequences
            }
            lost += len(expected - set(deliveries))
            repeated += len(deliveries) - len(set(deliveries))
        print(
            f"{seconds / 60:.1f} minutes, {len(written)} appends, {_SUBSCRIBERS} subscribers, {drops} drops:"
            f" {lost} messages lost, {repeated} repeated, {sum(it.resets for it in subscribers)} resets",
            flush=True,
        )
        for it in subscribers:
            checkers.check([it.updates], written)
