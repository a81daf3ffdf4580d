"""AdminService: verification."""

from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.services.administration.verifications import (
    Verification,
    VerificationAdministration,
)
from recollect_server.transport.admin.reach import space_of
from recollect_server.transport.convert import timestamp
from recollect_server.transport.handling import Call


class VerificationHandlers:
    def __init__(self, verifications: VerificationAdministration) -> None:
        self._verifications = verifications

    def Verify(self, request: api.VerifyRequest, call: Call) -> api.VerifyResponse:
        space = space_of(call.principal, request.space)
        return api.VerifyResponse(verification=_verification_to(self._verifications.start(space)))

    def GetVerification(
        self, request: api.GetVerificationRequest, call: Call
    ) -> api.GetVerificationResponse:
        space = space_of(call.principal, request.space)
        newest = self._verifications.newest(space)
        return api.GetVerificationResponse(
            verification=None if newest is None else _verification_to(newest)
        )


def _verification_to(it: Verification) -> admin_pb2.Verification:
    findings = it.findings
    answer = admin_pb2.Verification(
        space=it.space,
        state=admin_pb2.VerificationState.Value(f"VERIFICATION_STATE_{it.state.name}"),
        create_time=timestamp(it.created),
        logs=findings.logs,
        total_logs=findings.total,
        conversations=findings.conversations,
        messages=findings.messages,
        external_communications=findings.communications,
        threads=findings.threads,
        problem_count=findings.problem_count,
        problems=[
            admin_pb2.VerificationProblem(id=log, problem=problem)
            for log, problem in list(findings.problems)
        ],
        failure=it.failure,
    )
    if it.ended is not None:
        answer.end_time.CopyFrom(timestamp(it.ended))
    return answer
