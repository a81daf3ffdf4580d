// A view that is a page of cards: its head with the way back, the other views of its part, and a body that
// scrolls.
import type { ComponentChildren } from "preact";
import { link, route } from "../router";
import { t } from "../texts";
import { partOf, viewOf } from "../views/registry";
import { Icon } from "./Icon";
import "../styles/cards.css";

interface Props {
  title: string;
  class: string;
  /** Buttons and fields in the head. */
  tools?: ComponentChildren;
  children: ComponentChildren;
}

export function Page({ title, class: name, tools, children }: Props) {
  return (
    <div class={`${name} page`}>
      <header class="view-header">
        <a class="quiet back" href={link("/")} aria-label={t.app.back}><Icon name="back" /></a>
        <div class="view-title"><h1>{title}</h1></div>
        {tools}
      </header>
      <Tabs />
      <div class="page-body" tabIndex={0} role="region" aria-label={title}>{children}</div>
    </div>
  );
}

/** Links to the other views of the part that the shown one is of. */
function Tabs() {
  const view = viewOf(route.value.path);
  const views = view?.of ? partOf(view.of) : [];
  if (!view?.of || views.length < 2) return null;
  return (
    <nav class="tabs" aria-label={t.nav[view.of]}>
      {views.map((it) => (
        <a key={it.path} href={link(it.path)} aria-current={it === view ? "page" : undefined}>{it.name}</a>
      ))}
    </nav>
  );
}

/** A group of facts or fields under a heading. */
export function Card({ title, tools, children }: { title: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card">
      <header><h2>{title}</h2>{tools}</header>
      {children}
    </section>
  );
}
