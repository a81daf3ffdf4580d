import type { DescService, MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { Health } from "./gen/grpc/health/v1/health_pb.js";
import { AccessService } from "./gen/recollect/v1/access_service_pb.js";
import { AdminService } from "./gen/recollect/v1/admin_service_pb.js";
import { ChannelService } from "./gen/recollect/v1/channel_service_pb.js";
import { CheckpointService } from "./gen/recollect/v1/checkpoint_service_pb.js";
import { ConversationService, type StreamUpdatesRequestSchema } from "./gen/recollect/v1/conversation_service_pb.js";
import type { CommunicationUpdate } from "./gen/recollect/v1/external_communication_pb.js";
import {
  ExternalCommunicationService,
  type StreamCommunicationUpdatesRequestSchema,
} from "./gen/recollect/v1/external_communication_service_pb.js";
import { InsightService } from "./gen/recollect/v1/insight_service_pb.js";
import { RecallService } from "./gen/recollect/v1/recall_service_pb.js";
import type { Update } from "./gen/recollect/v1/update_pb.js";
import { checkedPolicy, invalid, Presence, type RetryPolicy } from "./retry.js";
import { clientClosed, RepeatingTransport } from "./transport.js";
import { Watch, type OnConnection, type Open, type Streamed } from "./watch.js";

/** How a client calls. */
export interface RecollectOptions {
  /** Bounds every call but the streams, its retries included. 30,000 by default. */
  readonly timeoutMs?: number;
  /** How calls are repeated; `false` never. */
  readonly retry?: Partial<RetryPolicy> | false;
  /** Goes with every call. */
  readonly token?: string | undefined;
  /** Whose data is meant, where the token is for several spaces or none is needed. */
  readonly space?: string | undefined;
  /** Returns more headers of a call; asked at each attempt. So a call brings the trace that it is
   * in: `() => { const h = {}; propagation.inject(context.active(), h); return h }`, with
   * OpenTelemetry's API, gives it `traceparent`. */
  readonly headers?: () => HeadersInit;
  /** Called by `close`. */
  readonly onClose?: () => void;
}

/** Options of a watch. */
export interface WatchOptions {
  /** Ends the watch: it throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Tells whether updates arrive: called with true when a connection stands, and with false and
   * the reason each time that one breaks or is refused and another is made. */
  readonly onConnection?: OnConnection;
}

/**
 * The part of a client that every call goes through: retries, request ids, errors with reasons, and
 * watches. A page whose size matters makes this alone, and `of` clients of the services that it
 * needs; everybody else makes a `Recollect`.
 *
 * A call that changes something gets a `requestId` if it has none, and keeps it in every attempt: it
 * takes effect once. Every failure is a `RecollectError`.
 */
export class RecollectCore {
  /** Begin, write, read, name and delete conversations. */
  readonly conversations: Client<typeof ConversationService>;
  /** The transport with retries and metadata, for services that this class does not name. */
  readonly transport: Transport;

  readonly #end = new AbortController();
  readonly #retry: RetryPolicy | undefined;
  readonly #server = new Presence();
  readonly #timeoutMs: number;
  readonly #onClose: (() => void) | undefined;

  constructor(transport: Transport, options: RecollectOptions = {}) {
    const { timeoutMs = 30_000, retry = {}, token, space, headers: more, onClose } = options;
    this.#retry = retry === false ? undefined : checkedPolicy(retry);
    this.#timeoutMs = timeoutMs;
    this.#onClose = onClose;
    const headers = new Headers();
    if (token !== undefined) headers.set("authorization", `Bearer ${checkedToken(token)}`);
    if (space !== undefined) headers.set("recollect-space", checkedSpace(space));
    const settings = { headers, more, timeoutMs, retry: this.#retry, server: this.#server, closed: this.#end.signal };
    this.transport = new RepeatingTransport(transport, settings);
    this.conversations = this.of(ConversationService);
  }

  /** Returns a client of one service. */
  of<T extends DescService>(service: T): Client<T> {
    return createClient(service, this.transport);
  }

  /** Watches conversations. Without a cursor it begins with a snapshot. */
  watch(request: MessageInitShape<typeof StreamUpdatesRequestSchema> = {}, options: WatchOptions = {}): Watch<Update> {
    const open = (cursor: string, signal: AbortSignal) =>
      this.conversations.streamUpdates({ ...request, maxBatch: request.maxBatch || 1000, cursor }, { signal });
    return this.watchStream(open, request.cursor, options);
  }

  /** Ends the client, and running calls with a RecollectError of the code `CLOSED`. */
  close(): void {
    this.#end.abort(clientClosed());
    this.#onClose?.();
  }

  protected watchStream<U extends Streamed>(open: Open<U>, cursor: string | undefined, options: WatchOptions): Watch<U> {
    const { signal, onConnection } = options;
    const signals = [signal, this.#end.signal];
    const server = { server: this.#server, patienceMs: this.#timeoutMs };
    return new Watch<U>(open, { cursor: cursor ?? "", retry: this.#retry, signals, onConnection, ...server });
  }
}

/**
 * A client of a Recollect server, over any Connect transport: one property per service, each with
 * the calls of the contract. `connect` of `@recollect/client/node` and of `@recollect/client/web`
 * make one.
 */
export class Recollect extends RecollectCore {
  /** Find conversations and messages again. */
  readonly recall: Client<typeof RecallService>;
  /** Bring messages of any provider to their conversations; say who is an owner. */
  readonly channels: Client<typeof ChannelService>;
  /** Read, trust and answer third parties. */
  readonly external: Client<typeof ExternalCommunicationService>;
  /** Count what was written and what it cost. */
  readonly insight: Client<typeof InsightService>;
  /** Keep the state of programs, by thread. */
  readonly checkpoints: Client<typeof CheckpointService>;
  /** Tell what this client may do. */
  readonly access: Client<typeof AccessService>;
  /** Administer the server. */
  readonly admin: Client<typeof AdminService>;
  /** Ask whether the server serves. */
  readonly health: Client<typeof Health>;

  constructor(transport: Transport, options: RecollectOptions = {}) {
    super(transport, options);
    this.recall = this.of(RecallService);
    this.channels = this.of(ChannelService);
    this.external = this.of(ExternalCommunicationService);
    this.insight = this.of(InsightService);
    this.checkpoints = this.of(CheckpointService);
    this.access = this.of(AccessService);
    this.admin = this.of(AdminService);
    this.health = this.of(Health);
  }

  /** Watches third parties. Without a cursor it begins with a snapshot. */
  watchCommunications(
    request: MessageInitShape<typeof StreamCommunicationUpdatesRequestSchema> = {},
    options: WatchOptions = {},
  ): Watch<CommunicationUpdate> {
    const open = (cursor: string, signal: AbortSignal) =>
      this.external.streamCommunicationUpdates({ ...request, cursor }, { signal });
    return this.watchStream(open, request.cursor, options);
  }
}

function checkedToken(token: string): string {
  // The value never appears in the error.
  if (!/^[!-~]+$/.test(token)) throw invalid("token", "is printable ASCII without spaces, and not empty");
  return token;
}

function checkedSpace(space: string): string {
  if (/^[a-z0-9](?:[a-z0-9_-]{0,63}|[a-z0-9._+-]{0,63}@[a-z0-9][a-z0-9.-]{0,62})$/.test(space)) return space;
  throw invalid("space", "is 1 to 64 lower case letters, digits, _ and -, beginning with a letter or digit, or an e-mail address in lower case");
}
