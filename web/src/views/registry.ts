// The views of the page. A view is a folder with an `index.ts` that exports `view`; it is found by
// being there. Its code is loaded when it is first shown.
import { Scope } from "@recollect/client";
import type { ComponentType } from "preact";
import { may, namedSpaces, onlyConversation } from "../api/session";
import { t } from "../texts";
import type { IconName } from "../ui/Icon";

export interface View {
  /** Where it is shown: `/search`, and everything below it. */
  path: string;
  /** Its name. */
  name: string;
  /** Its name in the navigation, where that is a shorter one. */
  short?: string;
  icon: IconName;
  /** Its place in the navigation, or in its part; without one it is not listed. */
  order?: number;
  /** The part of the page that it is of: the navigation has the part, whose views link to each other. */
  of?: "server";
  /** Set if it is not listed, and the palette leads to it nevertheless. */
  isInPalette?: boolean;
  /** Set if the server of this page does not offer it. */
  isAbsent?: boolean;
  /** The scopes that a caller needs for it. */
  scopes: Scope[];
  /** Set if it is about all of a space, for which a token for one conversation is not enough; or
   * about the server, for which one for certain spaces is not. */
  reach?: "space" | "server";
  load: () => Promise<{
    default: ComponentType;
    /** Asks for what it shows first, while the page still waits for the caller's scopes. */
    prepare?: () => void;
  }>;
}

const found = import.meta.glob<{ view: View }>("./*/index.ts", { eager: true });

export const views: View[] = Object.values(found)
  .map((it) => it.view)
  .filter((it) => !it.isAbsent)
  .sort((a, b) => (a.order ?? 0) - (b.order ?? 0));

/** Return the views of a part that the caller may see. */
export function partOf(part: View["of"]): View[] {
  return views.filter((it) => it.of === part && it.order !== undefined && maySee(it));
}

/** Return whether the caller may see a view. */
export function maySee(view: View): boolean {
  if (!may(...view.scopes) || (view.reach && onlyConversation())) return false;
  return view.reach !== "server" || namedSpaces().length === 0;
}

/** Return the scopes that a view takes, in words. */
export function scopesOf({ scopes, reach }: View): string {
  const names = scopes.map((it) => Scope[it].toLowerCase().replace("_", ".")).join(", ");
  return reach === "server" ? t.app.everySpace(names) : names;
}

/** Return the view of a path. */
export function viewOf(path: string): View | undefined {
  return views.find((it) => path === it.path || path.startsWith(`${it.path}/`));
}
