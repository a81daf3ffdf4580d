// Who did and read what: the calls of tokens, by day, method and address.
import { useEffect, useState } from "preact/hooks";
import { AdminService, type Token } from "@recollect/client";
import { client } from "../../api/calls";
import { isCancelled } from "../../api/errors";
import { link, route, setQuery } from "../../router";
import { t } from "../../texts/administration";
import { Icon } from "../../ui/Icon";
import { Page } from "../../ui/Page";
import { Empty, Failure, Loading } from "../../ui/States";
import { oneLine } from "../../ui/text";
import { clockTime, dates, fullTime } from "../../ui/time";
import { tokenName } from "../tokens/names";
import { isReading } from "./methods";
import { daysSince, readUses, type Use } from "./reading";
import "./audit.css";

const admin = client.of(AdminService);
/** Rows that are shown before more are asked for. */
const SHOWN = 200;
const KINDS = ["all", "reads", "changes", "refused"];
const RANGES = [1, 7, 30, 90];
const EVERY_DAY = 7;
const day = dates({ weekday: "long", day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

interface Filters {
  token: string;
  days: number;
  kind: string;
  words: string;
}

function filtersOf(query: URLSearchParams): Filters {
  const days = Number(query.get("days"));
  const kind = query.get("what") ?? "";
  return {
    token: query.get("token") ?? "",
    days: RANGES.includes(days) ? days : EVERY_DAY,
    kind: KINDS.includes(kind) ? kind : "all",
    words: (query.get("find") ?? "").toLowerCase(),
  };
}

export default function Audit() {
  const filters = filtersOf(route.value.query);
  const [tokens, setTokens] = useState<Token[]>();
  const [uses, setUses] = useState<Use[]>();
  const [read, setRead] = useState(0);
  const [error, setError] = useState<unknown>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setError(undefined);
    setUses(undefined);
    readUses(admin, filters.token, daysSince(filters.days), abort.signal, setTokens, setRead).then(
      setUses,
      (failure: unknown) => isCancelled(failure) || setError(failure),
    );
    return () => abort.abort();
  }, [filters.token, filters.days, attempt]);
  const asked = filters.token ? 1 : (tokens?.length ?? 0);
  return (
    <Page class="audit" title={t.nav.audit}>
      <p class="lead">{t.audit.lead}</p>
      <Bar filters={filters} tokens={tokens ?? []} />
      {error !== undefined ? (
        <Failure error={error} retry={() => setAttempt(attempt + 1)} />
      ) : tokens?.length === 0 ? (
        <Empty icon="key" level="p" title={t.audit.noTokens}>
          <p>{t.audit.noTokensHint}</p>
          <a class="button" href={link("/tokens")}>{t.audit.toTokens}</a>
        </Empty>
      ) : !uses ? (
        <Loading {...(tokens && { text: t.audit.reading(read, asked) })} />
      ) : (
        <Days key={JSON.stringify(filters)} uses={uses.filter((it) => matches(it, filters))} />
      )}
    </Page>
  );
}

function matches({ token, use }: Use, { kind, words }: Filters): boolean {
  if (kind === "refused" && !use.refusedCalls) return false;
  if (kind === "reads" && !isReading(use.method)) return false;
  if (kind === "changes" && isReading(use.method)) return false;
  return `${use.method} ${use.space} ${use.peer} ${tokenName(token)}`.toLowerCase().includes(words);
}

function Bar({ filters, tokens }: { filters: Filters; tokens: Token[] }) {
  return (
    <div class="filters">
      <label class="choice">
        <span>{t.audit.token}</span>
        <select name="token" value={filters.token} onChange={(event) => setQuery({ token: event.currentTarget.value || undefined })}>
          <option value="">{t.audit.allTokens}</option>
          {tokens.map((it) => <option key={it.id} value={it.id}>{tokenName(it)}</option>)}
        </select>
      </label>
      <label class="choice">
        <span>{t.audit.range}</span>
        <select name="days" value={filters.days} onChange={(event) => setQuery({ days: event.currentTarget.value })}>
          {RANGES.map((it) => <option key={it} value={it}>{t.audit.ranges[it]}</option>)}
        </select>
      </label>
      <label class="choice">
        <span>{t.audit.what}</span>
        <select name="what" value={filters.kind} onChange={(event) => setQuery({ what: event.currentTarget.value })}>
          {KINDS.map((it) => <option key={it} value={it}>{t.audit.kinds[it]}</option>)}
        </select>
      </label>
      <input
        type="search" class="find" aria-label={t.audit.find} placeholder={t.audit.find} value={route.value.query.get("find") ?? ""}
        onInput={(event) => setQuery({ find: event.currentTarget.value || undefined })}
      />
    </div>
  );
}

function Days({ uses }: { uses: Use[] }) {
  const [shown, setShown] = useState(SHOWN);
  if (!uses.length) return <Empty icon="list" level="p" title={t.audit.none}><p>{t.audit.noneHint}</p></Empty>;
  const calls = uses.reduce((sum, { use }) => sum + Number(use.calls + use.refusedCalls), 0);
  const days = new Map<string, Use[]>();
  for (const it of uses.slice(0, shown)) days.set(it.use.day, [...(days.get(it.use.day) ?? []), it]);
  const left = Math.min(SHOWN, uses.length - shown);
  return (
    <>
      <p class="sum" role="status">{t.audit.sum(calls, new Set(uses.map((it) => it.token.id)).size)}</p>
      {[...days].map(([name, those]) => (
        <section class="card" key={name} aria-labelledby={`day-${name}`}>
          <header><h2 id={`day-${name}`}>{day.format(new Date(`${name}T00:00Z`))}</h2></header>
          <table class="rows">
            <thead><tr>
              <th scope="col">{t.audit.token}</th>
              <th scope="col">{t.audit.method}</th>
              <th scope="col" class="wide">{t.audit.space}</th>
              <th scope="col" class="wide">{t.audit.peer}</th>
              <th scope="col" class="end">{t.audit.calls}</th>
              <th scope="col" class="end">{t.audit.last}</th>
            </tr></thead>
            <tbody>
              {those.map(({ token, use }) => {
                const [service, method] = use.method.split(".");
                return (
                  <tr key={`${token.id} ${use.method} ${use.space} ${use.peer}`}>
                    <th scope="row"><bdi>{tokenName(token)}</bdi></th>
                    <td>
                      <code>{service}.<wbr />{method}</code>{" "}
                      <span class="muted">{isReading(use.method) ? t.audit.reads : t.audit.changes}</span>
                    </td>
                    <td class="wide">{use.space}</td>
                    <td class="wide"><code>{oneLine(use.peer === "others" ? t.audit.others : use.peer)}</code></td>
                    <td class="end">
                      {Number(use.calls).toLocaleString(t.language)}
                      {use.refusedCalls > 0n && <span class="refused"><Icon name="warning" />{t.audit.refused(Number(use.refusedCalls))}</span>}
                    </td>
                    <td class="end" title={fullTime(use.lastCallTime)}>{clockTime(use.lastCallTime)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </section>
      ))}
      {left > 0 && <button class="button" onClick={() => setShown(shown + SHOWN)}>{t.audit.more(left)}</button>}
    </>
  );
}
