// What people say of answers, in a range of time: how many are good and bad, and their words.
import { useEffect, useState } from "preact/hooks";
import { ArchiveFilter, type Conversation } from "@recollect/client";
import { conversations } from "../../api/calls";
import { isCancelled } from "../../api/errors";
import { generation } from "../../live/connection";
import { link } from "../../router";
import { nameOf } from "../../sidebar/Row";
import { FEEDBACK, feedbackIn, type Feedback as Given } from "../../state/feedback";
import { t } from "../../texts/views";
import { Icon } from "../../ui/Icon";
import { Card } from "../../ui/Page";
import { Failure } from "../../ui/States";
import { oneLine } from "../../ui/text";
import { dates } from "../../ui/time";

/** The most conversations of a page, and the pages that are read: beyond them the newest count alone. */
const PAGE = 500;
const PAGES = 10;
/** Words that are shown. */
const SHOWN = 20;
const day = dates({ day: "numeric", month: "short" });

interface Entry extends Given {
  conversation: Conversation;
}

/** Read what was given since a moment, the newest first. */
async function read(since: number, signal: AbortSignal): Promise<Entry[]> {
  const entries: Entry[] = [];
  let pageToken = "";
  for (let page = 0; page < PAGES && (page === 0 || pageToken); page++) {
    const answer = await conversations.list({ metadataKey: FEEDBACK, archived: ArchiveFilter.ALL, pageSize: PAGE, pageToken }, { signal });
    for (const conversation of answer.conversations) {
      entries.push(...feedbackIn(conversation).filter((it) => it.time >= since).map((it) => ({ ...it, conversation })));
    }
    pageToken = answer.nextPageToken;
  }
  return entries.sort((a, b) => b.time - a.time);
}

export function Feedback({ since }: { since: number }) {
  const [entries, setEntries] = useState<Entry[]>();
  const [error, setError] = useState<unknown>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setError(undefined);
    read(since, abort.signal).then(setEntries, (failure: unknown) => isCancelled(failure) || setError(failure));
    return () => abort.abort();
  }, [since, generation.value, attempt]);
  if (error !== undefined) return <Failure error={error} level="p" retry={() => setAttempt(attempt + 1)} />;
  if (!entries) return null;
  const good = entries.filter((it) => it.isGood).length;
  const worded = entries.filter((it) => it.word);
  return (
    <Card title={t.feedback.title} tools={entries.length > 0 && <span class="muted tiny">{t.feedback.counts(good, entries.length - good)}</span>}>
      {!entries.length && <p class="nothing">{t.feedback.none}</p>}
      <ul class="words">
        {worded.slice(0, SHOWN).map((it) => (
          <li key={`${it.conversation.id} ${it.turn}`} data-good={it.isGood}>
            <Icon name={it.isGood ? "good" : "bad"} />
            <span><bdi>{oneLine(it.word)}</bdi> <a href={link(`/c/${it.conversation.id}`, { turn: String(it.turn) })}><bdi>{nameOf(it.conversation)}</bdi>, {t.feedback.turn(it.turn)}</a></span>
            <time>{day.format(it.time)}</time>
          </li>
        ))}
      </ul>
      {worded.length > 0 && entries.length > Math.min(worded.length, SHOWN) && <p class="note">{t.feedback.more(entries.length - Math.min(worded.length, SHOWN))}</p>}
    </Card>
  );
}
