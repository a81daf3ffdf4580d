// The part of a conversation that is in memory: a run of whole turns, which grows at either end.
// Pages of history and live updates may both bring a message; it is kept once, by its sequence.
import { create } from "@bufbuild/protobuf";
import { signal } from "@preact/signals";
import { MessageSchema, Role, type Conversation, type Message, type Redaction, type Update } from "@recollect/client";
import { conversations as calls } from "../../api/calls";
import { isCancelled, isMissing } from "../../api/errors";
import { upsert } from "../../state/conversations";
import { millis } from "../../ui/time";

const PAGE_TURNS = 40;
const PAGE_TOKENS = 60_000;
/** What the server stores in place of a text. */
const REDACTED = "[redacted]";
/** Messages that stay of a transcript that is followed at its end: a page may be open for weeks. */
const FOLLOWED = 1_000;
const BEYOND = 2_147_483_647;

export interface TranscriptState {
  state: "loading" | "ready" | "failed" | "missing" | "deleted";
  error?: unknown;
  conversation?: Conversation;
  /** In the order of reading: by turn, then by sequence. */
  messages: Message[];
  /** Whether older, and newer, messages exist than those in memory. */
  hasOlder: boolean;
  hasNewer: boolean;
  /** Set if the beginning of the first turn was too large for one answer. */
  cutBefore: bigint;
  damaged: number;
}

type Change = (conversation: Conversation) => Conversation;

const EMPTY: TranscriptState = {
  state: "loading", messages: [], hasOlder: false, hasNewer: false, cutBefore: 0n, damaged: 0,
};

export class Transcript {
  readonly shown = signal<TranscriptState>(EMPTY);
  /** Whether the end is on the screen, so that messages far before it need not stay in memory. */
  isFollowed = false;
  private readonly abort = new AbortController();
  private waiting = 0;
  /** What was redacted since, by sequence: an answer that was on its way may still have the text. */
  private readonly redacted = new Map<bigint, Redaction | undefined>();
  /** The changes of the conversation since a page was asked for, for each that is on its way. */
  private readonly onTheWay = new Set<Change[]>();
  private underWay: Promise<void> = Promise.resolve();

  constructor(readonly id: string) {}

  /** Stop what is under way. */
  close(): void {
    this.abort.abort();
  }

  /** Read the newest turns; or those around a turn. */
  async open(turn = 0): Promise<void> {
    await this.inTurn(async () => {
      const before = turn ? Math.min(turn + PAGE_TURNS / 2, BEYOND) : BEYOND;
      const page = await this.load(before, 0n);
      const last = page.messages.at(-1)?.turnNumber ?? 0;
      const first = page.messages[0]?.turnNumber ?? 0;
      const hasNewer = turn > 0 && last < page.total;
      // What was said while the page was on its way came as an update, and may not be in it.
      const now = this.shown.peek();
      if (now.state === "deleted") return;
      const live = hasNewer || now.hasNewer ? [] : now.messages.filter((it) => it.turnNumber >= first);
      this.shown.value = {
        ...EMPTY,
        state: "ready",
        conversation: page.conversation,
        messages: sorted([...page.messages, ...live]),
        hasOlder: page.hasMore,
        hasNewer,
        cutBefore: page.cutBeforeSequence,
        damaged: page.damagedLines,
      };
      upsertIfOpen(this.shown.peek().conversation!);
    });
  }

  /** Read what has changed since the stream broke: the newest turns, if they join what is shown. */
  async refresh(): Promise<void> {
    await this.inTurn(async () => {
      if (this.shown.peek().state !== "ready") return;
      const page = await this.load(BEYOND, 0n);
      // What came as an update while the page was on its way stays.
      const now = this.shown.peek();
      if (now.state !== "ready") return;
      const last = now.messages.at(-1)?.turnNumber ?? 0;
      const first = page.messages[0]?.turnNumber ?? 0;
      const joins = !now.hasNewer && first <= last + 1;
      this.shown.value = {
        ...now,
        conversation: page.conversation,
        messages: joins ? sorted([...now.messages, ...page.messages]) : now.messages,
        hasNewer: !joins,
      };
    });
  }

  /** Read the turns before those in memory. */
  async older(): Promise<void> {
    const { hasOlder, messages, cutBefore } = this.shown.peek();
    if (!hasOlder || !messages[0] || this.waiting) return;
    const first = messages[0].turnNumber;
    await this.inTurn(async () => {
      const page = cutBefore ? await this.load(first + 1, cutBefore) : await this.load(first, 0n);
      this.join(page.messages, { hasOlder: page.hasMore, cutBefore: page.cutBeforeSequence });
    });
  }

  /** Read the turns after those in memory. */
  async newer(): Promise<void> {
    const { hasNewer, messages, conversation } = this.shown.peek();
    if (!hasNewer || !messages.length || !conversation || this.waiting) return;
    const last = messages.at(-1)!.turnNumber;
    await this.inTurn(async () => {
      let before = last + PAGE_TURNS + 1;
      const parts: Message[] = [];
      // An answer holds the end of what was asked for. What is missing before it is asked for next.
      do {
        const page = await this.load(before, 0n);
        parts.push(...page.messages);
        before = page.messages[0]?.turnNumber ?? 0;
      } while (before > last + 1);
      const reached = Math.max(last, ...parts.map((it) => it.turnNumber));
      this.join(parts, { hasNewer: reached < this.shown.peek().conversation!.turnCount });
    });
  }

  /** Return the first turn that was said at a moment or after it. */
  async turnAt(moment: number): Promise<number> {
    let low = 1;
    let high = this.shown.peek().conversation?.turnCount ?? 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const page = await this.load(middle + 1, 0n, 1);
      const at = millis(page.messages[0]?.timestamp);
      if (at < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Take in a live update of this conversation. */
  take(update: Update): void {
    const now = this.shown.peek();
    if (update.conversationId !== this.id) return;
    const { kind } = update;
    switch (kind.case) {
      case "conversationUpdated": {
        const conversation = this.change((it) => kind.value.conversation ?? it);
        const known = new Set(now.messages.map((it) => it.sequence));
        const added = kind.value.messages.filter((it) => !known.has(it.sequence));
        const first = now.messages[0]?.turnNumber ?? 0;
        // Late messages of turns that are not in memory come with their turn.
        const fitting = now.hasNewer ? [] : added.filter((it) => it.turnNumber >= first);
        const messages = fitting.length ? sorted([...now.messages, ...fitting]) : now.messages;
        // A page of older turns that is on its way would not join what stays.
        const stays = this.isFollowed && !this.waiting ? newest(messages) : messages;
        const cut = stays.length < messages.length ? { hasOlder: true, cutBefore: 0n } : {};
        this.shown.value = { ...now, conversation, messages: stays, ...cut };
        break;
      }
      case "conversationRenamed": {
        const { title, manuallyNamed, topics } = kind.value;
        this.shown.value = { ...now, conversation: this.change((it) => ({ ...it, name: title, title, manuallyNamed, topics })) };
        break;
      }
      case "conversationAbbreviated": {
        const { abbreviation, topics } = kind.value;
        this.shown.value = { ...now, conversation: this.change((it) => ({ ...it, abbreviation, topics })) };
        break;
      }
      case "messagesRedacted": {
        const { sequences, redaction } = kind.value;
        const conversation = this.change((it) => kind.value.conversation ?? it);
        for (const sequence of sequences) this.redacted.set(sequence, redaction);
        this.shown.value = { ...now, conversation, messages: this.withoutRedacted(now.messages) };
        break;
      }
      case "conversationDeleted":
        this.shown.value = { ...EMPTY, state: "deleted" };
    }
  }

  /** Return the conversation after a change, which pages that are on their way may not have. */
  private change(change: Change): Conversation | undefined {
    for (const changes of this.onTheWay) changes.push(change);
    const { conversation } = this.shown.peek();
    return conversation && change(conversation);
  }

  private async load(beforeTurn: number, beforeSequence: bigint, maxTurns = PAGE_TURNS) {
    const request = { conversationId: this.id, beforeTurn, beforeSequence, maxTurns, maxTokens: PAGE_TOKENS };
    const changes: Change[] = [];
    this.onTheWay.add(changes);
    try {
      const page = await calls.load(request, { signal: this.abort.signal });
      page.messages = this.withoutRedacted(page.messages);
      // An update that came meanwhile is newer than the page, or is followed by what the page has.
      const conversation = changes.reduce((it, change) => change(it), page.conversation!);
      return { ...page, conversation, total: page.conversation!.turnCount };
    } finally {
      this.onTheWay.delete(changes);
    }
  }

  private withoutRedacted(messages: Message[]): Message[] {
    const { redacted } = this;
    return messages.map((it) => (redacted.has(it.sequence) ? emptied(it, redacted.get(it.sequence)) : it));
  }

  private join(more: Message[], changes: Partial<TranscriptState>): void {
    const now = this.shown.peek();
    if (now.state === "deleted") return;
    this.shown.value = { ...now, ...changes, messages: sorted([...now.messages, ...more]) };
  }

  /** Do some work when what is under way is over. */
  private inTurn(work: () => Promise<void>): Promise<void> {
    this.waiting += 1;
    this.underWay = this.underWay.then(work).then(
      () => void (this.waiting -= 1),
      (error: unknown) => {
        this.waiting -= 1;
        const now = this.shown.peek();
        if (isCancelled(error) || now.state === "deleted") return;
        const state = isMissing(error) ? "missing" : now.conversation ? "ready" : "failed";
        this.shown.value = { ...now, state, error };
      },
    );
    return this.underWay;
  }
}

/** Return what stays of a message that was redacted: nothing that it said, and by whom. */
function emptied(message: Message, redaction: Redaction | undefined): Message {
  const { sequence, turnNumber, role, timestamp, channel, toolCallId } = message;
  const toolCalls = message.toolCalls.map((it) => ({ ...it, name: REDACTED, arguments: "" }));
  const stays = { sequence, turnNumber, role, timestamp, channel, toolCallId, toolCalls, redaction, content: REDACTED };
  return create(MessageSchema, stays);
}

function upsertIfOpen(conversation: Conversation): void {
  if (!conversation.archived) upsert(conversation);
}

/** Return the last turns of many messages, or all of fewer. */
function newest(messages: Message[]): Message[] {
  if (messages.length <= 2 * FOLLOWED) return messages;
  const first = messages.at(-FOLLOWED)!.turnNumber;
  return messages.filter((it) => it.turnNumber >= first);
}

function sorted(messages: Message[]): Message[] {
  const bySequence = new Map(messages.map((it) => [it.sequence, it]));
  return [...bySequence.values()].sort(
    (a, b) => a.turnNumber - b.turnNumber || (a.sequence < b.sequence ? -1 : 1),
  );
}

/** A line of the transcript: a message, with the results of the tools that it called. */
export interface Line {
  key: string;
  message: Message;
  results: Map<string, Message>;
  opensTurn: boolean;
  opensDay: boolean;
  /** Milliseconds since the message before it in its turn; 0: there is none, or both came at once. */
  waited: number;
  /** Whether it is the last of the agent's words of its turn: what people say of the answer stands there. */
  endsAnswer: boolean;
}

/** Return the lines of messages: results of tools stand with their calls. */
export function linesOf(messages: Message[]): Line[] {
  const lines: Line[] = [];
  const callers = new Map<string, Line>();
  let turn = -1;
  let day = "";
  let before: Message | undefined;
  const answers = new Map<number, Line>();
  for (const message of messages) {
    const waited = before?.turnNumber === message.turnNumber ? millis(message.timestamp) - millis(before.timestamp) : 0;
    before = message;
    if (message.role === Role.TOOL) {
      const caller = callers.get(`${message.turnNumber} ${message.toolCallId}`);
      if (caller) {
        caller.results.set(message.toolCallId, message);
        continue;
      }
    }
    const date = new Date(millis(message.timestamp)).toDateString();
    const line: Line = {
      key: String(message.sequence),
      message,
      results: new Map(),
      opensTurn: message.turnNumber !== turn,
      opensDay: date !== day,
      waited,
      endsAnswer: false,
    };
    if (message.role === Role.ASSISTANT && message.content) answers.set(message.turnNumber, line);
    turn = message.turnNumber;
    day = date;
    for (const call of message.toolCalls) callers.set(`${message.turnNumber} ${call.id}`, line);
    lines.push(line);
  }
  for (const line of answers.values()) line.endsAnswer = true;
  return lines;
}
