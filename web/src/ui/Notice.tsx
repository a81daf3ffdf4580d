// What was done, said at the bottom of the page, and to screen readers once. With a way to undo it,
// it stays until another view is shown or something else is said: nobody has to be quick.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { describe } from "../api/errors";
import { route } from "../router";
import { t } from "../texts";
import { Icon } from "./Icon";

const SHOWN_MS = 12_000;

interface Told {
  text: string;
  action?: { text: string; run: () => Promise<unknown> };
}

const told = signal<Told | undefined>(undefined);

/** Say what was done, in place of what was said before. */
export function tell(notice: Told | undefined): void {
  told.value = notice;
}

export function Notice() {
  const notice = told.value;
  const [isHeld, setHeld] = useState(false);
  const { path } = route.value;
  const shownOn = useRef(path);
  useEffect(() => {
    if (notice?.action && path !== shownOn.current) tell(undefined);
    shownOn.current = path;
  }, [path]);
  useEffect(() => {
    if (!notice || notice.action || isHeld) return;
    const timer = setTimeout(() => tell(undefined), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [notice, isHeld]);
  const run = () => {
    const action = notice?.action;
    tell(undefined);
    setHeld(false);
    action?.run().catch((error: unknown) => tell({ text: describe(error) }));
  };
  return (
    <div class="notice" role="status">
      {notice && (
        <div
          class="notice-box" onFocusCapture={() => setHeld(true)} onBlurCapture={() => setHeld(false)}
          onPointerEnter={() => setHeld(true)} onPointerLeave={() => setHeld(false)}
          onKeyDown={(event) => event.key === "Escape" && tell(undefined)}
        >
          <span><bdi>{notice.text}</bdi></span>
          {notice.action && <button class="button" onClick={run}>{notice.action.text}</button>}
          <button class="quiet" aria-label={t.app.close} onClick={() => tell(undefined)}><Icon name="close" /></button>
        </div>
      )}
    </div>
  );
}
