"""Sizes of an installation over PostgreSQL, worked out from measured figures: `python -m
bench.sizing`.

Each user of an agent has a space, and sends messages at a rate. Every resource of a server and of a
database is a load that so many users make, and the load that one of them carries; all loads grow
with the users, so what breaks first is the resource that the fewest users exhaust. Three tables say
in which order resources break on one server and one database, how many of each a number of users
takes, and from which figures that follows: give your own with the flags.

Spaces differ widely in size, so the load of each database is simulated: spaces of lognormal sizes
are placed by the hash of their names, and the fullest database, not the mean, says how many are
needed.

`python -m bench.sizing [--messages 40] [--cores 2] [--embed 0.02] [--row 905] …`
"""

import argparse
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

USERS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_DRAWN = 200_000  # spaces of a simulation: more change the third digit
_SIGMA = 1.5  # of the logarithm of a space's size: the busiest percent has a fifth of all messages
_SEED = 22
_DAY = 86_400
_ASSUMED = "assumption"
_GROWTH = "`bench.postgres --growth`, 2026-11-30, load 8 to 12"
_LOOKED = "`bench.postgres --growth`, 2026-11-30, load 4 to 8"


def _figure(default: float, meaning: str, source: str = _ASSUMED) -> Any:
    """Return a field of `Measured`: what it is, and the benchmark and date that gave it."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "source": source})


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one server and one database, and what callers do."""

    messages: float = _figure(40.0, "messages of a user a day, of 500 bytes each")
    peak: float = _figure(4.0, "busiest hour by the mean one")
    contexts: float = _figure(0.5, "contexts that are built for each message")
    active: float = _figure(0.02, "share of the users that are there at the same time")
    streamed: float = _figure(0.5, "share of those whose space has an open stream")
    days: float = _figure(365.0, "days for which messages are kept")
    headroom: float = _figure(0.5, "share of each resource that the busiest hour may use")

    cores: float = _figure(2.0, "cores of a server", "the machine of all figures")
    append: float = _figure(
        0.0020,
        "seconds of a server's processor for an append",
        "[rates](../../bench/append-rate.md#why-the-ratio-fell-2026-11-28), 2026-11-28",
    )
    embed: float = _figure(
        0.0433,
        "seconds of a server's processor to embed a message",
        f"{_GROWTH}; of a chat's short ones 0.0196 ([peers](../../bench/README.md#peers))",
    )
    context: float = _figure(
        0.055,
        "seconds of a server's processor for a context",
        "[search](../../bench/README.md#real-dialogue-2026-11-22), 2026-11-28: 37.2 ms in a space"
        " of 419 messages, 1.49 times that for a [context](../../bench/README.md#context)",
    )
    interpreter: float = _figure(
        1.0,
        "cores that the Python of a server may use: all but embedding",
        "one interpreter has one lock ([many cores](deployment.md#many-cores))",
    )
    server: float = _figure(
        648.0,
        "appends a second of one server, by its locks and syncs",
        "`bench.postgres`, 2026-11-23, quiet, PostgreSQL and the callers on the same two cores",
    )
    open: float = _figure(
        1000.0, "spaces that one server holds open", "the setting `max_open_spaces`"
    )
    memory: float = _figure(4.3e9, "bytes of memory of a server")
    idle: float = _figure(
        4.9e8,
        "bytes that a server takes without spaces, with its model",
        "[search](../../bench/README.md#search), `bench.meaning`, 2026-11-21: 464 MiB",
    )
    space: float = _figure(
        2.4e5,
        "bytes of memory of an open space",
        "[spaces](../../bench/README.md#spaces), 2026-11-22: 322 MiB with 1,000 less 93 without",
    )
    watched: float = _figure(
        2.1e6, "bytes of memory of a space with a stream, its messages apart", _GROWTH
    )
    vector: float = _figure(
        508.0,
        "bytes of memory of a message in a space that has its files open",
        "[search](../../bench/README.md#search), 2026-11-28: 754 MiB at 1,000,000, 318 at 100,000",
    )
    files: float = _figure(65_536.0, "files that a server may open", "`deploy/systemd`")
    opened: float = _figure(
        8.5,
        "open files of a space with a stream",
        f"{_GROWTH}: 5.5 without vectors, and 3 for their file",
    )
    look: float = _figure(
        0.0001,
        "seconds by which a space with a stream delays those of its server, at most",
        f"{_LOOKED}: append to delivery 27 and 32 ms with 300 spaces",
    )
    delay: float = _figure(1.0, "seconds after which a stream may have a change")
    watch: float = _figure(
        0.0038, "cores of a server for a space with a stream", f"{_LOOKED}: 0.38 for 100"
    )
    disk: float = _figure(2e12, "bytes of a server's disk")
    index: float = _figure(
        6300.0,
        "bytes of a message on a server's disk",
        f"{_GROWTH}: index 1,263, vectors and word pieces 5,045",
    )
    read: float = _figure(
        23_000.0,
        "messages a second that a server without an index reads from PostgreSQL",
        "[scale](deployment.md#sizes), 2026-11-23: 100,000 in 4.3 s",
    )

    database_cores: float = _figure(8.0, "cores of a database")
    commit: float = _figure(
        0.0007,
        "seconds of a database's processor for an append",
        "[rates](../../bench/append-rate.md#why-the-ratio-fell-2026-11-28), 2026-11-28: 695 to 751 us",
    )
    follow: float = _figure(
        0.0013, "cores of a database for a space with a stream", f"{_LOOKED}: 0.13 for 100"
    )
    row: float = _figure(
        905.0,
        "bytes of a message in the tables of lines",
        "`bench.postgres`, 2026-11-23: 889 to 905",
    )
    shared: float = _figure(
        5257.0, "bytes of a message in the table of vectors and word pieces", _GROWTH
    )
    database_disk: float = _figure(4e12, "bytes of a database's disk")
    connections: float = _figure(
        12.0,
        "connections of a server: 10 for calls, one for streams, one for commands",
        "the setting `store_connections`",
    )
    max_connections: float = _figure(500.0, "connections of a database without a pooler")
    copy: float = _figure(1e8, "bytes a second of a backup or a restore of a database")
    window: float = _figure(86_400.0, "seconds that a whole backup may take")


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a server or of a database. Its load grows with the users."""

    name: str
    of: str
    """`server` or `database`."""
    each: float
    """Load of one user in the busiest hour, in the unit of `limit`."""
    limit: float
    """Load that one server or database carries, its headroom apart."""
    unit: str

    @property
    def users(self) -> float:
        """Users that exhaust it on one server or database."""
        return self.limit / self.each


def resources(measured: Measured) -> list[Resource]:
    """Return all resources, those of servers first."""
    it = measured
    appends = it.messages / _DAY * it.peak
    messages = it.messages * it.days
    watched = it.active * it.streamed
    python = appends * (it.append + it.contexts * it.context) + watched * it.watch
    stored = messages * (it.row + it.shared)
    of_server = [
        ("processor of servers", python + appends * it.embed, it.cores, "cores"),
        ("interpreter of servers", python, it.interpreter, "cores"),
        ("appends", appends, it.server, "a second"),
        ("open spaces", it.active, it.open, "spaces"),
        (
            "memory",
            it.active * it.space + watched * (it.watched + messages * it.vector),
            it.memory - it.idle / it.headroom,
            "bytes",
        ),
        ("open files", watched * it.opened, it.files, "files"),
        ("spaces with a stream", watched, it.delay / it.look, "spaces"),
        ("disk of servers: index, vectors", messages * it.index, it.disk, "bytes"),
    ]
    of_database = [
        ("processor of databases", appends * it.commit + watched * it.follow, it.database_cores, "cores"),
        ("disk of databases: lines, vectors", stored, it.database_disk, "bytes"),
        ("backup", stored / it.copy, it.window, "s"),
    ]  # fmt: skip
    return [
        Resource(name, of, each, limit * it.headroom, unit)
        for of, every in (("server", of_server), ("database", of_database))
        for name, each, limit, unit in every
    ]


def connections(measured: Measured) -> Resource:
    """Return the connections of a database, which grow with the servers. A pooler takes this limit
    away, so it asks for no more databases.
    """
    users_of_server = min(it.users for it in resources(measured) if it.of == "server")
    limit = measured.max_connections * measured.headroom
    each = measured.connections / users_of_server
    return Resource("connections, without a pooler", "database", each, limit, "")


def first(of: str, measured: Measured) -> Resource:
    """Return the resource of one server or database that the fewest users exhaust."""
    return min((it for it in resources(measured) if it.of == of), key=lambda it: it.users)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes for a number of users."""

    users: int
    appends: float
    """Appends a second in the busiest hour."""
    stored: float
    """Bytes in the databases."""
    servers: int
    databases: int
    open: float
    """Spaces that each server has open, of `users / servers` that it has an index of."""
    index: float
    """Bytes of index and vectors on each server's disk."""
    fullest: float
    """Load of the fullest database by the mean of all."""
    connections: float
    """Connections to each database."""
    restore: float
    """Seconds until the fullest database is copied."""
    embedding: float
    """Seconds until all messages are embedded anew, by the cores that are kept free."""
    reading: float
    """Seconds of reading until a server that lost its disk has the index of all its spaces."""


def sizes(users: int, measured: Measured) -> Sizes:
    """Return what so many users need."""
    needed = users / first("database", measured).users
    databases = max(1, math.ceil(needed))
    while 1 < databases < users and needed * fullest(users, databases) > databases:
        databases += 1
    # Two for each database, so that one may end.
    servers = max(2 * databases, math.ceil(users / first("server", measured).users))
    load = fullest(users, databases)
    messages = users * measured.messages * measured.days
    stored = messages * (measured.row + measured.shared)
    free = servers * measured.cores * measured.headroom
    return Sizes(
        users,
        users * measured.messages / _DAY * measured.peak,
        stored,
        servers,
        databases,
        users * measured.active / servers,
        messages / servers * measured.index,
        load,
        servers / databases * measured.connections,
        stored / databases * load / measured.copy,
        messages * measured.embed / free,
        messages / servers / measured.read,
    )


@functools.cache
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


def order(measured: Measured) -> list[str]:
    """Return the table of all resources in the order in which they break on one server and one
    database, with the number of servers or databases that each alone asks for; that of the first to
    break is bold.
    """
    every = sorted([*resources(measured), connections(measured)], key=lambda it: it.users)
    lines = _head(["users", "what breaks", "of one", "which may use", *_users(USERS[1:])])
    firsts = {first(of, measured).name for of in ("server", "database")}
    for it in every:
        cells = [_short(it.users), it.name, it.of, _amount(it.limit, it.unit)]
        for users in USERS[1:]:
            count = _needed(it, users)
            is_first = it.name in firsts and count > 1
            cells.append(f"**{count:,}**" if is_first else f"{count:,}")
        lines.append(_row(cells))
    return lines


def _needed(resource: Resource, users: int) -> int:
    """Return how many servers or databases a resource alone asks for."""
    return math.ceil(users / resource.users)


def installations(measured: Measured) -> list[str]:
    """Return the table of what numbers of users take."""
    names = ["users", "appends/s", "TB stored", "servers", "databases", "spaces of a server, open"]
    names += ["index of a server", "fullest database by mean", "its connections", "its restore"]
    lines = _head([*names, "all embedded anew", "a lost server's index"])
    for users in USERS:
        it = sizes(users, measured)
        appends = f"{it.appends:,.0f}" if it.appends >= 10 else f"{it.appends:.1f}"
        cells = [f"{users:,}", appends, f"{it.stored / 1e12:,.2f}"]
        cells += [f"{it.servers:,}", f"{it.databases:,}"]
        cells += [f"{users / it.servers:,.0f}, {it.open:,.0f}", _amount(it.index, "bytes")]
        cells += [f"{it.fullest:.2f}", f"{it.connections:,.0f}"]
        cells += [_time(it.restore), _time(it.embedding), _time(it.reading)]
        lines.append(_row(cells))
    return lines


def figures(measured: Measured) -> list[str]:
    """Return the table of the figures that the others follow from."""
    lines = _head(["figure", "value", "what it is", "from"])
    for it in dataclasses.fields(Measured):
        value = f"{getattr(measured, it.name):g}"
        meaning, source = it.metadata["meaning"], it.metadata["source"]
        if getattr(measured, it.name) != it.default:
            source = "given"
        lines.append(_row([f"`--{it.name.replace('_', '-')}`", value, meaning, source]))
    return lines


def tables(measured: Measured) -> dict[str, list[str]]:
    """Return the lines of all tables in Markdown, by what they show."""
    return {
        "What breaks first": order(measured),
        "What an installation takes": installations(measured),
        "Figures": figures(measured),
    }


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(names: Sequence[str]) -> list[str]:
    return [_row(names), _row(["---"] * len(names))]


def _users(numbers: Sequence[int]) -> list[str]:
    return [f"for {_short(number)}" for number in numbers]


def _short(users: float) -> str:
    """Return a number of users in two digits."""
    rounded = round(users, 1 - int(math.log10(users)))
    return f"{rounded / 1e6:g} million" if rounded >= 1e6 else f"{rounded:,.0f}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return _time(value)
    if unit == "bytes":
        value, unit = (value / 1e12, "TB") if value >= 1e12 else (value / 1e9, "GB")
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
    return f"{shown} {unit.removesuffix('s') if shown == '1' else unit}".strip()


def _time(seconds: float) -> str:
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:,.0f} d"
    for size, name in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {name}"
    return f"{seconds:.0f} s"


_SHARES = ("active", "streamed", "headroom")


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
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for it in dataclasses.fields(Measured):
        flag, meaning = f"--{it.name.replace('_', '-')}", it.metadata["meaning"]
        parser.add_argument(flag, type=_number(it.name), default=it.default, help=meaning)
    for title, lines in tables(Measured(**vars(parser.parse_args(arguments)))).items():
        print(f"{title}\n", *lines, "", sep="\n")


if __name__ == "__main__":
    main()
