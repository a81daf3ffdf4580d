// The theme: as the system has it, unless a person chose one in this browser.
import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const KEY = "recollect-theme";
export const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export const theme = signal<Theme>(stored());

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(KEY, theme.value);
});

function stored(): Theme {
  const value = localStorage.getItem(KEY) as Theme;
  return THEMES.includes(value) ? value : "auto";
}

const narrow = matchMedia("(max-width: 760px)");
/** Whether the screen has room for the list or a view, but not for both. */
export const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));
