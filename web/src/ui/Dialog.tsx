// A dialog over the page: it opens when it is shown, and closes by Escape and by its cross.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../texts";
import { Icon } from "./Icon";

interface Props {
  title: string;
  class?: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, class: name = "", onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class={`dialog ${name}`} aria-labelledby="dialog-title" onClose={onClose}>
      <header role="none">
        <h2 id="dialog-title">{title}</h2>
        <button class="quiet" type="button" aria-label={t.app.close} onClick={() => dialog.current?.close()}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}
