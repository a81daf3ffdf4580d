// Words that are marked in a transcript: those that somebody looks for in it, and those by which a
// search found it. A browser draws them over the text (the CSS custom highlight API), so that a phrase
// is marked as well where a part of it is bold, and no element of a message has to know.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { fold, foldInPlace, placesOf } from "../../ui/folding";

export interface Marks {
  /** A folded phrase, which is marked wherever it stands. */
  phrase: string;
  /** Folded words that are marked where they stand alone. */
  words: string[];
  /** Such words that only mean what was looked for. */
  meant: string[];
}

/** A place that is shown: of a message, the occurrence by its number. */
export interface Place {
  sequence: bigint;
  turn: number;
  index: number;
  /** Whether a search by meaning led there. */
  isMeant?: boolean;
}

export const marks = signal<Marks | undefined>(undefined);
export const place = signal<Place | undefined>(undefined);

/** Return whether something in a text would be marked. */
export function isMarked(text: string): boolean {
  if (!marks.value) return false;
  const folded = fold(text);
  const { phrase, words, meant } = marks.value;
  return placesOf(folded, phrase).length > 0 || [...words, ...meant].some((it) => placesOf(folded, it, true).length > 0);
}

const NAMES = ["found", "meant", "current"] as const;
type Name = (typeof NAMES)[number];

/** What a browser marks; nothing in one that cannot. */
const highlights = "highlights" in CSS ? new Map(NAMES.map((it) => [it, new Highlight()] as const)) : undefined;
highlights?.forEach((it, name) => CSS.highlights.set(name, it));
highlights?.forEach((it, name) => (it.priority = NAMES.indexOf(name)));

/** Mark the words in an element as long as it is shown. Returns where the place is drawn. */
export function useMarks(element: { current: HTMLElement | null }, isThere: boolean): { current: Range | undefined } {
  const drawnPlace = useRef<Range>();
  useEffect(() => {
    const [root, sought, { sequence, index = 0 } = {}] = [element.current, marks.value, place.value];
    if (!sought || !root) return;
    const drawn: [Name, Range][] = [];
    const clear = () => drawn.splice(0).forEach(([name, range]) => highlights?.get(name)?.delete(range));
    const draw = () => {
      clear();
      for (const part of root.querySelectorAll<HTMLElement>("[data-text]")) drawn.push(...rangesIn(part, sought));
      const ours = `[data-sequence="${sequence}"]`;
      const here = drawn.filter(([name, { startContainer }]) =>
        name === "found" && startContainer.parentElement?.closest("[data-sequence]")?.matches(ours));
      const current = here[Math.min(index, here.length - 1)];
      if (current) drawn.push(["current", current[1].cloneRange()]);
      for (const [name, range] of drawn) highlights?.get(name)?.add(range);
      drawnPlace.current = current?.[1];
    };
    let frame = requestAnimationFrame(draw);
    const observer = new MutationObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(draw);
    });
    observer.observe(root, { childList: true, characterData: true, subtree: true });
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      clear();
      drawnPlace.current = undefined;
    };
  }, [isThere, marks.value, place.value]);
  return drawnPlace;
}

/** Return what is marked in an element, in the order of reading. */
function rangesIn(root: HTMLElement, { phrase, words, meant }: Marks): [Name, Range][] {
  const nodes: { node: Text; start: number }[] = [];
  let text = "";
  let block: Element | null = null;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    const parent = node.parentElement!;
    if (parent.closest("figcaption, .host, .button, .formula")) continue;
    const own: Element = parent.closest("p, li, td, th, pre, blockquote, [data-text]")!;
    if (own !== block) text += "\n"; // no word goes over the edge of a paragraph
    block = own;
    nodes.push({ node, start: text.length });
    text += node.data;
  }
  const { folded, places } = foldInPlace(text);
  const boundary = (at: number, isEnd: boolean): [Text, number] => {
    const it = nodes.findLast(({ start }) => (isEnd ? start < at : start <= at)) ?? nodes[0]!;
    return [it.node, Math.min(at - it.start, it.node.length)];
  };
  const found: { at: number; name: Name; length: number }[] = [];
  const add = (name: Name, sought: string, isWhole: boolean) =>
    placesOf(folded, sought, isWhole).forEach((at) => found.push({ at, name, length: sought.length }));
  add("found", phrase, false);
  for (const it of words) add("found", it, true);
  for (const it of meant) add("meant", it, true);
  return found.sort((a, b) => a.at - b.at).map(({ at, name, length }) => {
    const range = document.createRange();
    range.setStart(...boundary(places[at]!, false));
    range.setEnd(...boundary(places[at + length]!, true));
    return [name, range];
  });
}
