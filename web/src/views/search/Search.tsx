// Search over all conversations, by words and by meaning. The address holds the question and its
// filters, so that a search can be kept as a bookmark and gone back to.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type FacetsResponse, InsightService, Scope, type SearchResponse } from "@recollect/client";
import { client, recall } from "../../api/calls";
import { isCancelled } from "../../api/errors";
import { may } from "../../api/session";
import { link, navigate, route, topicLink } from "../../router";
import { t } from "../../texts/views";
import { DateField } from "../../ui/DateField";
import { Degraded } from "../../ui/Degraded";
import { Icon } from "../../ui/Icon";
import { Empty, Failure, Loading } from "../../ui/States";
import { channelName, DOUBTFUL, oneLine } from "../../ui/text";
import { Result } from "./Result";
import "./search.css";

const insight = client.of(InsightService);

const LIMIT = 30;
/** The most that the server answers. */
const MOST = 100;
/** Topics that are offered at the beginning. */
const TOPICS = 12;
const FILTERS = ["channel", "from", "to", "topic", "person"] as const;
type Filter = (typeof FILTERS)[number];

type Outcome = { kind: "none" | "loading" } | { kind: "failed"; error: unknown } | { kind: "found"; answer: SearchResponse };

export default function SearchView() {
  const query = route.value.query;
  const question = query.get("q") ?? "";
  const [text, setText] = useState(question);
  const [outcome, setOutcome] = useState<Outcome>({ kind: "none" });
  const [attempt, setAttempt] = useState(0);
  const [limit, setLimit] = useState(LIMIT);
  const input = useRef<HTMLInputElement>(null);
  const address = ["q", ...FILTERS].map((it) => query.get(it) ?? "").join("\n");

  useLayoutEffect(() => setText(question), [question]); // before anybody types
  useLayoutEffect(() => {
    if (!question) input.current?.focus();
  }, []);
  useEffect(() => {
    if (!question.trim()) return setOutcome({ kind: "none" });
    const abort = new AbortController();
    setOutcome({ kind: "loading" });
    search(query, limit, abort.signal).then(
      (answer) => setOutcome({ kind: "found", answer }),
      (error: unknown) => isCancelled(error) || setOutcome({ kind: "failed", error }),
    );
    return () => abort.abort();
  }, [address, attempt, limit]);
  useEffect(() => setLimit(LIMIT), [address]);

  const change = (changes: Partial<Record<Filter | "q", string>>) => {
    const old = Object.fromEntries(query);
    navigate("/search", { ...old, q: input.current!.value, ...changes });
  };
  return (
    <div class="search">
      <header class="view-header">
        <a class="quiet back" href={link("/")} aria-label={t.app.back}><Icon name="back" /></a>
        <div class="view-title"><h1>{t.search.title}</h1></div>
      </header>
      <div class="search-scroll">
        <form
          class="search-form"
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            change({});
          }}
        >
          <div class="search-line">
            <Icon name="search" />
            <input
              ref={input} type="search" value={text} aria-label={t.search.label} placeholder={t.search.placeholder}
              dir="auto" onInput={(event) => setText(event.currentTarget.value)}
            />
            <button class="button primary">{t.search.submit}</button>
          </div>
          <Filters values={query} change={change} />
        </form>
        <div class="results" aria-live="polite">
          {outcome.kind === "none" && <Start />}
          {outcome.kind === "loading" && <Loading text={t.search.searching} />}
          {outcome.kind === "failed" && <Failure level="p" error={outcome.error} retry={() => setAttempt(attempt + 1)} />}
          {outcome.kind === "found" && <Found answer={outcome.answer} query={question} more={limit < MOST ? () => setLimit(MOST) : undefined} />}
        </div>
      </div>
    </div>
  );
}

function Found({ answer, query, more }: { answer: SearchResponse; query: string; more: (() => void) | undefined }) {
  const { results, hits, degraded, totalMatches } = answer;
  if (!results.length) {
    return (
      <>
        <Degraded legs={degraded} />
        <Empty icon="search" level="p" title={t.search.nothing}><p>{t.search.nothingHint}</p></Empty>
      </>
    );
  }
  const isDoubtful = results[0]!.score < DOUBTFUL;
  return (
    <>
      <p class="search-summary">
        {t.search.summary(results.length, Number(totalMatches))}
        {isDoubtful && <span class="doubt">{t.search.doubtful}</span>}
      </p>
      <Degraded legs={degraded} />
      <ol class="result-list" aria-label={t.search.results}>
        {results.map((result) => (
          <Result key={result.conversationId} result={result} query={query} hits={hits.filter((it) => it.conversationId === result.conversationId)} />
        ))}
      </ol>
      {more && answer.hasMore && <p class="more"><button class="button" onClick={more}>{t.search.more}</button></p>}
    </>
  );
}

/** What leads on before anybody has typed: what people talk about most. */
function Start() {
  const [topics, setTopics] = useState<string[]>([]);
  useEffect(() => {
    if (may(Scope.CONVERSATIONS_READ)) insight.listTopics({ pageSize: TOPICS }).then((it) => setTopics(it.topics.map(({ label }) => label)), () => undefined);
  }, []);
  return (
    <Empty icon="search" level="p" title={t.search.start}>
      <p>{t.search.startHint}</p>
      {topics.length > 0 && (
        <p class="topics" aria-label={t.search.topics}>{topics.map((it) => <a key={it} href={topicLink(it)}>{oneLine(it)}</a>)}</p>
      )}
    </Empty>
  );
}

interface FiltersProps {
  values: URLSearchParams;
  change: (changes: Partial<Record<Filter, string>>) => void;
}

function Filters({ values, change }: FiltersProps) {
  const [facets, setFacets] = useState<FacetsResponse>();
  useEffect(() => {
    // Only suggestions: without them every filter can still be typed.
    if (may(Scope.CONVERSATIONS_READ)) insight.facets({ maxValues: 50 }).then(setFacets, () => undefined);
  }, []);
  const of = (name: Filter) => valueOf(values, name);
  const channels = new Set([...(facets?.channels?.facets.map((it) => it.value) ?? []), ...(of("channel") ? [of("channel")] : [])]);
  const isFiltered = FILTERS.some((it) => of(it));
  return (
    <div class="search-filters">
      <label>
        <span>{t.search.channel}</span>
        <select value={of("channel")} onChange={(event) => change({ channel: event.currentTarget.value })}>
          <option value="">{t.sidebar.allChannels}</option>
          {[...channels].map((it) => <option key={it} value={it}>{channelName(it)}</option>)}
        </select>
      </label>
      <DateField name="from" label={t.search.from} value={of("from")} onChange={(from) => change({ from })} />
      <DateField name="to" label={t.search.to} value={of("to")} onChange={(to) => change({ to })} />
      <label>
        <span>{t.search.topic}</span>
        <input list="topics" value={of("topic")} onChange={(event) => change({ topic: event.currentTarget.value })} />
        <Suggestions id="topics" values={facets?.topics?.facets.map((it) => it.value)} />
      </label>
      <label>
        <span>{t.search.person}</span>
        <input list="people" value={of("person")} onChange={(event) => change({ person: event.currentTarget.value })} />
        <Suggestions id="people" values={facets?.participants?.facets.map((it) => it.value)} />
      </label>
      {isFiltered && (
        <button class="button" type="button" onClick={() => change({ channel: "", from: "", to: "", topic: "", person: "" })}>
          {t.sidebar.clear}
        </button>
      )}
    </div>
  );
}

/** Return a filter of the address; nothing for a date that is none. */
function valueOf(query: URLSearchParams, name: Filter | "q"): string {
  const value = query.get(name) ?? "";
  const isDate = name === "from" || name === "to";
  return isDate && !(/^\d{4}-\d\d-\d\d$/.test(value) && Date.parse(value)) ? "" : value;
}

function Suggestions({ id, values = [] }: { id: string; values?: string[] }) {
  return <datalist id={id}>{values.map((it) => <option key={it} value={it} />)}</datalist>;
}

function search(query: URLSearchParams, limit: number, signal: AbortSignal): Promise<SearchResponse> {
  const of = (name: Filter | "q") => valueOf(query, name);
  const day = (text: string, days: number) => {
    const date = new Date(`${text}T00:00`);
    date.setDate(date.getDate() + days);
    return Number.isNaN(date.getTime()) ? undefined : timestampFromMs(date.getTime());
  };
  const start = of("from") ? day(of("from"), 0) : undefined;
  const end = of("to") ? day(of("to"), 1) : undefined;
  const request = {
    query: of("q"),
    limit,
    channel: of("channel"),
    topics: of("topic") ? [of("topic")] : [],
    participants: of("person") ? [of("person")] : [],
    dateRange: start || end ? { start, end } : undefined,
    explain: true,
  };
  return recall.search(request, { signal });
}
