// KaTeX, which the first formula loads.
import katex from "katex";
import "katex/dist/katex.css";

/** Characters of a formula that is set. */
const LONGEST = 2_000;
/** Elements of a formula, and how deep they lie in one another: a browser may not end laying out more. */
const MOST = 4_000;
const DEEPEST = 200;
/** Definitions, by which a short formula says a long one, and a box that needs a style in MathML, which the
 * content policy forbids. */
const REFUSED = /\\(?:[egx]?def|let|futurelet|(?:re)?newcommand|providecommand|global|long|fcolorbox)(?![a-zA-Z])/;
/** What has another name here, as it needs a style too. */
const MACROS = { "\\pmb": "\\boldsymbol" };

/** Return a formula as elements; undefined for one that is no TeX, or that could take long to set. */
export function typeset(tex: string, isDisplayed: boolean): HTMLElement | undefined {
  if (tex.length > LONGEST || REFUSED.test(tex)) return undefined;
  const element = document.createElement("span");
  try {
    // Nothing is trusted: no links, no pictures, no attributes. `maxSize` is in em.
    katex.render(tex, element, { displayMode: isDisplayed, macros: { ...MACROS }, maxExpand: 500, maxSize: 20, strict: "ignore", trust: false });
    return isLarge(element) ? undefined : element;
  } catch {
    return undefined; // no TeX, or nested deeper than the parser goes
  }
}

function isLarge(root: HTMLElement): boolean {
  let [level, count]: [Element[], number] = [[root], 0];
  for (let depth = 0; level.length; depth++) {
    count += level.length;
    if (depth > DEEPEST || count > MOST) return true;
    level = level.flatMap((it) => [...it.children]);
  }
  return false;
}
