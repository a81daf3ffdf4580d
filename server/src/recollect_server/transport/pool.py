"""Threads that run handlers: fair among callers, and taken only once a request has arrived.

grpcio gives a call a thread as soon as it begins, and that thread waits for the request: a caller
that is slow to send, or sends nothing, holds it, and a few such callers hold all. So this pool
receives the request by grpcio's own private functions, and the call waits for it without a thread.
The server's package pins grpcio below the next minor version, and a test fails when the pinned one
lacks what is used here; without it (somebody overrode the pin) calls get threads the way grpcio
asks for them. docs/decisions/threads.md has the price of the public ways.

`caller_of` names the caller by the metadata of the call: a token, or a connection. Callers
take turns, one call each, and so do those whose requests are not asked for yet. The threads are
divided among those who call now: a flood on the others would hold Python's lock most of the time.
`bench.fairness`: one caller appends beside a flood of 32 at 0.07 of its rate beside one caller
without turns, at 0.29 with turns, at 0.50 if a flood leaves one of three threads, at 0.88 so; all
together append as much.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
from grpc import _server as grpcio
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # has no types

from recollect_server.services.limits import Buckets, Rate

# calls whose requests may be there, or be coming, before a thread is free: each may be as large as
# is allowed
_AHEAD = 256
_SHARE_AHEAD = 2  # a caller may have half of them
_IN_A_ROW = 32  # calls that a thread runs before it does what was submitted otherwise
_PRESENT_SECONDS = 0.05  # after its last call is over a caller counts as one who calls for so long
# how grpcio names what a thread would wait for the request with
_WAITS = "_unary_request.<locals>.unary_request"
_MEANS = ("_CLOSED", "_RECEIVE_MESSAGE_TOKEN", "_abort", "_is_rpc_state_active", "_receive_message")

Metadata = tuple[tuple[str, str | bytes], ...]
CallerOf = Callable[[Metadata, Callable[[], str]], Hashable | None]
"""Tells callers apart by the metadata of a call, and by a function that gives the peer. None stands
for all who will be refused: their requests are not received.
"""


def by_connection(_metadata: Metadata, peer: Callable[[], str]) -> Hashable:
    """Tell callers apart by their connections."""
    return peer()


class Unread:
    """Stands for a request that was not received."""


UNREAD = Unread()
_UNKNOWN = object()  # key of all who will be refused
# Refusals of a pool: 100 a second, 20 at once. A caller that calls again as soon as it is refused
# would keep the server busy (bench.fairness: 0.24). Where so many wait, the next are refused at
# once, for what waits takes memory.
_REFUSALS = Rate.of(100, 1000, 20)
_MOST_REFUSED = 1000


@dataclass(slots=True, eq=False)
class _Caller:
    """Calls of one caller. The pool guards it."""

    key: Hashable
    unread: deque[Callable[[], bool]] = field(default_factory=deque)
    """Calls whose requests are not asked for."""
    requested: int = 0
    """Calls whose requests are asked for, or here, and that have no thread yet."""
    ready: deque[tuple[Callable[[], None], bool]] = field(default_factory=deque)
    """Calls that can run, and whether their requests were received."""
    running: int = 0
    last: float = 0.0
    """Time at which its last call ended, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class PoolLoad:
    threads: int
    """Threads that it may have."""
    busy: int
    """Threads that run calls, or are about to."""
    waiting: int
    """Calls whose requests are here and that have no thread."""


class CallPool(ThreadPoolExecutor):
    """Thread pool for the handlers of a server."""

    def __init__(
        self,
        threads: int,
        name: str,
        ahead: int = _AHEAD,
        caller_of: CallerOf = by_connection,
        present_seconds: float = _PRESENT_SECONDS,
    ) -> None:
        """Start with no thread. `ahead` requests are received before a thread is free; the calls
        behind them wait unread. A caller shares in the threads until `present_seconds` after its
        last call.
        """
        super().__init__(threads, thread_name_prefix=name)
        self._able = _is_able()
        self._size = threads
        self._caller_of = caller_of
        # guards what follows; nothing slow happens under it
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._room = ahead
        self._room_of_one = max(1, ahead // _SHARE_AHEAD)
        self._present_seconds = present_seconds
        self._busy = 0  # threads that run calls, or are about to
        self._starting = 0
        """Number of those that are about to: each takes one of the ready calls."""
        self._ready_calls = 0
        self._callers: dict[Hashable, _Caller] = {}
        self._present: OrderedDict[Hashable, _Caller] = OrderedDict()
        """Callers who share in the threads, by their last activity."""
        self._refusals = Buckets(_REFUSALS)
        self._refused_in = 0.0
        """Seconds until the next caller may be refused; 0: one may now."""
        self._watching = False
        """True while a thread waits for a caller to be present no more."""
        self._stopping = False
        self._ready: deque[_Caller] = deque()  # callers with ready calls, in the order of turns
        self._unread: deque[_Caller] = deque()  # callers with unread calls, likewise

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
        key = self._caller_of(event.invocation_metadata, event.call.peer)
        done: Future[Any] = Future()

        def run() -> None:
            request = (lambda: UNREAD) if key is None else partial(_request_of, event, state)
            try:
                fn(*args[:at], request, *args[at + 1 :], **kwargs)
            finally:
                done.set_result(None)

        if key is None:
            self._arrive(_UNKNOWN, run, received=False)
            return done
        arrived = grpcio._receive_message(state, event.call, deserializer)

        def received(batch: Any) -> Any:
            outcome = arrived(batch)
            self._arrive(key, run)
            return outcome

        def ask() -> bool:
            with state.condition:
                if active := grpcio._is_rpc_state_active(state):
                    event.call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), received)
                    state.due.add(grpcio._RECEIVE_MESSAGE_TOKEN)
            if not active:  # it ended while it waited unread
                done.set_result(None)
            return active

        self._begin(key, ask)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the threads."""
        with self._lock:
            self._stopping = True
            self._changed.notify_all()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def waiting(self) -> int:
        """Return the number of calls whose requests are here and that have no thread."""
        with self._lock:
            return sum(len(caller.ready) for caller in self._ready)

    def load(self) -> PoolLoad:
        return PoolLoad(self._size, self._busy, self.waiting())

    def _begin(self, key: Hashable, ask: Callable[[], bool]) -> None:
        """Ask for the request of a call that has begun, now or when it is its caller's turn."""
        with self._lock:
            caller = self._caller(key)
            if may_ask := self._room > 0 and caller.requested < self._room_of_one:
                self._room -= 1
                caller.requested += 1
            else:
                caller.unread.append(ask)
                if len(caller.unread) == 1:
                    self._unread.append(caller)
        if may_ask:
            self._ask(caller, ask)

    def _ask(self, caller: _Caller, ask: Callable[[], bool]) -> None:
        """Ask for the request of a caller's call, or in its place for the next if it is over."""
        while not ask():
            with self._lock:
                following = self._left(caller)
                if following is None:
                    self._forget(caller)
                    return
            caller, ask = following

    def _left(self, caller: _Caller) -> tuple[_Caller, Callable[[], bool]] | None:
        """Note that a requested call of a caller is with its thread, or over. Return the call whose
        request is to be asked for in its place, with `_ask`. `_lock` is held.
        """
        caller.requested -= 1
        self._room += 1
        following = (
            _next(self._unread, lambda it: it.requested < self._room_of_one)
            if self._unread
            else None
        )
        if following is None:
            return None
        ask = following.unread.popleft()
        if following.unread:
            self._unread.append(following)
        self._room -= 1
        following.requested += 1
        return following, ask

    def _arrive(self, key: Hashable, run: Callable[[], None], *, received: bool = True) -> None:
        """Run a call when it is its caller's turn: its request is here, or none is wanted."""
        with self._lock:
            caller = self._caller(key)
            self._present[key] = caller
            self._present.move_to_end(key)
            caller.ready.append((run, received))
            self._ready_calls += 1
            if len(caller.ready) == 1:
                self._ready.append(caller)
            may_run = key is not _UNKNOWN and caller.running < self._most_of_one()
            # A call that may not run yet needs a thread that watches for the moment when it may.
            if starts := self._busy < self._size and (may_run or not self._watching):
                self._busy += 1
                if self._watching:
                    self._watching = starts = False
                    self._changed.notify()
                else:
                    self._starting += 1
        if starts:
            super().submit(self._work)

    def _work(self) -> None:
        """Run calls, each caller's in turn, until there are none that may run."""
        caller: _Caller | None = None
        for _ in range(_IN_A_ROW):
            unread = None
            with self._lock:
                if caller is None:
                    self._starting -= 1
                else:
                    caller.running -= 1
                    caller.last = time.monotonic()
                    if self._ready_calls <= self._starting:  # others come for what is ready
                        self._busy -= 1
                        return
                caller = self._next_ready()
                if caller is None:
                    self._busy -= 1
                    return
                run, received = caller.ready.popleft()
                self._ready_calls -= 1
                caller.running += 1
                if caller.ready:
                    self._ready.append(caller)
                if received:
                    unread = self._left(caller)
                if starts := (
                    self._ready_calls > self._starting
                    and self._busy < self._size
                    and not self._watching
                ):
                    self._busy += 1  # of the others one may run too, now or soon
                    self._starting += 1
            if starts:
                super().submit(self._work)
            if unread is not None:
                self._ask(*unread)
            run()
        with self._lock:
            assert caller is not None
            caller.running -= 1
            caller.last = time.monotonic()
            self._starting += 1
        super().submit(self._work)  # behind what else waits for a thread

    def _caller(self, key: Hashable) -> _Caller:
        """Return a caller, new or not. `_lock` is held."""
        caller = self._callers.get(key)
        if caller is None:
            caller = self._callers[key] = _Caller(key)
        return caller

    def _forget(self, caller: _Caller) -> None:
        """Forget a caller of whom nothing is here. `_lock` is held."""
        is_here = caller.running or caller.requested or caller.ready or caller.unread
        if not is_here and caller.key not in self._present:
            self._callers.pop(caller.key, None)

    def _next_ready(self) -> _Caller | None:
        """Take the caller whose call runs next; None for a thread that is not needed.

        Where every ready caller has its share of the threads, one thread waits for the others to be
        present no more: nothing else would happen then.
        """
        self._refused_in = 0.0
        caller = _next(self._ready, self._may_run)
        while caller is None and self._ready and not (self._watching or self._stopping):
            self._watching = True
            self._busy -= 1
            self._changed.wait(self._refused_in or self._present_seconds)
            if self._watching:  # else a call arrived, which counted this thread
                self._watching = False
                self._busy += 1
            self._refused_in = 0.0
            caller = _next(self._ready, self._may_run)
        return caller

    def _may_run(self, caller: _Caller) -> bool:
        """Return True if a ready caller may have one more thread. It has to take it then."""
        if caller.running >= self._most_of_one():
            return False
        if caller.key is not _UNKNOWN or len(caller.ready) > _MOST_REFUSED:
            return True
        now = int(1000 * time.monotonic())
        self._refused_in = self._refusals.take(_UNKNOWN, now) / 1000
        return not self._refused_in

    def _most_of_one(self) -> int:
        """Return the number of threads that one caller may have now."""
        if len(self._present) <= 1:
            return self._size
        absent = time.monotonic() - self._present_seconds
        while self._present:
            key, caller = next(iter(self._present.items()))
            if caller.running or caller.ready or caller.last > absent:
                break
            del self._present[key]
            self._forget(caller)
        return max(1, self._size // max(1, len(self._present)))


def _next(callers: deque[_Caller], may: Callable[[_Caller], bool]) -> _Caller | None:
    """Take the caller whose turn it is of those that may have one."""
    for _ in range(len(callers)):
        caller = callers.popleft()
        if may(caller):
            return caller
        callers.append(caller)
    return None


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
