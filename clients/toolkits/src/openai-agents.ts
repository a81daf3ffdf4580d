// A `Session` of @openai/agents over Recollect.
import type { AgentInputItem, Session } from "@openai/agents";
import type { Recollect } from "@recollect/client";
import { Transcript, type Said } from "./transcript.js";

/** How a session keeps its items. */
export interface SessionOptions {
  /** `agents-js` by default. */
  readonly channel?: string;
  /** Deletes the conversation for good when the session is cleared. */
  readonly deleteCleared?: boolean;
}

/**
 * The memory of one agent's conversation, which every process that names it sees: a conversation of
 * the group that has the session's id.
 *
 * A transcript only grows: `popItem` and `clearSession` append a line that takes items back. The
 * transcript and the search have them still, unless `deleteCleared` is set.
 */
export class RecollectSession implements Session {
  readonly #transcript: Transcript<AgentInputItem>;

  constructor(
    private readonly sessionId: string,
    recollect: Recollect,
    private readonly options: SessionOptions = {},
  ) {
    this.#transcript = new Transcript(recollect, options.channel ?? "agents-js", sessionId, "openaiAgentsJs", saidBy);
  }

  async getSessionId(): Promise<string> {
    return this.sessionId;
  }

  async getItems(limit?: number): Promise<AgentInputItem[]> {
    if (limit !== undefined && limit <= 0) return [];
    const rows = await this.#transcript.rows();
    return rows.slice(limit === undefined ? 0 : -limit).map((it) => it.item);
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length > 0) await this.#transcript.add(items);
  }

  /** Of several callers at once, each takes another item. */
  async popItem(): Promise<AgentInputItem | undefined> {
    for (;;) {
      const [rows, conversation] = [await this.#transcript.rows(), await this.#transcript.find()];
      const last = rows.at(-1);
      if (last === undefined || conversation === undefined) return undefined;
      if (await this.#transcript.add([], [last.sequence], `pop-${conversation.id}-${last.sequence}`)) return last.item;
    }
  }

  async clearSession(): Promise<void> {
    if (this.options.deleteCleared) return this.#transcript.delete();
    const rows = await this.#transcript.rows();
    if (rows.length > 0) await this.#transcript.add([], rows.map((it) => it.sequence));
  }
}

function saidBy(item: AgentInputItem): Said {
  const { role, type, name, content, output, rawContent } = item as Record<string, unknown>;
  if (type === "reasoning") return { role: "assistant", content: "", thinking: textsOf(rawContent ?? content) };
  const text = textsOf(type === "function_call_result" ? output : content);
  return { role: role === "user" ? "user" : "assistant", content: text || `[${[type, name].filter(Boolean).join(": ")}]` };
}

function textsOf(value: unknown): string {
  if (typeof value === "string") return value;
  const parts = Array.isArray(value) ? value : [value];
  return parts.map((it) => (it as { text?: unknown } | null)?.text).filter((it) => typeof it === "string").join("\n\n");
}
