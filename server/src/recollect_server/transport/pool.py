"""Threads that run handlers. A call takes one only once its request has arrived.

grpcio gives a call a thread as soon as it begins, and that thread waits for the request: a caller
that is slow to send, or sends nothing, holds it, and a few such callers hold all. So this pool
receives the request by grpcio's own private functions, and the call waits for it without a thread.
The server's package pins grpcio below the next minor version, and a test fails when the pinned one
lacks what is used here; without it (somebody overrode the pin) calls get threads the way grpcio
asks for them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
from grpc import _server as grpcio
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # has no types

# calls whose requests may be there, or be coming, before a thread is free: each may be as large as
# is allowed
_AHEAD = 256
# how grpcio names what a thread would wait for the request with
_WAITS = "_unary_request.<locals>.unary_request"
_MEANS = ("_CLOSED", "_RECEIVE_MESSAGE_TOKEN", "_abort", "_is_rpc_state_active", "_receive_message")


class CallPool(ThreadPoolExecutor):
    """Thread pool for the handlers of a server."""

    def __init__(self, threads: int, name: str, ahead: int = _AHEAD) -> None:
        """Start with no thread. `ahead` requests are received before a thread is free; the calls
        behind them wait unread.
        """
        super().__init__(threads, thread_name_prefix=name)
        self._able = _is_able()
        self._guard = threading.Lock()  # guards what follows; nothing slow happens under it
        self._room = ahead
        self._unread: deque[Callable[[], bool]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn`: a unary call's handler once its request has arrived, anything else once a
        thread is free.
        """
        at = next(
            (at for at, it in enumerate(args) if getattr(it, "__qualname__", "") == _WAITS), 0
        )
        if not self._able or not at:
            return super().submit(fn, *args, **kwargs)
        event, state, deserializer = args[at - 3], args[at - 2], args[at + 1]
        arrived = grpcio._receive_message(state, event.call, deserializer)
        done: Future[Any] = Future()

        def run() -> None:
            try:
                self._leave()
                fn(*args[:at], lambda: _request_of(event, state), *args[at + 1 :], **kwargs)
            finally:
                done.set_result(None)

        def received(batch: Any) -> Any:
            outcome = arrived(batch)
            ThreadPoolExecutor.submit(self, run)
            return outcome

        def ask() -> bool:
            with state.condition:
                if active := grpcio._is_rpc_state_active(state):
                    event.call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), received)
                    state.due.add(grpcio._RECEIVE_MESSAGE_TOKEN)
            if not active:  # it ended while it waited unread
                done.set_result(None)
            return active

        with self._guard:
            self._room -= 1
            if self._room < 0:
                self._unread.append(ask)
                return done
        if not ask():
            self._leave()
        return done

    def _leave(self) -> None:
        """Receive the next request: one more is with its thread, or its call is over."""
        is_settled = False
        while not is_settled:
            with self._guard:
                self._room += 1
                following = self._unread.popleft() if self._unread else None
            is_settled = following is None or following()


def ask_for_request(
    requests: Any, pool: ThreadPoolExecutor, then: Callable[[bytes | None], None]
) -> None:
    """Ask for the next request of a call whose caller sends several. `requests` is what grpcio gave
    its handler.

    `then` gets the request, or None once there are no more. It returns at once, and sends nothing:
    it may run on the thread that serves all calls. A grpcio without the private means gets a thread
    of the pool that waits.
    """
    if not (_is_able() and hasattr(requests, "_state") and hasattr(requests, "_call")):
        pool.submit(lambda: then(_wait_for_request(requests)))
        return
    state, call = requests._state, requests._call
    arrived = grpcio._receive_message(state, call, None)

    def received(batch: Any) -> Any:
        outcome = arrived(batch)
        with state.condition:
            request, state.request = state.request, None
        then(request)
        return outcome

    with state.condition:
        if is_active := grpcio._is_rpc_state_active(state):
            call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), received)
            state.due.add(grpcio._RECEIVE_MESSAGE_TOKEN)
    if not is_active:
        then(None)


def _wait_for_request(requests: Iterator[bytes]) -> bytes | None:
    try:
        return next(requests, None)
    except grpc.RpcError:  # the call was cancelled
        return None


def _is_able() -> bool:
    """Return True if grpcio has the private functions that this module uses."""
    return hasattr(cygrpc, "ReceiveMessageOperation") and all(
        hasattr(grpcio, name) for name in _MEANS
    )


def _request_of(event: Any, state: Any) -> Any:
    """Return the request that grpcio left in a call's state; None if the call is over, or its
    caller sent none.
    """
    with state.condition:
        request, state.request = state.request, None
        if request is None and state.client is grpcio._CLOSED and not state.statused:
            method = event.call_details.method.decode(errors="replace")
            text = f'"{method}" requires exactly one request message.'
            grpcio._abort(state, event.call, cygrpc.StatusCode.unimplemented, text.encode())
        return request
