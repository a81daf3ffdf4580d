import { clone, create, type DescMessage, type DescMethodStreaming, type DescMethodUnary, type MessageInitShape } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as Level } from "@bufbuild/protobuf/wkt";
import type { ContextValues, StreamResponse, Transport, UnaryResponse } from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";
import { checkMessage } from "./checks.js";
import { RecollectError, recollectError } from "./errors.js";
import { delayAfter, invalid, isWorthRepeating, pauseAfter, reserveOf, wait, type Presence, type RetryPolicy } from "./retry.js";

/** setTimeout fires at once for more milliseconds than this, some 24 days. */
const MAX_TIMEOUT = 0x7fff_ffff;

/** What every call of a client has in common. */
export interface Settings {
  readonly headers: Headers;
  /** Returns those of one attempt. */
  readonly more: (() => HeadersInit) | undefined;
  readonly timeoutMs: number;
  /** Unset: never repeat. */
  readonly retry: RetryPolicy | undefined;
  readonly server: Presence;
  /** Aborted when the client is closed. */
  readonly closed: AbortSignal;
}

/**
 * A transport over another one that repeats calls where that is safe, bounds them in time, adds the
 * client's metadata, and throws RecollectErrors.
 */
export class RepeatingTransport implements Transport {
  readonly #inner: Transport;
  readonly #settings: Settings;

  constructor(inner: Transport, settings: Settings) {
    this.#inner = inner;
    this.#settings = settings;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: MessageInitShape<I>,
    contextValues?: ContextValues,
  ): Promise<UnaryResponse<I, O>> {
    const { retry, server, closed } = this.#settings;
    const timeout = checkedTimeout(timeoutMs ?? this.#settings.timeoutMs);
    const deadline = performance.now() + timeout;
    const lastStart = deadline - reserveOf(timeout);
    const message = withRequestId(method, input);
    checkMessage(method.input, message);
    const policy = mayBeRepeated(method) ? retry : undefined;
    const joined = joinedSignal(signal, closed);
    try {
      for (let failures = 1, awaited = 0; ; failures += 1) {
        try {
          joined.signal.throwIfAborted();
          const left = Math.max(Math.ceil(deadline - performance.now()), 1); // gRPC takes whole numbers
          const answer = await this.#inner.unary(method, joined.signal, left, this.#headers(header), message, contextValues);
          server.met();
          return answer;
        } catch (thrown) {
          if (joined.signal.aborted) throw abortReason(signal, closed);
          const error = recollectError(thrown);
          server.met(error);
          if (policy === undefined || !isWorthRepeating(error)) throw error;
          const isAwaited = server.isAwaited(policy, error);
          if (isAwaited) awaited += 1;
          else if (failures - awaited >= policy.maxAttempts) throw error;
          const delay = isAwaited ? pauseAfter(policy, failures) : delayAfter(policy, failures, error.retryAfterMs);
          if (performance.now() + delay >= lastStart) throw error;
          await wait(delay, joined.signal).catch(() => {
            throw abortReason(signal, closed);
          });
        }
      }
    } finally {
      joined.release();
    }
  }

  async stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: AsyncIterable<MessageInitShape<I>>,
    contextValues?: ContextValues,
  ): Promise<StreamResponse<I, O>> {
    const { closed } = this.#settings;
    if (closed.aborted) throw clientClosed();
    const timeout = timeoutMs === undefined ? undefined : checkedTimeout(timeoutMs);
    const request = await checkedInput(method, input);
    const joined = joinedSignal(signal, closed);
    const failed = (thrown: unknown): never => {
      joined.release();
      throw joined.signal.aborted ? abortReason(signal, closed) : recollectError(thrown);
    };
    const response = await this.#inner
      .stream(method, joined.signal, timeout, this.#headers(header), request, contextValues)
      .catch(failed);
    const elements = response.message[Symbol.asyncIterator]();
    // Only reading ends the timer of a stream that was cancelled while nobody read.
    joined.signal.addEventListener("abort", () => void elements.next().catch(() => undefined), { once: true });
    const message = {
      [Symbol.asyncIterator]: () => ({
        next: () =>
          elements.next().then((element) => {
            if (element.done) joined.release();
            return element;
          }, failed),
        // Leaving a loop over the stream cancels it.
        return: () => {
          joined.abort();
          return Promise.resolve({ done: true as const, value: undefined });
        },
      }),
    };
    return { ...response, message };
  }

  #headers(given: HeadersInit | undefined): Headers {
    const headers = new Headers(this.#settings.more?.());
    const set = (value: string, name: string) => headers.set(name, value);
    this.#settings.headers.forEach(set);
    new Headers(given).forEach(set);
    return headers;
  }
}

/** Returns the error of calls after the client's end. */
export function clientClosed(): RecollectError {
  return new RecollectError("The client was closed: make another one.", { code: "CLOSED" });
}

function checkedTimeout(timeoutMs: number): number {
  if (!(timeoutMs > 0)) throw invalid("timeoutMs", `is a number of milliseconds above 0, not ${String(timeoutMs)}`);
  return Math.min(timeoutMs, MAX_TIMEOUT);
}

/** Returns the input of a stream, checked before a connection is made. A stream to the server, which
 * the contract does not have, would be held up by that. */
async function checkedInput<I extends DescMessage>(
  method: DescMethodStreaming<I>,
  input: AsyncIterable<MessageInitShape<I>>,
): Promise<AsyncIterable<MessageInitShape<I>>> {
  if (method.methodKind !== "server_streaming") return input;
  const requests: MessageInitShape<I>[] = [];
  for await (const request of input) {
    checkMessage(method.input, request);
    requests.push(request);
  }
  return createAsyncIterable(requests);
}

/** The contract marks calls that change nothing, or that the server knows again when repeated. */
function mayBeRepeated(method: DescMethodUnary): boolean {
  return method.idempotency !== Level.IDEMPOTENCY_UNKNOWN;
}

/** Returns the message to send in every attempt, with a `requestId` if its type has one. */
function withRequestId<I extends DescMessage>(method: DescMethodUnary<I>, input: MessageInitShape<I>): MessageInitShape<I> {
  if (!method.input.fields.some((field) => field.name === "request_id")) return input;
  // The caller's own object stays as it is: sent again by hand, it is another request.
  const given = create(method.input, input);
  const message = (given as unknown) === input ? clone(method.input, given) : given;
  const identified = message as unknown as { requestId: string };
  identified.requestId ||= newRequestId();
  return message as MessageInitShape<I>;
}

/** Returns a random UUID. `crypto.randomUUID` is missing on pages that are not secure contexts. */
function newRequestId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns a signal that follows both; `AbortSignal.any` is missing in older browsers. */
function joinedSignal(first: AbortSignal | undefined, second: AbortSignal) {
  const controller = new AbortController();
  const signals = first === undefined ? [second] : [first, second];
  const release = () => signals.forEach((signal) => signal.removeEventListener("abort", abort));
  const abort = () => {
    controller.abort();
    release();
  };
  for (const signal of signals) {
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
  }
  return { signal: controller.signal, abort, release };
}

/** Returns what an aborted call throws: the caller's own reason, as every platform API does. */
function abortReason(signal: AbortSignal | undefined, closed: AbortSignal): unknown {
  return closed.aborted || signal === undefined ? clientClosed() : signal.reason;
}
