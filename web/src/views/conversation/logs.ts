// Long logs: their beginning is shown until somebody asks for all of them, or for words behind it.
import { isMarked } from "./found";

/** Lines of a log that are shown. */
const LINES = 20;

/** Return the beginning of a long log; undefined for a short one, and where a mark stands behind it. */
export function folded(text: string): string | undefined {
  let at = -1;
  for (let line = 0; line < LINES; line++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) return undefined;
  }
  return text.slice(at + 1).trim() && !isMarked(text.slice(at)) ? `${text.slice(0, at)}\n…` : undefined;
}

/** Return the number of lines of a text. */
export function linesIn(text: string): number {
  return text.trimEnd().split("\n").length;
}
