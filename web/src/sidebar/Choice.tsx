// The bar below the list while somebody chooses several conversations.
import { Scope, type Conversation } from "@recollect/client";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../actions/asked";
import { conversations as calls } from "../api/calls";
import { describe } from "../api/errors";
import { may } from "../api/session";
import { change } from "../live/connection";
import { chosen } from "../state/chosen";
import { type ListState, readAll, readFilters } from "../state/conversations";
import { t } from "../texts/views";
import { Icon } from "../ui/Icon";
import type { MenuItem } from "../ui/Menu";
import { tell } from "../ui/Notice";
import { itemsFor } from "./items";

/** Calls of one kind that are under way at a time. */
const AT_ONCE = 6;
const PAUSE_MS = 400;

/** Archive conversations or take them out, and say so once. */
async function archiveAll(conversations: Conversation[], isOn: boolean): Promise<void> {
  const waiting = [...conversations];
  const work = async () => {
    for (let it = waiting.pop(); it; it = waiting.pop()) {
      await change(calls.archive({ conversationId: it.id, unarchive: !isOn }));
      const done = conversations.length - waiting.length;
      if (done % 100 === 0) tell({ text: t.actions.working(done, conversations.length) });
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const undo = { text: t.sidebar.undo, run: () => archiveAll(conversations, !isOn) };
    tell({ text: (isOn ? t.actions.archived : t.actions.unarchived)(conversations.length), action: undo });
    chosen.set(undefined);
  } catch (error) {
    tell({ text: describe(error) });
  }
}

/** Return every conversation of the list, read whole as often as it has changed; undefined: not yet. */
function useAll({ items, hasMore, state }: ListState): Conversation[] | undefined {
  const [all, setAll] = useState<Conversation[]>();
  const ids = items.map((it) => it.id).join();
  const filters = JSON.stringify(readFilters());
  useEffect(() => setAll(undefined), [filters]);
  useEffect(() => {
    if (!hasMore) return setAll(state === "ready" ? items : undefined);
    const abort = new AbortController();
    const timer = setTimeout(() => readAll(abort.signal).then(setAll, () => undefined), all ? PAUSE_MS : 0);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [ids, hasMore, state]);
  return all;
}

export function Choice({ chosen: those, list }: { chosen: Conversation[]; list: ListState }) {
  const all = useAll(list);
  const isOut = those.length > 0 && those.every((it) => it.archived);
  const items: MenuItem[] = may(Scope.CONVERSATIONS_MANAGE) ? [
    {
      icon: isOut ? "unarchive" : "archive", text: isOut ? t.sidebar.unarchive : t.sidebar.archive,
      run: () => void archiveAll(those, !isOut),
    },
    { icon: "tag", text: t.sidebar.topics, run: () => ask({ what: "topics", conversations: those }) },
  ] : [];
  return (
    <div class="choosing" role="toolbar" aria-label={t.sidebar.choose}>
      <span class="choosing-what">
        <span role="status">{t.actions.chosen(those.length)}</span>
        {all && all.length > those.length && (
          <button class="button" type="button" onClick={() => chosen.set(all)}>{t.actions.all(all.length)}</button>
        )}
      </span>
      <span class="choosing-do">
        {[...items, ...itemsFor(...those)].map((it) => (
          <button key={it.text} class="quiet" type="button" disabled={!those.length} aria-label={it.text} title={it.text} onClick={it.run}>
            <Icon name={it.icon} />
          </button>
        ))}
        <button class="quiet" type="button" aria-label={t.actions.endChoosing} title={t.actions.endChoosing} onClick={() => chosen.set(undefined)}>
          <Icon name="close" />
        </button>
      </span>
    </div>
  );
}
