// The scrolling transcript. It stays at its end while the conversation grows, and stays where it is
// while older turns are put before it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { route, setQuery } from "../../router";
import { draftsOf } from "../../state/drafts";
import { t } from "../../texts";
import { Icon } from "../../ui/Icon";
import { VirtualList, type Virtual } from "../../ui/VirtualList";
import { DraftLine, MessageLine } from "./MessageLine";
import { linesOf, type Transcript } from "./transcript";

const AT_END = 48;
const ESTIMATE = 96;

export function TranscriptList({ transcript, target }: { transcript: Transcript; target: number }) {
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
            <MessageLine conversationId={transcript.id} line={line} isTarget={line.message.turnNumber === target} />
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
