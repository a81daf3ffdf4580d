"""Failures of the server as exceptions: chosen by reason, else by code."""

import pickle

import grpc
import pytest
import recollect
from recollect import ErrorReason
from recollect._shared.status import Details, read_details
from recollect.v1 import error_pb2

from tests.cases import each
from tests.client.conftest import Fault, Scripted, bad_request, error_info, retry_info

CONVERSATION = "conv-01HQ0000000000000000000000"
CODES = {
    "INVALID_FIELD": ("INVALID_ARGUMENT", recollect.InvalidArgument),
    "MALFORMED_REQUEST": ("INVALID_ARGUMENT", recollect.InvalidArgument),
    "INVALID_PAGE_TOKEN": ("INVALID_ARGUMENT", recollect.InvalidArgument),
    "CONVERSATION_NOT_FOUND": ("NOT_FOUND", recollect.NotFound),
    "REQUEST_ID_REUSED": ("ALREADY_EXISTS", recollect.AlreadyExists),
    "TURN_OUT_OF_DATE": ("ABORTED", recollect.TurnOutOfDate),
    "STORAGE_UNAVAILABLE": ("UNAVAILABLE", recollect.Unavailable),
    "DATA_DAMAGED": ("DATA_LOSS", recollect.DataDamaged),
    "INDEX_UNAVAILABLE": ("UNAVAILABLE", recollect.Unavailable),
    "NOT_YET_IMPLEMENTED": ("UNIMPLEMENTED", recollect.Unimplemented),
    "CONVERSATION_READ_ONLY": ("FAILED_PRECONDITION", recollect.FailedPrecondition),
    "TOO_MANY_SUBSCRIBERS": ("RESOURCE_EXHAUSTED", recollect.ResourceExhausted),
    "RATE_LIMITED": ("RESOURCE_EXHAUSTED", recollect.ResourceExhausted),
    "ANCHORS_PRESENT": ("FAILED_PRECONDITION", recollect.FailedPrecondition),
    "NOT_FOUND": ("NOT_FOUND", recollect.NotFound),
    "TRUST_REQUIRED": ("PERMISSION_DENIED", recollect.PermissionDenied),
    "UNAUTHENTICATED": ("UNAUTHENTICATED", recollect.Unauthenticated),
    "DEADLINE_EXCEEDED": ("DEADLINE_EXCEEDED", recollect.DeadlineExceeded),
    "ESCALATION_RESOLVED": ("FAILED_PRECONDITION", recollect.FailedPrecondition),
    "CONVERSATION_EXISTS": ("ALREADY_EXISTS", recollect.AlreadyExists),
    "CONVERSATION_PINNED": ("FAILED_PRECONDITION", recollect.FailedPrecondition),
    "TOO_MANY_ANSWERS": ("RESOURCE_EXHAUSTED", recollect.ResourceExhausted),
    "INTERNAL": ("INTERNAL", recollect.InternalError),
    "PERMISSION_DENIED": ("PERMISSION_DENIED", recollect.PermissionDenied),
    "LIMIT_EXCEEDED": ("RESOURCE_EXHAUSTED", recollect.LimitExceeded),
    "TOO_MANY_SPACES": ("RESOURCE_EXHAUSTED", recollect.ResourceExhausted),
    "CONVERSATION_FULL": ("RESOURCE_EXHAUSTED", recollect.ResourceExhausted),
    "NO_BACKUP_FOLDER": ("FAILED_PRECONDITION", recollect.FailedPrecondition),
}


def failure(scripted: Scripted, fault: Fault) -> recollect.RecollectError:
    """Return the error that a call raises when the server fails so."""
    scripted.script = [fault]
    with (
        recollect.Client(scripted.target, retry=None) as client,
        pytest.raises(recollect.RecollectError) as caught,
    ):
        client.conversations.get(CONVERSATION)
    return caught.value


def test_every_reason_of_the_contract_is_known() -> None:
    contract = {name for name in error_pb2.ErrorReason.keys() if name != "ERROR_REASON_UNSPECIFIED"}  # noqa: SIM118
    assert {str(reason) for reason in ErrorReason} == contract
    assert {reason.name for reason in ErrorReason} == set(CODES)


@each("name", CODES)
def test_a_reason_has_its_exception(scripted: Scripted, name: str) -> None:
    code, kind = CODES[name]
    error = failure(
        scripted, Fault(grpc.StatusCode[code], [error_info(f"ERROR_REASON_{name}", some="thing")])
    )
    assert type(error) is kind
    assert error.reason is ErrorReason[name]
    assert (error.code, error.metadata, str(error)) == (code, {"some": "thing"}, "scripted")


def test_the_reason_is_stronger_than_the_code(scripted: Scripted) -> None:
    error = failure(
        scripted, Fault(grpc.StatusCode.UNKNOWN, [error_info("ERROR_REASON_TURN_OUT_OF_DATE")])
    )
    assert type(error) is recollect.TurnOutOfDate


def test_the_text_decides_nothing(scripted: Scripted) -> None:
    error = failure(
        scripted, Fault(grpc.StatusCode.ABORTED, text="ERROR_REASON_TURN_OUT_OF_DATE not found")
    )
    assert type(error) is recollect.RecollectError
    assert (error.code, error.reason) == ("ABORTED", None)


def test_a_reason_of_a_newer_server_falls_back_to_the_code(scripted: Scripted) -> None:
    error = failure(
        scripted, Fault(grpc.StatusCode.NOT_FOUND, [error_info("ERROR_REASON_OF_2031")])
    )
    assert type(error) is recollect.NotFound
    assert error.reason == "ERROR_REASON_OF_2031"


def test_a_reason_of_another_domain_is_not_ours(scripted: Scripted) -> None:
    info = error_info("ERROR_REASON_NOT_FOUND", domain="proxy.example", host="a")
    error = failure(scripted, Fault(grpc.StatusCode.UNAVAILABLE, [info]))
    assert type(error) is recollect.Unavailable
    assert (error.reason, error.metadata) == (None, {})


def test_field_violations_and_the_retry_delay_come_with_the_error(scripted: Scripted) -> None:
    details = [
        error_info("ERROR_REASON_INVALID_FIELD"),
        bad_request(channel="must not be empty", model="at most 128 characters: 不行"),
        retry_info(2.25),
    ]
    error = failure(scripted, Fault(grpc.StatusCode.INVALID_ARGUMENT, details))
    assert error.violations == (
        recollect.FieldViolation("channel", "must not be empty"),
        recollect.FieldViolation("model", "at most 128 characters: 不行"),
    )
    assert error.retry_delay == 2.25


def test_no_error_of_grpc_hangs_on_the_exception(scripted: Scripted) -> None:
    error = failure(scripted, Fault(grpc.StatusCode.NOT_FOUND))
    assert not isinstance(error, grpc.RpcError)
    assert (error.__cause__, error.__context__) == (None, None)


def test_details_that_cannot_be_read_are_left_out() -> None:
    assert read_details(b"\xff\xff\xff") == Details()
    assert read_details(b"") == Details()


def test_an_exception_survives_pickling(scripted: Scripted) -> None:
    info = error_info("ERROR_REASON_CONVERSATION_NOT_FOUND", conversation_id=CONVERSATION)
    error = failure(scripted, Fault(grpc.StatusCode.NOT_FOUND, [info]))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), str(again), vars(again)) == (recollect.NotFound, str(error), vars(error))


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = {
        line.split()[1]
        for line in (recollect.errors.__doc__ or "").splitlines()
        if line.strip()[:1] in "├└" and line
    }
    assert drawn == {kind.__name__ for kind in recollect.RecollectError.__subclasses__()}
    assert drawn <= set(recollect.__all__)


async def test_the_async_client_raises_the_same_exception(scripted: Scripted) -> None:
    info = error_info("ERROR_REASON_TURN_OUT_OF_DATE", expected_turn="3", turn_count="4")
    scripted.script = [Fault(grpc.StatusCode.ABORTED, [info])]
    async with recollect.AsyncClient(scripted.target) as client:
        with pytest.raises(recollect.TurnOutOfDate) as caught:
            await client.conversations.append_turn(
                CONVERSATION, [recollect.Message.user("Hi")], expected_turn=3
            )
    assert caught.value.metadata == {"expected_turn": "3", "turn_count": "4"}
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
