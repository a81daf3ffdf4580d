// Conversations as files: everything that was said, in forms that people and programs read.
import { toJson } from "@bufbuild/protobuf";
import { MessageSchema, Role, type Conversation, type Message, type ToolCall } from "@recollect/client";
import { history } from "../api/history";
import { feedbackIn } from "../state/feedback";
import { nameOf } from "../sidebar/Row";
import { t } from "../texts/views";
import { fullTime, millis } from "../ui/time";

const ROLES: Record<number, string> = { [Role.USER]: "user", [Role.ASSISTANT]: "assistant", [Role.TOOL]: "tool" };

interface Whole {
  conversation: Conversation;
  messages: Message[];
}

type Json = Record<string, unknown>;

export interface Form {
  /** How a file's name ends. */
  ending: string;
  write: (all: Whole) => string;
}

export const FORMS: Record<string, Form> = {
  markdown: { ending: "md", write: markdown },
  jsonl: { ending: "jsonl", write: (all) => recollectLines(all).map(sealed).join("") },
  openai: { ending: "openai.jsonl", write: ({ messages }) => `${JSON.stringify({ messages: openai(messages) })}\n` },
  anthropic: { ending: "anthropic.jsonl", write: ({ messages }) => `${JSON.stringify({ messages: anthropic(messages) })}\n` },
};

/** Read conversations whole and write them, in one text. `onRead` is told how many are read. */
export async function written(chosen: Conversation[], form: Form, signal: AbortSignal, onRead: (n: number) => void): Promise<string> {
  const parts: string[] = [];
  for (const { id } of chosen) {
    parts.push(form.write(await read(id, signal)));
    onRead(parts.length);
  }
  return parts.join(form.ending === "md" ? "\n---\n\n" : "");
}

/** Have the browser save a text as a file. */
export function save(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const anchor = Object.assign(document.createElement("a"), { href: address, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

async function read(conversationId: string, signal: AbortSignal): Promise<Whole> {
  const pages = [];
  for await (const page of history(conversationId, signal)) pages.unshift(page);
  return { conversation: pages[0]!.conversation, messages: pages.flatMap((it) => it.messages) };
}

function markdown({ conversation, messages }: Whole): string {
  const parts = [`# ${nameOf(conversation)}\n`];
  const feedback = feedbackIn(conversation);
  for (const [index, it] of messages.entries()) {
    const who = it.senderName || it.sender || t.roles[it.role === Role.USER ? "user" : it.role === Role.TOOL ? "tool" : "assistant"];
    parts.push(`**${who}**, ${fullTime(it.timestamp)}\n`);
    if (it.content) parts.push(it.role === Role.TOOL ? fenced(it.content) : `${it.content}\n`);
    for (const call of it.toolCalls) parts.push(fenced(`${call.name}(${call.arguments})`));
    for (const file of it.attachments) parts.push(`- ${file.mediaType}: ${file.uri}\n`);
    const isLast = messages[index + 1]?.turnNumber !== it.turnNumber;
    const given = isLast && feedback.find(({ turn }) => turn === it.turnNumber);
    if (given) parts.push(`${t.feedback.exported(given.isGood, given.word)}\n`);
  }
  return parts.join("\n");
}

/** Return a text in a fence longer than any in it. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map((it) => it[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}\n`;
}

/** Return the lines that `recollect import` reads. */
function recollectLines({ conversation: it, messages }: Whole): Json[] {
  const { id, channel, participants, model, party } = it;
  const lines: Json[] = [{
    type: "meta", id, channel, created: isoTime(it.createTime), participants,
    ...(model && { model }), ...(party && { party: { ...party, $typeName: undefined, $unknown: undefined } }),
  }];
  for (const message of messages) {
    const { sequence: _, redaction, ...fields } = toJson(MessageSchema, message) as Json;
    const { usage, attachments } = message;
    lines.push({
      type: "turn", ...fields, role: ROLES[message.role], content: message.content,
      ...(usage && { usage: { input: Number(usage.input), output: Number(usage.output) } }),
      ...(attachments.length && {
        attachments: attachments.map((file) => ({ mediaType: file.mediaType, uri: file.uri, bytesLength: Number(file.bytesLength) })),
      }),
      ...(redaction !== undefined && { erased: "" }),
    });
  }
  const change = (fields: Json) => lines.push({ type: "event", event: "meta_update", ...fields, timestamp: isoTime(it.updateTime) });
  if (it.title) change({ title: it.title, manuallyNamed: it.manuallyNamed });
  if (it.topics.length) change({ topics: it.topics });
  if (it.metadata) change({ metadata: it.metadata });
  if (it.archived) change({ archived: true });
  return lines;
}

function isoTime(time: Conversation["createTime"]): string {
  return new Date(millis(time)).toISOString();
}

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** Return a line with its checksum, as the server keeps it. */
function sealed(fields: Json): string {
  const body = JSON.stringify(fields).slice(0, -1);
  let crc = ~0;
  for (const byte of new TextEncoder().encode(body)) crc = (crc >>> 8) ^ CRC[(crc ^ byte) & 255]!;
  return `${body},"crc":"${(~crc >>> 0).toString(16).padStart(8, "0")}"}\n`;
}

function openai(messages: Message[]): Json[] {
  return messages.map((it) => {
    if (it.role === Role.TOOL) return { role: "tool", tool_call_id: it.toolCallId, content: it.content };
    const tools = it.toolCalls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
    return { role: ROLES[it.role], content: it.content, ...(tools.length && { tool_calls: tools }) };
  });
}

/** Return messages as Anthropic's API takes them: the roles take turns, and each call has a result. */
function anthropic(messages: Message[]): Json[] {
  const turns: { role: string; content: Json[] }[] = [];
  let open: string[] = [];
  const add = (role: string, ...blocks: Json[]) => {
    if (!blocks.length) return;
    if (turns.at(-1)?.role === role) turns.at(-1)!.content.push(...blocks);
    else turns.push({ role, content: blocks });
  };
  const result = (id: string, content: string, isError = false) =>
    ({ type: "tool_result", tool_use_id: id, content, ...(isError && { is_error: true }) });
  const closeCalls = () => {
    add("user", ...open.map((id) => result(id, t.conversation.noResult, true)));
    open = [];
  };
  const text = (said: string): Json[] => (said.trim() ? [{ type: "text", text: said.trimEnd() }] : []);
  for (const it of messages) {
    if (it.role === Role.TOOL) {
      const isOpen = open.includes(it.toolCallId);
      open = open.filter((id) => id !== it.toolCallId);
      add("user", ...(isOpen ? [result(it.toolCallId, it.content)] : text(it.content)));
      continue;
    }
    closeCalls();
    add(ROLES[it.role]!, ...text(it.content), ...it.toolCalls.map(toolUse));
    open = it.toolCalls.map((call) => call.id);
  }
  closeCalls();
  return turns;
}

function toolUse(call: ToolCall): Json {
  let input: unknown;
  try {
    input = JSON.parse(call.arguments || "{}");
  } catch {
    // No JSON: passed on as it is.
  }
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  return { type: "tool_use", id: call.id, name: call.name, input: isObject ? input : { arguments: call.arguments } };
}
