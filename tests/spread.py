"""Channels that spread their calls over several servers: each call goes to the next one, as behind
a load balancer that knows nothing of spaces.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import grpc


def channel_to(target: str, options: Sequence[tuple[str, Any]] = ()) -> grpc.Channel:
    """Connect to a server, or to several whose addresses stand with commas between them."""
    channels = [grpc.insecure_channel(it, options=options) for it in target.split(",")]
    return channels[0] if len(channels) == 1 else cast("grpc.Channel", Spread(channels))


class Spread:
    """A channel whose calls go to several in turn, as the generated stubs use one."""

    def __init__(self, channels: Sequence[grpc.Channel]) -> None:
        self._channels = channels
        self._turns = itertools.cycle(range(len(channels)))  # next() of it is atomic

    def __getattr__(self, name: str) -> Callable[..., "_Spread"]:
        """Return a function that makes a method, as `unary_unary` does."""

        def make(*arguments: Any, **named: Any) -> _Spread:
            methods = [getattr(it, name)(*arguments, **named) for it in self._channels]
            return _Spread(methods, self._turns)

        return make

    @property
    def first(self) -> grpc.Channel:
        """The channel to one of them."""
        return self._channels[0]

    def close(self) -> None:
        """Close all of them."""
        for channel in self._channels:
            channel.close()


class _Spread:
    """A method of the contract on several servers."""

    def __init__(self, methods: Sequence[Any], turns: "itertools.cycle[int]") -> None:
        self._methods = methods
        self._turns = turns

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._methods[next(self._turns)](*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._methods[next(self._turns)], name)
