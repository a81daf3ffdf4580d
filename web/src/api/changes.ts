// Signing in and out, told to everything of this browser that holds what a token allowed: its tabs,
// and the streams of every space.
import { base } from "./base";

const channel = new BroadcastChannel(`recollect-session${base}`);

/** Tell the other tabs and all workers that another caller, or none, is signed in. */
export function tellSessionChange(): void {
  channel.postMessage("changed");
}

/** Call something when another tab signed in or out. */
export function onSessionChange(action: () => void): void {
  channel.addEventListener("message", () => action());
}
