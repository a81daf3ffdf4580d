// Where a result of a search leads: to its turn, with the words by which it was found.
import type { SearchHit, SearchResult } from "@recollect/client";
import { wordsOf } from "./Snippet";

/** Words of a result that are marked where it leads. */
const MOST = 24;

/** Return the path and the query of a result, or of a hit of one. */
export function linkTo(of: SearchResult | SearchHit, hits: SearchHit[], query: string): [string, Record<string, string | undefined>] {
  const turn = "turnNumber" in of ? of.turnNumber : of.matchedTurns[0];
  const { words, meant } = wordsOf("snippetFromNotes" in of && of.snippetFromNotes ? hits : [of, ...hits], query);
  const joined = (list: string[]) => list.slice(0, MOST).join(" ") || undefined;
  return [`/c/${of.conversationId}`, {
    turn: turn ? String(turn) : undefined,
    words: joined(words),
    meant: joined(meant),
    by: turn && !words.length ? "meaning" : undefined,
  }];
}
