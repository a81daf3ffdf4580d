"""Why a connection failed, where the server neither answers nor speaks TLS."""

import gc
import select
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Iterator

import pytest
from recollect._shared.diagnosis import diagnosed
from recollect._shared.endpoint import Endpoint
from recollect.errors import Unavailable


@pytest.fixture
def resetting() -> Iterator[str]:
    """Return the address of a server that resets every connection at once, as one that dies."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_server_that_hangs_up_at_once_is_not_taken_for_one_of_tls(
    resetting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ssl.SSLSocket.getpeername

    def late(connection: ssl.SSLSocket) -> object:
        """Return the peer once the connection is reset: `wrap_socket` asks first of all."""
        poll = select.poll()
        poll.register(connection, select.POLLHUP)
        assert poll.poll(10_000)
        return named(connection)

    monkeypatch.setattr(ssl.SSLSocket, "getpeername", late)
    error = Unavailable("the connection was reset", code="UNAVAILABLE")
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        assert diagnosed(error, Endpoint(resetting), 2.0) is error
        gc.collect()
    assert [it.message for it in noted] == [], "no connection is left open"
