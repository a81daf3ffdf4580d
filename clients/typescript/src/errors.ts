import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { ErrorReason } from "./gen/recollect/v1/error_pb.js";

/** Reason of a failure, in the words of the contract without `ERROR_REASON_`. */
export type Reason = Exclude<keyof typeof ErrorReason, "UNSPECIFIED">;

const CODES = {
  [Code.Canceled]: "CANCELLED",
  [Code.Unknown]: "UNKNOWN",
  [Code.InvalidArgument]: "INVALID_ARGUMENT",
  [Code.DeadlineExceeded]: "DEADLINE_EXCEEDED",
  [Code.NotFound]: "NOT_FOUND",
  [Code.AlreadyExists]: "ALREADY_EXISTS",
  [Code.PermissionDenied]: "PERMISSION_DENIED",
  [Code.ResourceExhausted]: "RESOURCE_EXHAUSTED",
  [Code.FailedPrecondition]: "FAILED_PRECONDITION",
  [Code.Aborted]: "ABORTED",
  [Code.OutOfRange]: "OUT_OF_RANGE",
  [Code.Unimplemented]: "UNIMPLEMENTED",
  [Code.Internal]: "INTERNAL",
  [Code.Unavailable]: "UNAVAILABLE",
  [Code.DataLoss]: "DATA_LOSS",
  [Code.Unauthenticated]: "UNAUTHENTICATED",
} as const satisfies Record<Code, string>;

/** Name of a gRPC status code; `CLOSED` if the client was closed. */
export type CodeName = (typeof CODES)[Code] | "CLOSED";

/** One field of a request that is wrong. */
export interface FieldViolation {
  /** The field's path in the request, as in `messages[0].content`. */
  readonly field: string;
  /** The rule that the field breaks. */
  readonly description: string;
}

/** What is known of a failure beyond its text. */
export interface Failure {
  readonly code: CodeName;
  readonly reason?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly FieldViolation[];
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/**
 * A call failed. Branch on `reason`, or on `code` where there is none: the text is for people, and
 * changes.
 */
export class RecollectError extends Error {
  override readonly name = "RecollectError";
  /** Name of the gRPC status code, as in `NOT_FOUND`. */
  readonly code: CodeName;
  /** Why, as in `CONVERSATION_NOT_FOUND`. Unset if no server was reached, or it gave a reason that
   * this client does not know: then `rawReason` has it. */
  readonly reason: Reason | undefined;
  /** The reason as the server sent it, as in `ERROR_REASON_CONVERSATION_NOT_FOUND`. */
  readonly rawReason: string | undefined;
  /** Values that belong to the reason: `conversation_id`, `turn_count`, … (see `ErrorReason`). */
  readonly metadata: Readonly<Record<string, string>>;
  /** The fields that are wrong. Empty but with `INVALID_FIELD` and `MALFORMED_REQUEST`. */
  readonly violations: readonly FieldViolation[];
  /** In how many milliseconds the server asks to be tried again. Unset if it did not say. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, failure: Failure) {
    super(message, { cause: failure.cause });
    this.code = failure.code;
    this.rawReason = failure.reason;
    const name = failure.reason?.replace(/^ERROR_REASON_/, "") ?? "";
    this.reason = name !== "UNSPECIFIED" && Number.isNaN(Number(name)) && name in ErrorReason ? (name as Reason) : undefined;
    this.metadata = failure.metadata ?? {};
    this.violations = failure.violations ?? [];
    this.retryAfterMs = failure.retryAfterMs;
  }
}

/** Node's codes of certificates that are not accepted, and of an end that speaks no TLS. */
const CERTIFICATE = /^(CERT_|ERR_TLS_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH)/;
const NO_TLS = /^(EPROTO|ERR_SSL_)/;

/** Returns the error for anything that a transport threw. */
export function recollectError(thrown: unknown): RecollectError {
  if (thrown instanceof RecollectError) return thrown;
  const error = ConnectError.from(thrown);
  const info = error.findDetails(ErrorInfoSchema).find((it) => it.domain === "recollect");
  const retry = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  if (info === undefined && isOfConnection(error)) {
    const advice = adviceOnTls(error);
    // A certificate that is refused once is refused again: FAILED_PRECONDITION is not repeated.
    return advice
      ? new RecollectError(advice, { code: "FAILED_PRECONDITION", cause: error })
      : new RecollectError(`No connection to the server: ${error.rawMessage}`, { code: "UNAVAILABLE", cause: error });
  }
  if (info === undefined && error.code === Code.Canceled && error.rawMessage.startsWith("http/2 stream closed")) {
    const text = "No connection to the server: it closed the connection. If it speaks TLS, name the authority of its certificate with ca.";
    return new RecollectError(text, { code: "UNAVAILABLE", cause: error });
  }
  const unsent = /^serialize binary: cannot encode field \S*\.(\w+) to binary: (.*)/s.exec(error.rawMessage);
  if (error.code === Code.Internal && unsent !== null) {
    const [, field = "", description = ""] = unsent;
    const failure = { code: "INVALID_ARGUMENT", reason: "ERROR_REASON_INVALID_FIELD", cause: error } as const;
    return new RecollectError(`${field}: ${description}`, { ...failure, violations: [{ field, description }] });
  }
  return new RecollectError(error.rawMessage || CODES[error.code], {
    code: CODES[error.code],
    reason: info?.reason,
    metadata: info?.metadata,
    violations: error
      .findDetails(BadRequestSchema)
      .flatMap((it) => it.fieldViolations.map(({ field, description }) => ({ field, description }))),
    retryAfterMs: retry && Math.max(0, Number(retry.seconds) * 1000 + Math.ceil(retry.nanos / 1e6)),
    cause: error,
  });
}

/**
 * Returns whether the connection failed, not the call: transports set a cause where no server
 * answered, and say "protocol error" where an answer ended early.
 */
function isOfConnection(error: ConnectError): boolean {
  if (error.code === Code.DeadlineExceeded || error.code === Code.Canceled) return false;
  return (error.cause !== undefined && error.cause !== null) || error.rawMessage.startsWith("protocol error: ");
}

function adviceOnTls(error: unknown): string {
  for (let it: unknown = error; it instanceof Error; it = it.cause) {
    const code = "code" in it && typeof it.code === "string" ? it.code : "";
    if (CERTIFICATE.test(code)) {
      return `The server's certificate is not accepted (${code}): name the authority that it comes from with ca.`;
    }
    if (NO_TLS.test(code)) {
      return `The server does not speak TLS at this address (${code}): leave ca out, or name another port.`;
    }
  }
  return "";
}
