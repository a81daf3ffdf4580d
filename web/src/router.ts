// The address bar: which view is shown, with its filters. Links are plain links; this module keeps
// them from loading the page anew.
import { signal } from "@preact/signals";
import { base } from "./api/base";
import { isOfOtherSpace, space } from "./api/space";

export interface Route {
  path: string;
  query: URLSearchParams;
}

export const route = signal<Route>(read());

/** Show another address. A value of undefined removes its key of the query. */
export function navigate(path: string, query: Record<string, string | undefined> = {}, replace = false): void {
  const values = Object.entries({ ...query, space }).filter((it): it is [string, string] => !!it[1]);
  const text = new URLSearchParams(values).toString();
  show(`${base}${path}${text && `?${text}`}`, replace);
}

/** Show the address of a link. */
export function show(address: string, replace = false): void {
  if (address !== location.pathname + location.search) {
    history[replace ? "replaceState" : "pushState"](null, "", address);
  }
  route.value = read();
}

/** Change some keys of the query and keep the others. */
export function setQuery(changes: Record<string, string | undefined>, replace = true): void {
  navigate(route.peek().path, { ...Object.fromEntries(route.peek().query), ...changes }, replace);
}

/** Return a link to a path that keeps the filters of the sidebar, and the panel. */
export function link(path: string, query: Record<string, string | undefined> = {}): string {
  const kept = new URLSearchParams();
  for (const key of KEPT_KEYS) {
    const value = route.value.query.get(key);
    if (value) kept.set(key, value);
  }
  for (const [key, value] of Object.entries(query)) if (value) kept.set(key, value);
  const text = kept.toString();
  return `${base}${path}${text && `?${text}`}`;
}

/** Return an address that anybody may open: without the filters of this page. */
export function permalink(path: string, query: Record<string, string>): string {
  const address = new URL(base + path, location.origin);
  const space = route.peek().query.get("space");
  for (const [key, value] of Object.entries({ ...(space && { space }), ...query })) address.searchParams.set(key, value);
  return address.href;
}

/** Return a link to a search for a topic, in its words. */
export function topicLink(topic: string): string {
  return link("/search", { q: topic.replaceAll("-", " "), topic });
}

/** Keys of the query that stay when another conversation or view is shown. */
export const KEPT_KEYS = ["space", "on", "named", "about", "archived", "details"] as const;

function read(): Route {
  return { path: location.pathname.slice(base.length) || "/", query: new URLSearchParams(location.search) };
}

// Another space is another page: nothing of this one is kept.
addEventListener("popstate", () => {
  if (isOfOtherSpace(location)) location.reload();
  else route.value = read();
});
addEventListener("click", (event) => {
  const anchor = (event.target as Element).closest?.("a[href]");
  if (!(anchor instanceof HTMLAnchorElement) || !isOwn(anchor)) return;
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (anchor.target || anchor.hasAttribute("download") || event.defaultPrevented) return;
  if (isOfOtherSpace(anchor)) return;
  if (anchor.hash && anchor.pathname === location.pathname && anchor.search === location.search) return;
  event.preventDefault();
  show(anchor.pathname + anchor.search);
});

/** Return whether a link is to this page, and not to what else its host serves. */
function isOwn({ origin, pathname }: HTMLAnchorElement): boolean {
  return origin === location.origin && (pathname === base || pathname.startsWith(`${base}/`));
}
