// The scrolling transcript. It stays at its end while the conversation grows, and stays where it is
// while older turns are put before it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { route, setQuery } from "../../router";
import { draftsOf } from "../../state/drafts";
import { t } from "../../texts/views";
import { Icon } from "../../ui/Icon";
import { VirtualList, type Virtual } from "../../ui/VirtualList";
import { DraftLine, MessageLine } from "./MessageLine";
import { place, useMarks } from "./found";
import { linesOf, type Line, type Transcript } from "./transcript";

const AT_END = 48;
const ESTIMATE = 96;
/** Frames that what is marked stays where it is until it counts as shown, and those that are waited for that. */
const STILL = 6;
const TRIES = 90;

interface Props {
  transcript: Transcript;
  target: number;
  /** Whether a search led to the target that found none of its words. */
  isMeant: boolean;
}

export function TranscriptList({ transcript, target, isMeant }: Props) {
  const shown = transcript.shown.value;
  const virtual = useRef<Virtual | null>(null);
  const scroller = useRef<HTMLDivElement | null>(null);
  const isAtEnd = useRef(!target);
  const height = useRef(0);
  const anchor = useRef<{ key: string; offset: number } | null>(null);
  const [behind, setBehind] = useState(0);
  const [isAway, setAway] = useState(false);
  const lines = linesOf(shown.messages);
  const drafts = draftsOf(transcript.id);
  const rows = lines.length + drafts.length;
  const firstKey = lines[0]?.key;
  const before = useRef({ firstKey, rows });

  useLayoutEffect(() => void (transcript.isFollowed = isAtEnd.current));

  const wanted = place.value;
  const wantedAt = wanted ? lines.findIndex((it) => holds(it, wanted.sequence)) : -1;

  // Older turns came in before the others: what was on the screen stays where it was.
  useLayoutEffect(() => {
    const old = before.current;
    before.current = { firstKey, rows };
    const list = virtual.current;
    if (!list || !scroller.current) return;
    if (old.firstKey !== firstKey && anchor.current && !isAtEnd.current) {
      const index = lines.findIndex((it) => it.key === anchor.current?.key);
      const start = index < 0 ? undefined : list.getOffsetForIndex(index, "start")?.[0];
      if (start !== undefined) list.scrollToOffset(start + anchor.current.offset);
      // What was on the screen is of other turns: no browser told of the jump to this place yet.
      else if (wantedAt >= 0) list.scrollToIndex(wantedAt, { align: "start" });
    } else if (rows > old.rows && !isAtEnd.current) {
      setBehind((it) => it + rows - old.rows);
    }
  }, [firstKey, rows]);

  useEffect(() => {
    if (!target) return;
    const index = lines.findIndex((it) => it.message.turnNumber >= target);
    if (index < 0) return;
    isAtEnd.current = false;
    virtual.current?.scrollToIndex(index, { align: "start" });
  }, [target, shown.state, lines.some((it) => it.message.turnNumber === target)]);

  const current = useMarks(scroller, rows > 0);
  useEffect(() => {
    if (wantedAt < 0) return;
    isAtEnd.current = false;
    virtual.current?.scrollToIndex(wantedAt, { align: "start" });
    return keepInSight(current, scroller.current!, virtual.current!);
  }, [wanted, wantedAt < 0]);

  const toEnd = () => {
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  // At the end it stays at the end, whatever is measured or written there.
  const stay = () => {
    height.current = scroller.current?.clientHeight ?? 0;
    if (isAtEnd.current && !shown.hasNewer) toEnd();
  };
  const onScroll = () => {
    const element = scroller.current;
    if (!element) return; // a browser may tell of scrolling after the list was taken away
    // A browser tells of scrolling before it tells of a new height: the end went away by itself.
    if (isAtEnd.current && height.current !== element.clientHeight) stay();
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < AT_END && !shown.hasNewer;
    transcript.isFollowed = isAtEnd.current;
    if (isAtEnd.current && behind) setBehind(0);
    setAway(element.scrollHeight - element.scrollTop > 2.5 * element.clientHeight);
    const item = virtual.current?.getVirtualItems().find((it) => it.end > element.scrollTop);
    const line = item && lines[item.index];
    anchor.current = line ? { key: line.key, offset: element.scrollTop - item.start } : null;
  };
  const toLatest = async () => {
    isAtEnd.current = true;
    setBehind(0);
    if (shown.hasNewer) await transcript.open();
    if (route.value.query.has("turn")) setQuery({ turn: undefined });
    requestAnimationFrame(toEnd);
  };

  if (!rows) return <p class="state">{t.conversation.empty}</p>;
  return (
    <div class="transcript-frame">
      <VirtualList
        class="transcript"
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t.conversation.transcript}
        onScrollCapture={onScroll}
        scrollerRef={scroller}
        virtualRef={virtual}
        measured
        count={rows}
        estimate={() => ESTIMATE}
        keyOf={(index) => lines[index]?.key ?? `draft ${drafts[index - lines.length]?.id}`}
        onSize={stay}
        onRange={(first, lastRow) => {
          if (first < 6 && shown.hasOlder) void transcript.older();
          if (lastRow > rows - 6 && shown.hasNewer) void transcript.newer();
        }}
        render={({ index }) => {
          const line = lines[index];
          if (line) return (
            <MessageLine
              conversationId={transcript.id} conversation={shown.conversation} line={line}
              isTarget={wanted ? index === wantedAt : line.message.turnNumber === target}
              isMeant={wanted ? wanted.isMeant && index === wantedAt : isMeant && line.opensTurn && line.message.turnNumber === target}
            />
          );
          return <DraftLine draft={drafts[index - lines.length]!} />;
        }}
      />
      {(behind > 0 || isAway || shown.hasNewer) && (
        <button class="button to-end" onClick={() => void toLatest()}>
          <Icon name="down" />
          {behind ? t.conversation.newMessages(behind) : t.conversation.latest}
        </button>
      )}
    </div>
  );
}

/** Return whether a line shows a message, itself or as the result of its tool. */
function holds({ message, results }: Line, sequence: bigint): boolean {
  return message.sequence === sequence || [...results.values()].some((it) => it.sequence === sequence);
}

/** Scroll to what is marked until it stands still in sight, or somebody scrolls: rows get their height
 * as they are shown. Returns what ends it. */
function keepInSight(current: { current: Range | undefined }, scroller: HTMLElement, list: Virtual): () => void {
  let [still, tries, frame] = [0, 0, 0];
  const look = () => {
    const box = current.current?.getBoundingClientRect();
    if (box?.height) still = scrollTo(box, current.current!, scroller, list) ? 0 : still + 1;
    if (still < STILL && ++tries < TRIES) frame = requestAnimationFrame(look);
  };
  frame = requestAnimationFrame(look);
  const end = () => cancelAnimationFrame(frame);
  for (const it of ["wheel", "touchmove", "pointerdown", "keydown"]) scroller.addEventListener(it, end, { once: true, passive: true });
  return end;
}

/** Scroll to a place if it is out of sight; return whether it was. */
function scrollTo(box: DOMRect, { startContainer }: Range, scroller: HTMLElement, list: Virtual): boolean {
  // Long texts of tools scroll within themselves.
  const code = startContainer.parentElement?.closest<HTMLElement>("pre.code");
  const part = code?.getBoundingClientRect();
  if (part && (box.top < part.top || box.bottom > part.bottom)) {
    code!.scrollTop += box.top - part.top - part.height / 3;
    return true;
  }
  const frame = scroller.getBoundingClientRect();
  if (box.top >= frame.top && box.bottom <= frame.bottom) return false;
  list.scrollToOffset(scroller.scrollTop + box.top - frame.top - frame.height / 3);
  return true;
}
