// The toolkits with the real packages, against the server at RECOLLECT_TEST_ADDRESS.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Agent, MemorySession, Runner, setTracingDisabled, tool, Usage, type AgentInputItem, type AssistantMessageItem, type Model, type Session } from "@openai/agents";
import { Chat } from "@ai-sdk/react";
import { Role, type Recollect } from "@recollect/client";
import { connect } from "@recollect/client/node";
import { recollectMemory, RecollectChats } from "@recollect/toolkits/ai-sdk";
import { RecollectSession } from "@recollect/toolkits/openai-agents";
import { convertToModelMessages, DefaultChatTransport, generateText, stepCountIs, streamText, tool as aiTool, wrapLanguageModel, type UIMessage } from "ai";
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";
import { z } from "zod";

const address = process.env["RECOLLECT_TEST_ADDRESS"] ?? "127.0.0.1:50051";
const recollect = connect(address, { env: {} });
const elsewhere = connect(address, { env: {} });
after(() => [recollect, elsewhere].forEach((it) => it.close()));
setTracingDisabled(true);

let numbers = 0;
const unique = (): string => `s${process.pid}x${numbers++}`;
const user = (content: string): AgentInputItem => ({ type: "message", role: "user", content });

async function found(words: string): Promise<string[]> {
  const { hits } = await recollect.recall.search({ query: words });
  return hits.map((it) => it.snippetText).filter((it) => it.includes(words));
}

/** Says each item in turn, and keeps what it was asked. */
class Scripted implements Model {
  readonly inputs: unknown[] = [];
  constructor(private readonly outputs: Awaited<ReturnType<Model["getResponse"]>>["output"][]) {}
  async getResponse(request: Parameters<Model["getResponse"]>[0]) {
    this.inputs.push(request.input);
    return { output: this.outputs.shift()!, usage: new Usage() };
  }
  async *getStreamedResponse(): AsyncGenerator<never> {}
}

const answer = (text: string): AssistantMessageItem => ({ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] });

test("a session does what the SDK's own session in memory does", async () => {
  const id = unique();
  const [ours, theirs]: Session[] = [new RecollectSession(id, recollect), new MemorySession({ sessionId: id })];
  const items = ["a", "b\0\ud800", "ü🦤".repeat(200_000)].map(user);
  const reasoning = { type: "reasoning", content: [], rawContent: [{ type: "reasoning_text", text: "I think." }] } as AgentInputItem;
  const both = async (act: (it: Session) => Promise<unknown>) => {
    const [one, other] = [await act(ours!), await act(theirs!)];
    assert.deepEqual(one, other);
  };
  await both((it) => it.getItems());
  await both((it) => it.popItem());
  await both((it) => it.addItems([]));
  await both((it) => it.addItems(items));
  await both((it) => it.addItems([reasoning, answer("c")]));
  for (const limit of [undefined, 0, 2, 99]) await both((it) => it.getItems(limit));
  await both((it) => it.popItem());
  await both((it) => it.popItem());
  await both((it) => it.getItems());
  await both((it) => it.clearSession());
  await both((it) => it.popItem());
  await both((it) => it.addItems([user("d")]));
  await both((it) => it.getItems());
  await both((it) => it.getSessionId());
});

test("callers that pop at once each take another item", async () => {
  const id = unique();
  await new RecollectSession(id, recollect).addItems(["a", "b", "c", "d"].map(user));
  const popped = await Promise.all([recollect, elsewhere, recollect, elsewhere].map((it) => new RecollectSession(id, it).popItem()));
  assert.deepEqual(popped.map((it) => (it as { content: string }).content).sort(), ["a", "b", "c", "d"]);
});

test("a run goes on in another process, with calls of tools, and its words are found", async () => {
  const id = unique();
  const disk = tool({ name: "disk_usage", description: "", parameters: z.object({}), execute: async () => `97 % of ${id}` });
  const call = { type: "function_call", callId: "c1", name: "disk_usage", arguments: "{}", status: "completed" } as const;
  const model = new Scripted([[call], [answer(`The disk of ${id} is full.`)], [answer("You asked why.")]]);
  const agent = new Agent({ name: "ops", model, tools: [disk] });
  await new Runner().run(agent, "Why was the server slow?", { session: new RecollectSession(id, recollect) });
  const result = await new Runner().run(agent, "What did I ask?", { session: new RecollectSession(id, elsewhere) });
  assert.equal(result.finalOutput, "You asked why.");
  const kinds = (model.inputs[2] as AgentInputItem[]).map((it) => it.type ?? "message");
  assert.deepEqual(kinds, ["message", "function_call", "function_call_result", "message", "message"]);
  assert.deepEqual((await found(id)).sort(), [`97 % of ${id}`, `The disk of ${id} is full.`]);
});

test("a session that deletes what it clears leaves nothing to be found", async () => {
  const id = unique();
  const session = new RecollectSession(id, recollect, { deleteCleared: true });
  await session.addItems([user(`zeppelin ${id}`)]);
  assert.equal((await found(id)).length, 1);
  await session.clearSession();
  assert.deepEqual([await found(id), await session.getItems()], [[], []]);
  await session.addItems([user("anew")]);
  assert.equal((await session.getItems()).length, 1);
});

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };
const finish = (unified: "stop" | "tool-calls") => ({ finishReason: { unified, raw: unified }, usage, warnings: [] });
const saying = (text: string) => ({ content: [{ type: "text" as const, text }], ...finish("stop") });

async function told(fact: string): Promise<void> {
  const { conversation } = await recollect.conversations.create({ channel: "web" });
  const messages = [{ role: Role.USER, content: fact }, { role: Role.ASSISTANT, content: "Noted." }];
  await recollect.conversations.appendTurn({ conversationId: conversation!.id, messages });
}

test("a model recalls once a turn, in every step of it, and nothing of that is stored", async () => {
  await told("The staging database is called heron.");
  const before = await found("heron");
  let builds = 0;
  const counted = Object.create(recollect, {
    recall: { value: { ...recollect.recall, buildContext: (it: never) => (builds++, recollect.recall.buildContext(it)) } },
  }) as Recollect;
  const call = { type: "tool-call" as const, toolCallId: "c1", toolName: "disk", input: "{}" };
  const steps = [{ content: [call], ...finish("tool-calls") }, saying("heron"), saying("still heron")];
  const inner = new MockLanguageModelV4({ doGenerate: async () => steps.shift()! });
  const model = wrapLanguageModel({ model: inner, middleware: recollectMemory(counted, { budget: 2000 }) });
  const tools = { disk: aiTool({ inputSchema: z.object({}), execute: async () => "97 %" }) };
  const prompt = "What is the staging database called?";
  const { text } = await generateText({ model, prompt, tools, stopWhen: stepCountIs(3) });
  assert.equal(text, "heron");
  await generateText({ model, messages: [{ role: "user", content: prompt }, { role: "assistant", content: text }, { role: "user", content: `${prompt}?` }] });
  const firsts = inner.doGenerateCalls.map(({ prompt: [first] }) => first!);
  assert.equal(firsts.length, 3);
  for (const first of firsts) {
    assert.equal(first.role, "system");
    assert.match(String(first.content), /heron/);
  }
  assert.equal(builds, 2);
  assert.deepEqual(await found("heron"), before);
});

test("another person is a stranger, and a model answers where nothing can be recalled", async () => {
  const inner = new MockLanguageModelV4({ doGenerate: async () => saying("Hello.") });
  const closed = connect(address, { env: {} });
  closed.close();
  const errors: unknown[] = [];
  const stranger = connect(address, { env: {}, space: "sam" });
  for (const it of [stranger, closed]) {
    const model = wrapLanguageModel({ model: inner, middleware: recollectMemory(it, { onError: (error) => errors.push(error) }) });
    const { text } = await generateText({ model, prompt: "What is the staging database called?" });
    assert.equal(text, "Hello.");
  }
  stranger.close();
  assert.doesNotMatch(JSON.stringify(inner.doGenerateCalls), /heron/);
  assert.equal(errors.length, 1);
});

/** A route of a web application, which `useChat` posts to. */
function route(chats: RecollectChats, replies: string[]): typeof fetch {
  const doStream = async () => ({
    stream: convertArrayToReadableStream([
      { type: "text-start" as const, id: "1" },
      { type: "text-delta" as const, id: "1", delta: replies.shift()! },
      { type: "text-end" as const, id: "1" },
      { type: "finish" as const, ...finish("stop") },
    ]),
  });
  return async (_, init) => {
    const { id, messages } = JSON.parse(String(init!.body)) as { id: string; messages: UIMessage[] };
    const result = streamText({ model: new MockLanguageModelV4({ doStream }), messages: await convertToModelMessages(messages) });
    return result.toUIMessageStreamResponse({ originalMessages: messages, generateMessageId: unique, onFinish: (it) => chats.save(id, it.messages) });
  };
}

test("a chat of useChat is there in another process, and an answer may be made anew", async () => {
  const [id, chats, others] = [unique(), new RecollectChats(recollect), new RecollectChats(elsewhere)];
  const transport = new DefaultChatTransport({ fetch: route(chats, ["The disk is full.", `The disk of ${id}.`, "You asked."]) });
  const chat = new Chat({ id, messages: await chats.load(id), transport });
  await chat.sendMessage({ text: "Why was the server slow?" });
  assert.deepEqual(await others.load(id), JSON.parse(JSON.stringify(chat.messages)));
  await chat.regenerate();
  const again = new Chat({ id, messages: await others.load(id), transport });
  assert.deepEqual(again.messages, JSON.parse(JSON.stringify(chat.messages)));
  await again.sendMessage({ text: "What did I ask?" });
  const texts = (await others.load(id)).map((it) => it.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join());
  assert.deepEqual(texts, ["Why was the server slow?", `The disk of ${id}.`, "What did I ask?", "You asked."]);
  assert.deepEqual(await found(id), [`The disk of ${id}.`]);
  const count = async () => (await recollect.conversations.get({ conversationId: (await chats.conversationId(id))! })).conversation!.messageCount;
  const before = await count();
  await chats.save(id, await others.load(id));
  assert.equal(await count(), before);
  await chats.delete(id);
  assert.deepEqual([await others.load(id), await found(id), await chats.conversationId(id)], [[], [], undefined]);
});
