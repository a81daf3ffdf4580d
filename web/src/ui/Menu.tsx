// A menu of actions beside the button that opened it. The arrow keys move in it, Escape and Tab close
// it, and the focus goes back to where it came from.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./Icon";

export interface MenuItem {
  icon: IconName;
  text: string;
  key?: string;
  /** Whether it is the one of several that counts now; unset: it is no choice. */
  isChosen?: boolean;
  run: () => void;
}

interface Props {
  label: string;
  /** A line above the items. */
  head?: string;
  items: MenuItem[];
  /** Where the button is. */
  box: DOMRect;
  onClose: () => void;
}

export function Menu({ label, head, items, box, onClose }: Props) {
  const menu = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(box.bottom + 2);
  const buttons = () => [...menu.current!.querySelectorAll("button")];
  useLayoutEffect(() => {
    const { height } = menu.current!.getBoundingClientRect();
    if (box.bottom + height + 8 > innerHeight) setTop(Math.max(8, box.top - height - 2));
    buttons()[0]?.focus();
  }, []);
  useEffect(() => {
    const onPointer = (event: Event) => menu.current?.contains(event.target as Node) || onClose();
    addEventListener("pointerdown", onPointer, true);
    addEventListener("resize", onClose);
    return () => {
      removeEventListener("pointerdown", onPointer, true);
      removeEventListener("resize", onClose);
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const all = buttons();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    const to = moves[event.key];
    if (to !== undefined) all[(to + all.length) % all.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") onClose();
    else return;
    event.preventDefault();
  };
  return (
    <div class="menu" role="menu" aria-label={label} ref={menu} onKeyDown={onKeyDown} style={{ top: `${top}px`, right: `${Math.max(8, innerWidth - box.right)}px` }}>
      {head && <p class="menu-head" role="presentation">{head}</p>}
      {items.map((it) => (
        <button
          key={it.text} tabIndex={-1} role={it.isChosen === undefined ? "menuitem" : "menuitemradio"} aria-checked={it.isChosen}
          onClick={() => { onClose(); it.run(); }}
        >
          <Icon name={it.icon} />
          <span>{it.text}</span>
          {it.key && <kbd aria-hidden="true">{it.key}</kbd>}
        </button>
      ))}
    </div>
  );
}
