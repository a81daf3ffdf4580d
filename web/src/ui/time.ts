// Times as people read them: in the browser's time zone, and as its languages write them.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { t } from "../texts";

const LOCALES = [...navigator.languages];
/** Return a writer of dates in the person's own locale. */
export const dates = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(LOCALES, options);

const clock = dates({ hour: "2-digit", minute: "2-digit" });
const day = dates({ day: "numeric", month: "short" });
const dayAndYear = dates({ day: "numeric", month: "short", year: "numeric" });
const full = dates({ dateStyle: "full", timeStyle: "medium" });

/** Return milliseconds since 1970, 0 for an unset time. */
export function millis(time: Timestamp | undefined): number {
  return time ? Number(time.seconds) * 1000 + Math.floor(time.nanos / 1e6) : 0;
}

/** Return a time for lists: minutes and hours of today, else the day. */
export function shortTime(time: Timestamp | undefined, now = Date.now()): string {
  const at = millis(time);
  if (!at) return t.time.unknown;
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1 && minutes > -5) return t.time.now;
  if (minutes >= 0 && minutes < 60) return t.time.minutes(minutes);
  const date = new Date(at);
  const today = new Date(now);
  if (date.toDateString() === today.toDateString()) return clock.format(date);
  return date.getFullYear() === today.getFullYear() ? day.format(date) : dayAndYear.format(date);
}

/** Return the hour and minute. */
export function clockTime(time: Timestamp | undefined): string {
  return time ? clock.format(millis(time)) : t.time.unknown;
}

/** Return the day with its year. */
export function dayOf(time: Timestamp | undefined): string {
  return time ? dayAndYear.format(millis(time)) : t.time.unknown;
}

/** Return the whole time, for a tooltip. */
export function fullTime(time: Timestamp | undefined): string {
  return time ? full.format(millis(time)) : t.time.unknown;
}

/** Return how long something took. */
export function duration(ms: number): string {
  if (ms < 60_000) return t.time.seconds((ms / 1000).toFixed(ms < 10_000 ? 1 : 0));
  return ms < 3_600_000 ? t.time.minutes(Math.round(ms / 60_000)) : t.time.hours(Math.round(ms / 3_600_000));
}

/** Return the number of midnights between a time and now. */
export function daysAgo(time: Timestamp | undefined, now = Date.now()): number {
  const midnight = (at: number) => new Date(at).setHours(0, 0, 0, 0);
  return Math.round((midnight(now) - midnight(millis(time))) / 86_400_000);
}

/** Return whether a date field is filled in. By keyboard it passes years 2, 20 and 202 on its way. */
export function isWholeDate(text: string): boolean {
  return text !== "" && Number(text.slice(0, 4)) >= 1970;
}
