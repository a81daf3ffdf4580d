// Finding within a conversation: words as they were written, each place of them, and below what only
// means the same.
import type { SearchHit } from "@recollect/client";
import { Scope } from "@recollect/client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { recall } from "../../api/calls";
import { describe, isCancelled } from "../../api/errors";
import { may } from "../../api/session";
import { listen } from "../../live/connection";
import { setQuery } from "../../router";
import { useFocus } from "../../ui/focus";
import { fold } from "../../ui/folding";
import { DOUBTFUL } from "../../ui/text";
import { t } from "../../texts/views";
import { Icon } from "../../ui/Icon";
import { Snippet, wordsOf } from "../search/Snippet";
import { Texts } from "./finding";
import { marks, place, type Place } from "./found";
import type { Transcript } from "./transcript";

/** Places by meaning that are offered. */
const FEW = 3;
const PAUSE_MS = 200;

export function Find({ transcript, onClose }: { transcript: Transcript; onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const last = useRef(0); // `at` as the last key set it, which may not be shown yet
  const [problem, setProblem] = useState("");
  const input = useFocus();
  const texts = useMemo(() => new Texts(), []);
  const { count, isWhole } = texts.read.value;
  const places = useMemo(() => (text.trim() && isWhole ? texts.find(text) : undefined), [text, texts.read.value]);
  const meant = useMeant(transcript.id, text.trim(), setProblem);
  const others = meant.filter((hit) => !places?.some((it) => it.sequence === hit.sequence)).slice(0, FEW);

  useEffect(() => {
    const abort = new AbortController();
    texts.load(transcript.id, abort.signal).catch((error: unknown) => isCancelled(error) || setProblem(describe(error)));
    setQuery({ words: undefined, meant: undefined, by: undefined });
    return () => {
      abort.abort();
      marks.value = place.value = undefined;
    };
  }, []);
  useEffect(() => listen((update) => texts.hear(transcript.id, update)), []);
  useEffect(() => {
    place.value = undefined;
    marks.value = text.trim() ? { phrase: fold(text.trim()), words: [], meant: [] } : undefined;
  }, [text]);
  const show = (it: Place | undefined) => {
    if (!it) return;
    setQuery({ turn: String(it.turn) });
    place.value = it;
  };
  const go = (to: number) => {
    setAt(last.current = to);
    show(places?.[to]);
  };
  useEffect(() => go(0), [text, !!places]);
  const step = (by: number) => places?.length && go((last.current + by + places.length) % places.length);
  const toMeant = (hit: SearchHit) => {
    marks.value = { phrase: fold(text.trim()), ...wordsOf(hit, text) };
    show({ sequence: hit.sequence, turn: hit.turnNumber, index: 0, isMeant: true });
  };
  const status = !text.trim() ? "" : !places ? t.actions.findReading(count)
    : places.length ? t.actions.place(at + 1, places.length) : t.actions.findNone;
  return (
    <form
      class="find" role="search" onSubmit={(event) => { event.preventDefault(); step(1); }}
      onKeyDown={(event) => {
        const isButton = (event.target as Element).closest(".find-meant button");
        if (event.key === "Escape") onClose();
        else if (event.key === "Enter" && event.shiftKey && !isButton) step(-1);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <input
        ref={input} type="search" value={text} aria-label={t.actions.find} placeholder={t.actions.find} dir="auto"
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <span class="find-hit" role="status">{status}</span>
      <button class="quiet" type="button" aria-label={t.actions.previous} title={t.actions.previous} disabled={!places?.length} onClick={() => step(-1)}><Icon name="up" /></button>
      <button class="quiet" aria-label={t.actions.next} title={t.actions.next} disabled={!places?.length}><Icon name="down" /></button>
      <button class="quiet" type="button" aria-label={t.app.close} title={t.app.close} onClick={onClose}><Icon name="close" /></button>
      {problem && <p class="error" role="alert">{problem}</p>}
      {others.length > 0 && (
        <div class="find-meant">
          <span>{t.actions.findMeant}</span>
          {others.map((hit) => (
            <button
              key={String(hit.sequence)} type="button" aria-current={place.value?.isMeant && place.value.sequence === hit.sequence}
              onClick={() => toMeant(hit)}
            >
              <span class="turn">{t.conversation.turn(hit.turnNumber)}</span> <bdi><Snippet of={hit} /></bdi>
            </button>
          ))}
        </div>
      )}
    </form>
  );
}

/** Return what means something alike, best first, for who may search. */
function useMeant(conversationId: string, query: string, setProblem: (problem: string) => void): SearchHit[] {
  const [hits, setHits] = useState<SearchHit[]>([]);
  useEffect(() => {
    setProblem("");
    setHits([]);
    if (!query || !may(Scope.RECALL)) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      recall.search({ query, conversationId, limit: 10 * FEW, minScore: DOUBTFUL }, { signal: abort.signal }).then(
        (it) => setHits(it.hits),
        (error: unknown) => isCancelled(error) || setProblem(describe(error)),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [query]);
  return hits;
}
