"""The cases leave nothing of the contract out: no call, and no reason that a call may fail with."""

from collections.abc import Iterator
from typing import Any

from tests.cases import each
from tests.conformance.contract import FOLDER as PROTO
from tests.conformance.contract import METHODS, reasons, reasons_of
from tests.conformance.runner import FOLDER, Case, cases

EVERY = cases(FOLDER)

NOT_BY_A_REQUEST = {
    "MALFORMED_REQUEST": (
        "tests/server/test_server.py",
        "a request in JSON always is a message of the contract",
    ),
    "STORAGE_UNAVAILABLE": ("tests/faults/test_held_messages.py", "a disk must refuse"),
    "INDEX_UNAVAILABLE": ("tests/streaming/test_resume.py", "the index must be lost"),
    "DATA_DAMAGED": ("tests/server/test_damage.py", "a file must be damaged"),
    "INTERNAL": ("tests/server/test_server.py", "the server must have a fault"),
    "TOO_MANY_ANSWERS": (
        "tests/hostile/test_large_answers.py",
        "callers must leave as many large answers unread as fill the room",
    ),
    "TOO_MANY_SUBSCRIBERS": (
        "tests/streaming/test_stuck.py",
        "as many streams must be open as a setting says: thousands",
    ),
    "DEADLINE_EXCEEDED": (
        "tests/hostile/test_abandoned_calls.py",
        "a search must take longer than a setting allows",
    ),
    "RATE_LIMITED": (
        "tests/channels/test_strangers.py",
        "a sender must be faster than settings allow, on any machine",
    ),
    "CONVERSATION_FULL": ("tests/channels/test_full.py", "a limit must be set"),
    "UNAUTHENTICATED": ("tests/client/test_errors.py", "tokens must be on"),
    "PERMISSION_DENIED": ("tests/client/test_errors.py", "tokens must be on"),
    "LIMIT_EXCEEDED": ("tests/client/test_errors.py", "a limit must be set"),
    "TOO_MANY_SPACES": ("tests/client/test_errors.py", "as many spaces as a setting says: many"),
}
"""Reasons that no request alone brings about: where they are tested instead, and what it takes."""

ANSWERED_ELSEWHERE = {
    f"AdminService/{name}": "tests/administration/test_tokens.py"
    for name in ("CreateToken", "RevokeToken", "RotateToken", "ListTokenUses")
} | {
    "AdminService/Backup": "tests/administration/test_backups.py",
    "AdminService/ListBackups": "tests/administration/test_backups.py",
    "RecallService/RemoveProfileStatement": "tests/context/test_profile.py",
}
"""Calls that no case may be answered: the first token of a server would end it for all others, a
folder for backups is a setting, and a profile needs the model.
"""


def outcomes(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the expectation of each step of a case, with the call that it is about."""
    streams: dict[str, str] = {}
    for step in case.steps:
        if "open" in step:
            streams[step["open"]] = step["rpc"]
        elif "close" not in step:
            yield step.get("rpc") or streams[step["read"]], step.get("expect", {})


def answered(rpc: str) -> list[Case]:
    """Return the cases that expect an answer of a call."""
    return [
        case
        for case in EVERY
        if any(it == rpc and "answer" in expected for it, expected in outcomes(case))
    ]


def failed(rpc: str) -> set[str]:
    """Return the reasons with which the cases expect a call to fail."""
    reasons_given = [
        expected["error"]["reason"]
        for case in EVERY
        for it, expected in outcomes(case)
        if it == rpc and "error" in expected
    ]
    return {reason.removeprefix("ERROR_REASON_") for reason in reasons_given}


@each("rpc", METHODS)
def test_a_case_says_what_every_call_answers(rpc: str) -> None:
    assert answered(rpc) or rpc in ANSWERED_ELSEWHERE, f"no case expects an answer of {rpc}"


@each("rpc", METHODS)
def test_a_case_fails_with_every_reason_that_the_contract_names_for_a_call(rpc: str) -> None:
    assert reasons_of(rpc) - failed(rpc) - set(NOT_BY_A_REQUEST) == set()


@each("rpc", METHODS)
def test_no_call_fails_with_a_reason_that_the_contract_does_not_name_for_it(rpc: str) -> None:
    assert failed(rpc) - reasons_of(rpc) == set()


def test_every_reason_that_is_answered_has_a_case_or_says_why_not() -> None:
    in_cases = set().union(*(failed(rpc) for rpc in METHODS))
    assert {name for name, reason in reasons().items() if reason.answered} == in_cases | set(
        NOT_BY_A_REQUEST
    )
    assert not in_cases & set(NOT_BY_A_REQUEST)


@each("reason", NOT_BY_A_REQUEST)
def test_a_reason_without_a_case_is_tested_where_it_is_said(reason: str) -> None:
    file, _ = NOT_BY_A_REQUEST[reason]
    assert f'"{reason}"' in (PROTO.parents[2] / file).read_text()


def test_every_error_of_the_cases_has_the_code_that_the_contract_says() -> None:
    contract_reasons = reasons()
    for case in EVERY:
        for _, expected in outcomes(case):
            if "error" in expected:
                reason = contract_reasons[expected["error"]["reason"].removeprefix("ERROR_REASON_")]
                assert expected["error"]["code"] == reason.code, case.name
                assert set(expected["error"].get("metadata", {})) <= set(reason.metadata), case.name
