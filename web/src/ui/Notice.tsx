// What was done, said at the bottom of the page, with a way to undo it. It stays while somebody is at
// it, and is said to screen readers once.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { describe } from "../api/errors";
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
  useEffect(() => {
    if (!notice || isHeld) return;
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
