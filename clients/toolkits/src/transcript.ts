// Messages of a toolkit as a conversation of Recollect: they come back exactly and in their order.
import { AnchorDisposition, ArchiveFilter, Role, type Conversation, type Message, type Recollect } from "@recollect/client";

/** What a message of a toolkit says. */
export interface Said {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly thinking?: string;
}

/** A message that is stored, with its place. */
export interface Row<T> {
  readonly sequence: bigint;
  readonly item: T;
}

interface Shape {
  readonly item?: unknown;
  readonly part?: string;
  readonly takesBack?: readonly string[];
}

const LONG = 60_000; // bytes of an item that stays in the metadata, which has 64 KiB
const PIECE = 500_000; // characters of a part, ASCII all of them: a message has 1 MiB
const WORDS = 200_000; // characters of a long item that are words too
const ROOM = 6_000_000; // bytes of an append, which has 8 MiB
const ALL = { maxTurns: 1000, maxTokens: 2_000_000 };
/** The key by which other clients know a part of a file, which they do not show. */
const PART = "recollectPart";

/** The conversation of a channel and a group. It begins with its first message. */
export class Transcript<T> {
  constructor(
    private readonly recollect: Recollect,
    private readonly channel: string,
    private readonly groupId: string,
    private readonly key: string,
    private readonly said: (item: T) => Said,
  ) {}

  /** Returns the conversation; undefined before its first message. */
  async find(): Promise<Conversation | undefined> {
    const { channel, groupId } = this;
    const request = { channels: [channel], party: { groupId }, archived: ArchiveFilter.ALL, pageSize: 500 };
    return (await this.recollect.conversations.list(request)).conversations[0];
  }

  /** Appends items, and takes earlier ones back: all or none up to 6 MB. Returns false if this was done before. */
  async add(items: readonly T[], takesBack: readonly bigint[] = [], requestId = ""): Promise<boolean> {
    const groups = items.map((it) => this.#packed(it));
    if (takesBack.length > 0) groups.unshift([this.#line({ takesBack: takesBack.map(String) }, "taken back")]);
    let isNew = true;
    for (const messages of batches(groups)) {
      const conversation = (await this.find()) ?? (await this.#begin());
      const stored = await this.recollect.conversations.appendTurn({ conversationId: conversation.id, messages, requestId });
      isNew &&= !stored.duplicate;
      requestId = "";
    }
    return isNew;
  }

  /** Returns the items that were not taken back, oldest first. */
  async rows(): Promise<Row<T>[]> {
    const conversation = await this.find();
    const messages = conversation === undefined ? [] : await this.#read(conversation);
    const shapes = messages.map((it) => this.#shapeOf(it));
    const gone = new Set(shapes.flatMap((it) => it?.takesBack ?? []));
    const parts = new Map<string, string>();
    for (const it of messages) {
      const part = it.metadata?.[PART];
      if (typeof part !== "string") continue;
      const [name] = JSON.parse(part) as [string];
      parts.set(name, (parts.get(name) ?? "") + it.thinkingText);
    }
    return messages.flatMap(({ sequence }, at) => {
      const shape = shapes[at];
      if (shape === undefined || shape.takesBack !== undefined || gone.has(String(sequence))) return [];
      const text = shape.part === undefined ? undefined : parts.get(shape.part);
      const item = text === undefined ? shape.item : JSON.parse(text);
      return item === undefined ? [] : [{ sequence, item: item as T }];
    });
  }

  /** Deletes the conversation for good, with the anchors of it. */
  async delete(): Promise<void> {
    const conversation = await this.find();
    if (conversation === undefined) return;
    const request = { conversationId: conversation.id, anchors: AnchorDisposition.DELETE, force: true };
    await this.recollect.conversations.delete(request);
  }

  /** Begins the conversation. Callers that do so at once get the same one. */
  async #begin(): Promise<Conversation> {
    const { channel, groupId } = this;
    const place = new TextEncoder().encode(JSON.stringify([channel, groupId]));
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", place));
    const requestId = `transcript-${Array.from(digest.slice(0, 20), (it) => it.toString(16).padStart(2, "0")).join("")}`;
    const { conversation } = await this.recollect.conversations.create({ channel, party: { groupId }, requestId });
    return conversation!;
  }

  async #read({ id: conversationId }: Conversation): Promise<Message[]> {
    const messages: Message[] = [];
    for (let beforeTurn = 0, beforeSequence = 0n; ; ) {
      const page = await this.recollect.conversations.load({ conversationId, ...ALL, beforeTurn, beforeSequence });
      messages.push(...page.messages);
      const first = page.messages[0];
      beforeSequence = page.cutBeforeSequence;
      beforeTurn = (first?.turnNumber ?? 0) + (beforeSequence === 0n ? 0 : 1);
      if (first === undefined || !page.hasMore) break;
    }
    return messages.sort((a, b) => Number(a.sequence - b.sequence)); // results of tools may join earlier turns
  }

  #shapeOf(it: Message): Shape | undefined {
    const shape = it.metadata?.[this.key];
    return typeof shape === "string" ? (JSON.parse(shape) as Shape) : undefined;
  }

  #packed(item: T) {
    const { role, content, thinking = "" } = this.said(item);
    const text = ascii(JSON.stringify(item));
    if (JSON.stringify(text).length <= LONG) return [this.#line({ item }, content, role, thinking)];
    const part = crypto.randomUUID();
    const count = Math.ceil(text.length / PIECE);
    const pieces = Array.from({ length: count }, (_, at) => ({
      role: Role.ASSISTANT,
      thinkingText: text.slice(at * PIECE, (at + 1) * PIECE),
      metadata: { [PART]: JSON.stringify([part, at, count]) },
    }));
    return [this.#line({ part }, content.slice(0, WORDS), role, thinking.slice(0, WORDS / 2)), ...pieces];
  }

  #line(shape: Shape, content: string, role: Said["role"] = "assistant", thinkingText = "") {
    const clean = (text: string) => text.replaceAll("\0", "\ufffd").toWellFormed();
    return {
      role: role === "user" ? Role.USER : Role.ASSISTANT,
      content: clean(content || (thinkingText && role === "assistant" ? "" : "[message]")),
      thinkingText: role === "user" ? "" : clean(thinkingText),
      metadata: { [this.key]: JSON.stringify(shape) },
    };
  }
}

/** Returns JSON in ASCII, which may be cut anywhere. */
function ascii(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Returns groups of messages in batches that one append takes. */
function batches<M>(groups: readonly M[][]): M[][] {
  const all: M[][] = [];
  let room = 0;
  for (const group of groups) {
    const size = JSON.stringify(group).length * 3; // UTF-8 has three bytes for a unit at most
    const last = all.at(-1);
    if (last === undefined || size > room || last.length + group.length > 1000) {
      all.push([...group]);
      room = ROOM - size;
    } else {
      last.push(...group);
      room -= size;
    }
  }
  return all;
}
