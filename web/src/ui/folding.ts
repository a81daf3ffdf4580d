// Comparing texts as people do who look for a word: without case, without accents, and with one
// space for any white space.

const ASCII = /^[\0-\x7f]*$/;
const ACCENTS = "\\u0300-\\u036f\\u0591-\\u05bd\\u064b-\\u0652";
const ACCENT = new RegExp(`[${ACCENTS}]`, "g");
/** What is folded as one: a run of white space, or a character with its accents. */
const UNIT = new RegExp(`\\s+|.[${ACCENTS}]*`, "gsu");
const EMPHASIS = /\*{1,3}|`+|~~|(?<![\p{L}\p{N}_])_{1,3}|_{1,3}(?![\p{L}\p{N}_])/gu;
const LETTER = /[\p{L}\p{N}]/u;

/** Return a text as it is compared. */
export function fold(text: string): string {
  const low = text.toLowerCase();
  const plain = ASCII.test(low) ? low : low.normalize("NFD").replace(ACCENT, "").replaceAll("ς", "σ").normalize("NFC");
  return plain.replace(/\s+/g, " ");
}

/** Return a folded text without the marks by which Markdown emphasizes parts of it. */
export function withoutEmphasis(folded: string): string {
  return folded.replace(EMPHASIS, "");
}

/** Return a text as it is compared, and where each unit of that stands in the text; at its end, where it ends. */
export function foldInPlace(text: string): { folded: string; places: number[] } {
  const places: number[] = [];
  let folded = "";
  for (const { 0: unit, index } of text.matchAll(UNIT)) {
    const part = fold(unit);
    for (let at = 0; at < part.length; at++) places.push(index);
    folded += part;
  }
  places.push(text.length);
  return { folded, places };
}

/** Return where a folded phrase stands in a folded text; `isWhole`: as whole words. */
export function placesOf(folded: string, phrase: string, isWhole = false): number[] {
  const places: number[] = [];
  if (!phrase) return places;
  for (let at = folded.indexOf(phrase); at >= 0; at = folded.indexOf(phrase, at + phrase.length)) {
    const end = at + phrase.length;
    const isWord = !LETTER.test(folded[at - 1] ?? " ") && !LETTER.test(folded[end] ?? " ");
    if (!isWhole || isWord) places.push(at);
  }
  return places;
}
