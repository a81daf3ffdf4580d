"""The protocol of an open space: how `Spaces` and those who use it call it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class OpenedSpace(Protocol):
    name: str
    handlers: Mapping[str, object]
    """Handlers of its services, by the services' names."""

    def service(self, kind: type[T]) -> T:
        """Return the service of a type, which a feature gave it."""

    def admit(self, size: int) -> None:
        """Let a call write so many bytes. Raises LimitExceeded if the space may keep no more."""

    @property
    def is_resting(self) -> bool:
        """Return whether its files are closed until it is used, and jobs leave it alone."""

    @property
    def takes_appends(self) -> bool:
        """Return whether it has room for what is appended while it is at rest."""

    @property
    def has_streams(self) -> bool:
        """Return whether somebody watches it. It waits for nothing."""

    @property
    def is_delivering(self) -> bool:
        """Return whether something is on its way to its streams: it is not closed before that. It
        waits for nothing.
        """

    def carry_out(self, work: Callable[..., Any], *of: Any, appends: bool = False) -> Any:
        """Return the result of a call's work `of` these arguments, behind what other processes
        wrote before it. `appends`: all that it does is to append to one conversation.
        """

    def held(self) -> tuple[int, int]:
        """Return the number of messages whose logs refused them, and their bytes. It waits for
        nothing.
        """

    def held_because(self) -> str:
        """Return what a log said that refuses messages; empty if none does."""

    def follow(self) -> None:
        """Take in what other processes wrote."""

    def settle(self) -> None:
        """Wait until its files have all that was acknowledged, or cannot take it now."""

    def rest(self) -> bool:
        """Close its files, which are opened again when it is used, if it can rest. Return False if
        it is to be closed instead. Nobody uses it now.
        """

    def wake(self) -> None:
        """Open its files. Raises DataUnavailable: then it is to be opened anew."""

    def abandon(self) -> None:
        """Let nobody wait for its index any more: a caller that does gets IndexUnavailable. It
        waits for nothing.
        """

    def close(self, *, drains: bool = True) -> None:
        """Close it. Nobody uses it any more. `drains`: its index takes in what waits for it, else
        the next opening catches it up.
        """


S = TypeVar("S", bound=OpenedSpace)
