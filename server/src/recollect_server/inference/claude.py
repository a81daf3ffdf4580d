"""Asks Anthropic's models through the official SDK. The SDK reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL; no key is kept here."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, TypeVar

import orjson

from recollect_server.domain.budget import message_tokens
from recollect_server.domain.message import Message
from recollect_server.domain.notes import Notes, WrongNotes, notes_of
from recollect_server.inference.language_model import CannotWrite, ModelUnavailable
from recollect_server.inference.patience import Backoff, Patience, TryLater
from recollect_server.inference.prompts import (
    NOTES_SCHEMA,
    SUMMARY_SCHEMA,
    SUMMARY_SYSTEM,
    SYSTEM,
    fenced,
    notes_from,
    summary_from,
)
from recollect_server.inference.spending import Spending
from recollect_server.inference.tools import called_in, parted, with_tools

T = TypeVar("T")

KEY = "ANTHROPIC_API_KEY"
ALIASES = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
"""Short names of models: the newest of each family that the SDK names. Anything else is taken as a model's id."""

_PART = 30_000  # estimated tokens of a conversation that are sent at once
_MAX_ANSWER = 8_000  # tokens that the model may write: newer ones think first, and that counts too
_MAY_PASS = {408, 409, 429}  # and all from 500 on


class Claude:
    """A LanguageModel of Anthropic's."""

    def __init__(
        self,
        model: str,
        spending: Spending,
        *,
        timeout: float = 120.0,
        backoff: Backoff | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`timeout` is in seconds, of one try. Raises ModelUnavailable without a key."""
        if not os.environ.get(KEY):
            raise ModelUnavailable(f"there is no key: set {KEY}")  # the SDK would look for other credentials on the machine
        self.name = f"anthropic {ALIASES.get(model, model)}"
        self._model = ALIASES.get(model, model)
        self._spending = spending
        self._patience = Patience(backoff or Backoff(), now)
        self._timeout = timeout
        self._unknown = ""
        """Why it is not asked any more: the API has no such model."""
        self._client: Any = None
        self._opening = threading.Lock()  # guards `_client`

    def write_notes(self, said: Sequence[Message], earlier: str) -> Notes:
        """The notes of a conversation. A long one is read in parts, each with the notes of what came before it."""
        sequences = [message.sequence for message in said]
        anchors: list[Any] = []
        draft: Notes | None = None
        for part in _parts(said):
            draft = self._ask(SYSTEM, NOTES_SCHEMA, part, draft.abbreviation if draft else earlier, notes_from)
            anchors += draft.anchors
        assert draft is not None, "a conversation with a message has a part"
        try:
            return notes_of(replace(draft, anchors=tuple(anchors)), sequences)
        except WrongNotes as error:
            raise CannotWrite(str(error)) from error

    def condense(self, said: Sequence[Message], earlier: str) -> str:
        """The summary. A long conversation is read in parts."""
        tools = parted(earlier)[1] + called_in(said)
        for part in _parts(said):
            earlier = self._ask(SUMMARY_SYSTEM, SUMMARY_SCHEMA, part, earlier, summary_from)
        return with_tools(earlier, tools)

    def close(self) -> None:
        """Lets go of the connections; what waits for another try gives up."""
        self._patience.close()
        with self._opening:
            if self._client is not None:
                self._client.close()

    def _ask(
        self, system: str, schema: dict[str, Any], said: Sequence[Message], earlier: str, read: Callable[[dict[str, Any]], T]
    ) -> T:
        if self._unknown:
            raise ModelUnavailable(self._unknown)
        text = fenced(said, earlier)
        answer = self._patience.call(lambda: self._call(system, schema, text))
        try:
            return read(answer)
        except WrongNotes as error:
            raise CannotWrite(f"the model's answer has another shape: {error}") from error

    def _call(self, system: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
        """One try. Raises TryLater, CannotWrite, ModelUnavailable."""
        self._spending.allow()
        import anthropic as sdk  # takes a second or more: only who asks waits for it

        with self._opening:
            if self._client is None:
                self._client = sdk.Anthropic(timeout=self._timeout, max_retries=0)
        try:
            answer = self._client.messages.create(
                model=self._model,
                max_tokens=_MAX_ANSWER,
                system=system,
                messages=[{"role": "user", "content": text}],
                # Not a tool that must be called: the newest models refuse to be forced to.
                output_config={"format": {"type": "json_schema", "schema": schema}},
            )
        except sdk.APIStatusError as error:
            reason = f"the API answered {error.status_code} {error.type or ''}".rstrip()
            if error.status_code in _MAY_PASS or error.status_code >= 500:
                raise TryLater(reason, _after(error.response.headers.get("retry-after"))) from None
            if error.status_code in (400, 413, 422):  # of this conversation alone: too long, not acceptable
                raise CannotWrite(reason) from None
            if error.status_code == 404 and error.type == "not_found_error":
                reason = f"the API has no model {self._model}: name another with --abbreviation-model, and start again"
                self._unknown = reason  # to ask again would only cost
            raise ModelUnavailable(reason) from None
        except sdk.APIConnectionError as error:
            raise TryLater(
                "the API took too long" if isinstance(error, sdk.APITimeoutError) else "the API cannot be reached"
            ) from None
        except (sdk.AnthropicError, ValueError, TypeError, AttributeError) as error:
            # The SDK does not check what it is answered: garbage is found where it is looked at.
            raise TryLater(f"the API's answer cannot be read: {type(error).__name__}") from None
        return self._json_in(answer)

    def _json_in(self, answer: Any) -> dict[str, Any]:
        """The object that the model wrote."""
        usage = getattr(answer, "usage", None)
        spent = [getattr(usage, name, None) for name in ("input_tokens", "output_tokens")]
        self._spending.add(sum(tokens for tokens in spent if isinstance(tokens, int)))
        stopped = getattr(answer, "stop_reason", None)
        if stopped == "refusal":
            raise CannotWrite("the model refused")
        blocks = getattr(answer, "content", None)
        if not isinstance(blocks, list):
            raise TryLater("the API's answer cannot be read: it has no content")
        if stopped == "max_tokens":
            raise CannotWrite("the model's answer was cut off")
        # What it thought comes in blocks of its own.
        texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", "") == "text"]
        try:
            written = orjson.loads("".join(text for text in texts if isinstance(text, str)))
        except orjson.JSONDecodeError:
            raise CannotWrite("the model's answer is no JSON") from None
        if not isinstance(written, dict):
            raise CannotWrite("the model's answer is no object")
        return written


def _parts(said: Sequence[Message]) -> Iterator[Sequence[Message]]:
    start = size = 0
    for end, message in enumerate(said):
        tokens = min(message_tokens(message), 2_000) + 20
        if size and size + tokens > _PART:
            yield said[start:end]
            start, size = end, 0
        size += tokens
    if start < len(said):
        yield said[start:]


def _after(value: str | None) -> float | None:
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None  # a date: the own back-off does
