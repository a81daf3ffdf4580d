// A message's Markdown as elements. The parser gives tokens, and each becomes an element here:
// nothing that somebody wrote is ever read as HTML, and nothing is loaded from elsewhere.
import { Marked, type Token, type Tokens } from "marked";
import { type ComponentChildren, createContext } from "preact";
import { useContext, useMemo, useRef } from "preact/hooks";
import { t } from "../texts/views";
import { addressOf, Outside } from "../ui/Outside";
import { directionOf, oneLine } from "../ui/text";
import { Code } from "./Code";
import { Formula } from "./Formula";
import { beginFormulas, blockFormula, type FormulaToken, inlineFormula, mayHaveFormulas } from "./formulas";
import { footnote, type FootnoteToken, Notes, reference } from "./footnotes";

/** Levels of nesting that are rendered; what lies deeper is shown as it was written. */
const DEEPEST = 16;
/** Characters of a text that is rendered: a longer one is shown as it was written. */
const LONGEST = 100_000;
/** The marks of tasks, whose x is a letter of no word. */
const TASKS = /^\s*[-*+] \[[ xX]\]/gm;

const NOTES = [footnote, reference];
const FORMULAS = [blockFormula, inlineFormula];
const parser = new Marked({ gfm: true });
const withNotes = new Marked({ extensions: NOTES, gfm: true });
const withFormulas = new Marked({ extensions: FORMULAS, gfm: true });
const withBoth = new Marked({ extensions: [...NOTES, ...FORMULAS], gfm: true });

export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const tokens = useMemo(() => tokensOf(text), [text]);
  const notes = useMemo(() => new Notes(tokens ?? []), [tokens]);
  if (!tokens) return <div class="markdown"><p class="text" dir="auto">{text}</p></div>;
  const shown = <NotesContext.Provider value={{ notes, root }}>{all(tokens, 0)}</NotesContext.Provider>;
  return <div class="markdown" ref={root}>{shown}{notes.order.length > 0 && <Footnotes notes={notes} root={root} />}</div>;
}

/** Return the tokens of a text; undefined for one that is shown as it was written. */
function tokensOf(text: string): Token[] | undefined {
  if (text.length > LONGEST) return undefined;
  try {
    beginFormulas();
    const [hasNotes, hasFormulas] = [text.includes("[^"), mayHaveFormulas(text)];
    return (hasFormulas ? (hasNotes ? withBoth : withFormulas) : hasNotes ? withNotes : parser).lexer(text);
  } catch {
    return undefined; // nested deeper than the parser goes
  }
}

function all(tokens: Token[] | undefined, depth: number): ComponentChildren {
  return tokens?.map((it, index) => <Part key={index} token={it} depth={depth + 1} />);
}

/** One token. A kind that is not known is shown as it was written. */
function Part({ token, depth }: { token: Token; depth: number }): ComponentChildren {
  if (depth > DEEPEST) return token.raw;
  const { tokens } = token as Tokens.Generic;
  switch (token.type) {
    case "space":
    case "def":
    case "footnote":
      return null;
    case "reference":
      return <Reference label={(token as FootnoteToken).label} raw={token.raw} />;
    case "formula":
      return <Formula formula={token as FormulaToken} />;
    case "paragraph":
      return <p class="text" dir={directionOf(token.raw) ?? "auto"}>{all(tokens, depth)}</p>;
    case "heading":
      return <p class="text heading" dir={directionOf(token.raw) ?? "auto"} data-level={(token as Tokens.Heading).depth}>{all(tokens, depth)}</p>;
    case "blockquote":
      return <blockquote dir={directionOf(token.raw)}>{all(tokens, depth)}</blockquote>;
    case "hr":
      return <hr />;
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return <Code text={text} language={lang ?? ""} />;
    }
    case "list": {
      const { items, ordered, start } = token as Tokens.List;
      const dir = directionOf(token.raw.replace(TASKS, ""));
      // The number stands on the list's side; the text of an item may run the other way.
      const parts = items.map((it, index) => <li key={index} class={it.task ? "task" : undefined}><div dir={directionOf(it.raw.replace(TASKS, ""))}>{all(it.tokens, depth)}</div></li>);
      if (!ordered) return <ul dir={dir}>{parts}</ul>;
      const first = Number(start) || 1;
      const digits = String(first + items.length - 1).length;
      return <ol dir={dir} start={first} style={digits > 2 ? { paddingInlineStart: `${digits + 2}ch` } : undefined}>{parts}</ol>;
    }
    case "checkbox":
      return (token as Tokens.Checkbox).checked ? "☑ " : "☐ ";
    case "table":
      return <Table table={token as Tokens.Table} depth={depth} />;
    case "strong":
      return <strong>{all(tokens, depth)}</strong>;
    case "em":
      return <em>{all(tokens, depth)}</em>;
    case "del":
      return <del>{all(tokens, depth)}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return "\n";
    case "escape":
      return (token as Tokens.Escape).text;
    case "link":
      return <Link link={token as Tokens.Link} depth={depth} />;
    case "image":
      return <Link link={token as Tokens.Image} depth={depth} />;
    case "text":
      return tokens ? all(tokens, depth) : (token as Tokens.Text).text;
    case "html":
      return (token as Tokens.HTML).block ? <p class="text" dir="auto">{token.raw.trimEnd()}</p> : token.raw;
    default:
      return token.raw;
  }
}

/** The notes of the text that is shown, and the element that shows it. */
const NotesContext = createContext<{ notes: Notes; root: { current: HTMLElement | null } } | undefined>(undefined);

/** Focus what leads to a note, or a note; the address stays as it is. */
function focusIn(root: { current: HTMLElement | null }, name: string, event: Event): void {
  event.preventDefault();
  const element = root.current?.querySelector<HTMLElement>(`[data-note="${name}"]`);
  element?.scrollIntoView({ block: "nearest" });
  element?.focus({ preventScroll: true });
}

function Reference({ label, raw }: { label: string; raw: string }) {
  const { notes, root } = useContext(NotesContext)!;
  const number = notes.numberOf(label);
  if (!number) return <>{raw}</>;
  return (
    <sup>
      <a href="#footnote" role="doc-noteref" data-note={`to-${number}`} aria-label={t.conversation.footnote(number)} onClick={(event) => focusIn(root, String(number), event)}>
        {number}
      </a>
    </sup>
  );
}

function Footnotes({ notes, root }: { notes: Notes; root: { current: HTMLElement | null } }) {
  return (
    <ol class="footnotes" aria-label={t.conversation.footnotes}>
      {notes.order.map((it, index) => (
        <li key={it.label} data-note={index + 1} tabIndex={-1}>
          <div dir={directionOf(it.raw.slice(it.raw.indexOf(":")))}>{all(it.tokens, 0)}</div>{" "}
          <a href="#text" role="doc-backlink" aria-label={t.conversation.toText} onClick={(event) => focusIn(root, `to-${index + 1}`, event)}>↩</a>
        </li>
      ))}
    </ol>
  );
}

function Table({ table, depth }: { table: Tokens.Table; depth: number }) {
  const dir = directionOf(table.raw);
  const cell = (it: Tokens.TableCell) => ({
    dir: directionOf(it.text),
    // Who asks for the left means where the table begins.
    style: it.align ? { textAlign: it.align === "center" ? "center" : (it.align === "left") === (dir !== "rtl") ? "left" : "right" } : undefined,
  });
  return (
    <div class="table" dir={dir} tabIndex={0} role="region" aria-label={t.conversation.table}>
      <table>
        <thead>
          <tr>{table.header.map((it, index) => <th key={index} {...cell(it)}>{all(it.tokens, depth)}</th>)}</tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at}>{row.map((it, index) => <td key={index} {...cell(it)}>{all(it.tokens, depth)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A link with the host that it leads to, unless its text says so. A picture is a link to it. */
function Link({ link, depth }: { link: Tokens.Link | Tokens.Image; depth: number }) {
  const address = addressOf(link.href);
  if (!address) return <>{link.raw}</>;
  const label = oneLine(link.text);
  const place = address.protocol === "mailto:" ? address.pathname : address.host;
  const shown = label.replace(/^https?:\/\//i, "");
  const isPlain = shown === place || shown.startsWith(`${place}/`);
  return (
    <>
      <Outside href={address.href}>{link.type === "image" ? t.conversation.picture(label) : all(link.tokens, depth)}</Outside>
      {!isPlain && <span class="host"> ({place})</span>}
    </>
  );
}
