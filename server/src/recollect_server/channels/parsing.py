"""Slash commands: which text is one, and what it asks for. No model is asked, and the words are the
same on every channel.

A text is a command if it is one line that begins, after space, with `/` and a word of letters
alone, followed by a space or the end. So `/usr/bin is full`, `and/or`, `/`, `//`, `/2` and a text
of several lines are messages, and `/tmp is full` is a command that does not exist, which is said.
In a group some clients put the name of a bot behind the word: `/new@agent` is `/new`.
"""

import re
from dataclasses import dataclass

MAX_HISTORY = 50
DEFAULT_HISTORY = 10

_COMMAND = re.compile(r"/([A-Za-z]{1,32})(?:@[A-Za-z0-9_.-]{1,64})?(?:[ \t]+(\S.*))?")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)

HELP = """\
/new: begin a new conversation here; the old one stays and can be found
/model: say which model answers, and which may be chosen
/model opus, /model sonnet, /model haiku, or a model's id: let another model answer; /model default takes that back
/history, /history 20: show the last messages
/clear: remove this conversation for good, and begin a new one; asks first
/help: show this"""


@dataclass(frozen=True, slots=True)
class New:
    """Begin anew; the old conversation stays."""


@dataclass(frozen=True, slots=True)
class ShowModel:
    """Say which model answers."""


@dataclass(frozen=True, slots=True)
class SetModel:
    """Let another model answer; empty: the default again."""

    model: str


@dataclass(frozen=True, slots=True)
class ShowHistory:
    """Show the last messages."""

    count: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove the conversation for good. `confirmed` False only asks."""

    confirmed: bool


@dataclass(frozen=True, slots=True)
class Say:
    """Only this is answered: help, how a command is used, or that there is none of that name."""

    text: str


Command = New | ShowModel | SetModel | ShowHistory | Clear | Say


def parse(text: str) -> Command | None:
    """Return the command that a text is, or None for a message."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    name, rest = match[1].lower(), (match[2] or "").strip()
    match name:
        case "new":
            return (
                Say("/new takes nothing behind it. Say /new alone to begin a new conversation.")
                if rest
                else New()
            )
        case "model":
            return _model(rest)
        case "history":
            return _history(rest)
        case "clear":
            if rest.lower() not in ("", "confirm"):
                return Say("Say /clear to be asked first, or /clear confirm.")
            return Clear(confirmed=bool(rest))
        case "help":
            return Say(HELP)
        case _:
            return Say(
                f"There is no command /{match[1]}. A message that begins with / needs a word before it.\n{HELP}"
            )


def _model(rest: str) -> Command:
    if not rest:
        return ShowModel()
    if not _MODEL.fullmatch(rest):
        return Say(
            "A model is one word of at most 128 letters, digits and . _ : / @ + -, as in /model haiku."
        )
    return SetModel(
        {"default": ""}.get(
            rest.lower(), rest.lower() if rest.lower() in ("opus", "sonnet", "haiku") else rest
        )
    )


def listed_model(model: str, models: tuple[str, ...]) -> str | None:
    """Return a model as a list of those that may be chosen spells it; None if it is none of them.
    No list allows any.
    """
    if not model or not models:
        return model
    return next((it for it in models if it.casefold() == model.casefold()), None)


def _history(rest: str) -> Command:
    if not rest:
        return ShowHistory(DEFAULT_HISTORY)
    if not _NUMBER.fullmatch(rest) or not 1 <= int(rest) <= MAX_HISTORY:
        return Say(f"/history takes a number from 1 to {MAX_HISTORY}, as in /history 20.")
    return ShowHistory(int(rest))
