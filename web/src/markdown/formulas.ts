// Formulas, as models write them: $$…$$ and \[…\], \(…\), and $…$ where that is surely no price.
import type { Token, TokenizerExtension, Tokens } from "marked";

export interface FormulaToken extends Tokens.Generic {
  type: "formula";
  tex: string;
  /** Whether it stands on lines of its own. */
  isBlock: boolean;
  /** Whether it is set as large as one that does. */
  isDisplayed: boolean;
}

/** Formulas of one text that are set: further ones are shown as they were written. */
const MOST = 300;

/** Return whether a text may have formulas. */
export function mayHaveFormulas(text: string): boolean {
  return /\$|\\[([]/.test(text);
}

// The bound keeps a text of many openings and no end short to read.
const BLOCK = /^ {0,3}(?:\$\$([^$][\s\S]{0,1999}?)\$\$|\\\[([\s\S]{1,2000}?)\\\])[ \t]*(?:\n+|$)/;
const DISPLAYED = /^(?:\$\$([^$]{1,2000}?)\$\$(?!\$)|\\\[([\s\S]{1,2000}?)\\\])/;
const INLINE = /^(?:\\\(([\s\S]{1,2000}?)\\\)|\$(?![\s$])((?:\\[^\n]|[^\\$`\n]){1,300}?)(?<!\s)\$(?![\p{L}\p{N}$]))/u;

/** A sign of TeX that no price and no name of a variable has. */
const SIGN = /[\\^_={}<>+]/;
const WORD = /(?<!\\\p{L}*)\p{L}{3}/u;

/** Return whether what stands between two single dollars is surely a formula. */
function isSure(tex: string): boolean {
  if (/^\d/.test(tex)) return /^[\d.,]+(?:\p{L}(?!\p{L})|\s*[\\^_])/u.test(tex) && !WORD.test(tex);
  return SIGN.test(tex) || (/^\p{L}/u.test(tex) && !WORD.test(tex));
}

let count = 0;

/** Begin another text. */
export function beginFormulas(): void {
  count = 0;
}

function token(raw: string, tex: string, kind: Pick<FormulaToken, "isBlock" | "isDisplayed">): FormulaToken | undefined {
  // Dollars around plain words mean what something costs.
  if (!tex.trim() || (raw.trimStart().startsWith("$$") && !SIGN.test(tex) && WORD.test(tex))) return undefined;
  count += 1;
  return count > MOST ? undefined : { type: "formula", raw, tex: tex.trim(), ...kind };
}

export const blockFormula: TokenizerExtension = {
  name: "formula",
  level: "block",
  start: (text) => {
    const at = text.search(/\n {0,3}(?:\$\$|\\\[)/);
    return at < 0 ? undefined : at + 1;
  },
  tokenizer(text) {
    const match = BLOCK.exec(text);
    return match ? token(match[0], match[1] ?? match[2]!, { isBlock: true, isDisplayed: true }) : undefined;
  },
};

export const inlineFormula: TokenizerExtension = {
  name: "formula",
  level: "inline",
  start: (text) => {
    const at = text.search(/\$|\\[([]/);
    return at < 0 ? undefined : at;
  },
  tokenizer(text, before: Token[]) {
    const displayed = DISPLAYED.exec(text);
    if (displayed) return token(displayed[0], displayed[1] ?? displayed[2]!, { isBlock: false, isDisplayed: true });
    const match = INLINE.exec(text);
    if (!match) return undefined;
    const [raw, tex, between] = match;
    // US$5 and a$b are no beginnings.
    if (between && (/[\p{L}\p{N}$]$/u.test(before.at(-1)?.raw ?? "") || !isSure(between))) return undefined;
    return token(raw, tex ?? between!, { isBlock: false, isDisplayed: false });
  },
};
