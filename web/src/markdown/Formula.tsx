// A formula, as KaTeX sets it: as it was written until that is there, and where it cannot be set.
import { useEffect, useMemo, useState } from "preact/hooks";
import { t } from "../texts/views";
import { isMarked } from "../views/conversation/found";
import type { FormulaToken } from "./formulas";

type Typeset = (tex: string, isDisplayed: boolean) => HTMLElement | undefined;
let typeset: Typeset | undefined;

export function Formula({ formula: { tex, raw, isBlock, isDisplayed } }: { formula: FormulaToken }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (typeset) return;
    void import("./mathematics").then((it) => { typeset = it.typeset; redraw(1); }, () => undefined);
  }, []);
  const set = useMemo(() => typeset?.(tex, isDisplayed), [tex, isDisplayed, typeset]);
  // Words that somebody looks for are marked where they can be read.
  const isShown = set && !isMarked(raw);
  if (!isShown) return isBlock ? <p class="text" dir="ltr">{raw.trimEnd()}</p> : <span dir="ltr">{raw}</span>;
  const into = (it: HTMLElement | null) => it?.replaceChildren(set);
  // Its comma stays with it: a word joiner allows no break.
  if (!isDisplayed) return <><span key="set" class="formula" dir="ltr" ref={into} />{"\u2060"}</>;
  return <span key="set" class="formula displayed" dir="ltr" role="group" aria-label={t.conversation.formula} tabIndex={0} ref={into} />;
}
