// The list of shortcuts.
import { useEffect, useRef } from "preact/hooks";
import { helpOpen, setShortcuts, shortcutsOn } from "./keyboard";
import { t } from "./texts";
import { Icon } from "./ui/Icon";

const KEYS: [string[], string][] = [
  [["?"], t.keys.help],
  [["/"], t.keys.search],
  [["n"], t.keys.create],
  [["s"], t.keys.sidebar],
  [["g"], t.keys.content],
  [["↑", "↓", "Home", "End"], t.keys.list],
  [["Enter"], t.keys.open],
  [["F2"], t.keys.rename],
  [["t"], t.keys.topics],
  [["a"], t.keys.archive],
  [["Esc"], t.keys.escape],
];

export function KeysDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="keys-title" onClose={() => (helpOpen.value = false)}>
      <header>
        <h2 id="keys-title">{t.keys.title}</h2>
        <button class="quiet" aria-label={t.app.close} onClick={() => (helpOpen.value = false)}>
          <Icon name="close" />
        </button>
      </header>
      <dl class="keys">
        {KEYS.map(([keys, text]) => (
          <div key={text}>
            <dt>{keys.map((it) => <kbd key={it}>{it}</kbd>)}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={shortcutsOn.value} onChange={(event) => setShortcuts(event.currentTarget.checked)} />
        {t.keys.enabled}
      </label>
    </dialog>
  );
}
