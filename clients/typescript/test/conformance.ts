// Runs the cases of tests/conformance against a server: node build/test/conformance.js ADDRESS FILE.json …
// An ADDRESS that is a URL is one of recollect-web, which is called in the PROTOCOL of the environment.
// Exits with 0 if every case passed. tests/conformance/README.md defines the format.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Transport } from "@connectrpc/connect";
import { fromJson, toJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { compressionGzip, createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { createConnectTransport as createFetchTransport, createGrpcWebTransport as createGrpcWebFetch } from "@connectrpc/connect-web";
import { Recollect, RecollectError } from "../src/index.js";
import { connect } from "../src/node.js";
import { methodOf, once } from "./dynamic.js";

const TIMEOUT_MS = 60_000;

interface Step {
  rpc?: string;
  request?: JsonObject;
  expect?: { answer?: JsonValue; error?: ExpectedError };
  save?: Record<string, string>;
  open?: string;
  read?: string;
  close?: string;
}

interface ExpectedError {
  code: string;
  reason: string;
  fields?: string[];
  metadata?: JsonObject;
}

interface Case {
  name: string;
  steps: Step[];
  fails?: string;
}

type Outcome = { answer: JsonObject } | { error: RecollectError };

/** A call that was begun: its answer, or the next element of its stream. */
interface Begun {
  next(): Promise<Outcome>;
  cancel(): void;
}

class Differs extends Error {
  constructor(
    readonly field: string,
    what: string,
  ) {
    super(`${field}: ${what}`);
  }
}

/** Does one step after the other; returns where the first one differs. */
async function run({ steps }: Case, client: Recollect): Promise<{ step: number; field: string; what: string } | undefined> {
  const values: JsonObject = { case: `x${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}` };
  const streams = new Map<string, Begun>();
  let number = 0;
  try {
    for (const step of steps) {
      number += 1;
      if (step.close !== undefined) {
        stream(streams, step.close).cancel();
        streams.delete(step.close);
        continue;
      }
      const begun = step.rpc === undefined ? stream(streams, step.read) : begin(client, step.rpc, filled(step.request ?? {}, values));
      if (step.open !== undefined) {
        streams.set(step.open, begun);
        continue;
      }
      const outcome = await begun.next();
      check(filled((step.expect ?? {}) as JsonObject, values) as Step["expect"] & object, outcome);
      for (const [name, path] of Object.entries(step.save ?? {})) {
        let value: JsonValue = "answer" in outcome ? outcome.answer : null;
        for (const part of path.split(".")) value = (value as JsonObject)[part] as JsonValue;
        values[name] = value;
      }
    }
  } catch (error) {
    if (!(error instanceof Differs)) throw error;
    return { step: number, field: error.field, what: error.message };
  } finally {
    for (const begun of streams.values()) begun.cancel();
  }
  return undefined;
}

function stream(streams: Map<string, Begun>, name: string | undefined): Begun {
  const begun = streams.get(name ?? "");
  if (begun === undefined) throw new Error(`no step opened the stream ${name}`);
  return begun;
}

function begin(client: Recollect, rpc: string, request: JsonValue): Begun {
  const method = methodOf(rpc);
  const message = fromJson(method.input, request);
  const read = (answer: Parameters<typeof toJson>[1]) => toJson(method.output, answer, { useProtoFieldName: true }) as JsonObject;
  const failed = (error: unknown): Outcome => {
    if (error instanceof RecollectError) return { error };
    throw error;
  };
  const abort = new AbortController();
  if (method.methodKind === "unary") {
    const answered = client.transport.unary(method, undefined, TIMEOUT_MS, undefined, message);
    return { next: () => answered.then((it) => ({ answer: read(it.message) }), failed), cancel: () => abort.abort() };
  }
  const opened = client.transport.stream(method, abort.signal, TIMEOUT_MS, undefined, once(message));
  const elements = opened.then((it) => it.message[Symbol.asyncIterator]());
  elements.catch(() => undefined); // whoever reads is told; a stream that is closed is not read any more
  const next = async (): Promise<Outcome> => {
    const { value, done } = await (await elements).next();
    if (done) throw new Error("the stream ended");
    const answer = read(value);
    return "heartbeat" in ((answer["update"] ?? {}) as JsonObject) ? next() : { answer };
  };
  return { next: () => next().catch(failed), cancel: () => abort.abort() };
}

function check(expected: { answer?: JsonValue; error?: ExpectedError }, outcome: Outcome): void {
  if (expected.error) {
    const { code, reason, fields, metadata = {} } = expected.error;
    if (!("error" in outcome)) throw new Differs("error", `the call was answered: ${JSON.stringify(outcome.answer)}`);
    const { error } = outcome;
    if (error.code !== code) throw new Differs("error.code", `${error.code} (${error.message})`);
    if (`ERROR_REASON_${error.reason}` !== reason) throw new Differs("error.reason", String(error.rawReason));
    const named = error.violations.map((it) => it.field);
    if (fields && String([...fields].sort()) !== String([...named].sort())) throw new Differs("error.fields", String(named));
    compare(metadata, error.metadata, "error.metadata");
  } else if ("error" in outcome) {
    throw new Differs("error", `${outcome.error.code}: ${outcome.error.message}`);
  } else if (expected.answer !== undefined) {
    compare(expected.answer, outcome.answer, "");
  }
}

const listOf = (value: JsonValue | undefined) => (value ?? []) as JsonValue[];

const OPERATORS: Record<string, (operand: never, value: JsonValue | undefined) => boolean> = {
  $matches: (expression: string, value) => new RegExp(expression, "u").test((value ?? "") as string),
  $contains: (parts: JsonValue[], value) => parts.every((part) => listOf(value).some((it) => isAlike(part, it))),
  $size: (size: number, value) => listOf(value).length === size,
  $above: (least: number, value) => Number(value ?? 0) > least,
};

/** Throws where a value is not what the pattern says. */
function compare(pattern: JsonValue, value: JsonValue | undefined, path: string): void {
  const inner = (key: string | number) => (path ? `${path}.${key}` : String(key));
  const differs = (): never => {
    throw new Differs(path, `${JSON.stringify(value)}, not ${JSON.stringify(pattern)}`);
  };
  if (pattern === null) {
    if (value !== null && value !== undefined) differs();
  } else if (Array.isArray(pattern)) {
    if (pattern.length !== listOf(value).length) differs();
    pattern.forEach((part, at) => compare(part, listOf(value)[at], inner(at)));
  } else if (typeof pattern === "object") {
    const [[operator, operand] = ["", null]] = Object.entries(pattern);
    const holds = OPERATORS[operator];
    if (holds) {
      if (!holds(operand as never, value)) differs();
      return;
    }
    if (value === null || typeof value !== "object" || Array.isArray(value)) return differs();
    for (const [key, part] of Object.entries(pattern)) compare(part, value[key], inner(key));
  } else if (typeof pattern === "number") {
    if (Number(value ?? 0) !== pattern) differs();
  } else if ((value ?? (pattern === false ? false : "")) !== pattern) {
    differs();
  }
}

function isAlike(pattern: JsonValue, value: JsonValue): boolean {
  try {
    compare(pattern, value, "");
    return true;
  } catch (error) {
    if (error instanceof Differs) return false;
    throw error;
  }
}

/** Returns the value with its references and repetitions replaced. */
function filled(value: JsonValue, values: JsonObject): JsonValue {
  if (typeof value === "string") {
    const whole = /^\$\{(\w+)\}$/.exec(value)?.[1];
    return whole ? (values[whole] as JsonValue) : value.replace(/\$\{(\w+)\}/g, (_, name: string) => String(values[name]));
  }
  if (Array.isArray(value)) return value.map((it) => filled(it, values));
  if (value === null || typeof value !== "object") return value;
  if (value["$repeat"]) {
    const [it, times] = filled(value["$repeat"], values) as [JsonValue, number];
    return typeof it === "string" ? it.repeat(times) : Array<JsonValue>(times).fill(it).flat();
  }
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, filled(it, values)]));
}

function transportTo(baseUrl: string): Transport {
  switch (process.env["PROTOCOL"]) {
    case "connect-json":
      return createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false });
    case "connect-gzip":
      return createConnectTransport({
        baseUrl,
        httpVersion: "1.1",
        useHttpGet: true,
        sendCompression: compressionGzip,
        compressMinBytes: 0,
      });
    case "connect-web":
      return createFetchTransport({ baseUrl, useBinaryFormat: true, useHttpGet: true });
    case "grpc-web-fetch":
      return createGrpcWebFetch({ baseUrl });
    case "connect-http2":
      return createConnectTransport({ baseUrl, httpVersion: "2" });
    case "grpc-web-http2":
      return createGrpcWebTransport({ baseUrl, httpVersion: "2" });
    case "grpc-web":
      return createGrpcWebTransport({ baseUrl, httpVersion: "1.1" });
    default:
      throw new Error(`no PROTOCOL: ${process.env["PROTOCOL"]}`);
  }
}

const [address, ...files] = process.argv.slice(2);
// No retries: a case counts what each call does.
const options = { retry: false, token: process.env["RECOLLECT_TOKEN"] } as const;
const client = address?.startsWith("http") ? new Recollect(transportTo(address), options) : connect(address, options);
let wrong = 0;
for (const file of files) {
  for (const it of (JSON.parse(readFileSync(file, "utf8")) as { cases: Case[] }).cases) {
    const outcome = await run(it, client);
    const isGood = it.fails ? outcome?.field === it.fails && outcome.step === it.steps.length : outcome === undefined;
    const text = outcome ? `step ${outcome.step}: ${outcome.what}` : it.fails ? "passed" : "";
    console.log(`${isGood ? "ok    " : "WRONG "} ${basename(file, ".json")}: ${it.name}${isGood ? "" : `: ${text}`}`);
    wrong += Number(!isGood);
  }
}
client.close();
// Connect's timer of a stream that was cancelled waits for the deadline and would keep the process.
process.exit(wrong ? 1 : 0);
