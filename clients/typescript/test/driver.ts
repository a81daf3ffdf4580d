// Does with a client what the tests in Python say, a line of JSON each, and answers with a line each.
import { createInterface } from "node:readline";
import { fromJson, toJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { RecollectError, StreamUpdatesRequestSchema, UpdateSchema, type Recollect, type Update, type Watch } from "../src/index.js";
import { connect, type ConnectOptions } from "../src/node.js";
import { methodOf } from "./dynamic.js";

interface Command {
  connect?: string;
  options?: ConnectOptions;
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
  /** Closes the client while the command runs. */
  closeAfterMs?: number;
  /** Answer what the watch told of its connections. */
  connections?: true;
}

let client: Recollect | undefined;
let watch: Watch<Update> | undefined;
let told: boolean[] = [];

async function done({ connect: address, options, trace, call, watch: begins, timeoutMs, request = {}, until, close, closeAfterMs, connections }: Command): Promise<JsonValue> {
  if (close) client?.close();
  if (address !== undefined) client = connect(address, { ...options, ...(trace === undefined ? {} : { headers: () => ({ traceparent: trace }) }), retry: { initialDelayMs: 1, maxDelayMs: 50, ...options?.retry } });
  if (client === undefined) throw new Error("connect first");
  const closing = client;
  if (closeAfterMs !== undefined) setTimeout(() => closing.close(), closeAfterMs);
  if (call !== undefined) {
    const method = methodOf(call);
    if (method.methodKind !== "unary") throw new Error(`${call} is a stream`);
    const { message } = await client.transport.unary(method, undefined, undefined, undefined, fromJson(method.input, request));
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
