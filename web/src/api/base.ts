// The path under which a proxy serves this page. It is read off this module's own address, which
// holds in tabs and workers alike.
const here: string = import.meta.url;

/** What stands before every path of this page; empty where it has a host of its own. */
export const base = import.meta.env.DEV ? "" : new URL("..", here).pathname.slice(0, -1);

const facts: DOMStringMap = typeof document === "undefined" ? {} : document.documentElement.dataset;

/** Whether a proxy says who signs in. */
export const isSignedInByProxy = facts.signIn === "proxy";

/** Bytes that a file to import may have; 0: this page imports none. */
export const mostImport = Number(facts.mostImport ?? 0);
