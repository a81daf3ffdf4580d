// What can be done to conversations, one or several that are chosen.
import { Scope, type Conversation } from "@recollect/client";
import { ask } from "../actions/asked";
import { may } from "../api/session";
import { t } from "../texts";
import type { MenuItem } from "../ui/Menu";

/** Return what may be done to some conversations, from the least to what cannot be undone. */
export function itemsFor(...conversations: Conversation[]): MenuItem[] {
  const items: MenuItem[] = [{ icon: "download", text: t.sidebar.export, run: () => ask({ what: "export", conversations }) }];
  if (may(Scope.CONVERSATIONS_DELETE)) {
    items.push({ icon: "trash", text: t.sidebar.delete, run: () => ask({ what: "delete", conversations }) });
  }
  return items;
}
