// The list of conversations: newest first, live, as far down as somebody scrolls.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Scope, type Conversation } from "@recollect/client";
import { describe } from "../api/errors";
import { may, onlyConversation } from "../api/session";
import { onKey, shortcutsOn } from "../keyboard";
import { link, navigate, route, setQuery } from "../router";
import { archive, begun, isPinned, list, loadFirst, loadMore, NEW, pin, readFilters, writing } from "../state/conversations";
import { chosen } from "../state/chosen";
import { isNarrow } from "../state/theme";
import { t } from "../texts";
import { Icon } from "../ui/Icon";
import { Menu, type MenuItem } from "../ui/Menu";
import { Empty, Failure, Loading } from "../ui/States";
import { channelName } from "../ui/text";
import { daysAgo, millis } from "../ui/time";
import { useTyping } from "../ui/typing";
import { maySee, viewOf } from "../views/registry";
import { VirtualList, type Virtual } from "../ui/VirtualList";
import { FirstLines } from "./FirstLines";
import { itemsFor } from "./items";
import { type Editing, Row, nameOf } from "./Row";

const ROW = 56;
const HEADING = 32;
const ACTIVE_MS = 10 * 60_000;

type Line = { heading: string } | { conversation: Conversation; position: number };

export function Sidebar() {
  const { items, state, error, hasMore } = list.value;
  const filters = readFilters();
  const [focused, setFocused] = useState<string>();
  const [editing, setEditing] = useState<{ id: string; what: Editing }>();
  const [pointed, setPointed] = useState<string>();
  const [menu, setMenu] = useState<{ id: string; box: DOMRect }>();
  const [problem, setProblem] = useState<string>();
  const choice = chosen.shown.value;
  const virtual = useRef<Virtual | null>(null);
  // The list holds still while a row is edited: who types would see the row go, and keys with it.
  const still = useRef<string[] | undefined>();
  const isEditing = items.some((it) => it.id === editing?.id);
  still.current = isEditing ? still.current ?? items.map((it) => it.id) : undefined;
  const byId = new Map(items.map((it) => [it.id, it]));
  const standing = still.current?.flatMap((id) => byId.get(id) ?? []) ?? items;
  const lines = withHeadings(standing);
  const selected = route.value.path.match(/^\/c\/([^/]+)/)?.[1];
  const managed = menu && items.find((it) => it.id === menu.id);
  const tabStop = [focused, selected].find((id) => id && items.some((it) => it.id === id)) ?? items[0]?.id;

  /** Return the row that Tab goes to, of those that the page holds: it holds what is on the screen. */
  const stopOnScreen = () => {
    const ids = virtual.current!.getVirtualItems().flatMap(({ index }) => {
      const line = lines[index];
      return line && "conversation" in line ? [line.conversation.id] : [];
    });
    return [focused, selected].find((id) => id && ids.includes(id)) ?? ids[0];
  };
  const create = () => {
    const empty = items.find((it) => it.channel === "web" && !it.messageCount && !it.title && !it.archived && !it.pinned);
    begun.id = empty?.id ?? NEW;
    navigate(`/c/${begun.id}`);
  };
  const mayManage = may(Scope.CONVERSATIONS_MANAGE);
  const focusRow = (id: string) => requestAnimationFrame(() => document.getElementById(`row-${id}`)?.focus());
  /** Archive a conversation, or take it out, and go on with the one that takes its place. */
  const changeArchive = (conversation: Conversation) => {
    setProblem(undefined);
    const at = items.indexOf(conversation);
    const next = items[at + 1] ?? items[at - 1];
    archive(conversation, !conversation.archived).then(
      () => {
        setFocused(next?.id);
        if (next) focusRow(next.id);
      },
      (failure: unknown) => setProblem(describe(failure)),
    );
  };
  const changePin = (conversation: Conversation) => {
    setProblem(undefined);
    pin(conversation, !isPinned(conversation)).then(
      () => focusRow(conversation.id),
      (failure: unknown) => setProblem(describe(failure)),
    );
  };
  useEffect(() => {
    const at = lines.findIndex((it) => "conversation" in it && it.conversation.id === selected);
    if (at >= 0) virtual.current?.scrollToIndex(at); // as little as needed
  }, [selected, state]);
  const mayCreate = may(Scope.CONVERSATIONS_WRITE) && !onlyConversation();
  useEffect(() => (mayCreate ? onKey("n", create) : undefined), [mayCreate]);

  const moveTo = (index: number, by: number) => {
    while (lines[index] && !("conversation" in lines[index]!)) index += by;
    const line = lines[index];
    if (!line || !("conversation" in line)) return;
    setFocused(line.conversation.id);
    virtual.current?.scrollToIndex(index);
    focusRow(line.conversation.id);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (editing || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = lines.findIndex((it) => "conversation" in it && it.conversation.id === tabStop);
    const moves: Record<string, [number, number]> = {
      ArrowDown: [at + 1, 1], ArrowUp: [at - 1, -1], Home: [0, 1], End: [lines.length - 1, -1],
      PageDown: [Math.min(at + 8, lines.length - 1), -1], PageUp: [Math.max(at - 8, 0), 1],
    };
    const move = moves[event.key];
    if (move) moveTo(...move);
    else if (tabStop && mayManage && event.key === "F2") setEditing({ id: tabStop, what: "title" });
    else if (tabStop && mayManage && shortcutsOn.value && event.key === "t") setEditing({ id: tabStop, what: "topics" });
    else if (tabStop && shortcutsOn.value && event.key === "x") chosen.toggle(items.find((it) => it.id === tabStop)!);
    else if (tabStop && mayManage && shortcutsOn.value && event.key === "a") changeArchive(items.find((it) => it.id === tabStop)!);
    else if (tabStop && may(Scope.CONVERSATIONS_WRITE) && shortcutsOn.value && event.key === "p") changePin(items.find((it) => it.id === tabStop)!);
    else return;
    event.preventDefault();
  };

  return (
    <section class="conversations" aria-label={t.sidebar.title}>
      <h2 class="hidden">{t.sidebar.title}</h2>
      <FilterBar>
        <button
          class="quiet list-choose" aria-pressed={!!choice} title={t.sidebar.choose} aria-label={t.sidebar.choose}
          onClick={() => chosen.set(choice ? undefined : [])}
        >
          <Icon name="choose" />
        </button>
        {mayImport() && (
          <a class="quiet list-import" href={link("/import")} title={t.nav.import} aria-label={t.nav.import}><Icon name="upload" /></a>
        )}
        {mayCreate && (
          <button class="quiet list-create" title={t.sidebar.create} aria-label={t.sidebar.create} onClick={create}>
            <Icon name="plus" />
          </button>
        )}
      </FilterBar>
      {problem && <p class="error" role="alert">{problem}</p>}
      {state === "loading" && <Loading />}
      {state === "failed" && <Failure level="p" error={error} retry={() => void loadFirst()} />}
      {state === "ready" && items.length === 0 && (
        <Empty icon="chat" level="p" title={isFiltered(filters) ? t.sidebar.noMatch : t.sidebar.none}>
          {isFiltered(filters) ? (
            <button class="button" onClick={clearFilters}>{t.sidebar.clear}</button>
          ) : (
            <>
              <p>{t.sidebar.noneHint}</p>
              {isNarrow.value && mayCreate && <button class="button primary" onClick={create}><Icon name="plus" />{t.sidebar.create}</button>}
              {mayImport() && <a class="button" href={link("/import")}><Icon name="upload" />{t.nav.import}</a>}
              {isNarrow.value && <FirstLines />}
            </>
          )}
        </Empty>
      )}
      {items.length > 0 && (
        <VirtualList
          class="list"
          data-list
          tabIndex={-1}
          onKeyDown={onKeyDown}
          onPointerOver={(event) => event.pointerType === "mouse" && setPointed(rowAt(event))}
          onPointerLeave={() => setPointed(undefined)}
          virtualRef={virtual}
          overscan={2}
          count={lines.length}
          listRole="list"
          listLabel={t.sidebar.title}
          estimate={(index) => ("heading" in lines[index]! ? HEADING : ROW)}
          keyOf={(index) => {
            const line = lines[index]!;
            return "heading" in line ? line.heading : line.conversation.id;
          }}
          onRange={(_, last) => {
            if (hasMore && last >= lines.length - 10) void loadMore();
          }}
          render={({ index }) => {
            const line = lines[index]!;
            if ("heading" in line) return <div class="list-group" role="presentation">{line.heading}</div>;
            const { conversation, position } = line;
            return (
              <Row
                conversation={conversation}
                position={position}
                total={hasMore ? -1 : items.length}
                isSelected={conversation.id === selected}
                isTabStop={conversation.id === stopOnScreen()}
                editing={conversation.id === editing?.id ? editing.what : undefined}
                isChosen={choice && choice.has(conversation.id)}
                hasMenu={!choice && (conversation.id === tabStop || conversation.id === pointed)}
                onFocus={() => setFocused(conversation.id)}
                onMenu={(box) => setMenu({ id: conversation.id, box })}
                onEdit={(what) => {
                  setEditing(what && { id: conversation.id, what });
                  if (!what) focusRow(conversation.id);
                }}
              />
            );
          }}
        />
      )}
      {menu && managed && (
        <Menu
          label={t.sidebar.menu(nameOf(managed))}
          box={menu.box}
          onClose={() => {
            setMenu(undefined);
            focusRow(menu.id);
          }}
          items={[
            ...(mayManage ? [
              { icon: "pencil", text: t.sidebar.rename, key: "F2", run: () => setEditing({ id: menu.id, what: "title" }) },
              { icon: "tag", text: t.sidebar.topics, key: "t", run: () => setEditing({ id: menu.id, what: "topics" }) },
              {
                icon: managed.archived ? "unarchive" : "archive", text: managed.archived ? t.sidebar.unarchive : t.sidebar.archive,
                key: "a", run: () => changeArchive(managed),
              },
            ] satisfies MenuItem[] : []),
            ...(may(Scope.CONVERSATIONS_WRITE) ? [
              { icon: "pin", text: isPinned(managed) ? t.sidebar.unpin : t.sidebar.pin, key: "p", run: () => changePin(managed) },
            ] satisfies MenuItem[] : []),
            ...itemsFor(managed),
          ]}
        />
      )}
      {choice && late.value && <late.value.Choice chosen={[...choice.values()]} list={list.value} />}
    </section>
  );
}

/** Return the id of the conversation that the pointer is at. */
function rowAt(event: Event): string | undefined {
  return (event.target as Element).closest<HTMLElement>("[data-row]")?.dataset["row"];
}

const CHANNELS = ["web", "whatsapp", "email", "discord", "cli"];

/** Parts that come after the list. */
const late = signal<typeof import("./late") | undefined>(undefined);

/** The filter by name, with what can be done to the list beside it, and behind a button the other filters. */
function FilterBar({ children }: { children: ComponentChildren }) {
  const filters = readFilters();
  const isMore = !!(filters.channel || filters.topic || filters.archived);
  const [isOpen, setOpen] = useState(isMore);
  useEffect(() => void (isMore && setOpen(true)), [isMore]); // it stays when the last one is taken back
  const isReady = list.value.state === "ready";
  useEffect(() => {
    if (isReady) void import("./late").then((it) => (late.value = it), () => undefined);
  }, [isReady]);
  const [name, setName] = useTyping(filters.name, (text) => setQuery({ named: text || undefined }));
  const channels = new Set([...CHANNELS, ...list.value.items.slice(0, 200).map((it) => it.channel)]);
  if (filters.channel) channels.add(filters.channel);
  return (
    <div class="filter-bar">
      <input
        type="search" aria-label={t.sidebar.filter} placeholder={t.sidebar.filter} maxLength={256} value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button
        class="quiet filter-more" aria-expanded={isMore || isOpen} title={t.sidebar.moreFilters} aria-label={t.sidebar.moreFilters}
        disabled={isMore} onClick={() => setOpen(!isOpen)}
      >
        <Icon name="filter" />
      </button>
      {children}
      {(isMore || isOpen) && (
        <div class="filter-others">
          <select aria-label={t.sidebar.channel} value={filters.channel} onChange={(event) => setQuery({ on: event.currentTarget.value || undefined })}>
            <option value="">{t.sidebar.allChannels}</option>
            {[...channels].map((it) => <option key={it} value={it}>{channelName(it)}</option>)}
          </select>
          {late.value && !onlyConversation() && <late.value.TopicFilter />}
          <label class="check">
            <input
              type="checkbox" checked={filters.archived}
              onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "1" : undefined })}
            />
            {t.sidebar.archived}
          </label>
        </div>
      )}
    </div>
  );
}

/** Return whether the caller may import a file, and this page offers it. */
function mayImport(): boolean {
  const view = viewOf("/import");
  return !!view && maySee(view);
}

function isFiltered(filters: ReturnType<typeof readFilters>): boolean {
  return !!(filters.channel || filters.name || filters.topic || filters.archived);
}

function clearFilters(): void {
  setQuery({ on: undefined, named: undefined, about: undefined, archived: undefined });
}

/** Return the lines of the list: conversations under headings by their age. */
function withHeadings(items: Conversation[]): Line[] {
  const lines: Line[] = [];
  let last = "";
  const now = Date.now();
  items.forEach((conversation, index) => {
    const heading = group(conversation, now);
    if (heading !== last) lines.push({ heading });
    last = heading;
    lines.push({ conversation, position: index + 1 });
  });
  return lines;
}

function group(conversation: Conversation, now: number): string {
  const names = t.sidebar.groups;
  if (isPinned(conversation)) return names.pinned;
  const isActive = now - millis(conversation.updateTime) < ACTIVE_MS || writing.value.has(conversation.id);
  if (isActive) return names.active;
  const days = daysAgo(conversation.updateTime, now);
  if (days <= 0) return names.today;
  if (days === 1) return names.yesterday;
  return days < 7 ? names.week : names.earlier;
}
