// Memory for the Vercel AI SDK over Recollect: recall before each answer, and what `useChat` shows.
import { ContextFormat, type Recollect } from "@recollect/client";
import type { LanguageModelMiddleware, UIMessage } from "ai";
import { Transcript, type Said } from "./transcript.js";

type Params = Parameters<NonNullable<LanguageModelMiddleware["transformParams"]>>[0]["params"];

/** How a model recalls. */
export interface MemoryOptions {
  /** Tokens of what is recalled at most; the server's default unless it is given. */
  readonly budget?: number;
  /** The conversation that the question is asked in, whose own turns are known. */
  readonly conversationId?: () => Promise<string | undefined>;
  /** Told of a failure, behind which the model answers without recall. `console.warn` by default. */
  readonly onError?: (error: unknown) => void;
}

/**
 * A middleware for `wrapLanguageModel`: a model sees what was said before about the user's newest
 * message, as a system message ahead of the prompt. It is built once for a turn, however many steps
 * the turn has, and stored nowhere. A middleware is one person's, as its client's space is.
 */
export function recollectMemory(recollect: Recollect, options: MemoryOptions = {}): LanguageModelMiddleware {
  const { budget, conversationId, onError = (it: unknown) => console.warn("nothing is recalled:", it) } = options;
  let newest = { turn: "", text: Promise.resolve("") };

  async function recalled(message: string): Promise<string> {
    try {
      const request = {
        message,
        conversationId: (await conversationId?.()) ?? "",
        format: ContextFormat.RECALL_BLOCK,
        ...(budget === undefined ? {} : { budget: { total: budget } }),
      };
      const { systemPrompt, rendered } = await recollect.recall.buildContext(request);
      return rendered && `${systemPrompt}\n\n${rendered}`;
    } catch (error) {
      onError(error);
      return "";
    }
  }

  return {
    specificationVersion: "v3",
    transformParams: async ({ params }) => {
      const until = params.prompt.findLastIndex((it) => it.role === "user");
      const question = textOf(params.prompt[until]);
      if (!question.trim()) return params;
      const turn = JSON.stringify(params.prompt.slice(0, until + 1));
      if (newest.turn !== turn) newest = { turn, text: recalled(question) };
      const content = await newest.text;
      return content ? { ...params, prompt: [{ role: "system", content }, ...params.prompt] } : params;
    },
  };
}

function textOf(message: Params["prompt"][number] | undefined): string {
  if (message?.role !== "user") return "";
  return message.content.flatMap((it) => (it.type === "text" ? [it.text] : [])).join("\n\n");
}

/** The chats of `useChat`: each is a conversation of the group that has the chat's id. */
export class RecollectChats<M extends UIMessage = UIMessage> {
  constructor(
    private readonly recollect: Recollect,
    private readonly channel = "ai-sdk",
  ) {}

  /** Returns the messages of a chat, oldest first; none of one that has not begun. */
  async load(chatId: string): Promise<M[]> {
    return (await this.#transcript(chatId).rows()).map((it) => it.item);
  }

  /**
   * Makes a chat what `onFinish` of `toUIMessageStreamResponse` gives. Messages that are there stay;
   * those that were changed, answered anew or removed are taken back, and are found still.
   */
  async save(chatId: string, messages: readonly M[]): Promise<void> {
    const transcript = this.#transcript(chatId);
    const rows = await transcript.rows();
    let same = 0;
    while (same < rows.length && same < messages.length && alike(rows[same]!.item, messages[same])) same++;
    const added = messages.slice(same);
    if (added.length > 0 || same < rows.length) await transcript.add(added, rows.slice(same).map((it) => it.sequence));
  }

  /** Deletes a chat for good. */
  delete(chatId: string): Promise<void> {
    return this.#transcript(chatId).delete();
  }

  /** Returns the conversation of a chat; undefined before its first message. */
  async conversationId(chatId: string): Promise<string | undefined> {
    return (await this.#transcript(chatId).find())?.id;
  }

  #transcript(chatId: string): Transcript<M> {
    return new Transcript<M>(this.recollect, this.channel, chatId, "aiSdk", saidBy);
  }
}

/** Compares values as JSON, whatever the order of their keys. */
function alike(one: unknown, other: unknown): boolean {
  const sorted = (_: string, it: unknown) =>
    it !== null && typeof it === "object" && !Array.isArray(it) ? Object.fromEntries(Object.entries(it).sort()) : it;
  return JSON.stringify(one, sorted) === JSON.stringify(other, sorted);
}

function saidBy({ role, parts }: UIMessage): Said {
  const texts = (type: string) => parts.flatMap((it) => (it.type === type && "text" in it ? [it.text] : [])).join("\n\n");
  const [content, thinking] = [texts("text"), texts("reasoning")];
  const kinds = parts.map((it) => it.type).filter((it) => it !== "step-start");
  return { role: role === "user" ? "user" : "assistant", content: content || (thinking ? "" : `[${kinds.join(", ")}]`), thinking };
}
