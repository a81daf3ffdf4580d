// Third parties: who wrote, how far each is trusted, what they ask the owner, and what was replied.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import {
  Direction, type Escalation, type ExternalCommunication, ExternalCommunicationService, type ExternalMessage, Scope, Trust,
} from "@recollect/client";
import { ask } from "../../actions/asked";
import { client, newRequestId } from "../../api/calls";
import { isMissing, violationOf } from "../../api/errors";
import { may } from "../../api/session";
import { link, navigate, route, setQuery } from "../../router";
import { t } from "../../texts/views";
import { useOpening } from "../../ui/focus";
import { channelIcon, Icon } from "../../ui/Icon";
import { fold } from "../../ui/folding";
import { usePolled } from "../../ui/polling";
import { Copy } from "../../ui/Copy";
import { Empty, Failure, Loading } from "../../ui/States";
import { channelName, directionOf, oneLine } from "../../ui/text";
import { fullTime, shortTime } from "../../ui/time";
import { useTyping } from "../../ui/typing";
import "../../styles/cards.css";
import "./people.css";

const external = client.of(ExternalCommunicationService);

const SECONDS = 10;
const TRUSTS = [Trust.UNTRUSTED, Trust.KNOWN, Trust.BLOCKED] as const;
const TONES: Record<number, string> = { [Trust.UNTRUSTED]: "warn", [Trust.KNOWN]: "ok", [Trust.BLOCKED]: "danger" };

/** Return what a party is called: its display name, else its address. */
function nameOf(it: ExternalCommunication): string {
  return oneLine(it.partyName || it.party);
}

const pathOf = (id: string) => `/third-parties/${id}`;
const filters = () => {
  const query = route.value.query;
  return { trust: query.get("trust") ?? undefined, open: query.get("open") ?? undefined, party: query.get("party") ?? undefined };
};

export default function People() {
  const id = route.value.path.split("/")[2] ?? "";
  const [deletions, setDeletions] = useState(0);
  const onDeleted = () => {
    setDeletions((count) => count + 1);
    navigate("/third-parties", filters(), true);
  };
  return (
    <div class="people" data-chosen={id !== ""}>
      <List key={deletions} chosen={id} />
      {id ? <Exchange key={id} id={id} onDeleted={onDeleted} /> : <div class="exchange none"><Empty icon="people" level="p" title={t.people.choose} /></div>}
    </div>
  );
}

/** How third parties come in, with the code. */
function NoParty() {
  return (
    <Empty icon="people" level="p" title={t.people.none}>
      <p>{t.people.noneHint}</p>
      <figure class="code-block bare first-lines">
        <Copy text={t.people.receive} label={t.app.copyCode} />
        <pre class="code" tabIndex={0}>{t.people.receive}</pre>
      </figure>
    </Empty>
  );
}

function List({ chosen }: { chosen: string }) {
  const { trust, open, party } = filters();
  const [pages, setPages] = useState(1);
  const [typed, setTyped] = useTyping(party ?? "", (text) => setQuery({ party: text || undefined }));
  const load = async (signal: AbortSignal) => {
    const request = { trust: Number(trust) || Trust.UNSPECIFIED, openEscalationsOnly: open === "1", party: party ?? "", pageSize: 50 * pages };
    const listed = external.listCommunications(request, { signal });
    if (!party) return listed;
    const search = { query: party, trust: request.trust, limit: 100 };
    const [{ communications, nextPageToken }, { matches }] = await Promise.all([listed, external.searchCommunications(search, { signal })]);
    const said = matches.flatMap((it) => it.communication ?? []).filter((it) => !open || it.openEscalations > 0);
    const named = said.filter((it) => fold(it.partyName).includes(fold(party)));
    const byId = new Map([...communications, ...named, ...said].map((it) => [it.id, it]));
    return { communications: [...byId.values()], nextPageToken };
  };
  const { answer, error, again } = usePolled(load, [trust, open, party, pages], SECONDS);
  const isFiltered = Boolean(trust || open || party);
  return (
    <section class="people-list" aria-label={t.people.list}>
      <header class="view-header">
        <a class="quiet back" href={link("/")} aria-label={t.app.back}><Icon name="back" /></a>
        <div class="view-title">{chosen ? <h2>{t.nav.people}</h2> : <h1>{t.nav.people}</h1>}</div>
      </header>
      <div class="people-filters">
        <input
          type="search"
          aria-label={t.people.find}
          placeholder={t.people.find}
          dir="auto"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <select aria-label={t.people.trust} value={trust ?? ""} onChange={(event) => setQuery({ trust: event.currentTarget.value || undefined })}>
          <option value="">{t.people.anyTrust}</option>
          {TRUSTS.map((it) => <option key={it} value={String(it)}>{t.people.trusts[it]}</option>)}
        </select>
        <label class="check">
          <input type="checkbox" checked={open === "1"} onChange={(event) => setQuery({ open: event.currentTarget.checked ? "1" : undefined })} />
          {t.people.openOnly}
        </label>
      </div>
      {error !== undefined && !answer ? (
        <Failure error={error} retry={again} />
      ) : !answer ? (
        <Loading />
      ) : answer.communications.length === 0 ? (
        isFiltered ? <p class="state">{t.people.noMatch}</p> : <NoParty />
      ) : (
        <ul class="people-rows">
          {answer.communications.map((it) => (
            <li key={it.id}>
              <a href={link(pathOf(it.id), filters())} aria-current={it.id === chosen ? "true" : undefined}>
                <span class="person">
                  <bdi>{nameOf(it)}</bdi>
                  <time title={fullTime(it.updateTime)}>{shortTime(it.updateTime)}</time>
                </span>
                {it.subject && <span class="subject"><bdi>{oneLine(it.subject)}</bdi></span>}
                <span class="person-meta">
                  <Icon name={channelIcon(it.channel)} />
                  <span>{channelName(it.channel)}</span>
                  <span class="badge" data-tone={TONES[it.trust]}>{t.people.trusts[it.trust]}</span>
                  {it.openEscalations > 0 && <span class="badge question">{t.people.questions(it.openEscalations)}</span>}
                  {whyNoReply(it) && (
                    <span class="mark" title={`${t.people.readOnly}: ${whyNoReply(it)}`}>
                      <Icon name="lock" />
                      <span class="hidden">{t.people.readOnly}</span>
                    </span>
                  )}
                </span>
              </a>
            </li>
          ))}
        </ul>
      )}
      {answer?.nextPageToken && <button class="button more" onClick={() => setPages(pages + 1)}>{t.people.more}</button>}
    </section>
  );
}

interface Loaded {
  communication: ExternalCommunication;
  messages: ExternalMessage[];
  escalations: Escalation[];
  hasOlder: boolean;
}

function Exchange({ id, onDeleted }: { id: string; onDeleted: () => void }) {
  const [size, setSize] = useState(50);
  const load = async (signal: AbortSignal): Promise<Loaded> => {
    const [answer, escalations] = await Promise.all([
      external.getCommunication({ communicationId: id, pageSize: size }, { signal }),
      external.listEscalations({ communicationId: id, includeResolved: true, pageSize: 100 }, { signal }),
    ]);
    return {
      communication: answer.communication!,
      messages: [...answer.messages].reverse(),
      escalations: escalations.escalations,
      hasOlder: answer.nextPageToken !== "",
    };
  };
  const { answer, error, again } = usePolled(load, [id, size], SECONDS);
  if (error !== undefined && !answer) {
    return (
      <section class="exchange none">
        {isMissing(error) ? <Empty icon="warning" title={t.people.missing} /> : <Failure error={error} retry={again} />}
      </section>
    );
  }
  if (!answer) return <section class="exchange none"><Loading /></section>;
  const { communication: it, messages, escalations, hasOlder } = answer;
  const open = escalations.filter((one) => !one.resolveTime);
  const resolved = new Map(escalations.filter((one) => one.resolveTime).map((one) => [one.sequence, one]));
  return (
    <section class="exchange" aria-label={nameOf(it)}>
      <header class="view-header">
        <a class="quiet back" href={link("/third-parties", filters())} aria-label={t.nav.people}><Icon name="back" /></a>
        <div class="view-title">
          <h1><bdi title={t.people.proof}>{nameOf(it)}</bdi></h1>
          <p class="view-meta">
            <Icon name={channelIcon(it.channel)} />
            <span>{channelName(it.channel)}</span>
            <bdi>{oneLine(it.party)}</bdi>
            <span>{t.people.messages(Number(it.messageCount))}</span>
          </p>
        </div>
        <TrustOf communication={it} onChange={again} />
        {may(Scope.COMMUNICATIONS_DELETE) && (
          <button
            class="quiet" title={t.sidebar.delete} aria-label={t.sidebar.delete}
            onClick={() => ask({ what: "deleteParty", communication: it, onDeleted })}
          >
            <Icon name="trash" />
          </button>
        )}
      </header>
      <div class="exchange-body" tabIndex={0} role="region" aria-label={t.people.messages(Number(it.messageCount))}>
        {hasOlder && <button class="button more" onClick={() => setSize(Math.min(size * 4, 500))}>{t.people.older}</button>}
        {messages.map((one) => (
          <Said
            key={String(one.sequence)} message={one} name={nameOf(it)} answered={resolved.get(one.sequence)}
            onRedact={() => ask({ what: "redactExchanged", communicationId: it.id, message: one, onRedacted: again })}
          />
        ))}
      </div>
      {open.map((one) => <Question key={one.id} escalation={one} communication={it} asked={messages.find(({ sequence }) => sequence === one.sequence)} onAnswered={again} />)}
      <Reply communication={it} onRecorded={again} />
    </section>
  );
}

interface SaidProps {
  message: ExternalMessage;
  name: string;
  answered?: Escalation | undefined;
  onRedact: () => void;
}

function Said({ message, name, answered, onRedact }: SaidProps) {
  const isOurs = message.direction === Direction.OUTBOUND;
  return (
    <article class="said" data-ours={isOurs}>
      <header>
        <bdi class="who">{isOurs ? t.people.us : oneLine(message.senderName) || name}</bdi>
        {message.acknowledgement && <span class="badge">{t.people.acknowledgement}</span>}
        {message.scope && <span class="badge">{t.people.about(oneLine(message.scope))}</span>}
        <time title={fullTime(message.timestamp)}>{shortTime(message.timestamp)}</time>
        {may(Scope.COMMUNICATIONS_DELETE) && !message.redaction && (
          <button class="quiet" title={t.actions.redactItem} aria-label={t.actions.redactItem} onClick={onRedact}>
            <Icon name="eraser" />
          </button>
        )}
      </header>
      {message.email?.subject && <p class="said-subject"><bdi>{oneLine(message.email.subject)}</bdi></p>}
      <p class="said-text"><bdi>{message.text}</bdi></p>
      {answered && (
        <p class="said-answer"><Icon name="check" />{answered.answer ? t.people.answered(oneLine(answered.answer)) : t.people.unanswered}</p>
      )}
    </article>
  );
}

/** Runs a call that changes something: with one request id, however often it is tried. */
function useChange(onDone: () => void) {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [requestId, setRequestId] = useState(newRequestId);
  const run = async (call: (requestId: string) => Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    setProblem("");
    try {
      await call(requestId);
      setRequestId(newRequestId());
      onDone();
      return true;
    } catch (error) {
      setProblem(violationOf(error));
      return false;
    } finally {
      setBusy(false);
    }
  };
  // Another text is another request.
  return { problem, isBusy, run, renew: () => setRequestId(newRequestId()) };
}

function TrustOf({ communication, onChange }: { communication: ExternalCommunication; onChange: () => void }) {
  const { isOpen, setOpen, button } = useOpening();
  const [trust, setTrust] = useState(communication.trust);
  const [scopes, setScopes] = useState("");
  const change = useChange(onChange);
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>("input:checked")?.focus(), [isOpen]);
  const open = () => {
    setTrust(communication.trust);
    setScopes(communication.scopes.join(" "));
    setOpen(true);
  };
  const close = () => setOpen(false);
  const names = communication.scopes.length ? communication.scopes.map(oneLine).join(", ") : t.people.anything;
  if (!isOpen) {
    return (
      <div class="trust">
        <span class="badge" data-tone={TONES[communication.trust]}>{t.people.trusts[communication.trust]}</span>
        {communication.trust === Trust.KNOWN && <span class="trust-scopes">{names}</span>}
        {may(Scope.COMMUNICATIONS_WRITE) && <button class="button" ref={button} onClick={open}>{t.people.change}</button>}
      </div>
    );
  }
  const save = async () => {
    const labels = trust === Trust.KNOWN ? scopes.split(/[\s,]+/).filter(Boolean) : [];
    const call = (requestId: string) => external.setTrust({ communicationId: communication.id, trust, scopes: labels, requestId });
    if (await change.run(call)) close();
  };
  return (
    <form
      class="trust-form"
      ref={form}
      onSubmit={(event) => { event.preventDefault(); void save(); }}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <fieldset>
        <legend class="hidden">{t.people.trust}</legend>
        {TRUSTS.map((it) => (
          <label key={it} class="trust-choice">
            <input type="radio" name="trust" checked={trust === it} onChange={() => { setTrust(it); change.renew(); }} />
            <span><strong>{t.people.trusts[it]}</strong><span class="muted">{t.people.trustHelp[it]}</span></span>
          </label>
        ))}
      </fieldset>
      {trust === Trust.KNOWN && (
        <label class="field">
          {t.people.scopes}
          <input value={scopes} onInput={(event) => { setScopes(event.currentTarget.value); change.renew(); }} aria-describedby="scopes-hint" />
          <span class="muted" id="scopes-hint">{t.people.scopesHint}</span>
        </label>
      )}
      <Problem text={change.problem} />
      <div class="row-actions">
        <button class="button primary" disabled={change.isBusy}>{t.app.save}</button>
        <button type="button" class="button" onClick={close}>{t.app.cancel}</button>
      </div>
    </form>
  );
}

/** Characters of what was asked that are said again. */
const QUOTED = 240;

interface QuestionProps {
  escalation: Escalation;
  communication: ExternalCommunication;
  asked: ExternalMessage | undefined;
  onAnswered: () => void;
}

function Question({ escalation, communication, asked, onAnswered }: QuestionProps) {
  const text = asked && !asked.redaction ? oneLine(asked.text) : "";
  const [answer, setAnswer] = useState("");
  const change = useChange(onAnswered);
  const submit = () => change.run((requestId) => external.resolveEscalation({ escalationId: escalation.id, answer, requestId }));
  return (
    <form class="question-form" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
      <p><strong>{t.people.question}</strong></p>
      {text ? (
        <>
          <p><bdi>{t.people.asks(nameOf(communication), channelName(communication.channel))}</bdi></p>
          <blockquote class="action-quote" dir={directionOf(text)}>{text.length > QUOTED ? `${text.slice(0, QUOTED)}…` : text}</blockquote>
          <p>{t.people.whatToAnswer}</p>
        </>
      ) : (
        <p><bdi>{oneLine(escalation.question)}</bdi></p>
      )}
      {may(Scope.COMMUNICATIONS_WRITE) && (
        <div class="row-actions">
          <input aria-label={t.people.answer} placeholder={t.people.answer} value={answer} required onInput={(event) => { setAnswer(event.currentTarget.value); change.renew(); }} />
          <button class="button primary" disabled={change.isBusy}>{t.people.submitAnswer}</button>
        </div>
      )}
      <Problem text={change.problem} />
    </form>
  );
}

/** Return why this caller can record no reply now; empty if it can. */
function whyNoReply({ trust, openEscalations }: ExternalCommunication): string {
  if (!may(Scope.COMMUNICATIONS_WRITE)) return t.people.mayNotWrite;
  const isClosed = trust === Trust.BLOCKED || (trust === Trust.UNTRUSTED && openEscalations > 0);
  return isClosed ? (t.people.noReply[trust] ?? "") : "";
}

function Reply({ communication, onRecorded }: { communication: ExternalCommunication; onRecorded: () => void }) {
  const [text, setText] = useState("");
  const [scope, setScope] = useState("");
  const change = useChange(onRecorded);
  const obstacle = whyNoReply(communication);
  if (obstacle) return <Note>{obstacle}</Note>;
  const submit = async () => {
    const call = (requestId: string) => external.recordReply({ communicationId: communication.id, text, scope, requestId });
    if (await change.run(call)) setText("");
  };
  return (
    <form class="reply" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
      <label class="hidden" for="reply-text">{t.people.reply}</label>
      <textarea id="reply-text" rows={2} required placeholder={t.people.reply} value={text} aria-describedby="reply-hint" onInput={(event) => { setText(event.currentTarget.value); change.renew(); }} />
      <div class="row-actions">
        {communication.scopes.length > 0 && (
          <label class="choice inline">
            <span class="hidden">{t.people.replyScope}</span>
            <select value={scope} onChange={(event) => { setScope(event.currentTarget.value); change.renew(); }}>
              <option value="">{`${t.people.replyScope}: ${t.people.anyScope}`}</option>
              {communication.scopes.map((it) => <option key={it} value={it}>{oneLine(it)}</option>)}
            </select>
          </label>
        )}
        <span class="muted" id="reply-hint">{t.people.replyHint}</span>
        <button class="button primary" disabled={change.isBusy}>{t.people.record}</button>
      </div>
      <Problem text={change.problem} />
    </form>
  );
}

const Note = ({ children }: { children: ComponentChildren }) => <p class="composer-note"><Icon name="lock" />{children}</p>;
const Problem = ({ text }: { text: string }) => (text ? <p class="error" role="alert">{text}</p> : null);
