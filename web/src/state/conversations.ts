// The list of conversations: pages from the server, changed by the live updates. Both may tell of
// the same change; taking it in twice has no effect.
import { batch, effect, signal } from "@preact/signals";
import { ArchiveFilter, RecollectError, type Conversation, type Update } from "@recollect/client";
import { conversations as calls } from "../api/calls";
import { isCancelled, violationOf } from "../api/errors";
import { change, connections, generation, listen } from "../live/connection";
import { route } from "../router";
import { t } from "../texts";
import { chosen } from "./chosen";
import { tell } from "../ui/Notice";
import { oneLine } from "../ui/text";
import { millis } from "../ui/time";

const PAGE = 50;
/** The most that a page of the whole list may have. */
const LARGE_PAGE = 500;

export interface Filters {
  channel: string;
  name: string;
  topic: string;
  archived: boolean;
}

export interface ListState {
  items: Conversation[];
  state: "loading" | "ready" | "failed";
  error?: unknown;
  hasMore: boolean;
}

export const list = signal<ListState>({ items: [], state: "loading", hasMore: false });

/** Conversations in which an answer is being written now, by id. */
export const writing = signal<ReadonlySet<string>>(new Set());

/** Stands for a conversation that begins with its first message. */
export const NEW = "new";

/** The conversation that was begun last, until it is shown. */
export const begun = { id: "" };

let filters: Filters = readFilters();
let nextPage = "";
let loading: AbortController | undefined;
/** Whether the page that is on its way is another than the first. */
let isMoreOnItsWay = false;
/** Whether the next page was asked for while one was on its way. */
let isMoreWanted = false;
/** Updates that came while a page was on its way: the page may be older than they are. */
let meanwhile: Update[] = [];

/** The key of `metadata` that says that a person pinned a conversation to the top of the list. `pinned` itself
 * says which one a contact's messages join. */
const PIN = "page.pinned";

/** Return whether a conversation stands at the top of the list. */
export function isPinned({ metadata }: Conversation): boolean {
  return metadata?.[PIN] !== undefined;
}

/** Pin a conversation to the top of the list, or take it from there. */
export async function pin(conversation: Conversation, isOn: boolean): Promise<void> {
  await change(calls.updateMetadata({ conversationId: conversation.id, metadata: { [PIN]: isOn || null } }));
}

/** Return the sidebar's filters, as the address has them. */
export function readFilters(): Filters {
  const query = route.value.query;
  return {
    channel: query.get("on") ?? "",
    name: query.get("named") ?? "",
    topic: query.get("about") ?? "",
    archived: query.get("archived") === "1",
  };
}

/** Return a conversation that is in the list. */
export function known(id: string): Conversation | undefined {
  return list.value.items.find((it) => it.id === id);
}

/** Read the first page anew, and behind it the next one if that was on its way or wanted. */
export async function loadFirst(): Promise<void> {
  // The list stays at its end, as long as before, and asks no second time.
  isMoreWanted ||= isMoreOnItsWay;
  nextPage = "";
  await loadPage(true);
}

/** Read the next page, if there is one: after the one that is on its way. */
export async function loadMore(): Promise<void> {
  if (loading) isMoreWanted = true;
  else if (nextPage) await loadPage(false);
}

async function loadPage(isFirst: boolean): Promise<void> {
  loading?.abort();
  const own = (loading = new AbortController());
  isMoreOnItsWay = !isFirst;
  meanwhile = [];
  try {
    const [page, pins] = await Promise.all([
      calls.list(requestFor(PAGE, nextPage), { signal: own.signal }),
      isFirst ? calls.list({ ...requestFor(LARGE_PAGE, ""), metadataKey: PIN }, { signal: own.signal }) : undefined,
    ]);
    nextPage = page.nextPageToken;
    const items = merged(pins?.conversations ?? list.peek().items, page.conversations);
    batch(() => {
      list.value = { items, state: "ready", hasMore: nextPage !== "" };
      meanwhile.forEach(take);
    });
  } catch (error) {
    if (isCancelled(error)) return;
    const items = isFirst && list.peek().state === "loading" ? [] : list.peek().items;
    list.value = { items, state: "failed", error, hasMore: nextPage !== "" };
  } finally {
    if (loading === own) {
      loading = undefined;
      isMoreOnItsWay = false;
      meanwhile = [];
      if (isMoreWanted) {
        isMoreWanted = false;
        void loadMore();
      }
    }
  }
}

/** Return every conversation that the filters let through, and not only those that were scrolled to. */
export async function readAll(signal: AbortSignal): Promise<Conversation[]> {
  const all = new Map<string, Conversation>();
  for (let token: string | undefined = ""; token !== undefined; ) {
    const page = await calls.list(requestFor(LARGE_PAGE, token), { signal });
    for (const it of page.conversations) all.set(it.id, it);
    token = page.nextPageToken || undefined;
  }
  return [...all.values()];
}

function requestFor(pageSize: number, pageToken: string) {
  return {
    pageSize,
    pageToken,
    channels: filters.channel ? [filters.channel] : [],
    query: filters.name,
    topics: filters.topic ? [filters.topic] : [],
    archived: filters.archived ? ArchiveFilter.ARCHIVED : ArchiveFilter.UNSPECIFIED,
  };
}

/** Take in a conversation as it is now. */
export function upsert(conversation: Conversation): void {
  const { items, ...rest } = list.peek();
  const others = items.filter((it) => it.id !== conversation.id);
  if (passes(conversation)) others.splice(place(others, conversation), 0, conversation);
  list.value = { ...rest, items: others };
}

/** Archive a conversation or take it out of the archive, and offer to undo that. */
export async function archive(conversation: Conversation, isOn: boolean): Promise<Conversation> {
  const answer = await change(calls.archive({ conversationId: conversation.id, unarchive: !isOn }));
  const now = answer.conversation!;
  const name = oneLine(now.name) || t.sidebar.unnamed;
  const undo = { text: t.sidebar.undo, run: () => archive(now, !isOn) };
  tell({ text: isOn ? t.sidebar.archivedNow(name) : t.sidebar.unarchivedNow(name), action: undo });
  return now;
}

/** Set the topics of a conversation, as somebody typed them. */
export async function changeTopics(conversation: Conversation, names: readonly string[]): Promise<Conversation> {
  const labels = names.map((it) => it.trim().toLowerCase().replace(/[\s_]+/g, "-"));
  const topics = [...new Set(labels.filter(Boolean))];
  const call = calls.setTopics({ conversationId: conversation.id, topics });
  const answer = await change(call).catch((error: unknown) => {
    // The rule speaks of one topic, and leaves out which field it is about.
    const isRule = error instanceof RecollectError && error.violations.length > 0;
    throw isRule ? new Error(t.sidebar.topicWrong(violationOf(error))) : error;
  });
  return answer.conversation!;
}

/** Set the topics of a conversation, as somebody typed them: separated by commas. */
export function setTopics(conversation: Conversation, text: string): Promise<Conversation> {
  return changeTopics(conversation, text.split(/[,;\n]/));
}

function passes(conversation: Conversation): boolean {
  const { channel, name, topic, archived } = filters;
  return (
    conversation.archived === archived &&
    (!channel || conversation.channel === channel) &&
    (!topic || conversation.topics.includes(topic)) &&
    (!name || conversation.name.toLowerCase().includes(name.toLowerCase()))
  );
}

/** Compare two conversations by the order of the list: those that are pinned, then the newest message first. */
function byPlace(a: Conversation, b: Conversation): number {
  return Number(isPinned(b)) - Number(isPinned(a)) || millis(b.updateTime) - millis(a.updateTime) || (a.id < b.id ? 1 : -1);
}

/** Return where a conversation stands among others. */
function place(items: Conversation[], conversation: Conversation): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (byPlace(items[middle]!, conversation) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Put a page behind the list. Updates may have brought older conversations than the page has. */
function merged(items: Conversation[], more: Conversation[]): Conversation[] {
  const ids = new Set(items.map((it) => it.id));
  return [...items, ...more.filter((it) => !ids.has(it.id))].sort(byPlace);
}

function take(update: Update): void {
  const id = update.conversationId;
  const old = known(id);
  switch (update.kind.case) {
    case "conversationCreated":
    case "conversationUpdated":
    case "messagesRedacted":
      if (update.kind.value.conversation) upsert(update.kind.value.conversation);
      break;
    case "conversationRenamed": {
      const { title, manuallyNamed, topics } = update.kind.value;
      if (old) upsert({ ...old, name: title, title, manuallyNamed, topics });
      break;
    }
    case "conversationAbbreviated": {
      const { abbreviation, topics } = update.kind.value;
      if (old) upsert({ ...old, abbreviation, topics });
      break;
    }
    case "conversationDeleted": {
      const { items, ...rest } = list.peek();
      list.value = { ...rest, items: items.filter((it) => it.id !== id) };
      chosen.drop(id);
    }
  }
}

function takeWriting({ conversationId, kind }: Update): void {
  if (kind.case === "messageDelta") setWriting(conversationId, !kind.value.dropped);
  else if (kind.case === "conversationDeleted") setWriting(conversationId, false);
  else if (kind.case === "conversationUpdated" && kind.value.messages.length) setWriting(conversationId, false);
}

function setWriting(id: string, isOn: boolean): void {
  if (writing.peek().has(id) === isOn) return;
  const next = new Set(writing.peek());
  if (isOn) next.add(id);
  else next.delete(id);
  writing.value = next;
}

/** Keep the list current from now on. */
export function keepList(): void {
  listen((update) => {
    if (loading && update.kind.case !== "messageDelta") meanwhile.push(update);
    take(update);
    takeWriting(update);
  });
  effect(() => {
    // What is still being written comes again, as in drafts.ts.
    if (generation.value + connections.value) writing.value = new Set();
  });
  effect(() => {
    const now = readFilters();
    // Read at once, and again when the stream stands: what changed in between is not passed on.
    const isNew = keptGeneration !== generation.value;
    const isOther = JSON.stringify(now) !== JSON.stringify(filters);
    filters = now;
    keptGeneration = generation.value;
    if (isOther) list.value = { items: [], state: "loading", hasMore: false };
    if (isNew || isOther) void loadFirst();
  });
}

let keptGeneration = -1;
