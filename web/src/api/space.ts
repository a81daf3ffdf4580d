// The space that this page shows. It is in the address, and the same for as long as the page lives:
// another space is another page, so that nothing of one can be left in the memory of the other.
import { base } from "./base";

const NAME = /^[a-z0-9](?:[a-z0-9_-]{0,63}|[a-z0-9._+-]{0,63}@[a-z0-9][a-z0-9.-]{0,62})$/;
/** The shared worker of a space is told by its name which one that is. */
const WORKER = "recollect";

const named =
  typeof document === "undefined"
    ? self.name.slice(WORKER.length + 1, self.name.length - base.length)
    : new URLSearchParams(location.search).get("space") ?? "";

/** Whether the address names no space, or one by a name that a space can have. */
export const isSpaceValid = named === "" || NAME.test(named);

/** The space that the address names; empty: the caller's own, or the server's default. */
export const space = isSpaceValid ? named : "";

/** The name of what the tabs of this space share, and the tabs of no other one. */
export const sharedName = `${space ? `${WORKER} ${space}` : WORKER}${base}`;

/** Return whether an address is of another space than this page. */
export function isOfOtherSpace(address: { search: string }): boolean {
  return (new URLSearchParams(address.search).get("space") ?? "") !== named;
}

/** Return whether a name can be a space's. */
export function mayBeSpace(name: string): boolean {
  return NAME.test(name);
}

/** Return the address of a space's list. */
export function spaceAddress(name: string): string {
  return `${base}/?space=${encodeURIComponent(name)}`;
}
