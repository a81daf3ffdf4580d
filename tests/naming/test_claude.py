"""The real SDK against a server that answers as the API does: how it is asked, how often, and when
it is left alone.
"""

import logging
from collections.abc import Callable, Iterator
from time import monotonic
from typing import get_args

import pytest
from anthropic import transform_schema
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from anthropic.types.model import Model
from recollect_server.kernel.domain.live import Holder
from recollect_server.notes.hosted.claude import ALIASES, AnthropicEndpoint
from recollect_server.notes.hosted.hosted import HostedModel
from recollect_server.notes.hosted.language_model import CannotWrite, ModelUnavailable
from recollect_server.notes.hosted.prompts import NOTES_SCHEMA, OUTCOME_SCHEMA, SUMMARY_SCHEMA
from recollect_server.notes.hosted.spending import Spending, SpendingFile, SpendingLimits

from tests.conftest import MovableClock
from tests.naming.conftest import NOTES, Answer, Api, Seconds, Talk, refused, wrote


def objects_in(schema: object) -> Iterator[dict[str, object]]:
    """Yield every object of a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects_in(value)


@pytest.mark.parametrize("schema", [NOTES_SCHEMA, OUTCOME_SCHEMA, SUMMARY_SCHEMA])
def test_the_schemas_are_such_as_the_api_takes(schema: dict[str, object]) -> None:
    """It wants every object closed; the SDK's own helper says what else it would change."""
    assert transform_schema(schema) == schema
    assert all(each["additionalProperties"] is False for each in objects_in(schema))


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_an_alias_is_a_model_that_the_sdk_names_and_that_does_not_end_soon(alias: str) -> None:
    names = get_args(get_args(Model)[0])
    assert ALIASES[alias] in names
    assert ALIASES[alias] not in DEPRECATED_MODELS
    newest = max((name for name in names if name.startswith(f"claude-{alias}-")), key=version_of)
    assert ALIASES[alias] == newest


def version_of(name: str) -> list[int]:
    """Return the version in a model's id, without a date."""
    return [int(part) for part in name.split("-")[2:] if len(part) < 8]


def test_what_is_no_alias_is_a_models_id(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    make(model="claude-opus-4-8").write_notes(talk("Hello"), "")
    assert api.requests[0]["model"] == "claude-opus-4-8"


def test_a_model_that_the_api_does_not_have_is_named_and_asked_for_again_later(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    api.answers = [refused(404, "not_found_error"), wrote(NOTES)]
    model = make(model="hiaku")
    with pytest.raises(
        ModelUnavailable, match="the API has no model hiaku: name another with --abbreviation-model"
    ):
        model.write_notes(talk("Hello"), "")
    assert model.write_notes(talk("Hello"), "").title == "Shipping on Friday"


def test_an_address_that_is_not_the_apis_is_asked_again_later(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    api.answers = [Answer(b"<html>nothing here</html>", 404), wrote(NOTES)]
    model = make()
    with pytest.raises(ModelUnavailable, match="404"):
        model.write_notes(talk("Hello"), "")
    assert model.write_notes(talk("Hello"), "").title == "Shipping on Friday"


@pytest.mark.parametrize(
    "refusal",
    [
        refused(409, "conflict_error"),
        refused(429, "rate_limit_error"),
        refused(500, "api_error"),
        refused(503, "api_error"),
        refused(529, "overloaded_error"),
        Answer(is_closed=True),
    ],
)
def test_a_refusal_that_may_pass_is_asked_again(
    make: Callable[..., HostedModel],
    api: Api,
    talk: Talk,
    refusal: Answer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.answers[:0] = [refusal, refused(408, "timeout_error")]
    assert make().write_notes(talk("Hello"), "").title == "Shipping on Friday"
    assert len(api.requests) == 3
    output = "".join(capsys.readouterr())
    assert output.count("model_asked_again") == 2
    assert "408" in output


def test_the_servers_retry_after_is_waited_for(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    model = make()
    model.write_notes(talk("Hello"), "")  # the SDK is imported now, which takes longer
    api.answers.insert(0, refused(429, "rate_limit_error", **{"retry-after": "1"}))
    began = monotonic()
    model.write_notes(talk("Hello"), "")
    assert monotonic() - began >= 1  # the own back-off is 0.02 s at the most
    assert len(api.requests) == 3


def test_a_server_that_says_tomorrow_is_not_waited_for(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    api.answers = [refused(429, "rate_limit_error", **{"retry-after": "86400"})]
    with pytest.raises(ModelUnavailable, match="429"):
        make().write_notes(talk("Hello"), "")
    assert len(api.requests) == 1


def test_an_answer_that_takes_too_long_concerns_its_conversation_alone_until_it_happens_again_and_again(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    api.answers = [Answer(hold=True)]
    model = make(timeout=0.3)
    with pytest.raises(CannotWrite, match="took too long"):
        model.write_notes(talk("Hello"), "")
    with pytest.raises(ModelUnavailable, match="took too long"):
        model.write_notes(talk("Hello"), "")
    assert len(api.requests) == 2  # no retries: others wait


def test_an_answer_that_trickles_in_is_given_up(
    make: Callable[..., HostedModel], api: Api, talk: Talk
) -> None:
    api.answers = [Answer(wrote(NOTES).body, trickle=True)]
    with pytest.raises(CannotWrite, match="took too long"):
        make(timeout=0.3).write_notes(talk("Hello"), "")


def test_a_wrong_key_stops_all_and_stands_in_no_log(
    make: Callable[..., HostedModel], api: Api, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    api.answers = [refused(401, "authentication_error")]
    with pytest.raises(ModelUnavailable, match="401") as raised:
        make().write_notes(talk("Hello"), "")
    assert api.keys == ["sk-secret-of-the-test"]
    assert "sk-secret" not in caplog.text + str(raised.value)


def test_after_too_many_failures_the_api_is_left_alone_for_a_while(
    make: Callable[..., HostedModel], api: Api, talk: Talk, seconds: Seconds
) -> None:
    api.answers = [refused(529, "overloaded_error")]
    model = make(tries=1)
    for _ in range(5):
        with pytest.raises(ModelUnavailable):
            model.write_notes(talk("Hello"), "")
    assert len(api.requests) == 2
    seconds.now += 61
    with pytest.raises(ModelUnavailable, match="529"):
        model.write_notes(talk("Hello"), "")
    with pytest.raises(ModelUnavailable, match=r"left alone .* 3 failures in a row, .* 529"):
        model.write_notes(talk("Hello"), "")
    assert len(api.requests) == 3
    seconds.now += 61
    api.answers = [wrote(NOTES)]
    assert model.write_notes(talk("Hello"), "").title == "Shipping on Friday"
    assert model.write_notes(talk("Hello"), "").title == "Shipping on Friday"


def test_a_days_budget_of_calls_and_of_tokens_holds_over_a_restart_and_ends_with_the_day(
    make: Callable[..., HostedModel], api: Api, talk: Talk, clock: MovableClock
) -> None:
    make(max_calls=2).write_notes(talk("Hello"), "")
    again = make(max_calls=2)
    again.write_notes(talk("Hello"), "")
    for model in (again, make(max_tokens=240)):
        with pytest.raises(ModelUnavailable, match="budget"):
            model.write_notes(talk("Hello"), "")
    assert len(api.requests) == 2
    clock.move(86_400_000)
    assert again.write_notes(talk("Hello"), "").title == "Shipping on Friday"


def test_without_a_key_the_model_says_so(
    monkeypatch: pytest.MonkeyPatch, clock: MovableClock, ledger: SpendingFile, api: Api
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelUnavailable, match="ANTHROPIC_API_KEY"):
        AnthropicEndpoint("haiku", Spending(clock, Holder(SpendingLimits(9, 9)), ledger))
