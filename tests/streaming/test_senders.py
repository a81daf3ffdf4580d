"""The threads that send to streams, without a server."""

import threading

from recollect_server.contract.held import Scheduled, Sender, Senders

from tests.waiting import until


class _Stream:
    scheduled = again = False

    def cancel(self) -> None:
        """Nothing blocks here."""


def test_the_watchdog_sleeps_while_nobody_sends_and_wakes_for_the_next_send() -> None:
    sent = threading.Event()

    def pump(stream: Scheduled, sender: Sender) -> bool:
        sender.send(lambda _: sent.set(), b"")
        return False

    senders = Senders(pump, send_timeout=5.0)
    for _ in range(2):
        sent.clear()
        senders.schedule([_Stream()])
        assert sent.wait(10)
        until(lambda: senders.is_quiet)
    senders.stop()
