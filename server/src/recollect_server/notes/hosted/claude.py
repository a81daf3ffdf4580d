"""Asks Anthropic's models through the official SDK. The SDK reads ANTHROPIC_API_KEY and
ANTHROPIC_BASE_URL; no key is kept here.
"""

import os
from typing import Any

import orjson

from recollect_server.notes.hosted.hosted import Endpoint, TryLater, calling
from recollect_server.notes.hosted.language_model import (
    ANTHROPIC_KEY,
    ModelUnavailable,
    WrongAnswer,
)
from recollect_server.notes.hosted.spending import Spending

ALIASES = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
"""Short names of models: the newest of each family that the SDK names. Anything else is taken as a
model's id.
"""
PART_TOKENS = 30_000

_MAX_ANSWER = 8_000  # tokens that the model may write: newer ones think first, and that counts too


class AnthropicEndpoint(Endpoint):
    writer = "anthropic"

    def __init__(
        self,
        model: str,
        spending: Spending,
        *,
        timeout: float = 120.0,
        part_tokens: int = PART_TOKENS,
    ) -> None:
        """`timeout` is in seconds, of one try. Raises ModelUnavailable without a key."""
        if not os.environ.get(ANTHROPIC_KEY):
            # the SDK would look for other credentials on the machine
            raise ModelUnavailable(f"there is no key: set {ANTHROPIC_KEY}")
        super().__init__(ALIASES.get(model, model), "", spending, timeout, part_tokens)

    def ask(self, system: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the object that the model wrote."""
        self._spending.allow()
        import anthropic as sdk  # takes a second or more: only who asks waits for it

        client = self._opened(sdk)
        answer = calling(
            sdk,
            self.model,
            lambda: client.messages.create(
                model=self.model,
                max_tokens=_MAX_ANSWER,
                system=system,
                messages=[{"role": "user", "content": text}],
                # Not a tool that must be called: the newest models refuse to be forced to.
                output_config={"format": {"type": "json_schema", "schema": schema}},
            ),
        )
        return self._object_in(answer)

    def _open(self, sdk: Any) -> Any:
        return sdk.Anthropic(**self._options(sdk))

    def _object_in(self, answer: Any) -> dict[str, Any]:
        usage = getattr(answer, "usage", None)
        self._spending.add(
            getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
        )
        stopped = getattr(answer, "stop_reason", None)
        if stopped == "refusal":
            raise WrongAnswer("the model refused")
        blocks = getattr(answer, "content", None)
        if not isinstance(blocks, list):
            raise TryLater("the API's answer cannot be read: it has no content")
        if stopped == "max_tokens":
            raise WrongAnswer("the model's answer was cut off")
        # What it thought comes in blocks of its own.
        texts = [
            getattr(block, "text", None) for block in blocks if getattr(block, "type", "") == "text"
        ]
        try:
            written = orjson.loads("".join(text for text in texts if isinstance(text, str)))
        except orjson.JSONDecodeError:
            raise WrongAnswer("the model's answer is no JSON") from None
        if not isinstance(written, dict):
            raise WrongAnswer("the model's answer is no object")
        return written
