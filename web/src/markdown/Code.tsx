// A block of code: its language, a button that copies it, and its colours once they are there.
import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Copy } from "../ui/Copy";
import { t } from "../texts/views";
import { oneLine } from "../ui/text";
import { folded, linesIn } from "../views/conversation/logs";

/** Languages of blocks in which a program speaks. */
const LOGS = new Set(["", "console", "log", "logs", "output", "plaintext", "text", "txt"]);
/** Characters of code that are coloured. */
const LONGEST = 20_000;

type Colour = (text: string, language: string) => ComponentChildren;
let colour: Colour | undefined;

export function Code({ text, language }: { text: string; language: string }) {
  const [, redraw] = useState(0);
  const [isWhole, setWhole] = useState(false);
  const name = oneLine(language.trim().split(/[\s,{]/, 1)[0] ?? "").slice(0, 40);
  const isColoured = name !== "" && text.length <= LONGEST;
  useEffect(() => {
    if (!isColoured || colour) return;
    // Without its colours it is code as well.
    void import("./colours").then((it) => { colour = it.colour; redraw(1); }, () => undefined);
  }, [isColoured]);
  // What a program printed is folded, and what somebody wrote is not.
  const part = !isWhole && LOGS.has(name.toLowerCase()) ? folded(text) : undefined;
  return (
    <figure class="code-block">
      <figcaption>
        <bdi>{name}</bdi>
        <Copy text={text} label={t.app.copyCode} />
      </figcaption>
      <pre class="code" dir="auto" tabIndex={0}><code>{(isColoured && colour?.(text, name.toLowerCase())) || (part ?? text)}</code></pre>
      {part && <button class="button" onClick={() => setWhole(true)}>{t.conversation.showLines(linesIn(text))}</button>}
    </figure>
  );
}
