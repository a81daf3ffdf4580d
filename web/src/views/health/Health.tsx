// The health view: what works, what does not, and which conversations need somebody.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import {
  AdminService, type GetStatsResponse, Health as HealthService, HealthStatus, type Job, JobState, type Space,
} from "@recollect/client";
import { client } from "../../api/calls";
import { link } from "../../router";
import { t } from "../../texts/administration";
import { Icon, type IconName } from "../../ui/Icon";
import { usePolled } from "../../ui/polling";
import { Card, Page } from "../../ui/Page";
import { Failure, Loading } from "../../ui/States";
import { dollars, oneLine, sizeOf } from "../../ui/text";
import { fullTime, millis, shortTime } from "../../ui/time";
import "./health.css";

const admin = client.of(AdminService);
const health = client.of(HealthService);

interface Answers {
  serving: boolean;
  stats: GetStatsResponse;
  jobs: Job[];
  spaces: Space[];
  next: string;
}

async function load(signal: AbortSignal): Promise<Answers> {
  const [check, stats, jobs, spaces] = await Promise.all([
    health.check({}, { signal }),
    admin.getStats({}, { signal }),
    admin.listJobs({}, { signal }),
    admin.listSpaces({}, { signal }),
  ]);
  return { serving: check.status === HealthStatus.SERVING, stats, jobs: jobs.jobs, spaces: spaces.spaces, next: spaces.nextPageToken };
}

export default function Health() {
  const { answer, error, again } = usePolled(load, [], 10);
  return (
    <Page class="health" title={t.nav.health} tools={<button class="button" onClick={again}>{t.health.refresh}</button>}>
      {error !== undefined && <Failure error={error} retry={again} />}
      {answer ? <Shown answers={answer} /> : error === undefined && <Loading />}
    </Page>
  );
}

type Tone = "ok" | "working" | "problem" | "off";

interface Part {
  name: string;
  tone: Tone;
  detail: string;
}

const integer = (value: bigint | undefined) => Number(value ?? 0n);
const number = (value: bigint | undefined) => integer(value).toLocaleString(t.language);

/** Return the state of each part, as a sentence. */
function partsOf({ serving, stats, jobs }: Answers): Part[] {
  const names = t.health.names;
  const isOff = (name: string) => jobs.some((it) => it.name === name && it.state === JobState.OFF);
  const space = stats.space;
  const parts: Part[] = [
    { name: names.server, tone: serving ? "ok" : "problem", detail: serving ? t.health.serving : t.health.notServing },
  ];
  if (!space) return parts;
  const behind = integer(space.notIndexedYet);
  parts.push({
    name: names.index,
    tone: space.indexProblem ? "problem" : behind ? "working" : "ok",
    detail: space.indexProblem || (behind ? t.health.indexBehind(behind) : t.health.indexCurrent(sizeOf(integer(space.indexBytes)))),
  });
  const embedding = space.embedding;
  if (isOff("embedding")) {
    parts.push({ name: names.embedding, tone: "off", detail: t.health.embeddingOff });
  } else if (embedding) {
    const waiting = integer(embedding.waitingConversations);
    const left = embedding.timeLeft ? duration(Number(embedding.timeLeft.seconds)) : "";
    parts.push({
      name: names.embedding,
      tone: embedding.problem ? "problem" : waiting ? "working" : "ok",
      detail: embedding.problem || (waiting ? t.health.embedding(waiting, left) : t.health.embedded(`${Math.floor(embedding.share * 100)} %`, number(embedding.vectors))),
    });
  }
  const failing = jobs.filter((it) => it.state === JobState.FAILING).map((it) => jobName(it.name));
  parts.push({
    name: names.jobs,
    tone: failing.length ? "problem" : "ok",
    detail: failing.length ? t.health.failing(failing.join(", ")) : t.health.jobsFine,
  });
  const failed = integer(space.notes?.failedConversations);
  const waiting = integer(space.notes?.waitingConversations);
  parts.push(isOff("notes") && !failed ? { name: names.notes, tone: "off", detail: t.health.notesOff } : {
    name: names.notes,
    tone: failed ? "problem" : waiting ? "working" : "ok",
    detail: failed ? t.health.notesFailed(failed) : waiting ? t.health.notesWaiting(waiting) : t.health.notesDone,
  });
  const torn = integer(space.tornTranscripts);
  const held = integer(space.heldMessages);
  parts.push({
    name: names.transcripts,
    tone: torn || held ? "problem" : "ok",
    detail: held ? t.health.held(held, space.heldBecause) : torn ? t.health.torn(torn, sizeOf(integer(space.tornBytes)), space.tornFiles.join(", ")) : t.health.whole,
  });
  const deletes = integer(space.unfinishedDeletes);
  parts.push({ name: names.deletes, tone: deletes ? "working" : "ok", detail: deletes ? t.health.deletes(deletes) : t.health.noDeletes });
  const external = space.external;
  if (external) {
    const late = integer(external.notIndexedYet);
    const detail = late ? t.health.indexBehind(late) : t.health.external(integer(external.communications), integer(external.openEscalations));
    parts.push({ name: names.external, tone: late ? "working" : "ok", detail });
  }
  const senders = integer(space.limitedSenders);
  if (senders) parts.push({ name: names.senders, tone: "working", detail: t.health.senders(senders) });
  return parts;
}

const MARKS: Record<Tone, { icon: IconName; tone: string; text: string }> = {
  ok: { icon: "check", tone: "ok", text: t.health.fine },
  working: { icon: "pulse", tone: "warn", text: t.health.working },
  problem: { icon: "warning", tone: "danger", text: t.health.problem },
  off: { icon: "close", tone: "", text: t.health.off },
};

function Shown({ answers }: { answers: Answers }) {
  const { stats } = answers;
  const parts = partsOf(answers);
  const hasProblem = parts.some((it) => it.tone === "problem");
  const overall = !answers.serving ? "down" : hasProblem ? "degraded" : "ok";
  const server = stats.server;
  const spending = server?.modelSpending;
  return (
    <>
      <p class="overall" role="status" data-state={overall}>
        <Icon name={overall === "ok" ? "check" : "warning"} />
        <strong>{t.health.overall[overall]}</strong>
        {server && <span class="muted">{`${t.health.version} ${server.version}`}</span>}
        {server?.startTime && (
          <span class="muted" title={fullTime(server.startTime)}>{`${t.health.since} ${duration((Date.now() - millis(server.startTime)) / 1000)}`}</span>
        )}
      </p>
      <Card title={t.health.parts}>
        <table class="rows parts">
          <thead class="hidden"><tr><th>{t.health.part}</th><th>{t.health.state}</th><th>{t.health.detail}</th></tr></thead>
          <tbody>
            {parts.map((it) => (
              <tr key={it.name}>
                <th scope="row">{it.name}</th>
                <td><span class="badge" data-tone={MARKS[it.tone].tone}><Icon name={MARKS[it.tone].icon} />{MARKS[it.tone].text}</span></td>
                <td class="detail">{oneLine(it.detail)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
      <Jobs jobs={answers.jobs} />
      <Failures jobs={answers.jobs} />
      <Card title={t.health.kept}>
        <dl class="pairs">
          <Pair name={t.health.conversations}>{number(stats.space?.conversations)}</Pair>
          <Pair name={t.health.messages}>{number(stats.space?.messages)}</Pair>
          <Pair name={t.health.transcripts}>{sizeOf(integer(stats.space?.transcriptBytes))}</Pair>
          <Pair name={t.health.index}>{sizeOf(integer(stats.space?.indexBytes))}</Pair>
          <Pair name={t.health.vectors}>{sizeOf(integer(stats.space?.embedding?.bytes))}</Pair>
          <Pair name={t.health.third}>{sizeOf(integer(stats.space?.external?.bytes))}</Pair>
          {server && <Pair name={t.health.spaces}>{t.health.openOf(integer(server.openSpaces), integer(server.spaces))}</Pair>}
          {server && (
            <Pair name={t.health.spending}>
              {spending?.day ? t.health.spent(dollars(spending.cost), integer(spending.calls), spending.day) : t.health.noSpending}
            </Pair>
          )}
        </dl>
      </Card>
      {server && server.mostLimited.length > 0 && (
        <Card title={t.health.limits}>
          <ul class="limits">
            {server.mostLimited.map((it) => (
              <li key={`${it.of} ${it.name} ${it.limit}`}>
                <span>{t.health.of[it.of] ?? it.of} <bdi>{oneLine(it.name)}</bdi>: <code>{it.limit}</code></span>
                <span class="muted">{t.health.refused(integer(it.refused))}</span>
              </li>
            ))}
          </ul>
        </Card>
      )}
      <Spaces first={answers.spaces} next={answers.next} />
    </>
  );
}

const JOB_TONES: Partial<Record<JobState, string>> = {
  [JobState.IDLE]: "ok",
  [JobState.WORKING]: "warn",
  [JobState.FAILING]: "danger",
};

function Jobs({ jobs }: { jobs: Job[] }) {
  return (
    <Card title={t.health.jobs}>
      <table class="rows jobs">
        <thead><tr>
          <th scope="col">{t.health.job}</th>
          <th scope="col">{t.health.state}</th>
          <th scope="col" class="end">{t.health.due}</th>
          <th scope="col" class="end">{t.health.failed}</th>
          <th scope="col" class="end wide">{t.health.lastRun}</th>
        </tr></thead>
        <tbody>
          {jobs.map((it) => (
            <tr key={it.name}>
              <th scope="row">{jobName(it.name)}<span class="job-help">{jobName(it.help)}.</span></th>
              <td><span class="badge" data-tone={JOB_TONES[it.state]}>{t.health.jobStates[it.state]}</span></td>
              <td class="end">{number(it.due)}</td>
              <td class="end">{number(it.failed)}</td>
              <td class="end wide" title={it.lastRunTime && fullTime(it.lastRunTime)}>{it.lastRunTime ? shortTime(it.lastRunTime) : t.health.never}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

const jobName = (name: string) => oneLine(name.charAt(0).toUpperCase() + name.slice(1));

function Failures({ jobs }: { jobs: Job[] }) {
  const failures = jobs.flatMap((job) => job.failures.map((it) => ({ ...it, job: job.name })));
  return (
    <Card title={t.health.failures}>
      {failures.length === 0 ? <p class="nothing">{t.health.noFailures}</p> : (
        <table class="rows">
          <thead><tr><th scope="col">{t.health.conversation}</th><th scope="col">{t.health.job}</th><th scope="col">{t.health.reason}</th></tr></thead>
          <tbody>
            {failures.map((it) => (
              <tr key={`${it.job} ${it.conversationId}`}>
                <th scope="row" class="id">{it.conversationId ? <a href={link(`/c/${it.conversationId}`)}>{it.conversationId}</a> : t.health.wholeJob}</th>
                <td>{jobName(it.job)}</td>
                <td>{oneLine(it.reason)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Spaces({ first, next }: { first: Space[]; next: string }) {
  const [more, setMore] = useState<{ spaces: Space[]; next: string }>();
  const [error, setError] = useState<unknown>();
  const token = more?.next ?? next;
  const load = () => {
    setError(undefined);
    admin
      .listSpaces({ pageToken: token })
      .then((it) => setMore({ spaces: [...(more?.spaces ?? []), ...it.spaces], next: it.nextPageToken }), setError);
  };
  return (
    <Card title={t.health.spacesTitle}>
      <table class="rows">
        <thead><tr>
          <th scope="col">{t.health.space}</th>
          <th scope="col" class="end">{t.health.conversations}</th>
          <th scope="col" class="end wide">{t.health.messages}</th>
          <th scope="col" class="end">{t.health.size}</th>
        </tr></thead>
        <tbody>
          {[...first, ...(more?.spaces ?? [])].map((it) => (
            <tr key={it.name}>
              <th scope="row">
                <span class="space-name">
                  {it.name}
                  <span class="badge">{t.health.spaceStates[it.state]}</span>
                  {it.isDefault && <span class="badge">{t.health.isDefault}</span>}
                </span>
                {it.indexProblem && <span class="error">{oneLine(it.indexProblem)}</span>}
              </th>
              <td class="end">{number(it.conversations)}</td>
              <td class="end wide">{number(it.messages)}</td>
              <td class="end">{sizeOf(integer(it.bytes))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {error !== undefined && <Failure error={error} retry={load} />}
      {token && <button class="button" onClick={load}>{t.health.moreSpaces}</button>}
    </Card>
  );
}

function Pair({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

/** Return a length of time as people read it. */
function duration(seconds: number): string {
  if (seconds < 3600) return t.time.minutes(Math.max(1, Math.round(seconds / 60)));
  return seconds < 172_800 ? t.time.hours(Math.round(seconds / 3600)) : t.health.days(Math.round(seconds / 86_400));
}
