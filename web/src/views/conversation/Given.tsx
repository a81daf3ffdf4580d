// What an agent was given for an answer, where it kept that with it: the places, of which each is read where
// it stands, so that what is deleted since is not here either.
import type { Message } from "@recollect/client";
import { useEffect, useState } from "preact/hooks";
import { conversations } from "../../api/calls";
import { describe, isMissing } from "../../api/errors";
import { link } from "../../router";
import { nameOf } from "../../sidebar/Row";
import { t } from "../../texts/views";

const ID = /^conv-[0-9A-HJKMNP-TV-Z]{26}$/;
/** Conversations whose names are asked for, and are shown. */
const MOST = 50;

export interface Given {
  tokens: number;
  count: number;
  /** The turns by conversation, ascending. */
  turns: Map<string, number[]>;
}

/** Return what the agent kept with an answer; undefined for nothing, or for what has another form. */
export function givenFor({ metadata }: Message): Given | undefined {
  const { turns, tokens } = (metadata?.["context"] ?? {}) as { turns?: unknown; tokens?: unknown };
  if (!Array.isArray(turns)) return undefined;
  const sets = new Map<string, Set<number>>();
  for (const one of turns as unknown[]) {
    const [id, turn] = Array.isArray(one) ? (one as unknown[]) : [];
    if (typeof id !== "string" || !ID.test(id) || !Number.isSafeInteger(turn) || Number(turn) < 1) continue;
    sets.set(id, (sets.get(id) ?? new Set()).add(Number(turn)));
  }
  const sorted = [...sets].map(([id, its]) => [id, [...its].sort((a, b) => a - b)] as const);
  const count = sorted.reduce((sum, [, its]) => sum + its.length, 0);
  return count ? { count, tokens: Number.isSafeInteger(tokens) ? Number(tokens) : 0, turns: new Map(sorted) } : undefined;
}

export function GivenList({ given, conversationId }: { given: Given; conversationId: string }) {
  return (
    <ul class="given">
      {[...given.turns].slice(0, MOST).map(([id, turns]) => <From key={id} id={id} turns={turns} isOwn={id === conversationId} />)}
      {given.turns.size > MOST && <li class="muted">{t.actions.more(given.turns.size - MOST)}</li>}
    </ul>
  );
}

/** The turns of one conversation, under its name. */
function From({ id, turns, isOwn }: { id: string; turns: number[]; isOwn: boolean }) {
  const [name, setName] = useState(isOwn ? t.conversation.thisOne : "");
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (isOwn) return;
    conversations.get({ conversationId: id }).then(
      (it) => setName(nameOf(it.conversation!)),
      (error: unknown) => setProblem(isMissing(error) ? t.conversation.givenGone : describe(error)),
    );
  }, [id]);
  if (problem) return <li><code>{id}</code> <span class="muted">{problem}</span></li>;
  return (
    <li>
      <bdi>{name || id}</bdi>
      {turns.map((it) => <a key={it} href={link(`/c/${id}`, { turn: String(it) })}>{t.conversation.turn(it)}</a>)}
    </li>
  );
}
