// Failures as a person reads them.
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema } from "@recollect/client";
import { t } from "../texts";

/** Return a sentence about a failure: what the server says, or what to do where it says nothing. */
export function describe(error: unknown): string {
  if (error instanceof TypeError) return t.errors.pageServerGone; // fetch reached nothing
  const failure = ConnectError.from(error);
  switch (failure.code) {
    case Code.Unavailable:
      return failure.rawMessage.includes("connect") ? t.errors.serverGone : failure.rawMessage;
    case Code.DeadlineExceeded:
      return t.errors.tooSlow;
    case Code.Unknown:
    case Code.Internal:
      return failure.rawMessage === "" || /fetch/i.test(failure.rawMessage) ? t.errors.pageServerGone : failure.rawMessage;
    default:
      return failure.rawMessage;
  }
}

/** Return whether a failure is a call that this page itself gave up. */
export function isCancelled(error: unknown): boolean {
  return ConnectError.from(error).code === Code.Canceled;
}

/** Return whether what was asked for does not exist, or has a name that nothing has. */
export function isMissing(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return code === Code.NotFound || code === Code.InvalidArgument;
}

/** Return what is wrong with what somebody entered, else a sentence about the failure. */
export function violationOf(error: unknown): string {
  const violations = ConnectError.from(error).findDetails(BadRequestSchema).flatMap((it) => it.fieldViolations);
  return violations.length ? violations.map((it) => it.description).join("; ") : describe(error);
}
