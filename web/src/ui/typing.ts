// A field whose text stands in the address, and is looked for as somebody types.
import { useEffect, useRef, useState } from "preact/hooks";

/** How long somebody types no letter before what was typed is used. */
const PAUSE_MS = 200;

/**
 * Return the text of a field, and what sets it: `use` is called with it once nobody types. A `value`
 * that came from elsewhere, as by the back button, is put into the field; the field's own is not, for
 * a letter may have been typed since.
 */
export function useTyping(value: string, use: (text: string) => void): [string, (text: string) => void] {
  const [typed, setTyped] = useState(value);
  const own = useRef(value);
  useEffect(() => {
    if (typed.trim() === own.current) return;
    const timer = setTimeout(() => use((own.current = typed.trim())), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    if (value !== own.current) setTyped((own.current = value));
  }, [value]);
  return [typed, setTyped];
}
