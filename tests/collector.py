"""Readers of streams with bare gRPC."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import grpc
import pytest

U = TypeVar("U")


class Collector(ABC, Generic[U]):
    """A reader that collects the updates of a stream in a thread of its own."""

    def __init__(self) -> None:
        self.updates: list[U] = []
        self.error: grpc.RpcError | None = None
        self._changed = threading.Condition()

    def read(self, call: Any) -> None:
        """Read a call until it ends."""
        self.error = None
        self._call = call
        self._thread = threading.Thread(target=self._read, args=(call,), daemon=True)
        self._thread.start()

    def _read(self, call: Any) -> None:
        try:
            for response in call:
                with self._changed:
                    self.add(response)
                    self._changed.notify_all()
        except grpc.RpcError as error:
            with self._changed:
                self.error = error
                self._changed.notify_all()

    @abstractmethod
    def add(self, response: Any) -> None:
        """Add what a response brings to the updates."""

    @abstractmethod
    def kinds(self) -> list[str]:
        """Return the kinds of the updates in order, without heartbeats."""

    def until(self, condition: Callable[[], object]) -> Self:
        """Wait until a condition holds, for as long as the test may take."""
        with self._changed:
            try:
                self._changed.wait_for(condition)
            except pytest.fail.Exception as out_of_time:
                out_of_time.add_note(f"it never was so: {[self.kinds(), self.error]}")
                raise
        return self

    def drop(self) -> None:
        """Disconnect, and wait until the stream is closed."""
        self._call.cancel()
        self._thread.join()
