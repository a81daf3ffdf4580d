// The list of shortcuts.
import { helpOpen, setShortcuts, shortcutsOn } from "./keyboard";
import { t } from "./texts/views";
import { Dialog } from "./ui/Dialog";

const KEYS: [string[], string][] = [
  [["Ctrl", "K"], t.palette.title],
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
  [["p"], t.keys.pin],
  [["x"], t.keys.choose],
  [["f"], t.keys.find],
  [["Esc"], t.keys.escape],
];

export default function KeysDialog() {
  return (
    <Dialog title={t.keys.title} onClose={() => (helpOpen.value = false)}>
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
    </Dialog>
  );
}
