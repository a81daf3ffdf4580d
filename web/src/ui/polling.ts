// Answers that have no stream for tabs to share: asked for again while somebody looks.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Polled<T> {
  answer?: T;
  error?: unknown;
  /** Ask again at once. */
  again: () => void;
}

/** Load something, and again every few seconds while the tab is visible. An answer stays while the
 * next one is awaited; one that comes after a newer request counts no more. */
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T>, keys: unknown[], seconds: number): Polled<T> {
  const [state, setState] = useState<{ answer?: T; error?: unknown }>({});
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    let abort = new AbortController();
    let timer = 0;
    setState({});
    const ask = () => {
      clearTimeout(timer);
      abort.abort();
      const mine = (abort = new AbortController());
      load(mine.signal)
        .then((answer) => mine.signal.aborted || setState({ answer }))
        .catch((error: unknown) => mine.signal.aborted || setState((it) => ({ ...it, error })))
        .finally(() => {
          if (!mine.signal.aborted) timer = window.setTimeout(() => document.hidden || ask(), seconds * 1000);
        });
    };
    const onVisible = () => document.hidden || ask();
    document.addEventListener("visibilitychange", onVisible);
    again.current = ask;
    ask();
    return () => {
      document.removeEventListener("visibilitychange", onVisible);
      clearTimeout(timer);
      abort.abort();
    };
  }, keys);
  return { ...state, again: () => again.current() };
}
