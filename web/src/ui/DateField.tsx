// A date as the person's own locale writes it: typed, with or without separators, or chosen from the browser's
// calendar. A browser's own field of dates goes by the language of its windows instead.
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../texts/views";
import { Icon } from "./Icon";
import { dates, isWholeDate } from "./time";

type Part = "day" | "month" | "year";

const format = dates({ day: "2-digit", month: "2-digit", year: "numeric", calendar: "gregory", numberingSystem: "latn", timeZone: "UTC" });
const PARTS = format.formatToParts(0).filter((it) => it.type !== "era");
const ORDER = PARTS.map((it) => it.type).filter((it): it is Part => it === "day" || it === "month" || it === "year");
const PATTERN = PARTS.map((it) => (it.type === "literal" ? it.value : t.date.parts[it.type as Part] ?? "")).join("");

/** Return a day (`2026-02-03`) as the locale writes it. */
function written(day: string): string {
  return isWholeDate(day) ? format.format(new Date(`${day}T00:00Z`)) : "";
}

/** Return the day (`2026-02-03`) that somebody typed; undefined: it is none yet. */
export function dayIn(text: string, order = ORDER): string | undefined {
  const groups = text.match(/\d+/g) ?? [];
  const [only] = groups;
  let values: Record<Part, string>;
  if (groups.length === 3) {
    const used = only!.length === 4 ? (["year", "month", "day"] as const) : order;
    values = Object.fromEntries(used.map((it, index) => [it, groups[index]!])) as typeof values;
  } else if (groups.length === 1 && only!.length === 8) {
    let at = 0;
    values = Object.fromEntries(order.map((it) => [it, only!.slice(at, (at += it === "year" ? 4 : 2))])) as typeof values;
  } else return undefined;
  const day = `${values.year}-${values.month.padStart(2, "0")}-${values.day.padStart(2, "0")}`;
  if (values.year.length !== 4 || !isWholeDate(day)) return undefined;
  const date = new Date(`${day}T00:00Z`);
  return Number.isNaN(date.getTime()) || date.toISOString().slice(0, 10) !== day ? undefined : day;
}

interface Props {
  label: string;
  name: string;
  /** The day, as `2026-02-03`; empty: none. */
  value?: string;
  onChange: (day: string) => void;
}

export function DateField({ label, name, value = "", onChange }: Props) {
  const [text, setText] = useState(written(value));
  const [isWrong, setWrong] = useState(false);
  const calendar = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (dayIn(text) !== (value || undefined)) setText(written(value));
  }, [value]);
  const take = (typed: string) => {
    setText(typed);
    setWrong(false);
    const day = typed.trim() ? dayIn(typed) : "";
    if (day !== undefined && day !== value) onChange(day);
  };
  const choose = () => {
    try {
      calendar.current!.showPicker();
    } catch {
      calendar.current!.focus(); // a browser without such a window
    }
  };
  const id = `date-${name}`;
  return (
    <div class="date-field">
      <label for={id}>{label}</label>
      <span class="date">
        <input
          id={id} name={name} value={text} placeholder={PATTERN} inputMode="numeric" autocomplete="off" aria-invalid={isWrong}
          onInput={(event) => take(event.currentTarget.value)}
          onBlur={() => {
            const day = dayIn(text);
            setWrong(!!text.trim() && !day);
            if (day) setText(written(day));
          }}
        />
        <button class="quiet" type="button" title={t.date.choose(label)} aria-label={t.date.choose(label)} onClick={choose}><Icon name="calendar" /></button>
        <input ref={calendar} type="date" tabIndex={-1} aria-hidden="true" value={value} onChange={(event) => take(written(event.currentTarget.value))} />
      </span>
    </div>
  );
}
