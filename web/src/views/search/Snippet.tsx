// What a search shows of a result, with the words that match.
import type { SearchHit, SearchResult } from "@recollect/client";
import { fold } from "../../ui/folding";
import { oneLine } from "../../ui/text";

type Shown = Pick<SearchHit | SearchResult, "snippetText" | "snippetMatches">;

/** Letters at the beginning that two forms of one word share at least. */
const STEM = 4;
const SHORTEST = 3;

/** What a search shows of a result, with the words that match marked. */
export function Snippet({ of: { snippetText, snippetMatches } }: { of: Shown }) {
  const characters = [...oneLine(snippetText)]; // the ranges count code points
  const part = (start: number, end?: number) => characters.slice(start, end).join("");
  return (
    <>
      {snippetMatches.map(({ start, end }, index) => [part(snippetMatches[index - 1]?.end ?? 0, start), <mark key={start}>{part(start, end)}</mark>])}
      {part(snippetMatches.at(-1)?.end ?? 0)}
    </>
  );
}

/** Return the words by which results were found, folded: those of the query, and those that mean the same. */
export function wordsOf(of: Shown | Shown[], query: string): { words: string[]; meant: string[] } {
  const asked = fold(query).match(/[\p{L}\p{N}]+/gu) ?? [];
  const met = [of].flat().flatMap(({ snippetText, snippetMatches }) => {
    const characters = [...snippetText];
    return snippetMatches.map(({ start, end }) => fold(characters.slice(start, end).join("")));
  });
  const isAsked = (word: string) => asked.some((it) => it === word || isAlike(it, word));
  const all = [...new Set(met)];
  return { words: all.filter(isAsked), meant: all.filter((it) => !isAsked(it)) };
}

/** Return whether two folded words look like forms of one. */
function isAlike(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return short.length >= SHORTEST && long.startsWith(short.slice(0, Math.max(STEM, SHORTEST)));
}
