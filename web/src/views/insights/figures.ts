// What the charts of the insights show: the filters of the address, and the answers as numbers.
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { TimeBucket, UsageGroup, type Activity, type UsageResponse } from "@recollect/client";
import { t } from "../../texts/views";
import { channelName, dollars, oneLine } from "../../ui/text";
import { dates } from "../../ui/time";

export const RANGES = { "7d": 7, "30d": 30, "90d": 90, "1y": 365 } as const;
export const UNITS = { day: TimeBucket.DAY, week: TimeBucket.WEEK, month: TimeBucket.MONTH } as const;
export const GROUPS = {
  none: UsageGroup.SPACE,
  channel: UsageGroup.CHANNEL,
  topic: UsageGroup.TOPIC,
  model: UsageGroup.MODEL,
} as const;
export const MEASURES = ["messages", "turns", "tokens", "cost"] as const;

export type Measure = (typeof MEASURES)[number];
export type Unit = keyof typeof UNITS;
export type Group = keyof typeof GROUPS;

/** What the address asks for. */
export interface Filters {
  range: keyof typeof RANGES;
  unit: Unit;
  group: Group;
  measure: Measure;
}

/** Read the filters of an address; what makes no sense counts as unset. */
export function filtersOf(query: URLSearchParams): Filters {
  const one = <T extends string>(key: string, values: readonly T[], otherwise: T): T =>
    values.find((it) => it === query.get(key)) ?? otherwise;
  const range = one("range", Object.keys(RANGES) as (keyof typeof RANGES)[], "30d");
  const unit = one("by", Object.keys(UNITS) as Unit[], range === "1y" ? "month" : range === "90d" ? "week" : "day");
  return {
    range,
    unit,
    group: one("group", Object.keys(GROUPS) as Group[], "channel"),
    measure: one("measure", MEASURES, "messages"),
  };
}

/** Return the range of time that filters mean, until now. It begins with a whole unit, so that every
 * answer is about the same time, by whatever unit it counts. */
export function dateRange(filters: Filters) {
  return { start: timestampFromMs(sinceOf(filters)) };
}

/** Return the beginning of the range of time that filters mean, in milliseconds since 1970. */
export function sinceOf({ range, unit }: Filters): number {
  const start = new Date();
  start.setHours(0, 0, 0, 0);
  start.setDate(start.getDate() - RANGES[range] + 1);
  if (unit === "week") start.setDate(start.getDate() - ((start.getDay() + 6) % 7));
  if (unit === "month") start.setDate(1);
  return start.getTime();
}

export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Return a measure of an activity. */
export function amount(activity: Activity | undefined, measure: Measure): number {
  if (!activity) return 0;
  switch (measure) {
    case "messages":
      return Number(activity.userMessages + activity.assistantMessages + activity.toolMessages);
    case "turns":
      return Number(activity.turns);
    case "tokens":
      return Number((activity.usage?.input ?? 0n) + (activity.usage?.output ?? 0n));
    case "cost":
      return activity.cost;
  }
}

const compact = new Intl.NumberFormat(t.language, { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat(t.language, { maximumFractionDigits: 0 });

/** Return a value as people read it. */
export function written(value: number, measure: Measure, isShort = false): string {
  if (measure === "cost") return dollars(value);
  return isShort && value >= 10_000 ? compact.format(value) : whole.format(value);
}

export interface Series {
  key: string;
  label: string;
  total: number;
  values: number[];
}

export interface Figures {
  starts: Date[];
  series: Series[];
  totals: number[];
  /** Groups that were left out. */
  more: number;
}

/** Most series that are told apart by colour. */
const MAX_SERIES = 6;

/** Return the series of an answer, the largest first; those after the sixth are added up. */
export function figuresOf(answer: UsageResponse, measure: Measure, group: Group): Figures {
  const starts = answer.bucketStarts.map(timestampDate);
  const place = new Map(starts.map((it, at) => [it.getTime(), at]));
  const series = new Map<string, Series>();
  for (const it of answer.groups) {
    const label = group === "none" ? t.insights.all : nameOf(it.group, it.label, group);
    series.set(it.group, { key: it.group, label, total: amount(it.activity, measure), values: starts.map(() => 0) });
  }
  for (const row of answer.rows) {
    const at = row.bucketStart && place.get(timestampDate(row.bucketStart).getTime());
    const one = series.get(row.group);
    if (one && at !== undefined) one.values[at] = amount(row.activity, measure);
  }
  const all = [...series.values()].sort((a, b) => b.total - a.total);
  const shown = all.length > MAX_SERIES ? [...all.slice(0, MAX_SERIES - 1), sumOf(all.slice(MAX_SERIES - 1))] : all;
  const totals = starts.map((_, at) => shown.reduce((sum, it) => sum + (it.values[at] ?? 0), 0));
  return { starts, series: shown, totals, more: Number(answer.moreGroups) };
}

function sumOf(series: Series[]): Series {
  return {
    key: "\0others",
    label: t.insights.others(series.length),
    total: series.reduce((sum, it) => sum + it.total, 0),
    values: (series[0]?.values ?? []).map((_, at) => series.reduce((sum, it) => sum + (it.values[at] ?? 0), 0)),
  };
}

function nameOf(key: string, label: string, group: Group): string {
  if (group === "channel") return channelName(key);
  return oneLine(label || key) || (group === "model" ? t.insights.noModel : t.insights.noName);
}

/** Return a round number at or above a value, for the top of an axis. */
export function ceiling(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  // The middle of the axis is labelled too: the half of a number of messages is one.
  const steps = power === 1 ? [2, 4, 6, 8, 10] : [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10];
  return power * (steps.find((it) => it * power >= value * 0.999) ?? 10);
}

const dayLabel = dates({ day: "numeric", month: "short" });
const fullLabel = dates({ weekday: "short", day: "numeric", month: "short", year: "numeric" });
const monthLabel = dates({ month: "short", year: "2-digit" });
const monthFull = dates({ month: "long", year: "numeric" });

/** Return the label of a bucket on the axis. */
export function axisLabel(start: Date, unit: Unit): string {
  return unit === "month" ? monthLabel.format(start) : dayLabel.format(start);
}

/** Return the name of a bucket in a sentence. */
export function bucketName(start: Date, unit: Unit): string {
  if (unit === "month") return monthFull.format(start);
  return unit === "week" ? t.insights.weekOf(dayLabel.format(start)) : fullLabel.format(start);
}
