// What people say of answers: a thumb up or down with an optional word, for an answer as a whole, which is a
// turn. It is a value of the conversation's metadata, so it is an event of its log, exports have it, and imports
// bring it back.
import type { JsonObject } from "@bufbuild/protobuf";
import type { Conversation } from "@recollect/client";
import { conversations as calls } from "../api/calls";
import { change } from "../live/connection";

/** The key of `metadata` of conversations in which an answer has feedback; behind it and a dot stands the turn. */
export const FEEDBACK = "page.feedback";
/** The most characters of a word. */
export const LONGEST = 500;

export interface Feedback {
  turn: number;
  isGood: boolean;
  word: string;
  /** When it was given, in milliseconds since 1970. */
  time: number;
}

/** Return the feedback on the answers of a conversation, in no order. */
export function feedbackIn({ metadata }: Pick<Conversation, "metadata">): Feedback[] {
  return Object.entries(metadata ?? {}).flatMap(([key, value]) => {
    const turn = Number(key.startsWith(`${FEEDBACK}.`) && key.slice(FEEDBACK.length + 1));
    const { rating, comment, time } = (value ?? {}) as JsonObject;
    if (!turn || (rating !== "up" && rating !== "down")) return [];
    return [{ turn, isGood: rating === "up", word: typeof comment === "string" ? comment : "", time: Date.parse(String(time)) || 0 }];
  });
}

/** Keep what somebody says of the answer of a turn; undefined: take it back. */
export async function give(conversation: Conversation, turn: number, feedback: Pick<Feedback, "isGood" | "word"> | undefined): Promise<void> {
  const others = feedbackIn(conversation).some((it) => it.turn !== turn);
  const { isGood, word } = feedback ?? { isGood: false, word: "" };
  const value = { rating: isGood ? "up" : "down", ...(word && { comment: word }), time: new Date().toISOString() };
  const metadata = { [`${FEEDBACK}.${turn}`]: feedback ? value : null, [FEEDBACK]: feedback || others ? true : null };
  await change(calls.updateMetadata({ conversationId: conversation.id, metadata }));
}
