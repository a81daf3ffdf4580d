// Stacked bars over time. The chart is a slider over its buckets: the arrow keys, and the pointer,
// choose one, whose numbers are told beneath. The same numbers stand in a table.
import { useState } from "preact/hooks";
import { isNarrow } from "../../state/theme";
import { t } from "../../texts/views";
import { axisLabel, bucketName, ceiling, written, type Figures, type Measure, type Unit } from "./figures";

const HEIGHT = 220;
const LEFT = 46;
const BOTTOM = 24;
const TOP = 8;

interface Props {
  figures: Figures;
  measure: Measure;
  unit: Unit;
  label: string;
  /** The whole time, in words. */
  range: string;
  /** True if what counts in one series may count in another, so that their sum is no count. */
  overlaps: boolean;
}

export function BarChart({ figures, measure, unit, label, range, overlaps }: Props) {
  const { starts, series, totals } = figures;
  const last = starts.length - 1;
  const [chosen, setChosen] = useState<number>();
  const WIDTH = isNarrow.value ? 360 : 840;
  const at = Math.min(chosen ?? last, last);
  const isChosen = chosen !== undefined;
  const top = ceiling(Math.max(...totals));
  const step = (WIDTH - LEFT) / Math.max(starts.length, 1);
  const bar = Math.max(1, Math.min(step * 0.72, 44));
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const every = Math.ceil(starts.length / (isNarrow.value ? 4 : 9));
  const move = (to: number) => setChosen(Math.max(0, Math.min(last, to)));
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: last, PageUp: at + 7, PageDown: at - 7 };
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  };
  const onPointer = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    move(Math.floor(((event.clientX - box.left) / box.width * WIDTH - LEFT) / step));
  };
  const start = starts[at];
  const parts = series.filter((it) => it.values[at]).map((it) => `${it.label} ${written(it.values[at] ?? 0, measure)}`);
  const sum = totals.reduce((before, it) => before + it, 0);
  const time = isChosen && start ? bucketName(start, unit) : range;
  const told = overlaps ? time : t.insights.told(time, written(isChosen ? (totals[at] ?? 0) : sum, measure), t.insights.measures[measure].toLowerCase());
  return (
    <figure class="chart">
      <div
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={t.insights.chartLabel(label)}
        aria-valuemin={0}
        aria-valuemax={Math.max(last, 0)}
        aria-valuenow={at}
        aria-valuetext={isChosen ? [told, ...parts].join("; ") : told}
        onKeyDown={onKeyDown}
        onPointerMove={onPointer}
        onPointerDown={onPointer}
        onPointerLeave={() => setChosen(undefined)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
          {[0, 0.5, 1].map((part) => (
            <g key={part}>
              <line class="grid" x1={LEFT} x2={WIDTH} y1={y(top * part)} y2={y(top * part)} />
              <text class="tick" x={LEFT - 8} y={y(top * part) + 4} text-anchor="end">{written(top * part, measure, true)}</text>
            </g>
          ))}
          {isChosen && <rect class="cursor" x={LEFT + at * step} y={TOP} width={step} height={HEIGHT - TOP - BOTTOM} />}
          {starts.map((it, index) => {
            let sum = 0;
            const x = LEFT + index * step + (step - bar) / 2;
            return (
              <g key={it.getTime()}>
                {series.map((one, number) => {
                  const value = one.values[index] ?? 0;
                  if (!value) return null;
                  const low = y(sum);
                  sum += value;
                  const height = Math.max(low - y(sum) - (sum === value ? 0 : 1), 0.5);
                  return <rect key={one.key} class={`series-${number}`} x={x} y={y(sum)} width={bar} height={height} rx={Math.min(2, bar / 4)} />;
                })}
                {index % every === 0 && (
                  <text class="tick" x={Math.min(LEFT + index * step + step / 2, WIDTH - 22)} y={HEIGHT - 6} text-anchor="middle">{axisLabel(it, unit)}</text>
                )}
              </g>
            );
          })}
        </svg>
      </div>
      <figcaption class="told"><strong>{told}</strong></figcaption>
      <ul class="legend">
        {series.map((it, number) => (
          <li key={it.key}>
            <span class={`swatch series-${number}`} />
            <bdi class="legend-name">{it.label}</bdi>
            {isChosen && <span class="number">{written(it.values[at] ?? 0, measure)}</span>}
            <span class={isChosen ? "number muted" : "number"}>{isChosen ? t.insights.ofTotal(written(it.total, measure)) : written(it.total, measure)}</span>
          </li>
        ))}
      </ul>
      <details class="figures">
        <summary>{t.insights.table}</summary>
        <div class="scroll" role="region" tabIndex={0} aria-label={label}>
          <table>
            <caption class="hidden">{label}</caption>
            <thead>
              <tr>
                <th scope="col">{t.insights.units[unit]}</th>
                {series.map((it) => <th scope="col" key={it.key}><bdi>{it.label}</bdi></th>)}
                {series.length > 1 && <th scope="col">{t.insights.total}</th>}
              </tr>
            </thead>
            <tbody>
              {starts.map((it, index) => (
                <tr key={it.getTime()}>
                  <th scope="row">{bucketName(it, unit)}</th>
                  {series.map((one) => <td key={one.key}>{written(one.values[index] ?? 0, measure)}</td>)}
                  {series.length > 1 && <td>{written(totals[index] ?? 0, measure)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}
