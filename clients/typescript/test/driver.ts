// Does with a client what the tests in Python say, a line of JSON each, and answers with a line each.
import { createInterface } from "node:readline";
import { compressionGzip, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { fromJson, toJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { Recollect, RecollectError, StreamUpdatesRequestSchema, UpdateSchema, type Update, type Watch } from "../src/index.js";
import { connect, type ConnectOptions } from "../src/node.js";
import { methodOf } from "./dynamic.js";

interface Command {
  connect?: string;
  options?: ConnectOptions & {
    /** Compress requests. */
    gzip?: true;
    /** The pause between pings. */
    pingMs?: number;
  };
  /** The trace that the calls are in. */
  trace?: string;
  call?: string;
  watch?: true;
  /** After so long the watch's signal is aborted. */
  timeoutMs?: number;
  request?: JsonObject;
  /** Take updates of the watch until one of this kind came. */
  until?: string;
  close?: true;
  /** Aborts the call while it runs. */
  cancelAfterMs?: number;
  /** Closes the client while the command runs. */
  closeAfterMs?: number;
  /** Answer what the watch told of its connections. */
  connections?: true;
}

let client: Recollect | undefined;
let watch: Watch<Update> | undefined;
let told: boolean[] = [];

/** Connects as users do who want their requests compressed, or pings of their own. */
function connected(address: string, { gzip, pingMs, ...options }: NonNullable<Command["options"]> = {}): Recollect {
  const settings = { ...options, retry: { initialDelayMs: 1, maxDelayMs: 50, ...options.retry } };
  if (gzip === undefined && pingMs === undefined) return connect(address, settings);
  const baseUrl = `http://${address}`;
  const sessionManager = new Http2SessionManager(baseUrl, pingMs === undefined ? {} : { pingIntervalMs: pingMs });
  const transport = createGrpcTransport({ baseUrl, sessionManager, ...(gzip && { sendCompression: compressionGzip }) });
  return new Recollect(transport, { ...settings, onClose: () => sessionManager.abort() });
}

async function done({ connect: address, options, trace, call, cancelAfterMs, watch: begins, timeoutMs, request = {}, until, close, closeAfterMs, connections }: Command): Promise<JsonValue> {
  if (close) client?.close();
  if (address !== undefined) client = connected(address, { ...options, ...(trace !== undefined && { headers: () => ({ traceparent: trace }) }) });
  if (client === undefined) throw new Error("connect first");
  const closing = client;
  if (closeAfterMs !== undefined) setTimeout(() => closing.close(), closeAfterMs);
  if (call !== undefined) {
    const method = methodOf(call);
    if (method.methodKind !== "unary") throw new Error(`${call} is a stream`);
    const { message } = await client.transport.unary(method, cancelAfterMs === undefined ? undefined : AbortSignal.timeout(cancelAfterMs), undefined, undefined, fromJson(method.input, request));
    return toJson(method.output, message, { useProtoFieldName: true });
  }
  if (connections) return told;
  if (begins) {
    told = [];
    const onConnection = (isConnected: boolean) => void told.push(isConnected);
    const signal = timeoutMs === undefined ? {} : { signal: AbortSignal.timeout(timeoutMs) };
    watch = client.watch(fromJson(StreamUpdatesRequestSchema, request), { onConnection, ...signal });
  }
  const updates: JsonValue[] = [];
  while (until !== undefined && watch !== undefined) {
    const { value, done } = await watch.next();
    if (done) break;
    updates.push(toJson(UpdateSchema, value, { useProtoFieldName: true }));
    if (value.kind.case === until) break;
  }
  return updates;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer: JsonObject;
  try {
    answer = { answer: await done(JSON.parse(line) as Command) };
  } catch (error) {
    if (error instanceof DOMException) {
      console.log(JSON.stringify({ error: { name: error.name } }));
      continue;
    }
    if (!(error instanceof RecollectError)) throw error;
    const { name, message, code, reason = null, rawReason = null, metadata, retryAfterMs = null } = error;
    const violations = error.violations.map(({ field, description }) => ({ field, description }));
    answer = { error: { name, message, code, reason, rawReason, metadata, violations, retryAfterMs } };
  }
  console.log(JSON.stringify(answer));
}
watch?.close();
client?.close();
