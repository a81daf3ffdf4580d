"""Nouns of other languages than English that are said in conversations about anything."""

import re
from functools import cache
from pathlib import Path


@cache
def _sections() -> dict[str, frozenset[str]]:
    text = Path(__file__).with_name("everyday_nouns.txt").read_text(encoding="utf-8")
    return {
        language: frozenset(words.split())
        for language, words in re.findall(r"\[(\w+)\]\n([^\[]*)", text)
    }


def everyday_nouns(language: str) -> frozenset[str]:
    """Return those of a language: of times, greetings, measures and the like."""
    return _sections().get(language, frozenset())
