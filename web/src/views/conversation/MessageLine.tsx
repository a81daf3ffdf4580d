// One message of a transcript.
import { type Attachment, Role, Scope, type Conversation, type Message, type ToolCall } from "@recollect/client";
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../../actions/asked";
import { conversations } from "../../api/calls";
import { describe } from "../../api/errors";
import { may, onlyConversation } from "../../api/session";
import { change } from "../../live/connection";
import { navigate, permalink } from "../../router";
import { begun } from "../../state/conversations";
import { feedbackIn } from "../../state/feedback";
import { t } from "../../texts/views";
import { Copy } from "../../ui/Copy";
import { Icon, type IconName } from "../../ui/Icon";
import { tell } from "../../ui/Notice";
import { pretty } from "../../ui/json";
import { addressOf, Outside } from "../../ui/Outside";
import { dollars, oneLine, sizeOf } from "../../ui/text";
import { clockTime, dayOf, duration, fullTime, millis } from "../../ui/time";
import { Thumbs, WordForm } from "./Thumbs";
import { isMarked } from "./found";
import { givenFor, GivenList } from "./Given";
import { folded, linesIn } from "./logs";
import type { Line } from "./transcript";
import type { Draft } from "../../state/drafts";
import "./message.css";

/** Characters of one text that are shown before somebody asks for all of it. */
const SHOWN = 12_000;
const ARGUMENTS = 120;
/** Characters of the name of a model that are shown. */
const MODEL = 64;

/** The renderer of Markdown, which comes after the page itself. */
const markdown = signal<ComponentType<{ text: string }> | undefined>(undefined);
// Without it a text is shown as it was written.
void import("../../markdown/Markdown").then((it) => (markdown.value = it.Markdown), () => undefined);

interface LineProps {
  conversationId: string;
  /** Unset where nothing is done to it: in a result of a search. */
  conversation?: Conversation | undefined;
  line: Line;
  isTarget: boolean;
  /** Whether a search led to it that found none of its words. */
  isMeant?: boolean;
}

export function MessageLine({ conversationId, conversation, line, isTarget, isMeant = false }: LineProps) {
  const [isRaw, setRaw] = useState(false);
  const { message, results, opensTurn, opensDay } = line;
  const feedback = line.endsAnswer && conversation ? feedbackIn(conversation).find((it) => it.turn === message.turnNumber) : undefined;
  const mayGive = line.endsAnswer && conversation !== undefined && may(Scope.CONVERSATIONS_WRITE);
  const [isAsking, setAsking] = useState(false);
  const apart = keptApart(message);
  const given = message.role === Role.ASSISTANT ? givenFor(message) : undefined;
  const spent = message.role === Role.ASSISTANT ? spentOn(message, line.waited) : "";
  return (
    <>
      {opensDay && <p class="day"><span>{dayOf(message.timestamp)}</span></p>}
      <article class={`message ${ROLES[message.role]}`} data-opens={opensTurn} data-target={isTarget} data-sequence={String(message.sequence)}>
        <header>
          <span class="who"><bdi>{speaker(message)}</bdi></span>
          {opensTurn && <span class="turn">{t.conversation.turn(message.turnNumber)}</span>}
          {isMeant && <span class="badge" title={t.conversation.meantHint}>{t.conversation.meant}</span>}
          {spent && <span class="spent" title={t.conversation.spentHint}>{spent}</span>}
          <span class="message-actions">
            {mayGive && <Thumbs conversation={conversation} turn={message.turnNumber} feedback={feedback} onAsk={setAsking} />}
            {message.content && message.role !== Role.TOOL && (
              <button
                class="quiet" type="button" aria-pressed={isRaw} aria-label={t.conversation.raw} title={t.conversation.raw}
                onClick={() => setRaw(!isRaw)}
              >
                <Icon name="raw" />
              </button>
            )}
            {message.content && <Copy text={message.content} label={t.conversation.copyMessage} />}
            <Copy
              icon="link" label={t.conversation.copyLink}
              text={permalink(`/c/${conversationId}`, { turn: String(message.turnNumber) })}
            />
            {may(Scope.CONVERSATIONS_READ, Scope.CONVERSATIONS_WRITE) && !onlyConversation() && (
              <Action icon="fork" text={t.actions.fork} run={() => void fork(conversationId, message.turnNumber)} />
            )}
            {may(Scope.CONVERSATIONS_DELETE) && !message.redaction && (
              <Action icon="eraser" text={t.actions.redactItem} run={() => ask({ what: "redact", conversationId, message })} />
            )}
          </span>
          <time title={fullTime(message.timestamp)}>{clockTime(message.timestamp)}</time>
        </header>
        {apart && (
          <Fold icon="clip" title={apart.title} hint={apart.hint} note={apart.note} isWanted={isMarked(apart.text)}>
            <Text text={apart.text} isCode />
          </Fold>
        )}
        {message.thinkingText && !apart && (
          <Fold icon="thought" title={t.conversation.thinking} hint={oneLine(message.thinkingText.slice(0, ARGUMENTS))} isWanted={isMarked(message.thinkingText)}>
            <Text text={message.thinkingText} />
          </Fold>
        )}
        {given && (
          <Fold icon="panel" title={t.conversation.given} hint={t.conversation.givenHint(given.count, given.tokens)} isWanted={false}>
            <GivenList given={given} conversationId={conversationId} />
          </Fold>
        )}
        {message.role === Role.TOOL ? (
          <Fold
            icon="tool" title={t.conversation.result} hint={oneLine(message.content.slice(0, ARGUMENTS))}
            note={isFailed(message) ? t.conversation.failed : ""} isFailed={isFailed(message)} isWanted={isMarked(pretty(message.content))}
          >
            <Text text={pretty(message.content)} isCode />
          </Fold>
        ) : (
          message.content && <Text text={message.content} isRaw={isRaw} />
        )}
        {message.toolCalls.map((call) => <Call key={call.id} call={call} asked={message} result={results.get(call.id)} />)}
        {message.attachments.map((it) => <File file={it} />)}
        {isAsking && feedback && conversation ? (
          <WordForm conversation={conversation} feedback={feedback} onEnd={() => setAsking(false)} />
        ) : feedback?.word && (
          <p class="feedback-word"><Icon name={feedback.isGood ? "good" : "bad"} /><bdi>{oneLine(feedback.word)}</bdi></p>
        )}
      </article>
    </>
  );
}

/** Pictures that an address holds itself; none of these kinds runs anything. */
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,/i;

/** A file: a picture that the message holds, else where it is. */
function File({ file: { uri, mediaType, bytesLength } }: { file: Attachment }) {
  const place = addressOf(uri);
  const shown = oneLine(uri.slice(0, 200));
  return (
    <p class="attachment">
      <Icon name="clip" />
      <span>{t.conversation.attachment(oneLine(mediaType), bytesLength ? sizeOf(Number(bytesLength)) : "")}</span>
      {PICTURE.test(uri) ? <img src={uri} alt={t.conversation.picture("")} />
        : !place ? <bdi class="muted">{shown}</bdi>
        : <span><Outside href={place.href}>{shown}</Outside><span class="host muted"> ({place.host || place.pathname})</span></span>}
    </p>
  );
}

function Action({ icon, text, run }: { icon: IconName; text: string; run: () => void }) {
  return <button class="quiet" type="button" aria-label={text} title={text} onClick={run}><Icon name={icon} /></button>;
}

/** The key of `metadata` of messages that hold what is not to be shown as words: a part of a file of the message
 * before, or lines that only a toolkit reads. An adapter writes them as thinking, beside nothing else. */
const APART = "recollectPart";

/** Return what a message holds that nobody said, and what it is; undefined for any other message. */
function keptApart({ metadata, thinkingText, content }: Message): { title: string; hint: string; note: string; text: string } | undefined {
  const { [APART]: part, ...shapes } = metadata ?? {};
  if (typeof part !== "string" || content) return undefined;
  const [shape] = Object.values(shapes);
  if (typeof shape === "string") {
    return { title: t.conversation.ofProgram, hint: t.conversation.ofProgramHint, note: "", text: linesOf(shape) };
  }
  const [, at, of] = (parsed(part) ?? []) as unknown[];
  const note = typeof at === "number" && typeof of === "number" ? t.conversation.filePartOf(at + 1, of) : "";
  return { title: t.conversation.filePart, hint: "", note, text: thinkingText };
}

/** Return the lines of a toolkit that a shape holds: texts of JSON in an object of JSON. */
function linesOf(shape: string): string {
  const { shape: held } = (parsed(shape) ?? {}) as { shape?: unknown };
  const texts = Object.values(held ?? {}).filter((it): it is string => typeof it === "string");
  return (texts.length ? texts : [shape]).map(pretty).join("\n");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Begin a copy of a conversation up to a turn, and go there. */
async function fork(conversationId: string, throughTurn: number): Promise<void> {
  try {
    const { conversation } = await change(conversations.fork({ conversationId, throughTurn }));
    begun.id = conversation!.id;
    navigate(`/c/${conversation!.id}`);
    const back = async () => navigate(`/c/${conversationId}`, { turn: String(throughTurn) });
    tell({ text: t.actions.forked(throughTurn), action: { text: t.actions.original, run: back } });
  } catch (error) {
    tell({ text: describe(error) });
  }
}

export function DraftLine({ draft }: { draft: Draft }) {
  return (
    <article class="message assistant draft" data-draft={draft.id}>
      <header>
        <span class="who">{t.roles.assistant}</span>
        <span class="turn">{t.conversation.writing}</span>
      </header>
      <Text text={(draft.missing ? "…" : "") + draft.text} />
    </article>
  );
}

const ROLES: Record<number, string> = {
  [Role.USER]: "user", [Role.ASSISTANT]: "assistant", [Role.TOOL]: "tool",
};

export function speaker(message: Pick<Message, "role" | "sender"> & Partial<Pick<Message, "senderName">>): string {
  const name = oneLine(message.senderName || message.sender);
  if (name) return name;
  if (message.role === Role.USER) return t.roles.user;
  return message.role === Role.TOOL ? t.roles.tool : t.roles.assistant;
}

/** Return what is known of the model, the tokens, the cost and the time of an answer. */
function spentOn({ usage, cost, metadata }: Message, waited: number): string {
  const model = metadata?.["model"];
  const parts = [
    typeof model === "string" ? oneLine(model.slice(0, MODEL)) : "",
    usage ? t.conversation.tokens(Number(usage.input), Number(usage.output)) : "",
    cost === undefined ? "" : dollars(cost),
    took(waited),
  ];
  return parts.filter(Boolean).join(" · ");
}

/** Return how long something took; empty where it was stored with what came before it. */
function took(ms: number): string {
  return ms >= 50 ? duration(ms) : "";
}

function Call({ call, asked, result }: { call: ToolCall; asked: Message; result: Message | undefined }) {
  const waited = result ? millis(result.timestamp) - millis(asked.timestamp) : 0;
  const [shownArguments, shownResult] = [pretty(call.arguments), pretty(result?.content ?? "")];
  return (
    <Fold icon="tool" title={oneLine(call.name)} hint={oneLine(call.arguments.slice(0, ARGUMENTS))} note={result ? (isFailed(result) ? t.conversation.failed : "") : t.conversation.noResult} isFailed={!!result && isFailed(result)} time={took(waited)} isWanted={isMarked(shownArguments) || isMarked(shownResult)} isSought>
      <Text text={shownArguments} isCode />
      {result && (
        <div data-sequence={String(result.sequence)}>
          <p class="fold-label">{t.conversation.result}</p>
          <Text text={shownResult} isCode />
        </div>
      )}
    </Fold>
  );
}

/** How a tool that failed begins to say so. */
const FAILURE = /^\s*(?:Error\b|\w*(?:Error|Exception): |Traceback \(most recent call last\))/;

/** Return whether a tool failed: as whoever stored its result says, or as the result says itself. */
function isFailed({ metadata, content }: Message): boolean {
  if (metadata?.["isError"] === true || FAILURE.test(content.slice(0, ARGUMENTS))) return true;
  if (!content.trimStart().startsWith("{") || content.length > SHOWN) return false;
  try {
    const { error, isError, is_error } = JSON.parse(content) as Record<string, unknown>;
    return !!error || isError === true || is_error === true;
  } catch {
    return false;
  }
}

interface FoldProps {
  icon: "tool" | "thought" | "clip" | "panel";
  title: string;
  hint: string;
  note?: string;
  time?: string;
  isFailed?: boolean;
  /** Whether it has what somebody looks for. */
  isWanted: boolean;
  /** Whether its title is looked through too. */
  isSought?: boolean;
  children: preact.ComponentChildren;
}

function Fold({ icon, title, hint, note, time, isFailed = false, isWanted, isSought, children }: FoldProps) {
  const [isOpen, setOpen] = useState(isWanted);
  useEffect(() => void (isWanted && setOpen(true)), [isWanted]);
  return (
    <details class="fold" data-failed={isFailed} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" />
        <Icon name={isFailed ? "warning" : icon} />
        <bdi class="fold-title" data-text={isSought}>{title}</bdi>
        {!isOpen && <bdi class="fold-hint">{hint}</bdi>}
        {note && <em>{note}</em>}
        {time && <span class="fold-time muted">{time}</span>}
      </summary>
      {isOpen && <div class="fold-body">{children}</div>}
    </details>
  );
}

interface TextProps {
  text: string;
  isCode?: boolean;
  /** Whether it is shown as it was written. */
  isRaw?: boolean;
}

/** A text of somebody, as Markdown, which is never HTML. */
export function Text({ text, isCode = false, isRaw = false }: TextProps) {
  const Markdown = markdown.value;
  const [isWhole, setWhole] = useState(false);
  const shown = (isCode && !isWhole && folded(text)) || text;
  const isFolded = shown.length < text.length;
  const isCut = !isFolded && !isWhole && text.length > SHOWN && !isMarked(text.slice(SHOWN));
  return (
    <>
      {isCode ? (
        <figure class="code-block bare">
          <Copy text={text} label={t.app.copyCode} />
          <pre class="code" dir="auto" tabIndex={0} data-text>{isCut ? cut(text) : shown}</pre>
        </figure>
      ) : (
        <div class="said" data-text>{Markdown && !isRaw ? <Markdown text={isCut ? cut(text) : text} /> : <p class="text" dir="auto">{isCut ? cut(text) : text}</p>}</div>
      )}
      {isFolded && <button class="button" onClick={() => setWhole(true)}>{t.conversation.showLines(linesIn(text))}</button>}
      {isCut && (
        <button class="button" onClick={() => setWhole(true)}>{t.conversation.showAll(sizeOf(text.length))}</button>
      )}
    </>
  );
}

/** Return the beginning of a text, whole characters only. */
function cut(text: string): string {
  const code = text.charCodeAt(SHOWN - 1);
  return `${text.slice(0, code >= 0xd800 && code < 0xdc00 ? SHOWN - 1 : SHOWN)}…`;
}
