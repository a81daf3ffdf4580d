// The texts of a whole conversation, to find words in: the page holds only a part of a transcript.
import { signal } from "@preact/signals";
import { type Message, Role, type Update } from "@recollect/client";
import { history } from "../../api/history";
import { fold, placesOf, withoutEmphasis } from "../../ui/folding";
import { pretty } from "../../ui/json";
import type { Place } from "./found";

interface Entry {
  sequence: bigint;
  turn: number;
  /** Its texts, folded, in the order in which they are shown. */
  texts: string[];
}

export class Texts {
  /** The number of messages that were read; `isWhole`: all of them were. */
  readonly read = signal<{ count: number; isWhole: boolean }>({ count: 0, isWhole: false });
  private readonly entries = new Map<bigint, Entry>();
  private sorted: Entry[] | undefined;

  /** Read a conversation, from its end to its beginning. */
  async load(conversationId: string, signal: AbortSignal): Promise<void> {
    for await (const { messages } of history(conversationId, signal, true)) {
      this.take(messages.filter((it) => !this.entries.has(it.sequence))); // what came since is newer
      this.tell(false);
    }
    this.tell(true);
  }

  /** Take in what becomes of the conversation meanwhile. */
  hear(conversationId: string, { conversationId: its, kind }: Update): void {
    if (its !== conversationId) return;
    if (kind.case === "conversationUpdated" && kind.value.messages.length) this.take(kind.value.messages);
    if (kind.case !== "messagesRedacted") return;
    for (const it of kind.value.sequences) this.entries.set(it, { sequence: it, turn: 0, texts: [] });
    this.take([]);
  }

  private take(messages: readonly Message[]): void {
    for (const { sequence, turnNumber, role, thinkingText, content, toolCalls } of messages) {
      const shown = role === Role.TOOL ? pretty(content) : content;
      const texts = [thinkingText, shown, ...toolCalls.flatMap((it) => [it.name, pretty(it.arguments)])].filter(Boolean).map(fold);
      this.entries.set(sequence, { sequence, turn: turnNumber, texts });
    }
    this.sorted = undefined;
    if (this.read.peek().isWhole) this.tell(true);
  }

  /** Return every place of some words, in the order of reading. */
  find(words: string): Place[] {
    this.sorted ??= [...this.entries.values()].sort((a, b) => a.turn - b.turn || (a.sequence < b.sequence ? -1 : 1));
    const phrase = fold(words.trim());
    return this.sorted.flatMap(({ sequence, turn, texts }) => {
      const count = texts.reduce((sum, it) => sum + timesIn(it, phrase), 0);
      return Array.from({ length: count }, (_, index) => ({ sequence, turn, index }));
    });
  }

  private tell(isWhole: boolean): void {
    this.read.value = { count: this.entries.size, isWhole };
  }
}

/** Return how often a phrase stands in a text as it was written, or else as it is shown. */
function timesIn(text: string, phrase: string): number {
  return placesOf(text, phrase).length || placesOf(withoutEmphasis(text), phrase).length;
}
