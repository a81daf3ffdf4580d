// The session of this browser: the key of the printed address, the token, and what it allows.
import { signal } from "@preact/signals";
import { Scope, type WhoAmIResponse } from "@recollect/client";
import { restartStream } from "../live/connection";
import { t } from "../texts";
import { base, isSignedInByProxy } from "./base";
import { forgetUnsent, keepUnsent } from "../state/unsent";
import { tell } from "../ui/Notice";
import { access, fetchOwn, isOfProxy, onRefusal } from "./calls";
import { onSessionChange, tellSessionChange } from "./changes";
import { describe, isOf } from "./errors";
import { isSpaceValid } from "./space";

export type SessionState =
  | { kind: "loading" }
  | { kind: "closed"; reason?: string } // this browser has no session with the bridge
  | { kind: "token" } // the server asks for a token
  | { kind: "space"; reason: string } // the address names a space that this caller may not name
  | { kind: "unreachable"; reason: string }
  | { kind: "open"; caller: WhoAmIResponse };

/** Stands for every space among those of a token. */
const EVERY_SPACE = "*";

export const session = signal<SessionState>({ kind: "loading" });

/** Whom a proxy signed in; empty: nobody in particular. */
export const person = signal("");

/** Set while somebody whom a proxy signs in is signed out here. */
const SIGNED_OUT = `recollect-signed-out${base}`;
let refusal: string | undefined;
let isHeld = false;
const CREATED = 201;
const UNAUTHENTICATED = 401;

onRefusal.session = () => (session.value = { kind: "closed", ...(refusal && { reason: refusal }) });
onRefusal.token = () => isHeld || (session.value = { kind: "token" });
onSessionChange(() => location.reload());

/** Keep what is shown though the server asks for a token by now, until the returned function is called. */
export function holdSession(): () => void {
  isHeld = true;
  return () => (isHeld = false);
}

/** Return whether the caller has all of some scopes. */
export function may(...scopes: Scope[]): boolean {
  const state = session.value;
  return state.kind === "open" && scopes.every((it) => state.caller.scopes.includes(it));
}

/** Return the spaces that the caller may name; none in particular: every one. */
export function namedSpaces(): string[] {
  const state = session.value;
  const spaces = state.kind === "open" ? state.caller.spaces : [];
  return spaces.includes(EVERY_SPACE) ? [] : spaces;
}

/** Return the only conversation that the caller sees; empty: all of the space. */
export function onlyConversation(): string {
  return session.value.kind === "open" ? session.value.caller.conversationId : "";
}

/** Return whether the caller signed in with a token, and so can sign out. */
export function hasToken(): boolean {
  return session.value.kind === "open" && session.value.caller.tokenId !== "";
}

/** Exchange the key in the address, if there is one, for a session; behind a proxy that signs in,
 * ask for the session of whom it names. */
export async function openSession(): Promise<void> {
  if (isSignedInByProxy) return localStorage.getItem(SIGNED_OUT) ? undefined : openByProxy();
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key) {
    history.replaceState(null, "", location.pathname + location.search);
    await post("/session/open", { key }).catch(() => undefined);
  }
}

async function openByProxy(): Promise<void> {
  const open = () => post("/session/open", { key: "" }).catch(() => undefined);
  const response = await open();
  if (response && !response.ok && !isOfProxy(response)) refusal = await messageOf(response);
  person.value = response?.headers.get("recollect-person") ?? "";
  if (response?.status !== CREATED) return;
  // What the browser showed may have been another person's. Where it keeps no cookie, each tab would
  // begin a session, and reload the others.
  if ((await open())?.status === CREATED) refusal = t.errors.noCookies;
  else tellSessionChange();
}

/** Begin the session of whom the proxy names, after signing out. */
export function signInAgain(): void {
  localStorage.removeItem(SIGNED_OUT);
  changeCaller();
}

/** Ask the server who the caller is. */
export async function refreshSession(): Promise<void> {
  if (!isSpaceValid) {
    session.value = { kind: "space", reason: t.errors.noSpaceName };
    return;
  }
  try {
    const caller = await access.whoAmI({});
    keepUnsent(caller.tokenId);
    session.value = { kind: "open", caller };
  } catch (error) {
    const kind = session.peek().kind;
    if (isHeld || kind === "closed" || kind === "token") return;
    const isRefused = isOf(error, "PERMISSION_DENIED", "NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION");
    session.value = { kind: isRefused ? "space" : "unreachable", reason: describe(error) };
  }
}

/** Sign in with a token. The bridge keeps it; no script can read it again. */
export async function signIn(token: string): Promise<string | undefined> {
  const response = await post("/session/sign-in", { token });
  if (!response.ok) return messageOf(response);
  changeCaller();
  return undefined;
}

/** Return what an answer of this page's server says is wrong. */
export async function messageOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return String((JSON.parse(text) as { message?: unknown }).message);
  } catch {
    return text.startsWith("<") ? t.errors.pageServerGone : text; // a proxy's page says less
  }
}

/** Forget the token of this browser. Says so if that failed. */
export async function signOut(): Promise<void> {
  const response = await post("/session/sign-out", {}).catch(() => undefined);
  if (response && isOfProxy(response)) return;
  if (!response?.ok && response?.status !== UNAUTHENTICATED) {
    const reason = response ? await messageOf(response) : t.errors.pageServerGone;
    return tell({ text: t.errors.notSignedOut(reason) });
  }
  forgetUnsent();
  if (!isSignedInByProxy) return changeCaller();
  localStorage.setItem(SIGNED_OUT, "yes");
  const { location: next } = response.ok ? ((await response.json()) as { location: string }) : { location: "" };
  if (!next) return changeCaller();
  localStorage.removeItem(SIGNED_OUT); // the proxy asks who it is
  tellSessionChange();
  location.assign(next);
}

/** Begin anew, in every tab, with what the session allows now. */
function changeCaller(): void {
  restartStream();
  tellSessionChange();
  location.reload();
}

function post(path: string, body: unknown): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetchOwn(base + path, { method: "POST", headers, body: JSON.stringify(body) });
}
