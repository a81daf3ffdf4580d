// Runs the cases of tests/conformance against a server: node conformance.js HOST:PORT FILE.json …
// Exits with 0 if every case passed. tests/conformance/README.md defines the format.
import { readFileSync, readdirSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import { failure } from "./errors.js";
import { fromJson, toJson } from "./json.js";

const PROTO = fileURLToPath(new URL("../../proto", import.meta.url));
const services = readdirSync(`${PROTO}/recollect/v1`).filter((file) => file.endsWith("_service.proto"));
const types = protoLoader.loadSync(
  services.map((file) => `recollect/v1/${file}`),
  { includeDirs: [PROTO], keepCase: true, enums: String, longs: Number, defaults: true, oneofs: true },
);
const contract = grpc.loadPackageDefinition(types).recollect.v1;
const SECONDS = 60;

class Differs extends Error {
  constructor(field, what) {
    super(`${field}: ${what}`);
    this.field = field;
  }
}

async function run({ steps }, clients) {
  const known = { case: `x${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}` };
  const streams = {};
  let number = 0;
  try {
    for (const step of steps) {
      number += 1;
      if (step.close) {
        streams[step.close].call.cancel();
        delete streams[step.close];
        continue;
      }
      const began = step.rpc ? begin(clients, step.rpc, filled(step.request, known)) : streams[step.read];
      if (step.open) {
        streams[step.open] = began;
        continue;
      }
      const outcome = await began.next();
      check(filled(step.expect ?? {}, known), outcome);
      for (const [name, path] of Object.entries(step.save ?? {})) {
        known[name] = path.split(".").reduce((value, part) => value[part], outcome.answer);
      }
    }
  } catch (error) {
    if (!(error instanceof Differs)) throw error;
    return { step: number, field: error.field, what: error.message };
  } finally {
    for (const { call } of Object.values(streams)) call.cancel();
  }
}

/** Starts a call. `next()` is its answer, or the next element of its stream, or how it failed. */
function begin(clients, rpc, request) {
  const [service, method] = rpc.split("/");
  const { path, responseStream } = contract[service].service[method];
  const [input, output] = ["Request", "Response"].map((end) => `recollect.v1.${method}${end}`);
  clients[service] ??= new contract[service](clients.target, grpc.credentials.createInsecure());
  const message = fromJson(types, input, request);
  const deadline = { deadline: Date.now() + SECONDS * 1000 };
  const failed = (error) => {
    if (error.code === undefined) throw new Error(path, { cause: error });
    return { error: failure(error) };
  };
  if (!responseStream) {
    const answered = new Promise((resolve, reject) => {
      clients[service][method](message, deadline, (error, answer) => (error ? reject(error) : resolve(answer)));
    });
    return { next: () => answered.then((answer) => ({ answer: toJson(types, output, answer) }), failed) };
  }
  const call = clients[service][method](message, deadline);
  call.on("error", () => {}); // whoever reads is told; one that is closed is not read any more
  const elements = call[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await elements.next();
    if (done) return { error: { code: "OK" } };
    return value.update?.kind === "heartbeat" ? next() : { answer: toJson(types, output, value) };
  };
  return { call, next: () => next().catch(failed) };
}

function check(expected, { answer, error }) {
  if (expected.error) {
    const { code, reason, fields, metadata = {} } = expected.error;
    if (!error) throw new Differs("error", `the call was answered: ${JSON.stringify(answer)}`);
    if (error.code !== code) throw new Differs("error.code", error.code);
    if (error.reason !== reason || error.domain !== "recollect") throw new Differs("error.reason", error.reason);
    if (fields && String(fields.toSorted()) !== String(error.fields.toSorted())) throw new Differs("error.fields", error.fields);
    compare(metadata, error.metadata, "error.metadata");
  } else if (error) {
    throw new Differs("error", JSON.stringify(error));
  } else if (expected.answer) {
    compare(expected.answer, answer, "");
  }
}

const OPERATORS = {
  $matches: (expression, value) => new RegExp(expression, "u").test(value ?? ""),
  $contains: (parts, value) => parts.every((part) => (value ?? []).some((it) => alike(part, it))),
  $size: (size, value) => (value ?? []).length === size,
  $above: (least, value) => Number(value ?? 0) > least,
};

/** Throws where a value is not what the pattern says. */
function compare(pattern, value, path) {
  const inner = (key) => (path ? `${path}.${key}` : key);
  const differs = () => {
    throw new Differs(path, `${JSON.stringify(value)}, not ${JSON.stringify(pattern)}`);
  };
  if (pattern === null) {
    if (value !== null && value !== undefined) differs();
  } else if (Array.isArray(pattern)) {
    if (pattern.length !== (value ?? []).length) differs();
    pattern.forEach((part, at) => compare(part, value[at], inner(at)));
  } else if (typeof pattern === "object") {
    const [[operator, operand] = []] = Object.entries(pattern);
    if (operator in OPERATORS) {
      if (!OPERATORS[operator](operand, value)) differs();
      return;
    }
    if (value === null || typeof value !== "object") differs();
    for (const [key, part] of Object.entries(pattern)) compare(part, value[key], inner(key));
  } else if (typeof pattern === "number") {
    if (Number(value ?? 0) !== pattern) differs();
  } else if ((value ?? (pattern === false ? false : "")) !== pattern) {
    differs();
  }
}

function alike(pattern, value) {
  try {
    compare(pattern, value, "");
    return true;
  } catch (error) {
    if (error instanceof Differs) return false;
    throw error;
  }
}

/** The value with its references and repetitions replaced. */
function filled(value, known) {
  if (typeof value === "string") {
    const [, whole] = value.match(/^\$\{(\w+)\}$/) ?? [];
    return whole ? known[whole] : value.replace(/\$\{(\w+)\}/g, (_, name) => known[name]);
  }
  if (Array.isArray(value)) return value.map((it) => filled(it, known));
  if (value === null || typeof value !== "object") return value;
  if (value.$repeat) {
    const [it, times] = filled(value.$repeat, known);
    return typeof it === "string" ? it.repeat(times) : Array(times).fill(it).flat();
  }
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, filled(it, known)]));
}

const [target, ...files] = process.argv.slice(2);
const clients = { target };
let wrong = 0;
for (const file of files) {
  for (const it of JSON.parse(readFileSync(file, "utf8")).cases) {
    const found = await run(it, clients);
    const good = it.fails ? found?.field === it.fails && found.step === it.steps.length : !found;
    const outcome = found ? `step ${found.step}: ${found.what}` : it.fails ? "passed" : "";
    console.log(`${good ? "ok    " : "WRONG "} ${basename(file, ".json")}: ${it.name}${good ? "" : `: ${outcome}`}`);
    wrong += !good;
  }
}
process.exit(wrong ? 1 : 0);
