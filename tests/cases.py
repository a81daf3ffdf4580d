"""Tables of cases that share what a test starts: its server, its page, its process."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

_LONGEST = 60
"""Characters of a value in the name of a case."""

Test = Callable[..., None]


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with each case of a table, as `pytest.mark.parametrize` does, with the same
    fixtures for all: a server is started once. Every case is tried, and those that fail are named
    with their values.

    The fixture `subtests` of pytest is no help here: it captures the output of each case anew, and
    the threads of a server then write to a stream that is gone, which ended the process.
    """
    named = (names,) if isinstance(names, str) else names
    table = [(it,) if isinstance(names, str) else tuple(it) for it in cases]
    assert table, "the table is empty"

    def wrap(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures: dict[str, BaseException] = {}
            for number, values in enumerate(table, 1):
                try:
                    test(**fixtures, **dict(zip(named, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    if "pytest-timeout" in str(error):
                        raise  # the rest would have no limit
                    failures[f"case {number} ({_name(named, values)})"] = error
            if failures:
                for name, failure in failures.items():
                    failure.add_note(name)
                what = f"{len(failures)} of {len(table)} fail: {'; '.join(failures)}"
                raise BaseExceptionGroup(what, list(failures.values()))

        own = inspect.signature(test)
        shared = [it for name, it in own.parameters.items() if name not in named]
        run.__signature__ = own.replace(parameters=shared)  # type: ignore[attr-defined]
        return run

    return wrap


def _name(names: Sequence[str], values: Sequence[object]) -> str:
    parts = []
    for name, value in zip(names, values, strict=True):
        text = getattr(value, "__name__", None) or " ".join(repr(value).split())
        parts.append(f"{name}={text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'}")
    return ", ".join(parts)
