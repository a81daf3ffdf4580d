// Shortcuts of one key. They do nothing while somebody types, and can be turned off (WCAG 2.1.4).
import { signal } from "@preact/signals";

const KEY = "recollect-shortcuts";
export const shortcutsOn = signal(localStorage.getItem(KEY) !== "off");
export const helpOpen = signal(false);
export const paletteOpen = signal(false);

const actions = new Map<string, () => void>();

/** Have a key do something, until the returned function is called. */
export function onKey(key: string, action: () => void): () => void {
  actions.set(key, action);
  return () => {
    if (actions.get(key) === action) actions.delete(key);
  };
}

/** Return whether a key does something now. */
export function can(key: string): boolean {
  return actions.has(key);
}

/** Do what a key does, whether or not shortcuts are on. */
export function perform(key: string): void {
  actions.get(key)?.();
}

/** Turn shortcuts on or off, for this browser. */
export function setShortcuts(isOn: boolean): void {
  shortcutsOn.value = isOn;
  localStorage.setItem(KEY, isOn ? "on" : "off");
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

addEventListener("keydown", (event) => {
  // Also while somebody types: no letter is written with it.
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    if (!document.querySelector(".shell") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    paletteOpen.value = true;
    return;
  }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) {
    (event.target as HTMLElement).blur();
    return;
  }
  // Not by helpOpen: a dialog that Escape closed says so a moment later.
  if (isTyping(event.target) || document.querySelector("dialog[open]") || !shortcutsOn.value) return;
  const action = actions.get(event.key);
  if (action) {
    event.preventDefault();
    action();
  }
});
