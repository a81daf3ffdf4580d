"""Threads that run handlers: fair among callers, and taken only once a request has arrived.

grpcio gives a call a thread as soon as it begins, and that thread waits for the request: a caller
that is slow to send, or sends nothing, holds it, and a few such callers hold all. So this pool
receives the request by grpcio's own private functions, and the call waits for it without a thread.
The server's package pins grpcio below the next minor version, and a test fails when the pinned one
lacks what is used here; without it (somebody overrode the pin) calls get threads the way grpcio
asks for them. docs/decisions/threads.md has the price of the public ways.

`caller_of` names the caller by the metadata of the call: a token or a connection, in one space.
Callers take turns, one call each, and so do those whose requests are not asked for yet. The threads
are divided among those who call now: a flood on the others would hold Python's lock most of the
time.

A call that runs for long (it waits for a locked index or a slow disk, or computes) counts no more
against the threads of the pool, but against those of its space, which has as many. So calls of
other spaces run beside it, however long it hangs.

`bench.fairness`: one caller appends beside a flood of 32 at 0.07 of its rate beside one caller
without turns, at 0.29 with turns, at 0.50 if a flood leaves one of three threads, at 0.88 so; all
together append as much.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from weakref import WeakValueDictionary

import grpc
from grpc import _server as grpcio
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # has no types

from recollect_server.access.limits import Buckets, Rate

_AHEAD = 256  # calls whose requests may be here, or be coming: each may be as large as is allowed
_SHARE_AHEAD = 2  # a caller may have half of them
_PRESENT_SECONDS = 0.05  # after its last call is over a caller counts as one who calls for so long
# A call that runs for so long leaves its place to another space: with the start of a thread on a
# busy machine, it holds up no other for more than 50 ms.
_LONG_SECONDS = 0.025
_SHORTEST_PAUSE = 0.001  # seconds between two looks whether a call that waits may run now
_MOST_LONG = 64  # calls that count no more, in all spaces
# how grpcio names what a thread would wait for the request with
_WAITS = "_unary_request.<locals>.unary_request"
_MEANS = (
    *("_CLOSED", "_RECEIVE_MESSAGE_TOKEN", "_abort", "_is_rpc_state_active", "_receive_message"),
    "_unary_request",
)

Metadata = tuple[tuple[str, str | bytes], ...]
CallerOf = Callable[[Metadata, Callable[[], str]], tuple[str, str] | None]
"""Tells callers apart by the metadata of a call, and by a function that gives the peer: who calls,
and in which space. None stands for all who will be refused: their requests are not received.
"""


def by_connection(_metadata: Metadata, peer: Callable[[], str]) -> tuple[str, str]:
    """Tell callers apart by their connections."""
    return peer(), ""


class Unread:
    """Stands for a request that was not received."""


UNREAD = Unread()
_UNKNOWN = ("", "\n")  # key of all who will be refused: no space has that name
# Refusals of a pool: 100 a second, 20 at once. A caller that calls again as soon as it is refused
# would keep the server busy (bench.fairness: 0.24). Where so many wait, the next are refused at
# once, for what waits takes memory.
_REFUSALS = Rate.of(100, 1000, 20)
_MOST_REFUSED = 1000


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Space:
    """Counts of one space's calls, as those of a caller. The pool guards it."""

    requested: int = 0
    running: int = 0


@dataclass(slots=True, eq=False)
class _Caller:
    """Calls of one caller. The pool guards it."""

    key: tuple[str, str]
    """Name of the caller, and its space."""
    space: _Space
    unread: deque[Callable[[], bool]] = field(default_factory=deque)
    """Calls whose requests are not asked for."""
    requested: int = 0
    """Calls whose requests are asked for, or here, and that are not over."""
    ready: deque["_Call"] = field(default_factory=deque)
    """Calls that can run."""
    running: int = 0
    last: float = 0.0
    """Time at which its last call ended, by the monotonic clock."""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call that can run."""

    caller: _Caller
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class PoolLoad:
    threads: int
    """Threads that it may have."""
    busy: int
    """Threads that run calls, with those whose calls run for long."""
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
        self._able = _is_able()
        most = threads + _MOST_LONG + 1 if self._able else threads  # one looks
        super().__init__(most, thread_name_prefix=name)
        self._size = threads
        self._caller_of = caller_of
        self._lock = threading.Lock()  # guards what follows; nothing slow happens under it
        self._room = ahead
        self._room_of_one = max(1, ahead // _SHARE_AHEAD)
        self._present_seconds = present_seconds
        self._short: dict[_Call, float] = {}
        """Calls that count against the threads, the oldest first, with the time at which each
        began.
        """
        self._long = 0
        """Number of calls that run and count no more."""
        self._spaces: WeakValueDictionary[str, _Space] = WeakValueDictionary()
        """Those of which a caller is known."""
        self._callers: dict[tuple[str, str], _Caller] = {}
        self._present: OrderedDict[tuple[str, str], _Caller] = OrderedDict()
        """Callers who share in the threads, by their last activity."""
        self._refusals = Buckets(_REFUSALS)
        self._watching = False
        """True while a thread looks whether a ready call may run: always while there are any."""
        self._stopping = threading.Event()
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
            self._arrive(_UNKNOWN, run)
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
        self._stopping.set()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def waiting(self) -> int:
        """Return the number of calls whose requests are here and that have no thread."""
        with self._lock:
            return sum(len(caller.ready) for caller in self._ready)

    def load(self) -> PoolLoad:
        return PoolLoad(self._size, len(self._short) + self._long, self.waiting())

    def _begin(self, key: tuple[str, str], ask: Callable[[], bool]) -> None:
        """Ask for the request of a call that has begun, now or when it is its caller's turn."""
        with self._lock:
            caller = self._caller(key)
            if may_ask := self._may_ask(caller):
                self._request(caller)
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

    def _may_ask(self, caller: _Caller) -> bool:
        """Return True if one more request of a caller may be asked for: if there is room, or its
        space has none. Calls of spaces that hang may have taken all of the room.
        """
        has_room = self._room > 0 or not caller.space.requested
        return has_room and caller.requested < self._room_of_one

    def _request(self, caller: _Caller, count: int = 1) -> None:
        """Note that so many more requests of a caller are asked for. `_lock` is held."""
        caller.requested += count
        caller.space.requested += count
        self._room -= count

    def _left(self, caller: _Caller) -> tuple[_Caller, Callable[[], bool]] | None:
        """Note that a requested call of a caller is over. Return the call whose request is to be
        asked for in its place, with `_ask`. `_lock` is held.
        """
        self._request(caller, -1)
        if not self._unread:
            return None
        following = None
        space = caller.space
        if not space.requested:
            following = _next(self._unread, lambda it: it.space is space)
        following = following or _next(self._unread, self._may_ask)
        if following is None:
            return None
        ask = following.unread.popleft()
        if following.unread:
            self._unread.append(following)
        self._request(following)
        return following, ask

    def _arrive(self, key: tuple[str, str], run: Callable[[], None]) -> None:
        """Run a call when it is its caller's turn: its request is here, or none is wanted."""
        with self._lock:
            caller = self._caller(key)
            self._present[key] = caller
            self._present.move_to_end(key)
            caller.ready.append(_Call(caller, run))
            if len(caller.ready) == 1:
                self._ready.append(caller)
            call = self._take()
            if starts_watch := bool(self._ready) and not self._watching:
                self._watching = True
        if call is not None:
            self._start(self._work, call)
        if starts_watch:
            self._start(self._watch)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # no thread, so another one does it; or the pool was shut down
            super().submit(work, *args)

    def _take(self) -> _Call | None:
        """Take the call that runs next, of those that may; None if none may. `_lock` is held."""
        if not self._ready:
            return None
        now = time.monotonic()
        if len(self._short) == self._size and self._long < _MOST_LONG:
            oldest, began = next(iter(self._short.items()))
            if began + _LONG_SECONDS <= now:
                del self._short[oldest]
                self._long += 1
        has_room = len(self._short) < self._size
        caller = _next(self._ready, self._may_run) if has_room else None
        if caller is None:
            return None
        call = caller.ready.popleft()
        if caller.ready:
            self._ready.append(caller)
        caller.running += 1
        caller.space.running += 1
        self._short[call] = now
        return call

    def _work(self, call: _Call) -> None:
        """Run a call, and then others, each caller's in turn, until there are none that may run."""
        following: _Call | None = call
        while following is not None:
            call = following
            call.run()
            unread = None
            with self._lock:
                caller = call.caller
                caller.running -= 1
                caller.space.running -= 1
                caller.last = time.monotonic()
                if self._short.pop(call, None) is None:
                    self._long -= 1
                if caller.key is not _UNKNOWN:
                    unread = self._left(caller)
                following = self._take()
            if unread is not None:
                self._ask(*unread)

    def _watch(self) -> None:
        """Start ready calls that no other call's end or arrival starts: once a call runs for long,
        a caller is present no more, or one more may be refused.
        """
        while not self._stopping.wait(self._pause()):
            with self._lock:
                call = self._take()
                has_more = self._watching = bool(self._ready)
            if call is not None:
                self._start(self._work, call)
            if not has_more:
                return

    def _pause(self) -> float:
        """Return the seconds until a call that waits may run, at the earliest, if no other ends."""
        with self._lock:
            if len(self._short) < self._size:
                return _LONG_SECONDS
            began = next(iter(self._short.values()))
        return max(_SHORTEST_PAUSE, began + _LONG_SECONDS - time.monotonic())

    def _caller(self, key: tuple[str, str]) -> _Caller:
        """Return a caller, new or not. `_lock` is held."""
        caller = self._callers.get(key)
        if caller is None:
            space = self._spaces.setdefault(key[1], _Space())
            caller = self._callers[key] = _Caller(key, space)
        return caller

    def _forget(self, caller: _Caller) -> None:
        """Forget a caller of whom nothing is here. `_lock` is held."""
        is_here = caller.running or caller.requested or caller.ready or caller.unread
        if not is_here and caller.key not in self._present:
            self._callers.pop(caller.key, None)

    def _may_run(self, caller: _Caller) -> bool:
        """Return True if a ready caller may have one more thread. It has to take it then."""
        if caller.space.running >= self._size or caller.running >= self._most_of_one():
            return False
        if caller.key is not _UNKNOWN or len(caller.ready) > _MOST_REFUSED:
            return True
        return not self._refusals.take(_UNKNOWN, int(1000 * time.monotonic()))

    def _most_of_one(self) -> int:
        """Return the number of threads that one caller may have now."""
        if len(self._present) <= 1:
            return self._size
        absent = time.monotonic() - self._present_seconds
        while self._present:
            key, caller = next(iter(self._present.items()))
            if caller.running or caller.ready:
                self._present.move_to_end(key)  # it may hang, and those behind it be gone
                break
            if caller.last > absent:
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
    """Return True if grpcio has the private functions that this module uses, and names the one that
    waits as it expects.
    """
    return (
        hasattr(cygrpc, "ReceiveMessageOperation")
        and all(hasattr(grpcio, name) for name in _MEANS)
        and cast(Any, grpcio)._unary_request(None, None, None).__qualname__ == _WAITS
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
