"""Asks Anthropic's models through the official SDK. The SDK reads ANTHROPIC_API_KEY and
ANTHROPIC_BASE_URL; no key is kept here.
"""

import os
import threading
from typing import Any

import orjson

from recollect_server.notes.hosted.circuit_breaker import TryLater
from recollect_server.notes.hosted.hosted import calling, hooks, timeouts
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


class AnthropicEndpoint:
    writer = "anthropic"
    place = ""

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
        self.model = ALIASES.get(model, model)
        self.part_tokens = part_tokens
        self._spending = spending
        self.take_use = spending.take_use
        self._timeout = timeout
        self._client: Any = None
        self._opening = threading.Lock()  # guards `_client`

    def ask(self, system: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the object that the model wrote."""
        self._spending.allow()
        import anthropic as sdk  # takes a second or more: only who asks waits for it

        with self._opening:
            if self._client is None:
                http = sdk.DefaultHttpxClient(
                    timeout=timeouts(self._timeout), event_hooks=hooks(self._timeout)
                )
                self._client = sdk.Anthropic(
                    timeout=timeouts(self._timeout), max_retries=0, http_client=http
                )
        answer = calling(
            sdk,
            self.model,
            lambda: self._client.messages.create(
                model=self.model,
                max_tokens=_MAX_ANSWER,
                system=system,
                messages=[{"role": "user", "content": text}],
                # Not a tool that must be called: the newest models refuse to be forced to.
                output_config={"format": {"type": "json_schema", "schema": schema}},
            ),
        )
        return self._object_in(answer)

    def close(self) -> None:
        with self._opening:
            if self._client is not None:
                self._client.close()

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
