"""Protocol of a writer of notes. `extractive.Extractive` and `hosted.HostedModel` implement it."""

from collections.abc import Sequence
from typing import Protocol

from recollect_server.kernel.domain.conversation import ModelUse
from recollect_server.kernel.domain.message import Message
from recollect_server.notes.notes import MAX_SUMMARY, Notes

ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
"""Environment variable with the key of Anthropic's API."""


class CannotWrite(Exception):
    """Nothing usable came of this conversation; the next one may go well. The text says why,
    without anything that was said.
    """


class WrongAnswer(CannotWrite):
    """The model answered, and not with what it was asked for: the next answer may be better."""


class ModelUnavailable(Exception):
    """The model cannot be asked now, whatever about; the text says why. Try again later."""


class LanguageModel(Protocol):
    """Writes about conversations. Safe to call from any thread; slow, so never called while a
    caller waits.
    """

    @property
    def name(self) -> str:
        """Name of the model, for the log."""

    @property
    def writer(self) -> str:
        """Kind of writer, as recorded with its notes: `extractive`, `anthropic` or `openai`."""

    @property
    def model(self) -> str:
        """The id of the model behind it. Empty for a rule."""

    def write_notes(
        self, messages: Sequence[Message], earlier: str, labels: Sequence[tuple[str, int]] = ()
    ) -> Notes:
        """Return the notes of a whole conversation of at least one message; `earlier` is its last
        abbreviation, or empty.

        `labels` are topics of other conversations with how many have each, the most used first: one
        of them is better than a new one that means the same.

        Raises CannotWrite, ModelUnavailable.
        """

    def condense(self, messages: Sequence[Message], earlier: str, most: int = MAX_SUMMARY) -> str:
        """Summarise `earlier`, the last summary, and the messages after it; name the tools that
        were called.

        At most `most` tokens. Raises CannotWrite, ModelUnavailable.
        """

    def take_use(self) -> ModelUse | None:
        """Return what this thread's calls of an API used since it asked last; None for a rule."""

    def close(self) -> None:
        """Cancel pending calls. A call under way raises ModelUnavailable soon."""
