// Texts that others wrote. They are shown as text, whatever is in them.
import { t } from "../texts";

// Controls, and marks that turn the direction of what follows them. In one line they could make a
// name look like another one, so they are shown as what they are.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The probability below which most likely nothing that a search found answers the question. */
export const DOUBTFUL = 0.3;

/** Return a text for one line, with a visible mark for every character that hides. */
export function oneLine(text: string): string {
  return text.replace(HIDDEN, (it) => (it === "\n" || it === "\t" ? " " : "\u2426"));
}

/** Return a line of Markdown without the marks that lists have no use for: those of headings, lists, quotes,
 * emphasis, code and links. */
export function withoutMarkup(line: string): string {
  return line
    .replace(/^(?:(?:#{1,6}|>|[-*+])\s+)+/, "")
    .replace(/(?<=\s)#{1,6}\s+(?=\p{L})/gu, "") // of a line that was one of several
    .replace(/!?\[([^\]]*)\]\([^)]*\)?/g, "$1")
    .replace(/\*{2,3}|~~|`+/g, "")
    .replace(/(?<=^|\s)[*_](?=\S)|(?<=\S)[*_](?=[\s.,;:!?)]|$)/g, "");
}

const LETTER = /\p{L}/u;
/** Letters that are written from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Return the direction of a text, which is that of its first letter. `dir="auto"` of an element looks at
 * none of the parts that have a direction of their own. */
export function directionOf(text: string): "rtl" | "ltr" | undefined {
  const letter = LETTER.exec(text)?.[0];
  return letter ? (RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr") : undefined;
}

/** Return the label of a channel. */
export function channelName(channel: string): string {
  return t.channels[channel] ?? oneLine(channel);
}

/** Return a number of characters or bytes as people read it. */
export function sizeOf(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(0)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

const CURRENCY = { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" } as const;
const sums = new Intl.NumberFormat(t.language, CURRENCY);
const smallSums = new Intl.NumberFormat(t.language, { ...CURRENCY, maximumSignificantDigits: 2 });

/** Return a sum of dollars, less than a cent with the figures that tell it apart. */
export function dollars(sum: number): string {
  return (sum > 0 && sum < 0.01 ? smallSums : sums).format(sum);
}

/** Return the `maxLength` of a field for so many characters. A browser counts units of UTF-16, of
 * which a character has one or two; the server counts characters, and refuses those beyond. */
export function unitsOf(characters: number): number {
  return 2 * characters;
}
