// All of a conversation, in pages from its end to its beginning.
import type { Conversation, Message } from "@recollect/client";
import { t } from "../texts/views";
import { conversations as calls } from "./calls";

/** The most turns that a page has, and as many tokens as an answer may. */
const PAGE = { maxTurns: 1000, maxTokens: 1_000_000 };
const LAST = 2_147_483_647;

export interface HistoryPage {
  conversation: Conversation;
  /** In the order of reading. */
  messages: Message[];
}

/** Read a conversation whole. Throws where lines of it are damaged, unless those are passed over. */
export async function* history(conversationId: string, signal: AbortSignal, skipsDamaged = false): AsyncGenerator<HistoryPage> {
  let beforeTurn = LAST;
  let beforeSequence = 0n;
  for (;;) {
    const page = await calls.load({ conversationId, beforeTurn, beforeSequence, ...PAGE }, { signal });
    if (page.damagedLines && !skipsDamaged) throw new Error(t.conversation.damaged(page.damagedLines));
    yield { conversation: page.conversation!, messages: page.messages };
    const first = page.messages[0];
    if (!page.hasMore || !first) return;
    beforeSequence = page.cutBeforeSequence;
    beforeTurn = beforeSequence ? first.turnNumber + 1 : first.turnNumber;
  }
}
