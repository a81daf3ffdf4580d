// The conversation view: its head, its transcript, and what belongs to it.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Role, Scope, type Conversation } from "@recollect/client";
import { conversations as calls } from "../../api/calls";
import { describe } from "../../api/errors";
import { may, onlyConversation } from "../../api/session";
import { generation, listen } from "../../live/connection";
import { onKey } from "../../keyboard";
import { link, navigate, permalink, route, setQuery } from "../../router";
import { archive, isPinned, NEW, pin } from "../../state/conversations";
import { openedActions } from "../../state/opened";
import { itemsFor } from "../../sidebar/items";
import { isReadOnly, partyOf, placeOf, RenameForm, nameOf } from "../../sidebar/Row";
import { draftsOf } from "../../state/drafts";
import { markSeen } from "../../state/unread";
import { t } from "../../texts/views";
import { channelIcon, Icon } from "../../ui/Icon";
import { useOpening } from "../../ui/focus";
import { copy } from "../../ui/Copy";
import { Menu, type MenuItem } from "../../ui/Menu";
import { tell } from "../../ui/Notice";
import { Empty, Failure, Loading } from "../../ui/States";
import { channelName } from "../../ui/text";
import { millis, shortTime } from "../../ui/time";
import { AgentDialog } from "./AgentDialog";
import { Composer } from "./Composer";
import { Details } from "./Details";
import { Find } from "./Find";
import { marks, place } from "./found";
import { Jump } from "./Jump";
import { Transcript, type TranscriptState } from "./transcript";
import { TranscriptList } from "./TranscriptList";
import "./conversation.css";

const chosen = () => route.value.path.split("/")[2] ?? "";
const turnOf = () => Number(route.value.query.get("turn") ?? 0) || 0;

/** A transcript that is being read since the page began, before anything could be shown. */
let prepared: Prepared | undefined;

interface Prepared {
  transcript: Transcript;
  generation: number;
  stopListening: () => void;
}

/** Begin to read the conversation that the address names. */
export function prepare(): void {
  const id = chosen();
  if (!id || id === NEW) return;
  const transcript = new Transcript(id);
  const stopListening = listen((update) => transcript.take(update));
  prepared = { transcript, generation: generation.value, stopListening };
  void transcript.open(turnOf());
}

/** Return what was prepared for a conversation, once. */
function takePrepared(id: string): Prepared | undefined {
  const it = prepared;
  prepared = undefined;
  it?.stopListening(); // who takes it listens from now on
  return it?.transcript.id === id ? it : undefined;
}

export default function ConversationView() {
  const id = chosen();
  if (id === NEW) return <Beginning />;
  return id ? <Opened key={id} id={id} /> : <Empty icon="chat" title={t.home.choose} />;
}

/** A conversation of which nothing is stored yet. */
function Beginning() {
  const mayBegin = may(Scope.CONVERSATIONS_WRITE) && !onlyConversation();
  useEffect(() => void (document.title = `${t.sidebar.unnamed} · ${t.app.name}`), []);
  if (!mayBegin) return <Empty icon="lock" title={t.app.notAllowed} />;
  return (
    <div class="conversation">
      <header class="view-header">
        <a class="quiet back" href={link("/")} aria-label={t.app.back}><Icon name="back" /></a>
        <div class="view-title"><h1>{t.sidebar.unnamed}</h1></div>
      </header>
      <div class="conversation-body">
        <div class="conversation-main">
          <p class="state">{t.conversation.begins}</p>
          <Composer />
        </div>
      </div>
    </div>
  );
}

/** How long an agent that has answered before may take until nobody seems to be there. */
const PATIENCE_MS = 2 * 60_000;
/** The same, while tools run. */
const TOOLS_MS = 30 * 60_000;

/** Return how many milliseconds are left until what was written on the page counts as unanswered;
 * undefined: it is answered, or being answered. */
function patienceWith({ conversation, messages, hasOlder, hasNewer }: TranscriptState): number | undefined {
  const last = messages.at(-1);
  if (!last || hasNewer || conversation?.channel !== "web" || draftsOf(conversation.id).length) return undefined;
  if (last.role === Role.ASSISTANT && !last.toolCalls.length) return undefined;
  if (!hasOlder && messages.every((it) => it.role === Role.USER)) return 0;
  return Math.max(0, millis(last.timestamp) + (last.role === Role.USER ? PATIENCE_MS : TOOLS_MS) - Date.now());
}

/** Says that nobody answers, and what would. */
function Unanswered({ shown }: { shown: TranscriptState }) {
  const [, look] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const left = patienceWith(shown);
  useEffect(() => {
    if (!left) return;
    const timer = setTimeout(() => look((it) => it + 1), left);
    return () => clearTimeout(timer);
  }, [left === undefined, shown.messages]);
  if (left !== 0) return null;
  const last = shown.messages.at(-1)!;
  const isFirst = shown.messages.every((it) => it.role === Role.USER);
  return (
    <p class="composer-note">
      <span>
        {isFirst && !shown.hasOlder ? t.conversation.unanswered : t.conversation.unansweredSince(shortTime(last.timestamp))}{" "}
        <button class="as-link" type="button" onClick={() => setOpen(true)}>{t.conversation.anAgent}</button>
      </span>
      {isOpen && <AgentDialog onClose={() => setOpen(false)} />}
    </p>
  );
}

/** Return what can be done to the conversation that is shown. */
function actionsOf(conversation: Conversation, rename: () => void): MenuItem[] {
  const { id, archived } = conversation;
  const isManaged = may(Scope.CONVERSATIONS_MANAGE);
  const failed = (error: unknown) => tell({ text: describe(error) });
  const manage: MenuItem[] = isManaged ? [
    { icon: "pencil", text: t.sidebar.rename, run: rename },
    {
      icon: archived ? "unarchive" : "archive", text: archived ? t.sidebar.unarchive : t.sidebar.archive,
      run: () => void archive(conversation, !archived).catch(failed),
    },
  ] : [];
  if (may(Scope.CONVERSATIONS_WRITE)) {
    const isOn = !isPinned(conversation);
    manage.push({ icon: "pin", text: isOn ? t.sidebar.pin : t.sidebar.unpin, run: () => void pin(conversation, isOn).catch(failed) });
  }
  return [
    ...manage,
    { icon: "copy", text: t.actions.copyMarkdown, run: () => void copyWhole(conversation).catch(failed) },
    { icon: "link", text: t.actions.copyLink, run: () => void copyAndSay(permalink(`/c/${id}`, {}), t.actions.linkCopied) },
    ...itemsFor(conversation),
  ];
}

async function copyWhole(conversation: Conversation): Promise<void> {
  const { FORMS, written } = await import("../../actions/transcripts");
  await copyAndSay(await written([conversation], FORMS["markdown"]!, new AbortController().signal, () => undefined), t.actions.copied);
}

async function copyAndSay(text: string, said: string): Promise<void> {
  if (await copy(text)) tell({ text: said });
}

/** Say that a conversation is left, so that notes are taken of it. */
function leave(conversation: Conversation | undefined): void {
  // One that goes on elsewhere is not left by who only looks at it.
  if (!conversation?.messageCount || isReadOnly(conversation) || !may(Scope.CONVERSATIONS_WRITE)) return;
  // Without an answer they are taken once it has been idle.
  calls.switch({ fromConversationId: conversation.id }).catch(() => undefined);
}

function Opened({ id }: { id: string }) {
  const begun = useMemo(() => takePrepared(id), [id]);
  const transcript = useMemo(() => begun?.transcript ?? new Transcript(id), [id]);
  const { isOpen: isRenaming, setOpen: setRenaming, button: pencil } = useOpening();
  const [isFinding, setFinding] = useState(false);
  const [menu, setMenu] = useState<HTMLElement>();
  useEffect(() => onKey("f", () => setFinding(true)), []);
  const readAt = useRef(begun?.generation);
  const target = turnOf();
  const shown = transcript.shown.value;
  const isPanelOpen = route.value.query.get("details") === "1";

  useLayoutEffect(() => {
    const end = listen((update) => transcript.take(update));
    return () => {
      end();
      transcript.close();
      leave(transcript.shown.peek().conversation);
    };
  }, [transcript]);
  useEffect(() => {
    // Read at once, and again when the stream stands: what changed in between is not passed on.
    if (readAt.current === generation.value) return;
    void (readAt.current === undefined ? transcript.open(target) : transcript.refresh());
    readAt.current = generation.value;
  }, [transcript, generation.value]);
  useEffect(() => {
    if (!target || shown.state !== "ready") return;
    const turns = shown.messages.map((it) => it.turnNumber);
    if (target < (turns[0] ?? 0) || target > (turns.at(-1) ?? 0)) void transcript.open(target);
  }, [target]);
  useEffect(() => {
    if (shown.conversation && !document.hidden) markSeen(shown.conversation);
    if (shown.conversation) document.title = `${nameOf(shown.conversation)} · ${t.app.name}`;
  }, [shown.conversation]);

  const doable = shown.conversation && shown.state === "ready" ? actionsOf(shown.conversation, () => setRenaming(true)) : [];
  useEffect(() => {
    const toggle = () => setQuery({ details: route.value.query.get("details") === "1" ? undefined : "1" });
    openedActions.value = doable.length ? [...doable, { icon: "panel", text: t.conversation.panel, run: toggle }] : [];
    return () => void (openedActions.value = []);
  }, [shown.conversation, shown.state]);

  if (shown.state === "loading") return <Loading />;
  if (shown.state === "failed") return <Failure error={shown.error} retry={() => void transcript.open(target)} />;
  if (shown.state === "missing") return <Empty icon="warning" title={t.conversation.missing} />;
  if (shown.state === "deleted") return <Empty icon="warning" title={t.conversation.deleted} />;
  const conversation = shown.conversation!;
  const party = partyOf(conversation);
  const mayRename = may(Scope.CONVERSATIONS_MANAGE);
  // Who selects a part of the title to copy it does not want to change it.
  const onTitle = () => document.getSelection()?.isCollapsed !== false && setRenaming(true);
  return (
    <div class="conversation">
      <header class="view-header">
        <a class="quiet back" href={link("/")} aria-label={t.app.back}><Icon name="back" /></a>
        <div class="view-title">
          {isRenaming ? (
            <RenameForm conversation={conversation} onEnd={() => setRenaming(false)} />
          ) : (
            <h1>
              <bdi class={mayRename ? "editable" : undefined} title={mayRename ? t.sidebar.rename : undefined} onClick={mayRename ? onTitle : undefined}>
                {nameOf(conversation)}
              </bdi>
              {mayRename && (
                <button ref={pencil} class="quiet" aria-label={t.sidebar.rename} title={t.sidebar.rename} onClick={() => setRenaming(true)}>
                  <Icon name="pencil" />
                </button>
              )}
            </h1>
          )}
          <p class="view-meta">
            <Icon name={channelIcon(conversation.channel)} />
            <span>{channelName(conversation.channel)}</span>
            {party && !conversation.name.startsWith(party) && <bdi>{party}</bdi>}
            <span>{t.sidebar.turns(conversation.turnCount)}</span>
            <span>{t.conversation.messages(Number(conversation.messageCount))}</span>
            {conversation.archived && <span class="badge" title={t.conversation.archivedHint}><Icon name="archive" />{t.conversation.archived}</span>}
            {conversation.unindexed && <span class="badge" title={t.conversation.unindexedHint}><Icon name="hidden" />{t.conversation.unindexed}</span>}
            {conversation.splitSuggestion && <span class="badge" title={conversation.splitSuggestion.reason}>{t.conversation.split}</span>}
            {shown.damaged > 0 && <span class="error">{t.conversation.damaged(shown.damaged)}</span>}
          </p>
        </div>
        <Jump transcript={transcript} go={(turn) => navigate(route.value.path, { ...Object.fromEntries(route.value.query), turn: String(turn) })} />
        <button
          class="quiet" aria-expanded={isFinding} aria-label={t.actions.find} title={t.actions.find}
          onClick={() => setFinding(!isFinding)}
        >
          <Icon name="search" />
        </button>
        <button
          class="quiet" aria-haspopup="menu" aria-label={t.actions.menu} title={t.actions.menu}
          onClick={(event) => setMenu(event.currentTarget)}
        >
          <Icon name="more" />
        </button>
        <button
          class="quiet" aria-expanded={isPanelOpen} aria-controls="details" aria-label={t.conversation.panel}
          title={t.conversation.panel} onClick={() => setQuery({ details: isPanelOpen ? undefined : "1" })}
        >
          <Icon name="panel" />
        </button>
      </header>
      {menu && (
        <Menu
          label={t.sidebar.menu(nameOf(conversation))} box={menu.getBoundingClientRect()} items={doable}
          onClose={() => {
            setMenu(undefined);
            menu.focus();
          }}
        />
      )}
      {isFinding ? <Find transcript={transcript} onClose={() => setFinding(false)} /> : <Searched />}
      <div class="conversation-body">
        <div class="conversation-main">
          <TranscriptList transcript={transcript} target={target} isMeant={route.value.query.get("by") === "meaning"} />
          <Unanswered shown={shown} />
          {isReadOnly(conversation) ? (
            <p class="composer-note"><Icon name="lock" />{t.conversation.readOnly(placeOf(conversation), channelName(conversation.channel))}</p>
          ) : may(Scope.CONVERSATIONS_WRITE) ? (
            <Composer conversation={conversation} />
          ) : (
            <p class="composer-note"><Icon name="lock" />{t.conversation.mayNotWrite}</p>
          )}
        </div>
        {isPanelOpen && <Details conversation={conversation} />}
      </div>
    </div>
  );
}

/** The words by which a search led here, as the address has them: they are marked until somebody closes it. */
function Searched() {
  const { query } = route.value;
  const of = (name: string) => query.get(name)?.split(" ").filter(Boolean) ?? [];
  const [words, meant] = [of("words"), of("meant")];
  const address = `${words.join(" ")}\n${meant.join(" ")}`;
  useEffect(() => {
    if (!words.length && !meant.length) return;
    marks.value = { phrase: "", words, meant };
    return () => void (marks.value = place.value = undefined);
  }, [address]);
  if (!words.length && !meant.length && query.get("by") !== "meaning") return null;
  const close = () => setQuery({ words: undefined, meant: undefined, by: undefined });
  return (
    <div class="find searched" role="status">
      {words.length > 0 && <span>{t.conversation.searched} {words.map((it) => <mark key={it}>{it}</mark>)}</span>}
      {meant.length > 0 && <span>{t.conversation.searchedMeant} {meant.map((it) => <mark key={it} class="meant">{it}</mark>)}</span>}
      {!words.length && !meant.length && <span>{t.conversation.searchedByMeaning}</span>}
      <button class="quiet" type="button" aria-label={t.conversation.unmark} title={t.conversation.unmark} onClick={close}><Icon name="close" /></button>
    </div>
  );
}
