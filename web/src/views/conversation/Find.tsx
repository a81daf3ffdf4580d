// Finding within a conversation. The server looks, for the page holds only a part of a transcript.
import type { SearchHit } from "@recollect/client";
import { useEffect, useState } from "preact/hooks";
import { recall } from "../../api/calls";
import { describe, isCancelled } from "../../api/errors";
import { setQuery } from "../../router";
import { useFocus } from "../../ui/focus";
import { t } from "../../texts";
import { Icon } from "../../ui/Icon";
import { Snippet } from "../search/Result";

const MOST = 100;

export function Find({ conversationId, onClose }: { conversationId: string; onClose: () => void }) {
  const [text, setText] = useState("");
  const [hits, setHits] = useState<SearchHit[]>();
  const [at, setAt] = useState(0);
  const [problem, setProblem] = useState("");
  const input = useFocus();
  const go = (to: number, among = hits) => {
    const hit = among?.[to];
    if (!hit) return;
    setAt(to);
    setQuery({ turn: String(hit.turnNumber) });
  };
  useEffect(() => {
    setProblem("");
    if (!text.trim()) return setHits(undefined);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      recall.search({ query: text, conversationId, limit: MOST }, { signal: abort.signal }).then(
        (it) => {
          // Where the words stand, in the order of reading; what only means the same where none do.
          const exact = it.hits.filter((hit) => hit.snippetMatches.length);
          const found = (exact.length ? exact : it.hits).sort((a, b) => Number(a.sequence - b.sequence));
          setHits(found);
          go(0, found);
        },
        (error: unknown) => isCancelled(error) || setProblem(describe(error)),
      );
    }, 200);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  const step = (by: number) => hits?.length && go((at + by + hits.length) % hits.length);
  const hit = hits?.[at];
  return (
    <form
      class="find" role="search" onSubmit={(event) => { event.preventDefault(); step(1); }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        else if (event.key === "Enter" && event.shiftKey) step(-1);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <input
        ref={input} type="search" value={text} aria-label={t.actions.find} placeholder={t.actions.find} dir="auto"
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <span class="find-hit" role="status">
        {hits && (hit ? t.actions.place(at + 1, hits.length) : t.actions.findNone)}
        {hit && <bdi class="muted"><Snippet of={hit} /></bdi>}
      </span>
      {problem && <span class="error" role="alert">{problem}</span>}
      <button class="quiet" type="button" aria-label={t.actions.previous} title={t.actions.previous} disabled={!hit} onClick={() => step(-1)}><Icon name="up" /></button>
      <button class="quiet" aria-label={t.actions.next} title={t.actions.next} disabled={!hit}><Icon name="down" /></button>
      <button class="quiet" type="button" aria-label={t.app.close} title={t.app.close} onClick={onClose}><Icon name="close" /></button>
    </form>
  );
}
