// Where the keyboard is.
import { useEffect, useRef } from "preact/hooks";

/** Focus what a selector names. */
export function focusOn(selector: string): void {
  document.querySelector<HTMLElement>(selector)?.focus();
}

/** Focus an element when it appears. */
export function useFocus<T extends HTMLElement>() {
  const ref = useRef<T>(null);
  useEffect(() => ref.current?.focus(), []);
  return ref;
}
