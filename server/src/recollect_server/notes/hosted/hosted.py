"""Language models behind an HTTP API: what Anthropic's and OpenAI-compatible ones have in common.

An `Endpoint` makes one paid call. `HostedModel` splits conversations into parts, retries with
back-off, and turns answers into notes; after too many failures in a row a circuit breaker lets the
API rest for a while. Both official SDKs are built on the same HTTP library and raise errors of the
same names, so one function translates them.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, ClassVar, TypeVar

import httpx2
import structlog
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)
from tenacity.nap import sleep_using_event

from recollect_server.kernel.domain.message import Message, message_tokens
from recollect_server.kernel.domain.telemetry import UNMEASURED, Step, Telemetry
from recollect_server.notes.hosted.language_model import CannotWrite, ModelUnavailable, WrongAnswer
from recollect_server.notes.hosted.prompts import (
    NOTES_SCHEMA,
    OUTCOME_SCHEMA,
    SUMMARY_SCHEMA,
    fenced,
    notes_from,
    notes_with_outcome_from,
    summary_from,
    summary_system,
    system_of,
)
from recollect_server.notes.hosted.spending import Spending
from recollect_server.notes.notes import MAX_SUMMARY, Notes, WrongNotes, notes_of
from recollect_server.notes.offline.tools import called_in, parted, with_tools
from recollect_server.text.topics import is_filler

log = structlog.get_logger("recollect.model")

T = TypeVar("T")

_LONGEST = 60.0  # seconds: a service that says to come back later than this is not waited for


class TryLater(Exception):
    """The service refused in a way that may pass; `after` is how many seconds it said to wait, if
    it did.
    """

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class TookTooLong(TryLater):
    """The service did not answer in time. It may be this conversation that it hangs on, so others
    are not held up by retries.
    """


@dataclass(frozen=True, slots=True)
class Backoff:
    """Settings of the retries and of the circuit breaker; durations are in seconds."""

    first: float = 1.0
    longest: float = 30.0
    tries: int = 4
    failures: int = 3
    """So many calls in a row that failed with all their tries open the circuit."""
    rest: float = 120.0
    """Duration for which the circuit stays open. Then one call is let through, and closes it on
    success.
    """


class CircuitBreaker:
    """Calls with tries and a circuit breaker. `now` answers seconds that only grow. Safe to call
    from any thread.
    """

    def __init__(self, backoff: Backoff, now: Callable[[], float]) -> None:
        self._backoff = backoff
        self._now = now
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards what follows
        self._failed = 0
        self._failure = ""
        """Reason of the last failure."""
        self._open_until = 0.0

    def call(self, work: Callable[[], T]) -> T:
        """Return what the work returns. It raises TryLater for what may pass.

        Raises ModelUnavailable once it is given up; CannotWrite if it took too long, as long as the
        circuit is closed.
        """
        with self._lock:
            if self._failed >= self._backoff.failures:
                if self._now() < self._open_until:
                    raise ModelUnavailable(
                        f"the model is left alone for a while, after {self._failed} failures in a row, the last"
                        f" of them: {self._failure}"
                    )
                # the others wait for what becomes of this one
                self._open_until = self._now() + self._backoff.rest
        retrying = Retrying(
            retry=retry_if_exception_type(TryLater),
            stop=self._given_up,
            wait=self._wait,
            sleep=sleep_using_event(self._closing),
            before_sleep=_say_why,
            reraise=True,
        )
        try:
            done = retrying(work)
        except TryLater as error:
            with self._lock:
                self._failed += 1
                self._failure = str(error)
                self._open_until = self._now() + self._backoff.rest
                is_open = self._failed >= self._backoff.failures
            if isinstance(error, TookTooLong) and not is_open:
                raise CannotWrite(str(error)) from error
            raise ModelUnavailable(str(error)) from error
        except Exception as error:  # what the SDK raises whose connections are closed
            if self._closing.is_set():
                raise ModelUnavailable("the server stops") from error
            raise
        with self._lock:
            self._failed = 0
        return done

    def close(self) -> None:
        """Stop all retries for good: what is at work raises ModelUnavailable."""
        self._closing.set()

    def _given_up(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if self._closing.is_set() or isinstance(error, TookTooLong):
            return True
        return stop_after_attempt(self._backoff.tries)(state) or (_asked(state) or 0) > _LONGEST

    def _wait(self, state: RetryCallState) -> float:
        backoff = wait_random_exponential(
            multiplier=self._backoff.first, max=self._backoff.longest
        )(state)
        return max(backoff, _asked(state) or 0)


def _say_why(state: RetryCallState) -> None:
    reason = str(state.outcome.exception()) if state.outcome else ""
    log.info("model_asked_again", reason=reason, seconds=round(state.upcoming_sleep, 1))


def _asked(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.after if isinstance(error, TryLater) else None


# estimated tokens of one message that count towards a part: longer ones are cut (see `prompts`)
_MESSAGE_TOKENS = 2_000
_CONNECT_SECONDS = 10.0
_SUMMARY_TRIES = 3  # of a part; notes are tried again much later, summaries are wanted soon
_MAY_PASS = {408, 409, 429}  # and every status from 500 on


class Endpoint(ABC):
    """One model behind one API, asked through its SDK. Safe to call from any thread."""

    writer: ClassVar[str]
    """The setting that chooses this API: `anthropic` or `openai`."""

    def __init__(
        self, model: str, place: str, spending: Spending, timeout: float, part_tokens: int
    ) -> None:
        """`place` is the location of the API, for the log; empty: the vendor's own. `timeout` is in
        seconds, of one try. `part_tokens` of a conversation, estimated, are taken by one call.
        """
        self.model = model
        """The model's id at the API."""
        self.place = place
        self.part_tokens = part_tokens
        self.take_use = spending.take_use
        """Returns what this thread's calls used since it asked last."""
        self._spending = spending
        self._timeout = timeout
        self._client: Any = None
        self._opening = threading.Lock()  # guards `_client`

    @abstractmethod
    def ask(self, system: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the object that the model wrote, by one try. Raise TryLater, CannotWrite or
        ModelUnavailable.
        """

    @abstractmethod
    def _open(self, sdk: Any) -> Any:
        """Return a client of the SDK, made of `_options`."""

    def _opened(self, sdk: Any) -> Any:
        """Return the client of the SDK, which the first call opens."""
        with self._opening:
            self._client = self._client or self._open(sdk)
            return self._client

    def _options(self, sdk: Any, **of_http: Any) -> dict[str, Any]:
        """Return the options of a client: its HTTP client, which ends each try in time."""
        timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, _CONNECT_SECONDS))
        http = sdk.DefaultHttpxClient(timeout=timeout, event_hooks=hooks(self._timeout), **of_http)
        return {"timeout": timeout, "max_retries": 0, "http_client": http}

    def close(self) -> None:
        """Close the connections."""
        with self._opening:
            if self._client is not None:
                self._client.close()


class HostedModel:
    """A LanguageModel that asks an endpoint, with retries and a circuit breaker."""

    def __init__(
        self,
        endpoint: Endpoint,
        backoff: Backoff | None = None,
        now: Callable[[], float] = monotonic,
        telemetry: Telemetry = UNMEASURED,
        *,
        has_outcome: bool = False,
    ) -> None:
        """`has_outcome`: abbreviations end with what came of the conversation."""
        self._has_outcome = has_outcome
        self._endpoint = endpoint
        self.take_use = endpoint.take_use
        self._telemetry = telemetry
        self._breaker = CircuitBreaker(backoff or Backoff(), now)
        self.writer, self.model = endpoint.writer, endpoint.model
        self.name = f"{endpoint.writer} {endpoint.model}" + (
            f" at {endpoint.place}" if endpoint.place else ""
        )

    def write_notes(
        self, messages: Sequence[Message], earlier: str, labels: Sequence[tuple[str, int]] = ()
    ) -> Notes:
        """Write the notes of a conversation. A long one is read in parts, each with the notes of
        what came before it.
        """
        sequences = [message.sequence for message in messages]
        anchors: list[Any] = []
        draft: Notes | None = None
        topics = [label for label, _ in labels if not is_filler(label)]
        system = system_of(topics, has_outcome=self._has_outcome)
        schema, read = (
            (OUTCOME_SCHEMA, notes_with_outcome_from)
            if self._has_outcome
            else (NOTES_SCHEMA, notes_from)
        )
        for part in self._parts(messages):
            draft = self._ask(system, schema, part, draft.abbreviation if draft else earlier, read)
            anchors += draft.anchors
        assert draft is not None, "a conversation with a message has a part"
        try:
            return notes_of(replace(draft, anchors=tuple(anchors)), sequences)
        except WrongNotes as error:
            raise CannotWrite(str(error)) from error

    def condense(self, messages: Sequence[Message], earlier: str, most: int = MAX_SUMMARY) -> str:
        """Write the summary. A long conversation is read in parts, each again where the model's
        answer is of no use.
        """
        again = Retrying(
            retry=retry_if_exception_type(WrongAnswer),
            stop=stop_after_attempt(_SUMMARY_TRIES),
            reraise=True,
        )
        tools = parted(earlier)[1] + called_in(messages)
        for part in self._parts(messages):
            earlier = again(
                self._ask,
                summary_system(most),
                SUMMARY_SCHEMA,
                part,
                earlier,
                partial(summary_from, most=most),
            )
        return with_tools(earlier, tools, most)

    def close(self) -> None:
        """Close the connections; a call that waits for its next try gives up."""
        self._breaker.close()
        self._endpoint.close()

    def _ask(
        self,
        system: str,
        schema: dict[str, Any],
        messages: Sequence[Message],
        earlier: str,
        read: Callable[[dict[str, Any]], T],
    ) -> T:
        text = fenced(messages, earlier)

        def ask() -> dict[str, Any]:
            with self._telemetry.step(Step.MODEL):
                return self._endpoint.ask(system, schema, text)

        answer = self._breaker.call(ask)
        try:
            return read(answer)
        except WrongNotes as error:
            raise WrongAnswer(f"the model's answer has another shape: {error}") from error

    def _parts(self, messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
        start = size = 0
        for end, message in enumerate(messages):
            tokens = min(message_tokens(message), _MESSAGE_TOKENS) + 20
            if size and size + tokens > self._endpoint.part_tokens:
                yield messages[start:end]
                start, size = end, 0
            size += tokens
        if start < len(messages):
            yield messages[start:]


def calling(sdk: Any, model: str, call: Callable[[], T]) -> T:
    """Make a call of an SDK. Raise TryLater, TookTooLong, CannotWrite or ModelUnavailable for its
    errors.
    """
    try:
        return call()
    except sdk.APIStatusError as error:
        status, kind = error.status_code, error.type if isinstance(error.type, str) else ""
        reason = f"the API answered {status} {kind}".rstrip()
        if status in _MAY_PASS or status >= 500:
            raise TryLater(reason, _seconds(error.response.headers.get("retry-after"))) from None
        if status in (400, 413, 422):  # of this conversation alone: too long, not acceptable
            raise CannotWrite(reason) from None
        if status == 404 and (
            kind == "not_found_error"
            or (isinstance(error.body, dict) and "model" in str(error.body))
        ):
            reason = f"the API has no model {model}: name another with --abbreviation-model, or give the server this one"
        raise ModelUnavailable(reason) from None
    except sdk.APITimeoutError as error:
        if isinstance(error.__cause__, httpx2.ConnectTimeout):
            raise TryLater("the API cannot be reached") from None
        raise TookTooLong("the API took too long") from None
    except sdk.APIConnectionError:
        raise TryLater("the API cannot be reached") from None
    except (sdk.APIError, ValueError, TypeError, AttributeError) as error:
        # The SDKs do not check what they are answered: garbage is noticed where it is looked at.
        raise TryLater(f"the API's answer cannot be read: {type(error).__name__}") from None


def hooks(seconds: float) -> dict[str, list[Callable[..., Any]]]:
    """Return event hooks of an HTTP client that bound a whole answer: a read timeout alone never
    ends one that trickles in.
    """

    def begin(request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, _DEADLINE: time.monotonic() + seconds}

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _Bounded(response.stream, response.request.extensions[_DEADLINE])

    return {"request": [begin], "response": [bound]}


_DEADLINE = "recollect.deadline"


class _Bounded(httpx2.SyncByteStream):
    """The body of an answer, which must be complete at a moment of the monotonic clock."""

    def __init__(self, stream: httpx2.SyncByteStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the answer was not complete in time")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _seconds(value: str | None) -> float | None:
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None  # a date: the own back-off is used
