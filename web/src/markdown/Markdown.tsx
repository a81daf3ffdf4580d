// A message's Markdown as elements. The parser gives tokens, and each becomes an element here:
// nothing that somebody wrote is ever read as HTML, and nothing is loaded from elsewhere.
import { lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren } from "preact";
import { t } from "../texts";
import { directionOf, oneLine } from "../ui/text";
import { Code } from "./Code";

/** Levels of nesting that are rendered; what lies deeper is shown as it was written. */
const DEEPEST = 16;
/** Characters of a text that is rendered: a longer one is shown as it was written. */
const LONGEST = 100_000;
const PROTOCOLS = new Set(["http:", "https:", "mailto:"]);

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{render(text)}</div>;
}

function render(text: string): ComponentChildren {
  if (text.length > LONGEST) return <p class="text" dir="auto">{text}</p>;
  let tokens: Token[];
  try {
    tokens = lexer(text, { gfm: true });
  } catch {
    return <p class="text" dir="auto">{text}</p>; // nested deeper than the parser goes
  }
  return all(tokens, 0);
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
      return null;
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
      const dir = directionOf(token.raw);
      // The number stands on the list's side; the text of an item may run the other way.
      const parts = items.map((it, index) => <li key={index}><div dir={directionOf(it.raw)}>{all(it.tokens, depth)}</div></li>);
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
      <a href={address.href} rel="noopener noreferrer nofollow" target="_blank" dir="auto">
        {link.type === "image" ? t.conversation.picture(label) : all(link.tokens, depth)}
      </a>
      {!isPlain && <span class="host"> ({place})</span>}
    </>
  );
}

/** Return the address of a link that leads to another place, of a kind that does nothing else. */
function addressOf(href: string): URL | undefined {
  try {
    const address = new URL(href);
    return PROTOCOLS.has(address.protocol) ? address : undefined;
  } catch {
    return undefined;
  }
}
