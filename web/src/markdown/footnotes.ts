// Footnotes, as GitHub's Markdown has them: [^name] in a text, and [^name]: its words, below.
import type { Token, TokenizerExtension, Tokens } from "marked";

export interface FootnoteToken extends Tokens.Generic {
  type: "footnote" | "reference";
  label: string;
}

const NOTE = /^\[\^([^\]\s]{1,64})\]:[ \t]+(.*(?:\n(?:[ \t]*\n)*(?: {2,}|\t)[ \t]*\S[^\n]*)*)(?:\n+|$)/;
const REFERENCE = /^\[\^([^\]\s]{1,64})\](?![(:])/;

export const footnote: TokenizerExtension = {
  name: "footnote",
  level: "block",
  start: (text) => {
    const at = text.indexOf("\n[^");
    return at < 0 ? undefined : at + 1;
  },
  tokenizer(text) {
    const match = NOTE.exec(text);
    if (!match) return undefined;
    const words = match[2]!.replace(/\n(?: {1,4}|\t)/g, "\n");
    return { type: "footnote", raw: match[0], label: match[1]!, tokens: this.lexer.blockTokens(words, []) };
  },
};

export const reference: TokenizerExtension = {
  name: "reference",
  level: "inline",
  start: (text) => text.indexOf("[^"),
  tokenizer(text) {
    const match = REFERENCE.exec(text);
    return match ? { type: "reference", raw: match[0], label: match[1]! } : undefined;
  },
};

/** The notes of a text that something refers to, in the order of their first references. */
export class Notes {
  readonly order: FootnoteToken[] = [];

  constructor(tokens: Token[]) {
    const notes = new Map<string, FootnoteToken>();
    for (const it of tokens) if (it.type === "footnote") notes.set((it as FootnoteToken).label, it as FootnoteToken);
    if (notes.size) this.collect(tokens, notes, 0);
  }

  /** Return the number of a note, from 1; 0: there is none. */
  numberOf(label: string): number {
    return this.order.findIndex((it) => it.label === label) + 1;
  }

  private collect(tokens: Token[], notes: Map<string, FootnoteToken>, depth: number): void {
    if (depth > 32) return;
    for (const it of tokens as Tokens.Generic[]) {
      const note = it.type === "reference" ? notes.get((it as FootnoteToken).label) : undefined;
      if (note && !this.order.includes(note)) this.order.push(note);
      const cells = it.type === "table" ? [...it["header"], ...it["rows"].flat()] : it.type === "list" ? it["items"] : [];
      if (it.type !== "footnote") this.collect([...(it.tokens ?? []), ...cells], notes, depth + 1);
    }
  }
}
