// A conversation that a search found: why, and what stands there.
import { useEffect, useState } from "preact/hooks";
import type { BesideMessage, FetchContextResponse, LegScore, SearchHit, SearchResult } from "@recollect/client";
import { recall } from "../../api/calls";
import { link } from "../../router";
import { t } from "../../texts/views";
import { legName } from "../../ui/Degraded";
import { channelIcon, Icon } from "../../ui/Icon";
import { Failure, Loading } from "../../ui/States";
import { channelName, oneLine } from "../../ui/text";
import { dayOf, fullTime } from "../../ui/time";
import { MessageLine, speaker } from "../conversation/MessageLine";
import { linesOf } from "../conversation/transcript";
import { linkTo } from "./link";
import { Snippet } from "./Snippet";

export function Result({ result, hits, query }: { result: SearchResult; hits: SearchHit[]; query: string }) {
  const turn = result.matchedTurns[0];
  const address = link(...linkTo(result, hits, query));
  return (
    <li class="result">
      <h2><a href={address}><bdi>{oneLine(result.conversationName) || t.sidebar.unnamed}</bdi></a></h2>
      <p class="result-meta">
        <Icon name={channelIcon(result.channel)} />
        <span>{channelName(result.channel)}</span>
        <time title={fullTime(result.date)}>{dayOf(result.date)}</time>
        {turn !== undefined && <span>{t.conversation.turn(turn)}</span>}
        <Score score={result.score} />
      </p>
      <p class="snippet" dir="auto">
        {result.snippetFromNotes && <em>{t.search.fromNotes} </em>}
        <Snippet of={result} />
      </p>
      {!result.snippetFromNotes && hits[0]?.after && <Reply of={hits[0].after} />}
      {result.abbreviation && !result.snippetFromNotes && (
        <p class="preview" dir="auto"><span>{t.search.abbreviation}:</span> {oneLine(result.abbreviation)}</p>
      )}
      {result.topics.length > 0 && <p class="topics">{result.topics.map((it) => <span key={it}>{oneLine(it)}</span>)}</p>}
      <Parts result={result} hits={hits} query={query} />
    </li>
  );
}

/** What somebody else said next, where the best message asks: one line, which opens. */
function Reply({ of }: { of: BesideMessage }) {
  return (
    <details class="reply" dir="auto">
      <summary>{speaker(of)}: <bdi>{oneLine(of.text)}</bdi></summary>
    </details>
  );
}

function Score({ score }: { score: number }) {
  const percent = Math.round(score * 100);
  return (
    <span class="score" title={t.search.scoreHint}>
      <meter min={0} max={100} value={percent} aria-label={t.search.score} />
      {percent} %
    </span>
  );
}

/** What can be unfolded: the transcript around the match, and why it matched. */
function Parts({ result, hits, query }: { result: SearchResult; hits: SearchHit[]; query: string }) {
  const [open, setOpen] = useState<"" | "turns" | "why">("");
  const toggle = (part: "turns" | "why") => setOpen(open === part ? "" : part);
  return (
    <>
      <p class="result-actions">
        {result.turnRange && (
          <button aria-expanded={open === "turns"} onClick={() => toggle("turns")}><Icon name="chevron" />{t.search.expand}</button>
        )}
        <button aria-expanded={open === "why"} onClick={() => toggle("why")}><Icon name="chevron" />{t.search.why}</button>
      </p>
      {open === "turns" && <Turns result={result} />}
      {open === "why" && <Why legs={result.explanation} hits={hits} query={query} />}
    </>
  );
}

function Turns({ result }: { result: SearchResult }) {
  const [answer, setAnswer] = useState<FetchContextResponse>();
  const [error, setError] = useState<unknown>();
  const load = () => {
    setError(undefined);
    const { conversationId, turnRange } = result;
    recall.fetchContext({ conversationId, turnRange }).then(setAnswer, setError);
  };
  useEffect(load, []);
  if (error) return <Failure level="p" error={error} retry={load} />;
  if (!answer) return <Loading />;
  return (
    <div class="result-turns">
      {linesOf(answer.messages).map((line) => (
        <MessageLine key={line.key} conversationId={result.conversationId} line={line} isTarget={result.matchedTurns.includes(line.message.turnNumber)} />
      ))}
    </div>
  );
}

function Why({ legs, hits, query }: { legs: LegScore[]; hits: SearchHit[]; query: string }) {
  return (
    <div class="why">
      <table>
        <thead><tr><th>{t.search.leg}</th><th>{t.search.rank}</th><th>{t.search.legScore}</th></tr></thead>
        <tbody>
          {legs.map((it) => (
            <tr key={it.leg}><td>{legName(it.leg)}</td><td>{it.rank}</td><td>{it.score.toFixed(2)}</td></tr>
          ))}
        </tbody>
      </table>
      {hits.length > 0 && (
        <ul>
          {hits.slice(0, 5).map((it) => (
            <li key={String(it.sequence)}>
              <a href={link(...linkTo(it, [it], query))}>{t.conversation.turn(it.turnNumber)}</a>{" "}
              <bdi><Snippet of={it} /></bdi>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
