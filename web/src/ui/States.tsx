// What a view shows while it loads, when it failed, and when there is nothing.
import type { ComponentChildren } from "preact";
import { describe } from "../api/errors";
import { link } from "../router";
import { t } from "../texts";
import { Icon, type IconName } from "./Icon";

export function Loading({ text = t.app.loading }: { text?: string }) {
  return <p class="state loading" role="status">{text}</p>;
}

interface FailureProps {
  error: unknown;
  retry?: () => void;
  /** A view has a heading; a part of one says `p`. */
  level?: "h1" | "p";
}

export function Failure({ error, retry, level: Title = "h1" }: FailureProps) {
  return (
    <div class="state failure" role="alert">
      <Icon name="warning" />
      <Title class="state-title">{t.errors.failed}</Title>
      <p>{describe(error)}</p>
      {retry && <button class="button" onClick={retry}>{t.app.retry}</button>}
      {Title === "h1" && <ToList />}
    </div>
  );
}

/** The way out on a narrow screen, where the list is not beside the view. */
function ToList() {
  return <a class="button to-list" href={link("/")}><Icon name="back" />{t.app.back}</a>;
}

interface EmptyProps {
  icon: IconName;
  title: string;
  /** A view has a heading; a part of one says `p`. */
  level?: "h1" | "p";
  children?: ComponentChildren;
}

export function Empty({ icon, title, level: Title = "h1", children }: EmptyProps) {
  const hasHeading = Title === "h1"; // it stands for a whole view
  return (
    <div class="state empty">
      <Icon name={icon} />
      <Title class="state-title">{title}</Title>
      {children}
      {hasHeading && <ToList />}
    </div>
  );
}
