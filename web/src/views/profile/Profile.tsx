// What is known of the person: the profile that every context has, and the anchors, each with its
// source and date; and what takes one away.
import { useState } from "preact/hooks";
import { type Anchor, type GetProfileResponse, type ProfileStatement, Scope, StatementKind } from "@recollect/client";
import { newRequestId, recall } from "../../api/calls";
import { describe } from "../../api/errors";
import { may } from "../../api/session";
import { link } from "../../router";
import { t } from "../../texts/views";
import { Icon } from "../../ui/Icon";
import { tell } from "../../ui/Notice";
import { usePolled } from "../../ui/polling";
import { Page } from "../../ui/Page";
import { Empty, Failure, Loading } from "../../ui/States";
import { fullTime, shortTime } from "../../ui/time";
import "./profile.css";

const SECONDS = 15;
const KINDS = [
  StatementKind.INSTRUCTION, StatementKind.IDENTITY, StatementKind.HEALTH, StatementKind.PEOPLE, StatementKind.WORK,
  StatementKind.HOME, StatementKind.PLAN, StatementKind.PREFERENCE, StatementKind.POSSESSION,
] as const;

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
        return statements.length > 0 && (
          <section class="card" key={kind} aria-label={t.profile.kinds[kind]}>
            <header><h2>{t.profile.kinds[kind]}</h2></header>
            <ul class="statements">
              {statements.map((it) => <Statement key={`${it.conversationId} ${it.sequence} ${it.start}`} it={it} again={again} />)}
            </ul>
          </section>
        );
      })}
      {anchors.length > 0 && (
        <section class="card" aria-label={t.profile.anchors}>
          <header><h2>{t.profile.anchors}</h2></header>
          <ul class="statements">
            {anchors.map((it) => (
              <Line
                key={it.key}
                text={`${it.key}: ${it.value}`}
                time={it.createTime}
                conversation={it.source?.conversationId}
                remove={async () => void (await recall.deleteAnchor({ key: it.key, requestId: newRequestId() }))}
                again={again}
              />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Statement({ it, again }: { it: ProfileStatement; again: () => void }) {
  const { conversationId, sequence, start } = it;
  const remove = async () => void (await recall.removeProfileStatement({ conversationId, sequence, start, requestId: newRequestId() }));
  return <Line text={it.text} sender={it.sender} time={it.time} conversation={conversationId} remove={remove} again={again} />;
}

interface LineProps {
  text: string;
  sender?: string;
  time: ProfileStatement["time"];
  conversation?: string;
  remove: () => Promise<void>;
  again: () => void;
}

/** One thing that is known. Whoever takes it away is asked once. */
function Line({ text, sender, time, conversation, remove, again }: LineProps) {
  const [isAsked, setAsked] = useState(false);
  const yes = async () => {
    try {
      await remove();
      tell({ text: t.profile.removed });
    } catch (error) {
      tell({ text: describe(error) });
    }
    again();
  };
  return (
    <li>
      <p class="words"><bdi>{text}</bdi></p>
      <p class="source">
        {sender && <bdi>{sender}</bdi>}
        <time title={fullTime(time)}>{shortTime(time)}</time>
        {conversation && <a href={link(`/c/${conversation}`, { words: text.slice(0, 200) })}>{t.profile.source}</a>}
      </p>
      {may(Scope.ANCHORS_WRITE) && (isAsked ? (
        <span class="asked">
          <span>{t.profile.sure}</span>
          <button class="button danger" onClick={yes}>{t.profile.yes}</button>
          <button class="button" onClick={() => setAsked(false)}>{t.app.cancel}</button>
        </span>
      ) : (
        <button class="quiet" aria-label={t.profile.remove(text)} title={t.profile.removeShort} onClick={() => setAsked(true)}><Icon name="trash" /></button>
      ))}
    </li>
  );
}
