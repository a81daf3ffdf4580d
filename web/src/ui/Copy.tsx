// A button that copies a text, and says so.
import { useEffect, useState } from "preact/hooks";
import { t } from "../texts";
import { Icon, type IconName } from "./Icon";
import { tell } from "./Notice";

const SAID_MS = 2_000;

/** Copy a text, and say at the bottom of the page what became of it. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    tell({ text: t.app.notCopied });
    return false;
  }
}

interface Props {
  text: string;
  label: string;
  icon?: IconName;
}

export function Copy({ text, label, icon = "copy" }: Props) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [isDone]);
  const shown = isDone ? t.app.copied : label;
  return (
    <button class="quiet copy" type="button" aria-label={shown} title={shown} onClick={() => void copy(text).then(setDone)}>
      <Icon name={isDone ? "check" : icon} />
    </button>
  );
}
