"""Asks any model behind an OpenAI-compatible API (Ollama, llama.cpp, vLLM, LM Studio, OpenAI)
through the official SDK.

Many local servers know only a part of the API. The shape of the answer is asked for by
`response_format` with a JSON schema, else with `json_object`, else by the prompt alone, and the
answer is read leniently: a small model may think aloud, put its JSON into a code block, or leave a
field out. The key, where one is needed, is read from OPENAI_API_KEY; none is kept here.
"""

import ipaddress
import os
import re
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import orjson

from recollect_server.notes.hosted.hosted import Endpoint, TryLater, calling
from recollect_server.notes.hosted.language_model import CannotWrite, ModelUnavailable, WrongAnswer
from recollect_server.notes.hosted.spending import Spending

KEY = "OPENAI_API_KEY"
PART_TOKENS = 2_500
"""Estimated tokens of a conversation that are sent at once: with prompt and answer they fit a
context of 4,096 tokens, as Ollama has by default.
"""

_MAX_ANSWER = 4_000  # tokens that the model may write: some think first, and that counts too
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FORMATS = ("json_schema", "json_object", "text")
"""Ways to ask for the shape of the answer, the strictest first."""
_LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the bound of an answer: local servers know the first, OpenAI's newer models take only
the second.
"""


class OpenAIEndpoint(Endpoint):
    writer = "openai"

    def __init__(
        self,
        url: str,
        model: str,
        spending: Spending,
        *,
        timeout: float = 120.0,
        part_tokens: int = PART_TOKENS,
    ) -> None:
        """`timeout` is in seconds, of one try. Raises ModelUnavailable without the SDK."""
        if find_spec("openai") is None:
            raise ModelUnavailable(
                "the OpenAI SDK is not installed: pip install 'recollect-server[openai]'"
            )
        super().__init__(model, url, spending, timeout, part_tokens)
        self._form = (0, 0)
        """Indices into `_FORMATS` and `_LIMITS` of what the server was last seen to take."""

    def ask(self, system: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the object that the model wrote. A server that refuses a form of the request is
        asked in the next one.
        """
        system = f"{system}\n\nAnswer with one JSON object of this schema and nothing else:\n{orjson.dumps(schema).decode()}"
        form, limit = self._form
        while True:
            try:
                answer = self._call(system, schema, text, _FORMATS[form], _LIMITS[limit])
            except _Refused as refused:
                if limit == 0 and _LIMITS[0] in refused.text:
                    limit = 1
                elif form + 1 < len(_FORMATS):
                    form += 1
                else:
                    raise CannotWrite(str(refused)) from None
                continue
            self._form = form, limit
            return self._object_in(answer, schema)

    def _call(self, system: str, schema: dict[str, Any], text: str, form: str, limit: str) -> Any:
        self._spending.allow()
        import openai as sdk  # takes a second or more: only who asks waits for it

        client = self._opened(sdk)
        options: dict[str, Any] = {limit: _MAX_ANSWER}
        if not os.environ.get(KEY):
            options["extra_headers"] = {"Authorization": sdk.Omit()}
        if form == "json_schema":
            options["response_format"] = {
                "type": form,
                "json_schema": {"name": "answer", "schema": schema},
            }
        elif form == "json_object":
            options["response_format"] = {"type": form}
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]

        def create() -> Any:
            try:
                return client.chat.completions.create(
                    model=self.model, messages=messages, **options
                )
            except (sdk.BadRequestError, sdk.UnprocessableEntityError) as error:
                raise _Refused(
                    f"the API answered {error.status_code}", str(error.message)
                ) from None

        return calling(sdk, self.model, create)

    def _open(self, sdk: Any) -> Any:
        # A redirect might lead to another machine, and so might a proxy that the environment names
        # for a server on this one.
        options = self._options(sdk, follow_redirects=False, trust_env=not is_loopback(self.place))
        return sdk.OpenAI(
            base_url=self.place,
            api_key=os.environ.get(KEY) or "none",  # the SDK asks for one
            **options,
        )

    def _object_in(self, answer: Any, schema: dict[str, Any]) -> dict[str, Any]:
        usage = getattr(answer, "usage", None)
        self._spending.add(
            getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        )
        choices = getattr(answer, "choices", None)
        if not isinstance(choices, list) or not choices:
            raise TryLater("the API's answer cannot be read: it has no choices")
        message, stopped = (
            getattr(choices[0], "message", None),
            getattr(choices[0], "finish_reason", None),
        )
        if getattr(message, "refusal", None) or stopped == "content_filter":
            raise WrongAnswer("the model refused")
        if stopped == "length":
            raise WrongAnswer("the model's answer was cut off")
        text = getattr(message, "content", None)
        if not isinstance(text, str):
            raise WrongAnswer("the model's answer has no text")
        written = fitting(object_in(text), schema)
        if not isinstance(written, dict):
            raise WrongAnswer("the model's answer is no JSON object")
        return written


class _Refused(Exception):
    """The server did not take the request: its form, or this conversation. `text` is what it
    said.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(reason)
        self.text = text


def object_in(text: str) -> Any:
    """Return the JSON object in a model's answer, which may have thoughts, words and a code block
    around it; None without one.
    """
    text = _THOUGHT.sub("", text)
    start, end = text.find("{"), text.rfind("}")
    try:
        return orjson.loads(text[start : end + 1]) if 0 <= start < end else None
    except orjson.JSONDecodeError:
        return None


def fitting(value: Any, schema: dict[str, Any]) -> Any:
    """Return the part of a value that fits a schema, with an empty list for a missing one; None if
    nothing of it fits.
    """
    match schema["type"]:
        case "object":
            if not isinstance(value, dict):
                return None
            fields = {
                name: fitting(value.get(name), each) for name, each in schema["properties"].items()
            }
            complete = {name: it for name, it in fields.items() if it is not None}
            return complete if complete.keys() >= set(schema["required"]) else None
        case "array":
            items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            return [it for item in items if (it := fitting(item, schema["items"])) is not None]
        case "string":
            return value if isinstance(value, str) else None
        case "integer":
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case _:
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
