"""The table of errors against what `error.proto` says of each reason."""

from collections.abc import Iterator

from recollect.v1.error_pb2 import ErrorReason
from recollect_server.contract.errors import TABLE
from recollect_server.kernel.domain import errors

from tests.cases import each
from tests.conformance.contract import reasons

ROWS = {
    row.reason: (error, row)
    for error, row in TABLE.items()
    if row.reason is not None and error is not errors.MessagesHeld
}
OUTSIDE = {"MALFORMED_REQUEST", "INTERNAL"}
"""Reasons that no error of the domain has: bytes that are no message, and unforeseen failures."""


def kinds(error: type[errors.RecollectError]) -> Iterator[type[errors.RecollectError]]:
    for kind in error.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = [
        line.strip("│├└─ ").split()[0]
        for line in (errors.__doc__ or "").splitlines()
        if "─" in line
    ]
    assert drawn == [
        kind.__name__ for kind in kinds(errors.RecollectError) if kind.__module__ == errors.__name__
    ]


def test_every_error_of_the_house_has_a_row_or_is_a_kind_of_one_that_has() -> None:
    below = {kind for kind in kinds(errors.RecollectError) if not kind.__subclasses__()}
    assert below
    assert {kind.__name__ for kind in below if not any(it in TABLE for it in kind.__mro__)} == set()


def test_every_reason_of_the_contract_is_answered_once_or_said_not_to_be() -> None:
    answered = {name for name, reason in reasons().items() if reason.answered}
    assert {
        ErrorReason.Name(reason).removeprefix("ERROR_REASON_") for reason in ROWS
    } | OUTSIDE == answered
    # a server that stops has no reason, nor has a call that nobody waits for, nor one to a space
    # that is being deleted or was made under a stream; a conversation that is full has the reason
    # of the limits that pass, and messages that are held that of a disk that refused
    assert len(ROWS) + 6 == len(TABLE)


@each("name", [ErrorReason.Name(reason).removeprefix("ERROR_REASON_") for reason in ROWS])
def test_a_reason_has_the_code_the_metadata_and_the_delay_that_the_contract_says(name: str) -> None:
    error, row = ROWS[ErrorReason.Value(f"ERROR_REASON_{name}")]
    contract_reason = reasons()[name]
    assert (row.code.name, row.metadata) == (contract_reason.code, contract_reason.metadata)
    assert issubclass(error, errors.TryAgain) == contract_reason.passes
