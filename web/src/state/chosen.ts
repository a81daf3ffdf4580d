// Conversations that somebody chose in the list, to do one thing to all of them.
import { signal } from "@preact/signals";
import type { Conversation } from "@recollect/client";

class Chosen {
  /** By id; unset while nobody chooses. */
  readonly shown = signal<ReadonlyMap<string, Conversation> | undefined>(undefined);

  /** Begin to choose, with some; or end it. */
  set(conversations: Conversation[] | undefined): void {
    this.shown.value = conversations && new Map(conversations.map((it) => [it.id, it]));
  }

  /** Choose a conversation, or no longer. */
  toggle(conversation: Conversation): void {
    const now = [...(this.shown.peek()?.values() ?? [])];
    const others = now.filter((it) => it.id !== conversation.id);
    this.set(others.length < now.length ? others : [...now, conversation]);
  }

  /** Leave out conversations that are gone. */
  drop(...ids: string[]): void {
    const now = this.shown.peek();
    const gone = new Set(ids.filter((it) => now?.has(it)));
    if (now && gone.size) this.set([...now.values()].filter((it) => !gone.has(it.id)));
  }
}

export const chosen = new Chosen();
