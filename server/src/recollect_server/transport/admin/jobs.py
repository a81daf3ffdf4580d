"""AdminService: the background jobs."""

from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.services.administration.jobs import JobAdministration, JobOverview
from recollect_server.transport.admin.reach import space_of
from recollect_server.transport.convert import timestamp
from recollect_server.transport.handling import Call


class JobHandlers:
    def __init__(self, jobs: JobAdministration) -> None:
        self._jobs = jobs

    def ListJobs(self, request: api.ListJobsRequest, call: Call) -> api.ListJobsResponse:
        name = space_of(call.principal, request.space)
        return api.ListJobsResponse(jobs=[_job_to(name, job) for job in self._jobs.list(name)])


def _job_to(space: str, it: JobOverview) -> admin_pb2.Job:
    answer = admin_pb2.Job(
        name=it.name,
        help=it.help,
        space=space,
        state=admin_pb2.JobState.Value(f"JOB_STATE_{it.state.name}"),
        due=it.due,
        failed=it.failed,
        failures=[
            admin_pb2.JobFailure(conversation_id=conversation_id, reason=reason)
            for conversation_id, reason in it.failures
        ],
    )
    if it.ran_at is not None:
        answer.last_run_time.CopyFrom(timestamp(it.ran_at))
    return answer
