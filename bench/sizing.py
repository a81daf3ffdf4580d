"""Sizes of an installation over PostgreSQL, worked out from measured figures: `python -m
bench.sizing`.

Users of an agent come with a rate of messages, and each user has a space. The busiest hour, the
growth of the tables, the servers and the databases follow from the figures of one server and one
database, which `bench.postgres` measures: give your own with the flags. Spaces differ widely in
size, so the load of each database is simulated: spaces of lognormal sizes are placed by the hash of
their names, and the fullest database, not the mean, says how many are needed.

`python -m bench.sizing [--messages 40] [--server 648] [--database 1700] [--bytes 905] …`
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SPACES = (1_000, 10_000, 100_000, 1_000_000, 5_400_000)
_DRAWN = 200_000  # spaces of a simulation: more change the third digit
_SIGMA = 1.5  # of the logarithm of a space's size: the busiest percent has a fifth of all messages
_SEED = 22


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one server and one database, and what callers do."""

    messages: float = 40.0
    """Messages of a space a day."""
    peak: float = 4.0
    """The busiest hour by the mean one."""
    server: float = 648.0
    """Appends a second of one server: measured with both and the callers on two quiet cores."""
    database: float = 1700.0
    """Appends a second of one database: one function each, measured on one core."""
    bytes: float = 905.0
    """Bytes of tables and their index for a message."""
    disk: float = 4e12
    """Bytes that one database may have."""
    open: float = 1000.0
    """Spaces that one server holds in memory: `max_open_spaces`."""
    active: float = 0.02
    """Share of spaces that are in use at the same time."""
    headroom: float = 0.5
    """Share of a server or database that the busiest hour may use."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes for a number of spaces."""

    spaces: int
    appends: float
    """Appends a second in the busiest hour."""
    terabytes: float
    """Of tables, after a year."""
    servers: int
    databases: int
    fullest: float
    """Load of the fullest database by the mean of all."""


def sizes(spaces: int, measured: Measured) -> Sizes:
    """Return what so many spaces need."""
    appends = spaces * measured.messages / 86_400 * measured.peak
    total = spaces * measured.messages * 365 * measured.bytes
    servers = max(
        2,  # so that one may end
        math.ceil(appends / (measured.server * measured.headroom)),
        math.ceil(spaces * measured.active / measured.open),
    )
    needed = max(appends / (measured.database * measured.headroom), total / measured.disk)
    databases = max(1, math.ceil(needed))
    while databases > 1 and needed * fullest(spaces, databases) > databases:
        databases += 1
    return Sizes(spaces, appends, total / 1e12, servers, databases, fullest(spaces, databases))


def fullest(spaces: int, databases: int) -> float:
    """Simulate a placement by hash, and return the load of the fullest database by the mean."""
    if databases == 1:
        return 1.0
    random = np.random.default_rng(_SEED)
    drawn = min(spaces, _DRAWN)
    load = random.lognormal(0.0, _SIGMA, drawn)
    loads = np.bincount(random.integers(0, databases, drawn), load, databases)
    excess = float(loads.max() / loads.mean()) - 1
    # Of more spaces than were drawn, the sums differ less, by the root of their number.
    return 1 + excess * math.sqrt(drawn / spaces)


def table(measured: Measured) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [
        "| spaces | appends/s, busiest hour | TB after a year | servers | databases | fullest by mean |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for spaces in SPACES:
        it = sizes(spaces, measured)
        lines.append(
            f"| {it.spaces:,} | {it.appends:,.1f} | {it.terabytes:,.2f} | {it.servers} |"
            f" {it.databases} | {it.fullest:.2f} |"
        )
    return lines


_SHARES = ("active", "headroom")


def _number(name: str) -> Callable[[str], float]:
    """Return the reader of a figure, which refuses what no table can be worked out from."""

    def read(text: str) -> float:
        value = float(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        if name in _SHARES and value > 1:
            raise argparse.ArgumentTypeError(f"{text} is a share: above 0, and 1 at most")
        return value

    read.__name__ = "number"  # as argparse calls it in its text about another word
    return read


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    fields = Measured()
    for name in Measured.__dataclass_fields__:
        parser.add_argument(f"--{name}", type=_number(name), default=getattr(fields, name))
    for line in table(Measured(**vars(parser.parse_args(arguments)))):
        print(line)


if __name__ == "__main__":
    main()
