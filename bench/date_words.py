"""Writes the names of months and weekdays, and the forms of "three days ago", of the languages that
dates are read in.

`python -m bench.date_words [--write]`, with Babel installed: the names are those of Unicode's CLDR,
which Babel keeps.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

from babel.dates import format_timedelta, get_day_names, get_month_names
from recollect_server.recall.dates import words as date_words
from recollect_server.text.text import folded

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "ru", "tr")
"""Chinese, Japanese and Korean number their months, and are written by hand in
`recall/dates/dates.py`.
"""
_UNITS: dict[Literal["day", "week", "month", "year"], int] = {
    "day": 1,
    "week": 7,
    "month": 31,
    "year": 366,
}
_NUMBERS = (1, 2, 3, 5)  # each plural form that these languages have
_HEAD = '''"""Names of months and weekdays and forms of "three days ago" by language, from Unicode's CLDR.

`bench/date_words.py` wrote it.

All are folded as `text.text.folded` folds a text.
"""

'''


def names(of: str, language: str, key: int) -> tuple[str, ...]:
    """Return the forms of a month's or a weekday's full name."""
    get = get_month_names if of == "months" else get_day_names
    forms = (get("wide", context, language)[key] for context in ("format", "stand-alone"))
    return tuple(dict.fromkeys(folded(it) for it in forms if not any(map(str.isdigit, it))))


def short_names(language: str, key: int) -> tuple[str, ...]:
    """Return the short forms of a month's name, without the dot."""
    forms = (
        get_month_names("abbreviated", context, language)[key]
        for context in ("format", "stand-alone")
    )
    return tuple(
        dict.fromkeys(folded(it).rstrip(".") for it in forms if not any(map(str.isdigit, it)))
    )


def ago(language: str) -> tuple[tuple[str, str, str], ...]:
    """Return what stands before and behind the number of units in the past, and the unit."""
    forms: dict[tuple[str, str, str], None] = {}
    for unit, days in _UNITS.items():
        for number in _NUMBERS:
            past = timedelta(-days * number)
            text = folded(
                format_timedelta(past, unit, threshold=1e9, add_direction=True, locale=language)
            )
            if parts := re.fullmatch(r"(\D*)\d+(\D*)", text):
                forms[parts[1].strip(), parts[2].strip(), unit] = None
    return tuple(forms)


def written() -> str:
    """Return the text of the module."""
    months = {
        it: tuple(
            tuple(dict.fromkeys(names("months", it, n) + short_names(it, n))) for n in range(1, 13)
        )
        for it in LANGUAGES
    }
    days = {it: tuple(names("days", it, n) for n in range(7)) for it in LANGUAGES}
    parts: list[tuple[str, str, Mapping[str, object], str]] = [
        (
            "MONTHS",
            "dict[str, tuple[tuple[str, ...], ...]]",
            months,
            "By language the names of each month, short ones too.",
        ),
        (
            "WEEKDAYS",
            "dict[str, tuple[tuple[str, ...], ...]]",
            days,
            "By language the names of each weekday, from Monday.",
        ),
        (
            "AGO",
            "dict[str, tuple[tuple[str, str, str], ...]]",
            {it: ago(it) for it in LANGUAGES},
            "By language, the words before and after a number of units in the past, and the unit.",
        ),
    ]
    text = _HEAD
    for name, kind, table, doc in parts:
        lines = [f'    "{language}": {_literal(row)},\n' for language, row in table.items()]
        text += f'{name}: {kind} = {{\n{"".join(lines)}}}\n"""{doc}"""\n\n'
    return text.rstrip() + "\n"


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(map(_literal, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return '"' + str(value).replace('"', '\\"') + '"'


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or write the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="writes the module instead of printing it"
    )
    if parser.parse_args(arguments).write:
        Path(date_words.__file__).write_text(written())
    else:
        print(written())


if __name__ == "__main__":
    main()
