// A tab's side of the live updates.
import { create, fromBinary } from "@bufbuild/protobuf";
import { signal } from "@preact/signals";
import { UpdateSchema, type Conversation, type Update } from "@recollect/client";
import { base } from "../api/base";
import { sharedName } from "../api/space";
import { Hub } from "./hub";
import type { FromHub, HubStatus, ToHub } from "./messages";

export const liveStatus = signal<{ status: HubStatus; reason: string }>({ status: "connecting", reason: "" });

/** The number of times that everything must be read anew; 0 before the stream stands. */
export const generation = signal(0);

/** The number of connections of the stream. Each brings every unfinished answer from its beginning. */
export const connections = signal(0);

/** How often a tab asks its worker whether it is there. */
const HELLO_MS = 5_000;
/** After so many hellos without an answer another worker takes its place. */
const MAX_UNANSWERED = 2;

type Listener = (update: Update) => unknown;
const listeners = new Set<Listener>();
let send: (message: ToHub) => void = () => undefined;
let cursor = "";
/** Whether what came before this tab joined is still to be read. */
let isBehind = true;

/** Call a listener with each update, in order, until the returned function is called. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Wait for a change, and take in the conversation that it answers with, as if an update brought it.
 *
 * The answer may be older than an update that came meanwhile. Then it is left out: the update of the
 * change itself comes behind, or came before.
 */
export async function change<T extends { conversation?: Conversation }>(call: Promise<T>): Promise<T> {
  const told = new Set<string>();
  const end = listen(({ conversationId, kind }) => kind.case !== "messageDelta" && told.add(conversationId));
  try {
    const answer = await call;
    const { conversation } = answer;
    if (conversation && !told.has(conversation.id)) {
      const kind = { case: "conversationUpdated" as const, value: { conversation } };
      pass(create(UpdateSchema, { conversationId: conversation.id, kind }));
    }
    return answer;
  } finally {
    end();
  }
}

/** Try to connect at once. */
export function connectAgain(): void {
  send({ kind: "again" });
}

/** Have the stream begin anew with what this browser's session allows now. */
export function restartStream(): void {
  send({ kind: "restart" });
}

/** Join the stream that this browser's tabs share, of one space. */
export function joinStream(): void {
  const isForced = new URLSearchParams(location.search).has("without-worker");
  if (typeof SharedWorker === "function" && !isForced) joinWorker();
  else joinLeader();
  addEventListener("online", connectAgain);
}

function joinWorker(): void {
  const address = workerUrl() as URL;
  let port: MessagePort;
  let unanswered = 0;
  const join = () => {
    port = new SharedWorker(address, { type: "module", name: sharedName }).port;
    port.onmessage = ({ data }: MessageEvent<FromHub>) => {
      unanswered = 0;
      take(data);
    };
    isBehind = true;
    sayHello();
  };
  const sayHello = () => {
    unanswered += 1;
    send({ kind: "hello" });
  };
  // A worker that ends as a tab joins it, or that the browser ended, says nothing: no event tells.
  const attend = () => {
    if (unanswered < MAX_UNANSWERED) return sayHello();
    send({ kind: "bye" });
    port.close();
    unanswered = 0;
    join();
  };
  send = (message) => port.postMessage(message);
  join();
  setInterval(attend, HELLO_MS);
  addEventListener("pagehide", () => send({ kind: "bye" }));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

/** Without shared workers one tab holds the stream, and passes it on; another follows it. */
function joinLeader(): void {
  const channel = new BroadcastChannel(`${sharedName} live`);
  channel.onmessage = ({ data }: MessageEvent<FromHub | ToHub>) => {
    const { kind } = data;
    if (kind === "status" || kind === "begin" || kind === "reset" || kind === "updates") take(data);
  };
  send = (message) => channel.postMessage(message);
  send({ kind: "hello" });
  void navigator.locks.request(`${sharedName} live`, async () => {
    // It goes on behind the last update that it was passed: nothing is missing.
    const hub = new Hub((message) => {
      channel.postMessage(message);
      take(message);
    }, cursor);
    channel.addEventListener("message", ({ data }: MessageEvent<ToHub>) => {
      if (data.kind === "hello") channel.postMessage(hub.greeting());
      else if (data.kind === "again") hub.again();
      else if (data.kind === "restart") hub.restart();
    });
    send = (message) => {
      if (message.kind === "again") hub.again();
      else if (message.kind === "restart") hub.restart();
    };
    await hub.run();
  });
}

function take(message: FromHub): void {
  switch (message.kind) {
    case "status": {
      const { status, reason } = message;
      const last = liveStatus.peek();
      if (status !== last.status || reason !== last.reason) liveStatus.value = { status, reason };
      // What is read now comes after the stream began: no update falls between.
      if (status === "live" && isBehind) {
        isBehind = false;
        generation.value += 1;
      }
      break;
    }
    case "begin":
      connections.value += 1;
      break;
    case "reset":
      if (!isBehind) generation.value += 1;
      break;
    case "updates":
      cursor = message.cursor;
      for (const bytes of message.updates) pass(fromBinary(UpdateSchema, bytes));
  }
}

function pass(update: Update): void {
  for (const listener of [...listeners]) listener(update);
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): {
    createScriptURL(url: string): unknown;
  };
}

/** Return the worker's address in the form that the page's content policy asks for. */
function workerUrl(): unknown {
  const address = new URL(`${base}/assets/worker.js`, location.origin).href;
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  if (!types) return address;
  const rules = { createScriptURL: (url: string) => (url === address ? url : "") };
  return types.createPolicy("recollect", rules).createScriptURL(address);
}
