// Failures as a person reads them.
import { RecollectError } from "@recollect/client";
import { t } from "../texts";

/** Return a sentence about a failure: what the server says, or what to do where it says nothing. */
export function describe(error: unknown): string {
  if (error instanceof TypeError) return t.errors.pageServerGone; // fetch reached nothing
  const text = error instanceof Error ? error.message : String(error);
  switch (error instanceof RecollectError ? error.code : undefined) {
    case "UNAVAILABLE":
      if (error instanceof RecollectError && error.metadata.held_because) return t.errors.held(error.metadata.held_because);
      if (text.startsWith("No connection to the server")) return t.errors.pageServerGone;
      return text.includes("connect") ? t.errors.serverGone : text;
    case "DEADLINE_EXCEEDED":
      return t.errors.tooSlow;
    default:
      return text;
  }
}

/** Return whether a failure is a call that this page itself gave up. */
export function isCancelled(error: unknown): boolean {
  return error instanceof DOMException ? error.name === "AbortError" : isOf(error, "CANCELLED", "CLOSED");
}

/** Return whether what was asked for does not exist, or has a name that nothing has. */
export function isMissing(error: unknown): boolean {
  return isOf(error, "NOT_FOUND", "INVALID_ARGUMENT");
}

/** Return whether a failure has one of some codes. */
export function isOf(error: unknown, ...codes: RecollectError["code"][]): boolean {
  return error instanceof RecollectError && codes.includes(error.code);
}

/** Return what is wrong with what somebody entered, else a sentence about the failure. */
export function violationOf(error: unknown): string {
  const violations = error instanceof RecollectError ? error.violations : [];
  return violations.length ? violations.map((it) => it.description).join("; ") : describe(error);
}
