import { RecollectError, type CodeName } from "./errors.js";

/**
 * The number of attempts of a failed call and the waits between them: exponential back-off with full
 * jitter. Only what is safe is repeated: a call that changes nothing, or one that carries a
 * `requestId`, which the client adds where the caller gives none. The time-out bounds the call as a
 * whole.
 *
 * A server that has answered this client before and is gone is being started again, most likely:
 * attempts that meet no server do not count then, and go on until the time-out.
 */
export interface RetryPolicy {
  /** The most times a call is sent, the first time included. 1 never repeats. */
  readonly maxAttempts: number;
  /** The longest wait before the second attempt. */
  readonly initialDelayMs: number;
  /** The factor by which each wait may be longer than the one before. */
  readonly multiplier: number;
  /** No wait is longer than this, unless the server asks for it. */
  readonly maxDelayMs: number;
  /** The source of the jitter: a number from 0 to 1. */
  readonly random: () => number;
  /** True: a server that answered before is looked for `maxAttempts` times, as any other. */
  readonly failsFast: boolean;
}

export const DEFAULT_RETRY: RetryPolicy = {
  maxAttempts: 6,
  initialDelayMs: 100,
  multiplier: 2,
  maxDelayMs: 5000,
  random: Math.random,
  failsFast: false,
};

/** Milliseconds between two looks for a server that is away: it should be met soon after it is back. */
const LONGEST_PAUSE = 1000;
/**
 * Milliseconds at the end of a time-out in which no attempt begins: its answer would be cut off, and the
 * error would not say what the attempts before it met.
 */
const LONGEST_RESERVE = 1000;

/** UNAVAILABLE says so. CANCELLED, where nobody did, is how a server refuses a burst of calls. */
const WORTH_REPEATING: ReadonlySet<CodeName> = new Set<CodeName>(["UNAVAILABLE", "CANCELLED"]);

/** Returns the complete policy. Throws a RecollectError for values that make none. */
export function checkedPolicy(given: Partial<RetryPolicy>): RetryPolicy {
  const policy = { ...DEFAULT_RETRY, ...given };
  const { maxAttempts, initialDelayMs, maxDelayMs, multiplier } = policy;
  if (!(maxAttempts >= 1)) throw invalid("retry.maxAttempts", "is at least 1");
  if (!(initialDelayMs >= 0 && maxDelayMs >= 0 && multiplier >= 1)) {
    throw invalid("retry", "needs delays that are not negative and a multiplier of at least 1");
  }
  return policy;
}

/** Returns the milliseconds to wait after so many failures, never less than the server asked for. */
export function delayAfter(policy: RetryPolicy, failures: number, askedFor = 0): number {
  const { initialDelayMs, multiplier, maxDelayMs, random } = policy;
  return askedFor + random() * Math.min(maxDelayMs, initialDelayMs * multiplier ** Math.min(failures - 1, 64));
}

/** What the calls and watches of one client know of its server. */
export class Presence {
  #wasMet = false;

  /** Notes that the server answered, and be it with a refusal. */
  met(error?: RecollectError): void {
    this.#wasMet ||= error === undefined || error.rawReason !== undefined;
  }

  /** Returns whether to wait after a failure for a server that is started again. */
  isAwaited(policy: RetryPolicy, error: RecollectError): boolean {
    const isAway = error.code === "UNAVAILABLE" && error.rawReason === undefined && error.retryAfterMs === undefined;
    return isAway && this.#wasMet && policy.maxAttempts > 1 && !policy.failsFast;
  }
}

/** Returns the milliseconds to wait before looking for a server again that is started anew. */
export function pauseAfter(policy: RetryPolicy, failures: number): number {
  return Math.min(delayAfter(policy, failures), LONGEST_PAUSE);
}

/** Returns the milliseconds at the end of a time-out in which no attempt begins. */
export function reserveOf(timeoutMs: number): number {
  return Math.min(LONGEST_RESERVE, timeoutMs / 10);
}

/** Returns whether the server names a delay after which it may accept the call, or is away. */
export function isWorthRepeating(error: RecollectError): boolean {
  return error.retryAfterMs !== undefined || WORTH_REPEATING.has(error.code);
}

/** Waits. Rejects with the signal's reason as soon as that is aborted. */
export function wait(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason as unknown);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Returns the error for a value that the client itself refuses. */
export function invalid(field: string, description: string): RecollectError {
  const failure = { code: "INVALID_ARGUMENT", violations: [{ field, description }] } as const;
  return new RecollectError(`${field} ${description}`, { ...failure, reason: "ERROR_REASON_INVALID_FIELD" });
}
