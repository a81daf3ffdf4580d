// Conversations that somebody chose in the list, to do one thing to all of them.
import { signal } from "@preact/signals";
import type { Conversation } from "@recollect/client";

/** Conversations that one call takes. */
const MOST = 1000;

class Chosen {
  /** By id; unset while nobody chooses. */
  readonly shown = signal<ReadonlyMap<string, Conversation> | undefined>(undefined);

  /** Begin to choose, with some; or end it. */
  set(conversations: Conversation[] | undefined): void {
    this.shown.value = conversations && new Map(conversations.slice(0, MOST).map((it) => [it.id, it]));
  }

  /** Choose a conversation, or no longer. */
  toggle(conversation: Conversation): void {
    const now = [...(this.shown.peek()?.values() ?? [])];
    const others = now.filter((it) => it.id !== conversation.id);
    this.set(others.length < now.length ? others : [...now, conversation]);
  }

  /** Leave out a conversation that is gone. */
  drop(id: string): void {
    const now = this.shown.peek();
    if (now?.has(id)) this.set([...now.values()].filter((it) => it.id !== id));
  }
}

export const chosen = new Chosen();
