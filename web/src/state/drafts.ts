// The answers that are being written now, of all conversations. They are kept apart from the
// transcripts: one that is opened late, or read anew, has their beginnings too.
import { effect, signal } from "@preact/signals";
import type { Update } from "@recollect/client";
import { connections, generation, listen } from "../live/connection";

export interface Draft {
  id: string;
  text: string;
  /** The number of characters before the text that this tab, opened later, was not told. */
  missing: number;
}

const NONE: readonly Draft[] = [];
const all = signal<ReadonlyMap<string, readonly Draft[]>>(new Map());

/** Return the answers that are being written in a conversation. */
export function draftsOf(conversationId: string): readonly Draft[] {
  return all.value.get(conversationId) ?? NONE;
}

/** Keep the drafts current from now on. */
export function keepDrafts(): void {
  effect(() => {
    // A stream that begins anew, or goes on over another connection, brings every draft from its
    // beginning. What it does not bring has ended: with the server, for example.
    if (generation.value + connections.value) all.value = new Map();
  });
  listen(take);
}

function take({ conversationId, kind }: Update): void {
  if (kind.case === "conversationDeleted") set(conversationId, NONE);
  else if (kind.case === "conversationUpdated") drop(conversationId, kind.value.draftId);
  else if (kind.case === "messageDelta") {
    const { draftId, offset, text, dropped } = kind.value;
    if (dropped) return drop(conversationId, draftId);
    const known = all.peek().get(conversationId) ?? NONE;
    const old = known.find((it) => it.id === draftId);
    const at = Number(offset);
    const missing = Math.min(old?.missing ?? at, at);
    // Offsets count characters, where a JavaScript string counts halves of some.
    const kept = [...(old?.text ?? "")].slice(0, at - missing).join("");
    const others = known.filter((it) => it.id !== draftId);
    set(conversationId, [...others, { id: draftId, text: kept + text, missing }]);
  }
}

function drop(conversationId: string, draftId: string): void {
  const old = all.peek().get(conversationId) ?? NONE;
  if (old.some((it) => it.id === draftId)) set(conversationId, old.filter((it) => it.id !== draftId));
}

function set(conversationId: string, drafts: readonly Draft[]): void {
  const next = new Map(all.peek());
  if (drafts.length) next.set(conversationId, drafts);
  else next.delete(conversationId);
  all.value = next;
}
