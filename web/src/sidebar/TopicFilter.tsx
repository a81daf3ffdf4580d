// The filter of the list by topic, where conversations have topics.
import { InsightService } from "@recollect/client";
import { useEffect, useState } from "preact/hooks";
import { client } from "../api/calls";
import { setQuery } from "../router";
import { readFilters } from "../state/conversations";
import { t } from "../texts/views";
import { oneLine } from "../ui/text";

const insight = client.of(InsightService);
/** Topics that can be chosen: those of the most conversations. */
const MOST = 100;

export function TopicFilter() {
  const { topic } = readFilters();
  const [labels, setLabels] = useState<string[]>([]);
  const read = () => void insight.listTopics({ pageSize: MOST }).then(({ topics }) => setLabels(topics.map((it) => it.label)), () => undefined);
  useEffect(read, []);
  const all = [...new Set([...(topic ? [topic] : []), ...labels])];
  if (!all.length) return null;
  return (
    <select aria-label={t.search.topic} value={topic} onFocus={read} onChange={(event) => setQuery({ about: event.currentTarget.value || undefined })}>
      <option value="">{t.sidebar.allTopics}</option>
      {all.map((it) => <option key={it} value={it}>{oneLine(it)}</option>)}
    </select>
  );
}
