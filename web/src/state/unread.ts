// Which conversations have messages that this browser has not shown. Kept in this browser alone:
// numbers of messages by conversation, no text.
import { signal } from "@preact/signals";
import type { Conversation } from "@recollect/client";
import { base } from "../api/base";
import { space } from "../api/space";
import { millis } from "../ui/time";

const KEY = `${space ? `recollect-seen ${space}` : "recollect-seen"}${base}`;
const MOST = 2_000;

interface Seen {
  /** What is older than the first visit counts as read. */
  since: number;
  counts: Record<string, number>;
}

const seen = signal<Seen>(read());

/** Return whether a conversation has messages that were not shown. */
export function isUnread(conversation: Conversation): boolean {
  if (millis(conversation.updateTime) <= seen.value.since) return false;
  return Number(conversation.messageCount) > (seen.value.counts[conversation.id] ?? 0);
}

/** Remember that a conversation's messages were shown. */
export function markSeen(conversation: Conversation): void {
  if (!isUnread(conversation)) return;
  const counts = { ...read().counts };
  delete counts[conversation.id]; // the newest stand last
  counts[conversation.id] = Number(conversation.messageCount);
  const entries = Object.entries(counts).slice(-MOST);
  seen.value = { since: seen.value.since, counts: Object.fromEntries(entries) };
  localStorage.setItem(KEY, JSON.stringify(seen.value));
}

function read(): Seen {
  try {
    const value = JSON.parse(localStorage.getItem(KEY) ?? "") as Seen;
    if (typeof value.since === "number" && value.counts) return value;
  } catch {
    // the first visit
  }
  const first = { since: Date.now(), counts: {} };
  localStorage.setItem(KEY, JSON.stringify(first));
  return first;
}

addEventListener("storage", (event) => {
  if (event.key === KEY) seen.value = read();
});
