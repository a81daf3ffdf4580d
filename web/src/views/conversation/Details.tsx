// What stands beside a transcript: notes, anchors, and the context that an agent would get.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import {
  ContextFormat, ContextTier, Scope, type Anchor, type BuildContextResponse, type ContextMessage, type Conversation,
} from "@recollect/client";
import { focusOn, useOpening } from "../../ui/focus";
import { recall } from "../../api/calls";
import { describe, violationOf } from "../../api/errors";
import { may } from "../../api/session";
import { link, setQuery, topicLink } from "../../router";
import { archive, setTopics } from "../../state/conversations";
import { t } from "../../texts/views";
import { Copy } from "../../ui/Copy";
import { Degraded } from "../../ui/Degraded";
import { Icon } from "../../ui/Icon";
import { dollars, oneLine, unitsOf } from "../../ui/text";
import { fullTime, dayOf } from "../../ui/time";
import { Text } from "./MessageLine";

const d = t.conversation.details;

interface Props {
  conversation: Conversation;
}

export function Details({ conversation }: Props) {
  return (
    <aside class="details" id="details" aria-label={t.conversation.panel} onKeyDown={(event) => event.key === "Escape" && close()}>
      <button class="quiet details-close" aria-label={t.app.close} onClick={close}><Icon name="close" /></button>
      <Notes conversation={conversation} />
      <Topics conversation={conversation} />
      {may(Scope.CONVERSATIONS_MANAGE) && <InList conversation={conversation} />}
      {may(Scope.RECALL) && <Anchors conversationId={conversation.id} />}
      {may(Scope.RECALL) && <Context conversationId={conversation.id} />}
    </aside>
  );
}

function close(): void {
  setQuery({ details: undefined });
  focusOn("[aria-controls=details]"); // what opens it
}

function Notes({ conversation }: { conversation: Conversation }) {
  const { abbreviation, notes, participants, model, usageTotal, costTotal, origin } = conversation;
  const record = notes?.abbreviation;
  const facts: [string, string][] = [
    [d.began, dayOf(conversation.createTime)],
    [d.participants, participants.map(oneLine).join(", ")],
    [d.model, oneLine(model)],
    [d.usage, usageTotal?.input || usageTotal?.output ? d.tokens(Number(usageTotal.input), Number(usageTotal.output)) : ""],
    [d.cost, costTotal ? dollars(costTotal) : ""],
  ];
  return (
    <section>
      <h2>{d.notes}</h2>
      <p class="muted tiny notes-hint">{d.notesHint}</p>
      {abbreviation ? <Text text={abbreviation} /> : <p class="muted">{d.noNotes}</p>}
      {record && <p class="muted tiny" title={fullTime(record.writeTime)}>{d.writer(oneLine(record.writer), oneLine(record.model))}</p>}
      {notes?.failure && <p class="error">{d.failure} {oneLine(notes.failure)}</p>}
      <dl class="facts">
        <div>
          <dt>{d.id}</dt>
          <dd class="id"><code>{conversation.id}</code><Copy text={conversation.id} label={t.conversation.copyId} /></dd>
        </div>
        {facts.filter(([, value]) => value).map(([name, value]) => (
          <div key={name}><dt>{name}</dt><dd><bdi>{value}</bdi></dd></div>
        ))}
        {origin && (
          <div><dt>{d.fork}</dt><dd><a href={link(`/c/${origin.conversationId}`, { turn: String(origin.turnNumber) })}>{t.conversation.turn(origin.turnNumber)}</a></dd></div>
        )}
      </dl>
    </section>
  );
}

function Topics({ conversation }: Props) {
  const { topics, topicsByHand, splitSuggestion: split } = conversation;
  const { isOpen: isEditing, setOpen: setEditing, button } = useOpening();
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), [isEditing]);
  const open = () => {
    setText(topics.join(", "));
    setProblem("");
    setEditing(true);
  };
  const close = () => setEditing(false);
  const save = (event: Event) => {
    event.preventDefault();
    setTopics(conversation, text).then(close, (error: unknown) => setProblem(violationOf(error)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // it closes the form, not the panel
    close();
  };
  return (
    <section>
      <h2>
        {d.topics}
        {may(Scope.CONVERSATIONS_MANAGE) && !isEditing && (
          <button class="quiet" ref={button} title={t.sidebar.topics} aria-label={t.sidebar.topics} onClick={open}><Icon name="pencil" /></button>
        )}
      </h2>
      {isEditing ? (
        <form class="topics-form" onSubmit={save} onKeyDown={onKeyDown}>
          <input
            ref={input} value={text} dir="auto" maxLength={unitsOf(1200)} aria-label={t.sidebar.topicsLabel} aria-describedby="topics-hint"
            aria-invalid={problem !== ""} onInput={(event) => setText(event.currentTarget.value)}
          />
          <p class="muted tiny" id="topics-hint">{d.topicsHint}</p>
          {problem && <p class="error" role="alert">{problem}</p>}
          <p class="form-actions">
            <button class="button primary">{t.app.save}</button>
            <button class="button" type="button" onClick={close}>{t.app.cancel}</button>
          </p>
        </form>
      ) : topics.length ? (
        <p class="topics">
          {topics.map((it) => <a key={it} href={topicLink(it)}>{oneLine(it)}</a>)}
        </p>
      ) : (
        <p class="muted">{d.noTopics}</p>
      )}
      {topicsByHand && !isEditing && <p class="muted tiny">{d.byHand}</p>}
      {split && <p class="muted">{t.conversation.splitHint(split.reason, split.titles)}</p>}
    </section>
  );
}

/** Whether the list shows it, and whether searches do. */
function InList({ conversation }: Props) {
  const [problem, setProblem] = useState("");
  const { archived, unindexed } = conversation;
  const change = () => {
    setProblem("");
    archive(conversation, !archived).catch((error: unknown) => setProblem(describe(error)));
  };
  return (
    <section>
      <h2>{d.manage}</h2>
      <p class="muted">{archived ? t.conversation.archivedHint : d.inList}</p>
      {unindexed && <p class="muted">{t.conversation.unindexedHint}</p>}
      {problem && <p class="error" role="alert">{problem}</p>}
      <p class="form-actions">
        <button class="button" onClick={change}>
          <Icon name={archived ? "unarchive" : "archive"} />
          {archived ? t.sidebar.unarchive : t.sidebar.archive}
        </button>
      </p>
    </section>
  );
}

function Anchors({ conversationId }: { conversationId: string }) {
  const [anchors, setAnchors] = useState<Anchor[]>([]);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    recall.listAnchors({}).then((it) => setAnchors(it.anchors), (error) => setProblem(describe(error)));
  }, [conversationId]);
  const own = anchors.filter((it) => it.source?.conversationId === conversationId);
  const others = anchors.filter((it) => it.source?.conversationId !== conversationId).slice(0, 50);
  return (
    <section>
      <h2>{d.anchors}</h2>
      {problem && <p class="error">{problem}</p>}
      {own.length ? <AnchorList anchors={own} /> : <p class="muted">{d.noAnchors}</p>}
      {others.length > 0 && (
        <details class="fold">
          <summary><Icon name="chevron" /><span class="fold-title">{d.otherAnchors}</span></summary>
          <div class="fold-body"><AnchorList anchors={others} /></div>
        </details>
      )}
    </section>
  );
}

function AnchorList({ anchors }: { anchors: Anchor[] }) {
  return (
    <dl class="facts anchors">
      {anchors.map((it) => (
        <div key={it.key}>
          <dt>{oneLine(it.key)}</dt>
          <dd><bdi>{oneLine(it.value)}</bdi> <span class="muted tiny nowrap">{d.confidence(it.confidence)}</span></dd>
        </div>
      ))}
    </dl>
  );
}

function Context({ conversationId }: { conversationId: string }) {
  const [question, setQuestion] = useState("");
  const [answer, setAnswer] = useState<BuildContextResponse>();
  const [problem, setProblem] = useState<string>();
  const build = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    try {
      const request = { conversationId, message: question, format: ContextFormat.XML, explain: true };
      setAnswer(await recall.buildContext(request));
    } catch (error) {
      setProblem(describe(error));
    }
  };
  return (
    <section>
      <h2>{d.context}</h2>
      <p class="muted tiny">{d.contextHint}</p>
      <form class="context-form" onSubmit={build}>
        <input aria-label={d.question} placeholder={d.question} value={question} dir="auto" onInput={(event) => setQuestion(event.currentTarget.value)} />
        <button class="button">{d.build}</button>
      </form>
      {problem && <p class="error" role="alert">{problem}</p>}
      {answer && (
        <div role="status">
          <p class="context-total">{d.total(answer.renderedTokens)}</p>
          <Tier answer={answer} tier={ContextTier.COLD} messages={answer.cold} />
          <Tier answer={answer} tier={ContextTier.WARM} messages={answer.warm} />
          <Tier answer={answer} tier={ContextTier.HOT} messages={answer.hot} />
          {answer.dropped.length > 0 && <p class="muted tiny">{d.dropped(answer.dropped.length)}</p>}
          <Degraded legs={answer.degraded} />
          <details class="fold">
            <summary><Icon name="chevron" /><span class="fold-title">{d.rendered}</span></summary>
            <div class="fold-body"><Text text={answer.rendered} isCode /></div>
          </details>
        </div>
      )}
    </section>
  );
}

interface TierProps {
  answer: BuildContextResponse;
  tier: ContextTier;
  messages: ContextMessage[];
}

function Tier({ answer, tier, messages }: TierProps) {
  const use = answer.allocation.find((it) => it.tier === tier);
  return (
    <div class="tier">
      <h3>
        {d.tiers[tier]}
        {use && <span class="muted tiny">{d.used(use.used, use.budget)}</span>}
      </h3>
      {use && <meter min={0} max={Math.max(use.budget, 1)} value={use.used} aria-label={d.used(use.used, use.budget)} />}
      {use?.note ? <p class="muted tiny">{oneLine(use.note)}</p> : messages.length === 0 && <p class="muted tiny">{d.nothing}</p>}
      <ul>
        {messages.map((it) => (
          <li key={`${it.conversationId} ${it.message?.sequence}`}>
            <a href={link(`/c/${it.conversationId}`, { turn: String(it.message?.turnNumber ?? 1) })}>
              {t.conversation.turn(it.message?.turnNumber ?? 0)}
            </a>{" "}
            <bdi>{oneLine((it.message?.content || it.message?.thinkingText || "…").slice(0, 240))}</bdi>
            <span class="muted tiny"> {oneLine(it.reason)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
