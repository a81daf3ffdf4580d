// Dialogs before something goes for good, or is written elsewhere: each says what goes, and what went.
import { useEffect, useMemo, useState } from "preact/hooks";
import { AnchorDisposition, ErrorReason, ExternalCommunicationService, type Conversation, type RemovedFrom } from "@recollect/client";
import { client, conversations as calls, newRequestId } from "../api/calls";
import { describe, isCancelled } from "../api/errors";
import { link } from "../router";
import { nameOf } from "../sidebar/Row";
import { changeTopics } from "../state/conversations";
import { chosen } from "../state/chosen";
import { t } from "../texts/views";
import { Dialog } from "../ui/Dialog";
import { tell } from "../ui/Notice";
import { oneLine, sizeOf, unitsOf } from "../ui/text";
import { asked, type Asked } from "./asked";
import { FORMS, save, written } from "./transcripts";

const d = t.actions;
const SHOWN = 8;
const close = () => (asked.value = undefined);

export default function Dialogs() {
  const it = asked.value;
  switch (it?.what) {
    case "delete": return <Delete conversations={it.conversations} />;
    case "deleteParty": return <DeleteParty it={it} />;
    case "redact": return <Redact it={it} />;
    case "redactExchanged": return <RedactExchanged it={it} />;
    case "export": return <Export conversations={it.conversations} />;
    case "topics": return <Topics conversations={it.conversations} />;
    default: return null;
  }
}

interface Many {
  conversations: Conversation[];
}

function Named({ conversations }: Many) {
  return (
    <ul class="action-names">
      {conversations.slice(0, SHOWN).map((it) => <li key={it.id}><bdi>{nameOf(it)}</bdi></li>)}
      {conversations.length > SHOWN && <li class="muted">{d.more(conversations.length - SHOWN)}</li>}
    </ul>
  );
}

interface AskingProps {
  title: string;
  submit: string;
  run: () => Promise<unknown>;
  children: preact.ComponentChildren;
  isDanger?: boolean;
  isBlocked?: boolean;
}

/** What is asked, with a button that does it and one that does not. */
function Asking({ title, submit, run, children, isDanger, isBlocked }: AskingProps) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const go = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    run().catch((error: unknown) => isCancelled(error) || setProblem(describe(error))).finally(() => setBusy(false));
  };
  return (
    <Dialog title={title} class="action" onClose={close}>
      <form onSubmit={go}>
        {children}
        {problem && <p class="error" role="alert">{problem}</p>}
        <p class="form-actions">
          <button class={`button ${isDanger ? "danger" : "primary"}`} disabled={isBusy || isBlocked}>{submit}</button>
          <button class="button" type="button" onClick={close}>{t.app.cancel}</button>
        </p>
      </form>
    </Dialog>
  );
}

/** What went: the places, and how much in each. */
function Receipt({ title, children }: { title: string; children: preact.ComponentChildren }) {
  return (
    <Dialog title={title} class="action" onClose={close}>
      <div role="status">{children}</div>
      <p class="form-actions"><button class="button primary" onClick={close} autofocus>{t.app.close}</button></p>
    </Dialog>
  );
}

/** What went, as a person knows it; what the server had made of it is folded. */
function Removed({ from }: { from: RemovedFrom[] }) {
  const there = from.filter((it) => it.count);
  const counted = Object.keys(d.places).flatMap((place) => there.filter((it) => it.place === place));
  const made = there.filter((it) => !(it.place in d.places));
  return (
    <>
      <Counts of={counted} />
      {made.length > 0 && (
        <details class="counts">
          <summary>{d.made}</summary>
          <Counts of={made} />
        </details>
      )}
    </>
  );
}

/** Places whose count is of bytes. */
const BYTES = new Set(["transcript", "torn_tail"]);

function Counts({ of }: { of: RemovedFrom[] }) {
  return (
    <dl class="facts">
      {of.map(({ place, count }) => (
        <div key={place}>
          <dt>{d.places[place] ?? d.madePlaces[place] ?? place}</dt>
          <dd>{BYTES.has(place) ? sizeOf(Number(count)) : Number(count).toLocaleString(t.language)}</dd>
        </div>
      ))}
    </dl>
  );
}

interface Gone {
  gone: number;
  removed: RemovedFrom[];
}

/** Adds up what several receipts say of each place. */
function sumOf(parts: RemovedFrom[]): RemovedFrom[] {
  const places = new Map<string, RemovedFrom>();
  for (const it of parts) places.set(it.place, { ...it, count: it.count + (places.get(it.place)?.count ?? 0n) });
  return [...places.values()];
}

/** Deletes what a third party wrote here, or everywhere under the same address. */
function DeleteParty({ it }: { it: Asked & { what: "deleteParty" } }) {
  const external = useMemo(() => client.of(ExternalCommunicationService), []);
  const { id, party, partyName, messageCount } = it.communication;
  const [all, setAll] = useState<{ count: number; hasMore: boolean }>();
  const [isEverywhere, setEverywhere] = useState(false);
  const [done, setDone] = useState<Gone>();
  // What went before a failure counts when the rest is asked for, with the request id of the failure.
  const work = useMemo<Gone & { requestId: string }>(() => ({ gone: 0, removed: [], requestId: newRequestId() }), [isEverywhere]);
  useEffect(() => {
    external.deleteCommunications({ parties: [party], dryRun: true, limit: 1000 }).then(
      (answer) => setAll({ count: answer.communicationIds.length, hasMore: answer.hasMore }),
      () => setAll({ count: 0, hasMore: false }), // what stands against it is said where it is done
    );
  }, []);
  const run = async () => {
    const which = isEverywhere ? { parties: [party] } : { communicationIds: [id] };
    for (let hasMore = true; hasMore; work.requestId = newRequestId()) {
      const answer = await external.deleteCommunications({ ...which, limit: 1000, requestId: work.requestId });
      work.gone += answer.communicationIds.length;
      work.removed = sumOf([...work.removed, ...answer.removed]);
      if (answer.failure) throw new Error(answer.failure);
      hasMore = answer.hasMore;
    }
    setDone({ gone: work.gone, removed: work.removed });
    it.onDeleted();
  };
  if (done) return <Receipt title={d.partyDeleted(done.gone)}><Removed from={done.removed} /></Receipt>;
  return (
    <Asking title={d.deletePartyTitle} submit={d.delete} run={run} isDanger isBlocked={!all}>
      <ul class="action-names"><li><bdi>{oneLine(partyName || party)}</bdi></li></ul>
      <p>{d.deletePartyHint(Number(messageCount))}</p>
      {all && (all.count > 1 || all.hasMore) && (
        <label class="check">
          <input type="checkbox" checked={isEverywhere} onChange={(event) => setEverywhere(event.currentTarget.checked)} />
          <span>{d.everywhere(all.count, all.hasMore)} <bdi>{oneLine(party)}</bdi></span>
        </label>
      )}
    </Asking>
  );
}

/** Conversations that one call takes. */
const MOST = 1000;

interface Deleting extends Gone {
  left: number;
  /** What is still to be deleted, each part with the id of its request. */
  parts: { conversationIds: string[]; requestId: string }[];
}

/** Return the ids of conversations in parts of one call each. */
function partsOf(conversations: Conversation[]): Deleting["parts"] {
  const ids = conversations.map((it) => it.id);
  const parts = Array.from({ length: Math.ceil(ids.length / MOST) }, (_, at) => ids.slice(at * MOST, (at + 1) * MOST));
  return parts.map((conversationIds) => ({ conversationIds, requestId: newRequestId() }));
}

function Delete({ conversations }: Many) {
  const [anchors, setAnchors] = useState(AnchorDisposition.UNSPECIFIED);
  const [force, setForce] = useState(false);
  const [reasons, setReasons] = useState<ErrorReason[]>();
  const [done, setDone] = useState<Gone & { left: number }>();
  // What went before a failure counts when the rest is asked for.
  const work = useMemo<Deleting>(() => ({ gone: 0, left: 0, removed: [], parts: partsOf(conversations) }), []);
  const messages = conversations.reduce((sum, it) => sum + Number(it.messageCount), 0);
  // Asked first without doing it: the answer says what else has to be decided.
  useEffect(() => {
    const trials = work.parts.map(({ conversationIds }) => calls.deleteMany({ conversationIds, dryRun: true, limit: MOST }));
    Promise.all(trials).then(
      (all) => setReasons(all.flatMap((it) => it.left.map((one) => one.reason))),
      () => setReasons([]), // what stands against it is said where it is done
    );
  }, []);
  const hasAnchors = reasons?.includes(ErrorReason.ANCHORS_PRESENT) ?? false;
  const isPinned = conversations.some((it) => it.pinned);
  const run = async () => {
    for (; work.parts[0]; work.parts.shift()) {
      const answer = await calls.deleteMany({ ...work.parts[0], anchors, force, limit: MOST });
      if (answer.failure) throw new Error(answer.failure);
      chosen.drop(...answer.conversationIds);
      work.gone += answer.conversationIds.length;
      work.left += answer.left.length;
      work.removed = sumOf([...work.removed, ...answer.removed]);
    }
    setDone({ gone: work.gone, left: work.left, removed: work.removed });
  };
  if (done) {
    return (
      <Receipt title={d.deleted(done.gone)}>
        <Removed from={done.removed} />
        {done.left > 0 && <p class="error">{d.left(done.left)}</p>}
      </Receipt>
    );
  }
  return (
    <Asking title={d.deleteTitle(conversations.length)} submit={d.delete} run={run} isDanger isBlocked={!reasons || (hasAnchors && !anchors)}>
      <Named conversations={conversations} />
      <p>{d.deleteHint(messages)}</p>
      {hasAnchors && (
        <fieldset>
          <legend>{d.anchors}</legend>
          {([[AnchorDisposition.KEEP, d.keepAnchors], [AnchorDisposition.DELETE, d.deleteAnchors]] as const).map(([value, text]) => (
            <label class="check" key={value}>
              <input type="radio" name="anchors" checked={anchors === value} onChange={() => setAnchors(value)} />{text}
            </label>
          ))}
        </fieldset>
      )}
      {isPinned && (
        <label class="check"><input type="checkbox" checked={force} onChange={(event) => setForce(event.currentTarget.checked)} />{d.force}</label>
      )}
    </Asking>
  );
}

function Redact({ it }: { it: Asked & { what: "redact" } }) {
  const { conversationId, message } = it;
  const [isTurn, setTurn] = useState(false);
  const [done, setDone] = useState<{ count: number; copies: string[] }>();
  const run = async () => {
    const what = isTurn ? { turnNumber: message.turnNumber } : { sequence: message.sequence };
    const answer = await calls.redactMessage({ conversationId, ...what });
    setDone({ count: answer.messages.length, copies: answer.copiedIn });
  };
  if (done) {
    return (
      <Receipt title={d.redacted(done.count)}>
        <p>{done.copies.length ? d.copies : d.noCopies}</p>
        <ul>{done.copies.map((id) => <li key={id}><a href={link(`/c/${id}`)} onClick={close}><code>{id}</code></a></li>)}</ul>
      </Receipt>
    );
  }
  return (
    <Asking title={d.redactTitle} submit={d.redact} run={run} isDanger>
      <p class="action-quote" dir="auto">{message.content.slice(0, 240) || "…"}</p>
      <p>{d.redactHint}</p>
      <label class="check"><input type="checkbox" checked={isTurn} onChange={(event) => setTurn(event.currentTarget.checked)} />{d.wholeTurn(message.turnNumber)}</label>
    </Asking>
  );
}

/** Takes the text of a third party's message away, or of a reply to one. */
function RedactExchanged({ it }: { it: Asked & { what: "redactExchanged" } }) {
  const external = useMemo(() => client.of(ExternalCommunicationService), []);
  const requestId = useMemo(newRequestId, []);
  const [isQuoted, setQuoted] = useState<boolean>();
  const { communicationId, message } = it;
  const run = async () => {
    const answer = await external.redactExternalMessage({ communicationId, sequence: message.sequence, requestId });
    setQuoted(answer.escalation !== undefined);
    it.onRedacted();
  };
  if (isQuoted !== undefined) {
    return <Receipt title={d.redacted(1)}><p>{isQuoted ? d.redactedQuestion : d.redactedAlone}</p></Receipt>;
  }
  return (
    <Asking title={d.redactTitle} submit={d.redact} run={run} isDanger>
      <p class="action-quote" dir="auto">{message.text.slice(0, 240) || "…"}</p>
      <p>{d.redactExchangedHint}</p>
    </Asking>
  );
}

function Export({ conversations }: Many) {
  const [form, setForm] = useState("markdown");
  const [count, setCount] = useState(0);
  const abort = useMemo(() => new AbortController(), []);
  useEffect(() => () => abort.abort(), []);
  const run = async () => {
    const text = await written(conversations, FORMS[form]!, abort.signal, setCount);
    const name = conversations.length === 1 ? conversations[0]!.id : `conversations-${new Date().toISOString().slice(0, 10)}`;
    save(`${name}.${FORMS[form]!.ending}`, text);
    close();
    tell({ text: d.exported(conversations.length) });
  };
  return (
    <Asking title={d.exportTitle(conversations.length)} submit={d.export} run={run}>
      <Named conversations={conversations} />
      <fieldset>
        <legend>{d.form}</legend>
        {Object.entries(d.forms).map(([name, text]) => (
          <label class="check" key={name}>
            <input type="radio" name="form" checked={form === name} onChange={() => setForm(name)} />{text}
          </label>
        ))}
      </fieldset>
      {count > 0 && <p class="muted" role="status">{d.reading(count, conversations.length)}</p>}
    </Asking>
  );
}

function Topics({ conversations }: Many) {
  const all = [...new Set(conversations.flatMap((it) => it.topics))].sort();
  const [removed, setRemoved] = useState<string[]>([]);
  const [added, setAdded] = useState("");
  const run = async () => {
    const before = conversations.map((it) => [it, it.topics] as const);
    for (const it of conversations) {
      const kept = it.topics.filter((topic) => !removed.includes(topic));
      await changeTopics(it, [...kept, ...added.split(/[,;\n]/)]);
    }
    close();
    const undo = async () => {
      for (const [it, topics] of before) await changeTopics(it, topics);
    };
    tell({ text: d.moved(conversations.length), action: { text: t.sidebar.undo, run: undo } });
  };
  return (
    <Asking title={d.topicsTitle(conversations.length)} submit={t.app.save} run={run} isBlocked={!removed.length && !added.trim()}>
      {all.length > 0 && (
        <fieldset>
          <legend>{d.removeTopics}</legend>
          {all.map((topic) => (
            <label class="check" key={topic}>
              <input
                type="checkbox" checked={removed.includes(topic)}
                onChange={(event) => setRemoved(event.currentTarget.checked ? [...removed, topic] : removed.filter((it) => it !== topic))}
              />
              <bdi>{topic}</bdi>
            </label>
          ))}
        </fieldset>
      )}
      <label class="field">{d.addTopics}
        <input value={added} dir="auto" maxLength={unitsOf(1200)} onInput={(event) => setAdded(event.currentTarget.value)} />
      </label>
      <p class="muted tiny">{d.topicsHint}</p>
    </Asking>
  );
}
