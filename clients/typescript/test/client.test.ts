// What a program in TypeScript sees of the client, against the server at RECOLLECT_TEST_ADDRESS.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import * as contract from "../src/index.js";
import { AppendTurnRequestSchema, Recollect, RecollectError, Role, type Reason } from "../src/index.js";
import { connect } from "../src/node.js";

const address = process.env["RECOLLECT_TEST_ADDRESS"] ?? "127.0.0.1:50051";
const client = connect(address, { env: {} });
after(() => client.close());

async function failure(promise: Promise<unknown>): Promise<RecollectError> {
  const error = await promise.then(() => assert.fail("the call was answered"), (thrown: unknown) => thrown);
  assert.ok(error instanceof RecollectError, String(error));
  return error;
}

async function begun(): Promise<string> {
  const { conversation } = await client.conversations.create({ channel: "web" });
  assert.ok(conversation);
  return conversation.id;
}

test("a request object of the caller's stays as it is, so that sending it again is another append", async () => {
  const request = create(AppendTurnRequestSchema, { conversationId: await begun(), messages: [{ role: Role.USER, content: "Hello" }] });
  const turns = [await client.conversations.appendTurn(request), await client.conversations.appendTurn(request)];
  assert.equal(request.requestId, "");
  assert.deepEqual(turns.map((it) => [it.turnNumber, it.duplicate]), [[1, false], [2, false]]);
});

test("every service of the contract has a property", () => {
  const services = Object.values(contract).filter((it) => typeof it === "object" && "kind" in it && it.kind === "service");
  assert.ok(services.length >= 8);
  for (const service of services) {
    const names = (service as { methods: { localName: string }[] }).methods.map((it) => it.localName);
    const holders = Object.values(client).filter((it) => names.every((name) => name in (it as object)));
    assert.equal(holders.length, 1, (service as { typeName: string }).typeName);
  }
});

test("a reason is a name that the compiler knows", async () => {
  const error = await failure(client.conversations.get({ conversationId: "conv-01HQ0000000000000000000000" }));
  const expected: Reason = "CONVERSATION_NOT_FOUND";
  assert.equal(error.reason, expected);
  assert.equal(error.code, "NOT_FOUND");
  assert.deepEqual({ ...error.metadata }, { conversation_id: "conv-01HQ0000000000000000000000" });
});

test("an aborted call throws the signal's reason", async () => {
  const reason = new Error("the user went elsewhere");
  await assert.rejects(client.conversations.list({}, { signal: AbortSignal.abort(reason) }), reason);
  const abort = new AbortController();
  const call = client.conversations.list({}, { signal: abort.signal });
  abort.abort(reason);
  await assert.rejects(call, reason);
});

test("an aborted watch throws the signal's reason, also while it waits", async () => {
  const reason = new Error("the view was left");
  const abort = new AbortController();
  const watch = client.watch({ conversationIds: [await begun()] }, { signal: abort.signal });
  assert.equal((await watch.next()).value?.kind.case, "conversationList");
  assert.equal((await watch.next()).value?.kind.case, "conversationLoaded");
  const waiting = watch.next();
  abort.abort(reason);
  await assert.rejects(waiting, reason);
  assert.deepEqual(await watch.next(), { done: true, value: undefined });
});

test("a watch that is closed ends for whoever waits, and another goes on at its cursor", async () => {
  const id = await begun();
  const watch = client.watch({ conversationIds: [id] });
  for await (const update of watch) if (update.kind.case === "conversationLoaded") break;
  assert.deepEqual(await watch.next(), { done: true, value: undefined });
  await client.conversations.rename({ conversationId: id, title: "Full disk" });
  const second = client.watch({ conversationIds: [id], cursor: watch.cursor });
  const { value } = await second.next();
  assert.equal(value?.kind.case === "conversationRenamed" && value.kind.value.title, "Full disk");
  const waiting = second.next();
  second.close();
  assert.deepEqual(await waiting, { done: true, value: undefined });
});

test("a closed client ends its calls and watches with CLOSED", async () => {
  const other = connect(address, { env: {} });
  const watch = other.watch();
  await watch.next();
  await watch.next();
  const waiting = failure(watch.next());
  other.close();
  assert.equal((await waiting).code, "CLOSED");
  assert.equal((await failure(other.conversations.list({}))).code, "CLOSED");
  assert.equal((await failure(other.watch().next())).code, "CLOSED");
});

test("a call ends with its time-out, which must be above 0", async () => {
  const error = await failure(client.conversations.list({}, { timeoutMs: 0.01 }));
  assert.deepEqual([error.code, error.reason], ["DEADLINE_EXCEEDED", undefined]);
  assert.equal((await failure(client.conversations.list({}, { timeoutMs: 0 }))).violations[0]?.field, "timeoutMs");
});

test("what cannot work is refused by the option's name, and a token is never shown", () => {
  const refused: [Parameters<typeof connect>, string][] = [
    [["127.0.0.1"], "address"],
    [["http://127.0.0.1:50051"], "address"],
    [["127.0.0.1:65536"], "address"],
    [["a@b:1"], "address"],
    [["unix:"], "address"],
    [["recollect.example:443", { token: "rcl_secret" }], "token"],
    [[address, { token: "rcl secret" }], "token"],
    [[address, { space: "Upper" }], "space"],
    [[address, { ca: "/nowhere/ca.pem" }], "ca"],
    [[address, { ca: new Uint8Array() }], "ca"],
    [[address, { cert: ["a", "b"] }], "ca"],
    [[address, { retry: { maxAttempts: 0 } }], "retry.maxAttempts"],
  ];
  for (const [[target, options], field] of refused) {
    assert.throws(
      () => connect(target, { env: {}, ...options }),
      (error: RecollectError) => error.violations[0]?.field === field && !/rcl.secret/.test(error.message),
      `${target} ${JSON.stringify(options)}`,
    );
  }
  connect("recollect.example:80", { env: {}, token: "rcl_x", insecure: true }).close();
  connect("[::1]:80", { env: { RECOLLECT_TOKEN: "rcl_x" } }).close();
});

test("what could be sent only as something else is refused by the field's name, and nothing is sent", async () => {
  const conversationId = await begun();
  const append = (message: object) => client.conversations.appendTurn({ conversationId, messages: [{ role: Role.USER, content: "a", ...message }] });
  const emoji = "\u{1F600}";
  const refused: [Promise<unknown>, string][] = [
    [append({ content: `a${emoji}`.slice(0, 2) }), "messages[0].content"],
    [append({ metadata: { a: [emoji.slice(1)] } }), "messages[0].metadata.a[0]"],
    [append({ metadata: { [emoji.slice(1)]: 1 } }), "messages[0].metadata"],
    [append({ metadata: { at: new Date() } }), "messages[0].metadata.at"],
    [append({ metadata: { n: 1n } }), "messages[0].metadata.n"],
    [append({ usage: { input: 2n ** 63n } }), "input"],
    [client.conversations.publishDelta({ conversationId, draftId: "d", text: emoji.slice(0, 1) }), "text"],
    [client.conversations.create({ channel: "web", party: { subject: emoji.slice(1) } }), "party.subject"],
    [client.conversations.list({ pageSize: 1.5 }), "page_size"],
    [client.channels.receive({ origin: { case: "email", value: { references: ["a", emoji.slice(1)] } } }), "email.references[1]"],
  ];
  for (const [call, field] of refused) {
    const error = await failure(call);
    assert.deepEqual([error.code, error.reason, error.violations[0]?.field], ["INVALID_ARGUMENT", "INVALID_FIELD", field]);
  }
  const watches = [
    client.watch({ channels: ["web", emoji.slice(0, 1)] }),
    client.watchCommunications({ cursor: emoji.slice(1) }),
    client.watch({ maxBatch: 1.5 }),
  ];
  const errors = await Promise.all(watches.map((it) => failure(it.next())));
  assert.deepEqual(
    errors.map((it) => [it.code, it.reason, it.violations[0]?.field, it.violations[0]?.description.includes("half a character")]),
    [
      ["INVALID_ARGUMENT", "INVALID_FIELD", "channels[1]", true],
      ["INVALID_ARGUMENT", "INVALID_FIELD", "cursor", true],
      ["INVALID_ARGUMENT", "INVALID_FIELD", "max_batch", false],
    ],
  );
  await append({ content: emoji, metadata: { a: [emoji, null, 1.5, true, { b: undefined }] } });
  assert.equal((await client.conversations.get({ conversationId })).conversation?.turnCount, 1);
});

for (const hours of [-1, 1]) {
  test(`a machine's clock that is set by ${hours} h neither prolongs nor cuts a call or a watch`, { timeout: 20_000 }, async (t) => {
    const { now } = Date;
    let failures = -1; // the server answers
    Date.now = () => now() + (failures > 1 ? hours * 3_600_000 : 0);
    const answer = async <T>(made: T): Promise<T> => {
      await Promise.resolve();
      if (failures < 0) return made;
      failures += 1;
      throw new ConnectError("no server", Code.Unavailable);
    };
    const ends = { header: new Headers(), trailer: new Headers() };
    const away = new Recollect(
      {
        unary: (method) => answer({ ...ends, stream: false, service: method.parent, method, message: create(method.output) }),
        stream: (method) => answer({ ...ends, stream: true, service: method.parent, method, message: (async function* () {})() }),
      },
      { timeoutMs: 300, retry: { maxAttempts: 2, initialDelayMs: 5, maxDelayMs: 5 } },
    );
    t.after(() => {
      Date.now = now;
      away.close();
    });
    await away.conversations.list({});
    for (const waiting of [() => away.conversations.list({}), () => away.watch().next()]) {
      failures = 0;
      const began = performance.now();
      assert.equal((await failure(waiting())).code, "UNAVAILABLE");
      const took = performance.now() - began;
      assert.ok(took > 200 && took < 10_000, `it took ${took} ms`);
    }
  });
}
