// The insights view: how much was written, what it cost, about what, when, and where most.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import {
  type BusyConversation, type ChannelHours, InsightService, type TopicsOverTimeResponse, type UsageResponse,
} from "@recollect/client";
import { client } from "../../api/calls";
import { generation } from "../../live/connection";
import { link, route, setQuery, topicLink } from "../../router";
import { nameOf } from "../../sidebar/Row";
import { t } from "../../texts/views";
import { channelIcon, Icon } from "../../ui/Icon";
import { Card, Page } from "../../ui/Page";
import { Empty, Failure, Loading } from "../../ui/States";
import { channelName, oneLine } from "../../ui/text";
import { BarChart } from "./BarChart";
import { Feedback } from "./Feedback";
import {
  amount, dateRange, figuresOf, filtersOf, GROUPS, MEASURES, RANGES, sinceOf, timeZone, UNITS, written, type Figures, type Filters, type Measure,
} from "./figures";
import "./insights.css";

const insight = client.of(InsightService);

interface Answers {
  usage: UsageResponse;
  total: UsageResponse;
  topics: TopicsOverTimeResponse;
  hours: ChannelHours[];
  busiest: BusyConversation[];
}

async function load(filters: Filters, signal: AbortSignal): Promise<Answers> {
  const range = { dateRange: dateRange(filters), timeZone };
  const bucket = UNITS[filters.unit];
  const [usage, total, topics, hours, busiest] = await Promise.all([
    insight.usage({ ...range, bucket, groupBy: GROUPS[filters.group], maxGroups: 50 }, { signal }),
    insight.usage({ ...range, bucket }, { signal }),
    insight.topicsOverTime({ ...range, bucket, maxTopics: 8 }, { signal }),
    insight.channelActivity(range, { signal }),
    insight.busiestConversations({ ...range, limit: 10 }, { signal }),
  ]);
  return { usage, total, topics, hours: hours.channels, busiest: busiest.conversations };
}

export default function Insights() {
  const filters = filtersOf(route.value.query);
  const [answers, setAnswers] = useState<Answers>();
  const [error, setError] = useState<unknown>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setError(undefined);
    load(filters, abort.signal).then(setAnswers, (it) => abort.signal.aborted || setError(it));
    return () => abort.abort();
  }, [filters.range, filters.unit, filters.group, generation.value, attempt]);
  return (
    <Page class="insights" title={t.nav.insights}>
      <div class="filters">
        <Choice label={t.insights.range} name="range" value={filters.range} values={Object.keys(RANGES)} texts={t.insights.ranges} />
        <Choice label={t.insights.unit} name="by" value={filters.unit} values={Object.keys(UNITS)} texts={t.insights.units} />
        <Choice label={t.insights.group} name="group" value={filters.group} values={Object.keys(GROUPS)} texts={t.insights.groups} />
        <Choice label={t.insights.measure} name="measure" value={filters.measure} values={[...MEASURES]} texts={t.insights.measures} />
      </div>
      {error ? (
        <Failure error={error} retry={() => setAttempt(attempt + 1)} />
      ) : answers ? (
        <Shown answers={answers} filters={filters} />
      ) : (
        <Loading />
      )}
    </Page>
  );
}

function Choice({ label, name, value, values, texts }: { label: string; name: string; value: string; values: string[]; texts: Record<string, string> }) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select name={name} value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        {values.map((it) => <option key={it} value={it}>{texts[it]}</option>)}
      </select>
    </label>
  );
}

function Shown({ answers, filters }: { answers: Answers; filters: Filters }) {
  const { measure, group } = filters;
  const sum = answers.total.groups[0]?.activity;
  const figures = figuresOf(answers.usage, measure, group);
  const title = t.insights.usageTitle(t.insights.measures[measure], group === "none" ? "" : t.insights.groups[group] ?? "");
  const notes = sum?.notes;
  return (
    <>
      <dl class="tiles">
        <Tile name={t.insights.conversations} value={Number(sum?.conversations ?? 0n).toLocaleString(t.language)} />
        <Tile name={t.insights.measures.turns} value={written(amount(sum, "turns"), "turns", true)} />
        <Tile name={t.insights.measures.messages} value={written(amount(sum, "messages"), "messages", true)} />
        <Tile name={t.insights.measures.tokens} value={written(amount(sum, "tokens"), "tokens", true)}>
          {t.insights.tokens(written(Number(sum?.usage?.input ?? 0n), "tokens", true), written(Number(sum?.usage?.output ?? 0n), "tokens", true))}
        </Tile>
        <Tile name={t.insights.measures.cost} value={written(sum?.cost ?? 0, "cost")}>
          {notes && notes.calls > 0n ? t.insights.notes(Number(notes.calls), written(notes.cost, "cost")) : null}
        </Tile>
      </dl>
      {figures.totals.some(Boolean) || answers.topics.topics.length > 0 || answers.hours.length > 0 ? (
        <Parts answers={answers} filters={filters} figures={figures} title={title} />
      ) : (
        <Empty icon="chart" level="p" title={t.insights.nothing}>
          <p>{t.insights.nothingHint}</p>
          {filters.range !== "1y" && <button class="button" onClick={() => setQuery({ range: "1y" })}>{t.insights.longest}</button>}
        </Empty>
      )}
    </>
  );
}

interface PartsProps {
  answers: Answers;
  filters: Filters;
  figures: Figures;
  title: string;
}

function Parts({ answers, filters, figures, title }: PartsProps) {
  const { measure, unit, group } = filters;
  return (
    <>
      <Card title={title}>
        {figures.totals.some(Boolean) ? <BarChart figures={figures} measure={measure} unit={unit} label={title} range={t.insights.ranges[filters.range] ?? ""} overlaps={group === "topic"} /> : <Nothing />}
        {group === "topic" && <p class="note">{t.insights.topicsOverlap}</p>}
      </Card>
      <Topics answer={answers.topics} />
      <Hours channels={answers.hours} />
      <Busiest conversations={answers.busiest} measure={measure} />
      <Feedback since={sinceOf(filters)} />
    </>
  );
}

function Tile({ name, value, children }: { name: string; value: string; children?: ComponentChildren }) {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd>
        <span class="tile-value">{value}</span>
        {children && <span class="tile-note">{children}</span>}
      </dd>
    </div>
  );
}

const Nothing = () => <p class="nothing">{t.insights.nothing}</p>;

function Topics({ answer }: { answer: TopicsOverTimeResponse }) {
  const top = Math.max(1, ...answer.topics.flatMap((it) => it.messages.map(Number)));
  return (
    <Card title={t.insights.topicsTitle}>
      {answer.topics.length === 0 ? <Nothing /> : (
        <table class="rows">
          <thead><tr>
            <th scope="col">{t.insights.topic}</th>
            <th scope="col" class="wide">{t.insights.overTime}</th>
            <th scope="col" class="end">{t.insights.measures.messages}</th>
            <th scope="col" class="end">{t.insights.measures.turns}</th>
          </tr></thead>
          <tbody>
            {answer.topics.map((it) => {
              const values = it.messages.map(Number);
              return (
                <tr key={it.topic}>
                  <th scope="row"><a href={topicLink(it.topic)}><bdi>{oneLine(it.topic)}</bdi></a></th>
                  <td class="wide"><Spark values={values} top={top} /></td>
                  <td class="end">{sumOf(values).toLocaleString(t.language)}</td>
                  <td class="end">{sumOf(it.turns.map(Number)).toLocaleString(t.language)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {answer.moreTopics > 0n && <p class="note">{t.insights.more(Number(answer.moreTopics))}</p>}
    </Card>
  );
}

const sumOf = (values: number[]) => values.reduce((sum, it) => sum + it, 0);

/** Small bars, on one scale for all rows. The row's numbers say the same. */
function Spark({ values, top }: { values: number[]; top: number }) {
  const step = 100 / Math.max(values.length, 1);
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <line class="grid" x1="0" x2="100" y1="23.5" y2="23.5" />
      {values.map((it, at) => it > 0 && (
        <rect key={at} class="series-0" x={at * step + step * 0.12} width={step * 0.76} y={23.5 - (22 * it) / top} height={(22 * it) / top} />
      ))}
    </svg>
  );
}

const HOURS = Array.from({ length: 24 }, (_, it) => it);

/** Weekdays by hours, as the table that it is. */
function Hours({ channels }: { channels: ChannelHours[] }) {
  const chosen = route.value.query.get("hours") ?? "";
  const shown = channels.some((it) => it.channel === chosen) ? channels.filter((it) => it.channel === chosen) : channels;
  const cells = new Map<number, number>();
  for (const channel of shown) {
    for (const it of channel.hours) {
      const key = it.weekday * 24 + it.hour;
      cells.set(key, (cells.get(key) ?? 0) + Number(it.messages));
    }
  }
  const top = Math.max(1, ...cells.values());
  const choice = channels.length > 1 && (
    <label class="choice inline">
      <span class="hidden">{t.insights.groups.channel}</span>
      <select value={chosen} onChange={(event) => setQuery({ hours: event.currentTarget.value || undefined })}>
        <option value="">{t.sidebar.allChannels}</option>
        {channels.map((it) => <option key={it.channel} value={it.channel}>{channelName(it.channel)}</option>)}
      </select>
    </label>
  );
  return (
    <Card title={t.insights.hoursTitle} tools={choice}>
      {cells.size === 0 ? <Nothing /> : (
        <div class="scroll" role="region" tabIndex={0} aria-label={t.insights.hoursTitle}>
          <table class="heat">
            <caption class="hidden">{t.insights.hoursCaption(timeZone)}</caption>
            <thead>
              <tr><td />{HOURS.map((it) => <th key={it} scope="col">{String(it).padStart(2, "0")}</th>)}</tr>
            </thead>
            <tbody>
              {t.insights.weekdays.map((name, day) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  {HOURS.map((hour) => {
                    const value = cells.get((day + 1) * 24 + hour) ?? 0;
                    const level = value ? 1 + Math.round((5 * value) / top) : 0;
                    return <td key={hour} data-level={level}>{value || <span class="hidden">0</span>}</td>;
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="note">{t.insights.hoursNote(timeZone)}</p>
    </Card>
  );
}

function Busiest({ conversations, measure }: { conversations: BusyConversation[]; measure: Measure }) {
  const top = Math.max(1, ...conversations.map((it) => amount(it.activity, "messages")));
  const second = measure === "messages" ? "cost" : measure;
  return (
    <Card title={t.insights.busiestTitle}>
      {conversations.length === 0 ? <Nothing /> : (
        <table class="rows">
          <thead><tr>
            <th scope="col">{t.insights.conversation}</th>
            <th scope="col" class="wide">{t.insights.groups.channel}</th>
            <th scope="col" class="end">{t.insights.measures.messages}</th>
            <th scope="col" class="end">{t.insights.measures[second]}</th>
          </tr></thead>
          <tbody>
            {conversations.map(({ conversation, activity }) => conversation && (
              <tr key={conversation.id}>
                <th scope="row">
                  <a href={link(`/c/${conversation.id}`)}><bdi>{nameOf(conversation)}</bdi></a>
                  <span class="meter" style={{ width: `${(100 * amount(activity, "messages")) / top}%` }} />
                </th>
                <td class="wide"><span class="with-icon"><Icon name={channelIcon(conversation.channel)} />{channelName(conversation.channel)}</span></td>
                <td class="end">{written(amount(activity, "messages"), "messages")}</td>
                <td class="end">{written(amount(activity, second), second)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}
