// What is typed and not sent yet, by conversation. It is there again after a reload of the tab, as by
// signing in anew, for the same caller alone.
import { base } from "../api/base";
import { space } from "../api/space";

const KEPT = `recollect-unsent${base} ${space}`;

export const unsent = new Map<string, string>();
let isKept = false;

/** Take in what this tab held before it was reloaded, and keep it for the next time. */
export function keepUnsent(caller: string): void {
  if (isKept) return;
  isKept = true;
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as { caller: string; texts: [string, string][] } | null;
  forgetUnsent();
  if (kept?.caller === caller) for (const [id, text] of kept.texts) unsent.set(id, text);
  addEventListener("pagehide", () => {
    if (unsent.size) sessionStorage.setItem(KEPT, JSON.stringify({ caller, texts: [...unsent] }));
    else sessionStorage.removeItem(KEPT);
  });
}

/** Forget what is typed: who types next is somebody else. */
export function forgetUnsent(): void {
  unsent.clear();
  sessionStorage.removeItem(KEPT);
}
