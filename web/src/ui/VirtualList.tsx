// A list of any length of which the page holds only what is on the screen.
import {
  elementScroll, measureElement, observeElementOffset, observeElementRect, Virtualizer, type VirtualItem,
} from "@tanstack/virtual-core";
import type { ComponentChildren, JSX, Ref } from "preact";
import { useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

export type Virtual = Virtualizer<HTMLElement, HTMLElement>;

interface Props extends Omit<JSX.HTMLAttributes<HTMLDivElement>, "ref" | "onScroll"> {
  count: number;
  estimate: (index: number) => number;
  keyOf: (index: number) => string | number;
  render: (item: VirtualItem) => ComponentChildren;
  /** Takes the virtualizer, for scrolling to an item. */
  virtualRef?: { current: Virtual | null };
  scrollerRef?: { current: HTMLDivElement | null };
  /** Called after every change of what is on the screen. */
  onRange?: (first: number, last: number) => void;
  /** Called when the height of all rows together changed, or that of the list itself. */
  onSize?: () => void;
  overscan?: number;
  /** Rows are measured. Without it each has the height that `estimate` says. */
  measured?: boolean;
  /** The role of the element that holds the rows. */
  listRole?: JSX.AriaRole;
  listLabel?: string;
}

export function VirtualList(props: Props) {
  const {
    count, estimate, keyOf, render, virtualRef, scrollerRef, onRange, onSize, overscan = 4, measured = false,
    listRole, listLabel, ...rest
  } = props;
  const scroller = useRef<HTMLDivElement | null>(null);
  const [, redraw] = useReducer<number, void>((it) => it + 1, 0);
  const options = {
    count,
    estimateSize: estimate,
    getItemKey: keyOf,
    getScrollElement: () => scroller.current as HTMLElement | null,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    measureElement,
    overscan,
    onChange: () => redraw(),
  };
  const [virtual] = useState<Virtual>(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtual.setOptions(options);
  if (virtualRef) virtualRef.current = virtual;
  // A browser takes the focus from an element that moves, and keys would go nowhere.
  const focused = scroller.current?.contains(document.activeElement) ? document.activeElement as HTMLElement : null;
  useLayoutEffect(() => {
    if (!focused || document.activeElement !== document.body) return;
    (focused.isConnected ? focused : scroller.current)?.focus({ preventScroll: true });
  });
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useLayoutEffect(() => onRange?.(first, last), [first, last, count]);
  const size = virtual.getTotalSize();
  useLayoutEffect(() => onSize?.(), [size]);
  const resized = useRef(onSize);
  resized.current = onSize;
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => resized.current?.());
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, []);
  const measure = measured ? (virtual.measureElement as unknown as Ref<HTMLDivElement>) : null;
  const hold = (element: HTMLDivElement | null) => {
    scroller.current = element;
    if (scrollerRef) scrollerRef.current = element;
  };
  return (
    <div {...rest} ref={hold}>
      <div class="virtual" role={listRole} aria-label={listLabel} style={{ height: `${size}px` }}>
        {items.map((item) => (
          <div
            key={item.key}
            ref={measure}
            data-index={item.index}
            role={listRole === "list" ? "presentation" : undefined}
            class="virtual-row"
            style={{ transform: `translateY(${item.start}px)` }}
          >
            {render(item)}
          </div>
        ))}
      </div>
    </div>
  );
}
