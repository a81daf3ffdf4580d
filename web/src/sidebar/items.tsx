// What can be done to conversations, one or several that are chosen.
import { Scope, type Conversation } from "@recollect/client";
import { ask } from "../actions/asked";
import { describe } from "../api/errors";
import { may } from "../api/session";
import { archive } from "../state/conversations";
import { chosen } from "../state/chosen";
import { t } from "../texts";
import { Icon } from "../ui/Icon";
import type { MenuItem } from "../ui/Menu";
import { tell } from "../ui/Notice";

/** Return what may be done to some conversations, from the least to what cannot be undone. */
export function itemsFor(...conversations: Conversation[]): MenuItem[] {
  const items: MenuItem[] = [{ icon: "download", text: t.actions.exportItem, run: () => ask({ what: "export", conversations }) }];
  if (may(Scope.CONVERSATIONS_DELETE)) {
    items.push({ icon: "trash", text: t.actions.deleteItem, run: () => ask({ what: "delete", conversations }) });
  }
  return items;
}

/** Archive conversations or take them out, and say so once. */
async function archiveAll(conversations: Conversation[], isOn: boolean): Promise<void> {
  try {
    for (const it of conversations) await archive(it, isOn);
    const undo = { text: t.sidebar.undo, run: () => archiveAll(conversations, !isOn) };
    tell({ text: (isOn ? t.actions.archived : t.actions.unarchived)(conversations.length), action: undo });
    chosen.set(undefined);
  } catch (error) {
    tell({ text: describe(error) });
  }
}

/** The bar below the list while somebody chooses. */
export function Choice({ chosen: those, all }: { chosen: Conversation[]; all: Conversation[] }) {
  const isOut = those.length > 0 && those.every((it) => it.archived);
  const items: MenuItem[] = may(Scope.CONVERSATIONS_MANAGE) ? [
    {
      icon: isOut ? "unarchive" : "archive", text: isOut ? t.sidebar.unarchive : t.sidebar.archive,
      run: () => void archiveAll(those, !isOut),
    },
    { icon: "tag", text: t.sidebar.topics, run: () => ask({ what: "topics", conversations: those }) },
  ] : [];
  return (
    <div class="choosing" role="toolbar" aria-label={t.actions.choose}>
      <span role="status">{t.actions.chosen(those.length)}</span>
      <button class="button" type="button" onClick={() => chosen.set(all)}>{t.actions.all}</button>
      {[...items, ...itemsFor(...those)].map((it) => (
        <button key={it.text} class="quiet" type="button" disabled={!those.length} aria-label={it.text} title={it.text} onClick={it.run}>
          <Icon name={it.icon} />
        </button>
      ))}
      <button class="quiet" type="button" aria-label={t.actions.endChoosing} title={t.actions.endChoosing} onClick={() => chosen.set(undefined)}>
        <Icon name="close" />
      </button>
    </div>
  );
}
