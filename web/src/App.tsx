// The shell: the sidebar, the view that the address names, and what is said when neither can be.
import { Scope } from "@recollect/client";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Account } from "./Account";
import { asked } from "./actions/asked";
import { may, refreshSession, session } from "./api/session";
import { helpOpen, onKey, paletteOpen } from "./keyboard";
import { connectAgain, liveStatus } from "./live/connection";
import { link, navigate, route } from "./router";
import { SpaceButton } from "./spaces/SpaceButton";
import { Sidebar } from "./sidebar/Sidebar";
import { isNarrow } from "./state/theme";
import { t } from "./texts";
import { focusOn } from "./ui/focus";
import { Icon, type IconName } from "./ui/Icon";
import { Notice } from "./ui/Notice";
import { Empty, Failure, Loading } from "./ui/States";
import { maySee, partOf, scopesOf, viewOf } from "./views/registry";

export function App() {
  const state = session.value;
  useEffect(
    () =>
      all(
        onKey("?", () => (helpOpen.value = true)),
        onKey("/", () => may(Scope.RECALL) && navigate("/search")),
        onKey("g", () => focusOn("#content")),
        onKey("s", () => focusOn("[data-list] a[tabindex='0']")),
      ),
    [],
  );
  if (state.kind === "loading") return <Loading />;
  if (state.kind !== "open") return <Later load={loadSignIn} />;
  const isHome = route.value.path === "/";
  const isAlone = isHome && isNarrow.value; // narrow screens show one of the two
  const Brand = isHome ? "h1" : "p"; // a view has a heading of its own
  return (
    <div class="shell" data-home={isHome}>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); focusOn("#content"); }}>
        {t.app.skip}
      </a>
      <div class="side" role={isAlone ? "main" : undefined} id={isAlone ? "content" : undefined} tabIndex={isAlone ? -1 : undefined}>
        <div class="brand" role={isAlone ? undefined : "banner"}>
          <Brand class="brand-name"><a href={link("/")}><Logo />{t.app.name}</a></Brand>
          <SpaceButton />
          <LiveMark />
          <Account />
        </div>
        <nav class="sections" aria-label={t.app.sections}>
          {sections().map(({ path, icon, name, isShown }) => (
            <a key={path} href={link(path)} aria-current={isShown ? "page" : undefined}>
              <Icon name={icon} />
              <span>{name}</span>
            </a>
          ))}
        </nav>
        {may(Scope.CONVERSATIONS_READ) ? <Sidebar /> : <Empty icon="lock" level="p" title={t.app.noReading} />}
      </div>
      {!isAlone && (
        <main id="content" tabIndex={-1}>
          <Connection />
          <Shown />
        </main>
      )}
      <Notice />
      {helpOpen.value && <Later load={loadKeys} />}
      {asked.value && <Later load={loadDialogs} />}
      {paletteOpen.value && <Later load={loadPalette} />}
    </div>
  );
}

interface Section {
  path: string;
  icon: IconName;
  name: string;
  isShown: boolean;
}

/** Return what the navigation has: views, and parts that begin at the first of theirs. */
function sections(): Section[] {
  const shown = viewOf(route.value.path);
  const alone = partOf(undefined).map((it) => ({ path: it.path, icon: it.icon, name: it.short ?? it.name, isShown: it === shown }));
  const [first] = partOf("server");
  return first ? [...alone, { path: first.path, icon: "server", name: t.nav.server, isShown: shown?.of === "server" }] : alone;
}

function Shown() {
  const path = route.value.path;
  const view = viewOf(path);
  useEffect(() => {
    document.title = view?.order === undefined ? t.app.name : `${view.name} · ${t.app.name}`;
  }, [view]);
  if (path === "/" && !may(Scope.CONVERSATIONS_READ)) return <Empty icon="lock" level="p" title={t.app.notAllowed} />;
  if (path === "/") return <Later key="home" load={loadHome} />;
  if (!view) return <Empty icon="warning" title={t.app.noView} />;
  if (!maySee(view)) return <Empty icon="lock" title={t.app.notAllowed}><p>{t.app.takes(scopesOf(view))}</p></Empty>;
  return <Later key={view.path} load={view.load} />;
}

/** The drawing of `public/icon.svg`, in the colours of the theme. */
function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M8.9 12.2A8.4 8.4 0 1 1 8.2 18.4M8.3 7.6v4.8h4.8" />
      <circle cx="16.4" cy="16" r="2.7" />
    </svg>
  );
}

const loadHome = () => import("./views/conversation/Home");
const loadSignIn = () => import("./SignIn");
const loadKeys = () => import("./KeysDialog");
const loadPalette = () => import("./palette/Palette");
const loadDialogs = () => import("./actions/Dialogs");

/** Loads the code of a part, and shows it. */
function Later({ load }: { load: () => Promise<{ default: ComponentType }> }) {
  const [Part, setPart] = useState<ComponentType>();
  const [error, setError] = useState<unknown>();
  const begin = () => {
    setError(undefined);
    load().then((it) => setPart(() => it.default), setError);
  };
  useEffect(begin, [load]);
  if (error) return <Failure error={error} retry={begin} />;
  return Part ? <Part /> : <Loading />;
}

/** Says whether the page is live, beside the name. */
function LiveMark() {
  const { status } = liveStatus.value;
  const text = status === "live" ? t.live.live : status === "connecting" ? t.live.connecting : t.live.lost;
  return (
    <span class={`live live-${status}`} title={text}>
      <span class="dot" />
      <span class="hidden">{text}</span>
    </span>
  );
}

/** A line above the view while nothing new arrives. */
function Connection() {
  const { status, reason } = liveStatus.value;
  if (status === "live" || status === "connecting" || !may(Scope.CONVERSATIONS_READ)) return null;
  return (
    <div class="banner" role="status">
      <Icon name="warning" />
      <span>{status === "denied" ? `${t.live.denied} ${reason}` : t.live.lost}</span>
      <button class="button" onClick={() => { connectAgain(); void refreshSession(); }}>{t.live.again}</button>
    </div>
  );
}

function all(...ends: (() => void)[]): () => void {
  return () => ends.forEach((it) => it());
}
