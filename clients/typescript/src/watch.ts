import { RecollectError } from "./errors.js";
import { DEFAULT_RETRY, delayAfter, wait, type Presence, type RetryPolicy } from "./retry.js";

/** What a watch needs to know of an update. */
export interface Streamed {
  cursor: string;
  reset: boolean;
  kind: { case?: string | undefined };
}

/** Opens one connection: everything after a cursor. */
export type Open<U> = (cursor: string, signal: AbortSignal) => AsyncIterable<{ update?: U | undefined; following?: U[] }>;

/** Called with true when a connection brings its first element, and with false and the reason each
 * time that one breaks or is refused and another is made. */
export type OnConnection = (isConnected: boolean, error?: unknown) => void;

const TRANSIENT = new Set(["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED"]);
/** The codes of a connection that broke in the middle of something. A fault of the server itself
 * brings a reason. */
const BROKEN = new Set(["INTERNAL", "UNKNOWN"]);
const SNAPSHOTS = new Set(["conversationList", "communicationList"]);

/**
 * Live updates in order, over as many connections as it takes: one that breaks is made again, and
 * goes on where it was. The iteration ends when the watch is closed or its loop is left; it throws
 * what another connection would not mend, and the reason of a signal that is aborted.
 *
 * An update with `reset` replaces everything that its receiver has: updates were missed for good.
 */
export class Watch<U extends Streamed> implements AsyncIterableIterator<U> {
  readonly #open: Open<U>;
  readonly #policy: RetryPolicy | undefined;
  readonly #onConnection: OnConnection | undefined;
  readonly #server: Presence;
  /** For how long a first connection waits for a server that answered before. */
  readonly #patienceMs: number;
  readonly #end = new AbortController();
  readonly #updates: AsyncGenerator<U, undefined, undefined>;
  #cursor: string;
  #closed = false;

  constructor(
    open: Open<U>,
    options: {
      cursor: string;
      retry: RetryPolicy | undefined;
      signals: (AbortSignal | undefined)[];
      onConnection?: OnConnection | undefined;
      server: Presence;
      patienceMs: number;
    },
  ) {
    this.#open = open;
    this.#onConnection = options.onConnection;
    this.#server = options.server;
    this.#patienceMs = options.patienceMs;
    this.#cursor = options.cursor;
    this.#policy = options.retry;
    const abort = (signal: AbortSignal) => this.#end.abort(signal.reason);
    for (const signal of options.signals) {
      if (signal?.aborted) abort(signal);
      signal?.addEventListener("abort", () => abort(signal), { once: true, signal: this.#end.signal });
    }
    this.#updates = this.#received();
  }

  /** The position after the newest update that was taken: another watch with it goes on there. */
  get cursor(): string {
    return this.#cursor;
  }

  /** Returns the next update, as soon as there is one. */
  next(): Promise<IteratorResult<U, undefined>> {
    return this.#updates.next();
  }

  /** Ends the watch, also for a caller that waits for its next update. */
  close(): void {
    this.#closed = true;
    this.#end.abort();
  }

  /** Ends the watch: a loop that is left calls it. */
  async return(): Promise<IteratorResult<U, undefined>> {
    this.close();
    return this.#updates.return(undefined);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async *#received(): AsyncGenerator<U, undefined, undefined> {
    const { signal } = this.#end;
    let wasConnected = false;
    let hasSnapshot = this.#cursor !== "";
    let began = performance.now();
    for (let failures = 0; ; ) {
      let failure: unknown;
      let isConnected = false;
      try {
        signal.throwIfAborted();
        for await (const { update, following = [] } of this.#open(this.#cursor, signal)) {
          wasConnected = true;
          this.#server.met();
          failures = 0;
          if (!isConnected) this.#onConnection?.(true);
          isConnected = true;
          for (const it of update === undefined ? following : [update, ...following]) {
            if (this.#closed) return undefined;
            signal.throwIfAborted();
            this.#cursor = it.cursor || this.#cursor;
            if (it.kind.case === "heartbeat") continue;
            if (it.kind.case !== undefined && SNAPSHOTS.has(it.kind.case)) {
              // The connection broke within the first snapshot: this one begins anew.
              it.reset ||= hasSnapshot;
              hasSnapshot = true;
            }
            yield it;
          }
        }
      } catch (thrown) {
        failure = thrown;
      }
      if (this.#closed) return undefined;
      if (signal.aborted) throw signal.reason;
      failures += 1;
      if (failures === 1) began = performance.now();
      if (failure !== undefined && !this.#isTransient(failure, wasConnected, failures, began)) throw failure;
      this.#onConnection?.(false, failure);
      const askedFor = failure instanceof RecollectError ? failure.retryAfterMs : undefined;
      await wait(delayAfter(this.#policy ?? DEFAULT_RETRY, failures, askedFor), signal).catch(() => undefined);
    }
  }

  /** The first connection is tried as often and as long as any call; one that was there once is made
   * again for as long as it takes. */
  #isTransient(failure: unknown, wasConnected: boolean, failures: number, began: number): boolean {
    if (!(failure instanceof RecollectError) || this.#policy === undefined) return false;
    if (this.#server.isAwaited(this.#policy, failure) && performance.now() - began < this.#patienceMs) return true;
    if (!TRANSIENT.has(failure.code) && !(BROKEN.has(failure.code) && failure.rawReason === undefined)) return false;
    return wasConnected || failures < this.#policy.maxAttempts;
  }
}
