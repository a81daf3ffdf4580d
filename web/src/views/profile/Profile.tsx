// What is known of the person: the profile that every context has, and the anchors, each with its
// source and date; and what corrects one, or takes it away. A statement is what somebody said, which
// stays as it was: its correction is an anchor of the same subject.
import { useState } from "preact/hooks";
import { type Anchor, type GetProfileResponse, type ProfileStatement, Scope, StatementKind } from "@recollect/client";
import { newRequestId, recall } from "../../api/calls";
import { describe } from "../../api/errors";
import { may } from "../../api/session";
import { link } from "../../router";
import { t } from "../../texts/views";
import { useFocus, useOpening } from "../../ui/focus";
import { Icon } from "../../ui/Icon";
import { tell } from "../../ui/Notice";
import { usePolled } from "../../ui/polling";
import { Page } from "../../ui/Page";
import { Empty, Failure, Loading } from "../../ui/States";
import { unitsOf } from "../../ui/text";
import { fullTime, shortTime } from "../../ui/time";
import "./profile.css";

const SECONDS = 15;
const KINDS = [
  StatementKind.INSTRUCTION, StatementKind.IDENTITY, StatementKind.HEALTH, StatementKind.PEOPLE, StatementKind.WORK,
  StatementKind.HOME, StatementKind.PLAN, StatementKind.PREFERENCE, StatementKind.POSSESSION,
] as const;

/** Beginnings of the keys of corrections: of each subject one. */
const SUBJECTS: Record<number, string> = {
  [StatementKind.INSTRUCTION]: "instruction", [StatementKind.IDENTITY]: "identity", [StatementKind.HEALTH]: "health",
  [StatementKind.PEOPLE]: "people", [StatementKind.WORK]: "work", [StatementKind.HOME]: "home", [StatementKind.PLAN]: "plan",
  [StatementKind.PREFERENCE]: "preference", [StatementKind.POSSESSION]: "possession",
};

/** Return whether an anchor is a correction of a subject. */
function isOf({ key }: Anchor, kind: StatementKind): boolean {
  return key === `profile.${SUBJECTS[kind]}` || key.startsWith(`profile.${SUBJECTS[kind]}.`);
}

/** Return a key for a correction that no anchor has. */
function keyOf(kind: StatementKind, anchors: Anchor[]): string {
  const taken = new Set(anchors.map((it) => it.key));
  const first = `profile.${SUBJECTS[kind]}`;
  for (let number = 1; ; number++) {
    const key = number === 1 ? first : `${first}.${number}`;
    if (!taken.has(key)) return key;
  }
}

interface Answers {
  profile: GetProfileResponse;
  anchors: Anchor[];
}

async function load(signal: AbortSignal): Promise<Answers> {
  const [profile, { anchors }] = await Promise.all([recall.getProfile({}, { signal }), recall.listAnchors({}, { signal })]);
  return { profile, anchors };
}

export default function Profile() {
  const { answer, error, again } = usePolled(load, [], SECONDS);
  return (
    <Page class="profile" title={t.nav.profile}>
      {error !== undefined && <Failure error={error} retry={again} />}
      {answer ? <Shown answers={answer} again={again} /> : error === undefined && <Loading />}
    </Page>
  );
}

function Shown({ answers: { profile, anchors }, again }: { answers: Answers; again: () => void }) {
  const others = anchors.filter((it) => !KINDS.some((kind) => isOf(it, kind)));
  return (
    <>
      <p class="lead">{t.profile.lead}</p>
      {profile.degraded && <p class="state" role="status">{t.profile.lacking(profile.degraded)}</p>}
      {!profile.statements.length && !anchors.length && !profile.degraded && (
        <Empty icon="person" level="p" title={t.profile.none}>
          <p>{t.profile.noneHint}</p>
          {may(Scope.CONVERSATIONS_WRITE) && <a class="button" href={link("/")}>{t.profile.say}</a>}
        </Empty>
      )}
      {KINDS.map((kind) => {
        const statements = profile.statements.filter((it) => it.kind === kind);
        const corrected = anchors.filter((it) => isOf(it, kind));
        return statements.length + corrected.length > 0 && (
          <section class="card" key={kind} aria-label={t.profile.kinds[kind]}>
            <header><h2>{t.profile.kinds[kind]}</h2></header>
            <ul class="statements">
              {corrected.map((it) => <Fact key={it.key} it={it} isCorrection again={again} />)}
              {statements.map((it) => (
                <Statement key={`${it.conversationId} ${it.sequence} ${it.start}`} it={it} anchors={anchors} again={again} />
              ))}
            </ul>
          </section>
        );
      })}
      {others.length > 0 && (
        <section class="card" aria-label={t.profile.anchors}>
          <header><h2>{t.profile.anchors}</h2></header>
          <ul class="statements">{others.map((it) => <Fact key={it.key} it={it} again={again} />)}</ul>
        </section>
      )}
    </>
  );
}

function Statement({ it, anchors, again }: { it: ProfileStatement; anchors: Anchor[]; again: () => void }) {
  const { conversationId, sequence, start } = it;
  const remove = async () => void (await recall.removeProfileStatement({ conversationId, sequence, start, requestId: newRequestId() }));
  const correct = async (value: string) => {
    await recall.setAnchor({ key: keyOf(it.kind, anchors), value, source: { conversationId, sequence }, requestId: newRequestId() });
    await remove();
  };
  return <Line text={it.text} sender={it.sender} time={it.time} conversation={conversationId} correct={correct} remove={remove} again={again} />;
}

/** An anchor: of an agent with its key, or a correction. */
function Fact({ it, isCorrection = false, again }: { it: Anchor; isCorrection?: boolean; again: () => void }) {
  const { key, source } = it;
  return (
    <Line
      name={isCorrection ? "" : key} text={it.value} note={isCorrection ? t.profile.corrected : ""} time={it.createTime}
      conversation={source?.conversationId} again={again}
      correct={async (value) => void (await recall.setAnchor({ key, value, source, requestId: newRequestId() }))}
      remove={async () => void (await recall.deleteAnchor({ key, requestId: newRequestId() }))}
    />
  );
}

interface LineProps {
  /** What stands before the text, and is not corrected with it. */
  name?: string;
  text: string;
  note?: string;
  sender?: string;
  time: ProfileStatement["time"];
  conversation: string | undefined;
  correct: (text: string) => Promise<void>;
  remove: () => Promise<void>;
  again: () => void;
}

/** One thing that is known. Whoever takes it away is asked once. */
function Line({ name, text, note, sender, time, conversation, correct, remove, again }: LineProps) {
  const [isAsked, setAsked] = useState(false);
  const { isOpen: isCorrected, setOpen: setCorrected, button } = useOpening();
  const run = async (work: Promise<void>, done: string) => {
    const error = await work.then(() => undefined, describe);
    tell({ text: error ?? done });
    again();
    return error === undefined;
  };
  const shown = name ? `${name}: ${text}` : text;
  return (
    <li>
      {isCorrected ? (
        <Correction
          text={text} onEnd={() => setCorrected(false)}
          save={async (typed) => {
            // what was typed stays where it could not be saved
            if (!typed || typed === text || (await run(correct(typed), t.profile.correctedNow))) setCorrected(false);
          }}
        />
      ) : <p class="words"><bdi>{shown}</bdi></p>}
      <p class="source">
        {note && <span>{note}</span>}
        {sender && <bdi>{sender}</bdi>}
        <time title={fullTime(time)}>{shortTime(time)}</time>
        {conversation && <a href={link(`/c/${conversation}`, { words: text.slice(0, 200) })}>{t.profile.source}</a>}
      </p>
      {may(Scope.ANCHORS_WRITE) && !isCorrected && (isAsked ? (
        <span class="asked">
          <span>{t.profile.sure}</span>
          <button class="button danger" onClick={() => void run(remove(), t.profile.removed)}>{t.profile.yes}</button>
          <button class="button" onClick={() => setAsked(false)}>{t.app.cancel}</button>
        </span>
      ) : (
        <span class="asked">
          <button ref={button} class="quiet" aria-label={t.profile.correct(shown)} title={t.profile.correctShort} onClick={() => setCorrected(true)}><Icon name="pencil" /></button>
          <button class="quiet" aria-label={t.profile.remove(shown)} title={t.profile.removeShort} onClick={() => setAsked(true)}><Icon name="trash" /></button>
        </span>
      ))}
    </li>
  );
}

/** What is known, to be written anew in its place. */
function Correction({ text, save, onEnd }: { text: string; save: (text: string) => Promise<void>; onEnd: () => void }) {
  const [typed, setTyped] = useState(text);
  const input = useFocus();
  return (
    <form
      class="correction"
      onSubmit={(event) => {
        event.preventDefault();
        void save(typed.trim());
      }}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Escape") onEnd();
      }}
    >
      <input
        ref={input} value={typed} dir="auto" maxLength={unitsOf(1000)} aria-label={t.profile.correct(text)}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <button class="button primary">{t.app.save}</button>
      <button class="button" type="button" onClick={onEnd}>{t.app.cancel}</button>
    </form>
  );
}
