// A small client of Recollect for Node: unary calls as promises, and a watch that goes on where it was.
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const contract = protoLoader.loadSync(["recollect/v1/conversation_service.proto", "recollect/v1/recall_service.proto"], {
  includeDirs: [fileURLToPath(new URL("../../proto", import.meta.url))],
  keepCase: true,
  enums: String,
  longs: Number,
  defaults: true,
  oneofs: true,
});
const { ConversationService, RecallService } = grpc.loadPackageDefinition(contract).recollect.v1;

const TRANSIENT = new Set([grpc.status.UNAVAILABLE, grpc.status.CANCELLED, grpc.status.RESOURCE_EXHAUSTED]);

/** One call, as a promise. An error has `code`, `details` and, in its metadata, the reason. */
export function call(service, method, request) {
  return new Promise((resolve, reject) => {
    service[method](request, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

export class Recollect {
  constructor(target) {
    const credentials = grpc.credentials.createInsecure();
    this.conversations = new ConversationService(target, credentials);
    this.recall = new RecallService(target, credentials);
  }

  /** Live updates: `for await (const update of recollect.watch({channels: ["web"]}))`, then `update[update.kind]`. */
  watch(request = {}) {
    return new Watch(this.conversations, request);
  }

  close() {
    this.conversations.close();
    this.recall.close();
  }
}

class Watch {
  #closed = false;
  #stream;
  #updates;

  constructor(service, request) {
    this.service = service;
    this.request = { max_batch: 100, ...request };
    this.#updates = this.#connected();
  }

  /** The position behind the last update: keep it, and give it to another watch as `cursor`. */
  get cursor() {
    return this.request.cursor;
  }

  [Symbol.asyncIterator]() {
    // Leaving a loop does not end the watch: the next loop goes on.
    return { next: () => this.#updates.next() };
  }

  /** Breaks the connection, to see that nothing is missed. */
  drop() {
    this.#stream?.cancel();
  }

  close() {
    this.#closed = true;
    this.drop();
  }

  async *#connected() {
    for (let failures = 0; !this.#closed; failures += 1) {
      // Full jitter: all who lost the same server do not come back at the same moment.
      if (failures) await wait(Math.random() * Math.min(5000, 100 * 2 ** failures));
      try {
        this.#stream = this.service.StreamUpdates(this.request);
        for await (const { update, following } of this.#stream) {
          failures = 0;
          for (const it of [update, ...following]) {
            if (it.cursor) this.request.cursor = it.cursor;
            yield it;
          }
        }
      } catch (error) {
        if (!this.#closed && !TRANSIENT.has(error.code)) throw error;
      }
    }
  }
}
