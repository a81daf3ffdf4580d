"""Runs an import: carries out the plans of its inputs, several conversations at a time."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from functools import partial
from typing import TypeVar

from recollect import Client
from recollect.imports.forms import Options
from recollect.imports.plans import Plan, Skip, Tally
from recollect.imports.sending import carry_out
from recollect.imports.table import Input

T = TypeVar("T")
R = TypeVar("R")

THREADS = 8


def run(
    client: Client, inputs: list[Input], options: Options, leave_out: Callable[[Skip], None]
) -> Iterator[Tally]:
    """Import the conversations of all inputs, and yield the counts of each. `leave_out` gets what
    is left out or guessed. Raises RecollectError where the others would fail likewise.
    """
    for one in in_parallel(partial(carry_out, client), plans(inputs, options, leave_out)):
        for skip in one.skips:
            leave_out(skip)
        yield one


def plans(
    inputs: list[Input], options: Options, leave_out: Callable[[Skip], None]
) -> Iterator[Plan]:
    """Yield the plans of all inputs. `leave_out` gets what is none."""
    for one in inputs:
        try:
            for plan in one.read(options):
                if isinstance(plan, Plan):
                    yield plan
                else:
                    leave_out(plan)
        except OSError as error:
            leave_out(Skip(one.source.name, f"cannot be read: {error.strerror}"))


def in_parallel(work: Callable[[T], R], things: Iterable[T]) -> Iterator[R]:
    """Yield the results of `work` in the order of their completion.

    Things are taken as needed, in the caller's thread. The first error ends it.
    """
    pool = ThreadPoolExecutor(THREADS)
    try:
        running: set[Future[R]] = set()
        for thing in things:
            running.add(pool.submit(work, thing))
            if len(running) >= 2 * THREADS:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (it.result() for it in done)
        yield from (it.result() for it in as_completed(running))
    finally:
        pool.shutdown(cancel_futures=True)
