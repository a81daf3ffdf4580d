// One conversation of the list.
import { Role, Scope, type Conversation } from "@recollect/client";
import { useState } from "preact/hooks";
import { conversations as calls } from "../api/calls";
import { violationOf } from "../api/errors";
import { may } from "../api/session";
import { change } from "../live/connection";
import { link } from "../router";
import { chosen } from "../state/chosen";
import { setTopics, writing } from "../state/conversations";
import { isUnread } from "../state/unread";
import { t } from "../texts";
import { useFocus } from "../ui/focus";
import { channelIcon, Icon, type IconName } from "../ui/Icon";
import { channelName, oneLine, unitsOf, withoutMarkup } from "../ui/text";
import { fullTime, shortTime } from "../ui/time";

interface Props {
  conversation: Conversation;
  position: number;
  total: number;
  isSelected: boolean;
  isTabStop: boolean;
  /** What of it is being edited in the list. */
  editing: Editing | undefined;
  /** Whether it is chosen; undefined: nobody chooses. */
  isChosen: boolean | undefined;
  hasMenu: boolean;
  onFocus: () => void;
  onEdit: (what: Editing | undefined) => void;
  onMenu: (box: DOMRect) => void;
}

export type Editing = "title" | "topics";

export function Row(props: Props) {
  const { conversation, position, total, isSelected, isTabStop, editing, isChosen, hasMenu, onFocus, onEdit, onMenu } = props;
  const isWriting = writing.value.has(conversation.id);
  const channel = channelName(conversation.channel);
  return (
    <div
      class="row" role="listitem" aria-setsize={total} aria-posinset={position} data-selected={isSelected}
      data-menu={hasMenu} data-row={conversation.id} data-choosing={isChosen !== undefined}
    >
      {isChosen !== undefined && (
        <input
          type="checkbox" class="row-choice" aria-label={t.sidebar.chooseRow(nameOf(conversation))} checked={isChosen}
          tabIndex={isTabStop ? 0 : -1} onChange={() => chosen.toggle(conversation)}
        />
      )}
      {editing === "title" ? (
        <RenameForm conversation={conversation} onEnd={() => onEdit(undefined)} />
      ) : editing === "topics" ? (
        <TopicsForm conversation={conversation} onEnd={() => onEdit(undefined)} />
      ) : (
        <a
          id={`row-${conversation.id}`}
          class="row-link"
          href={link(`/c/${conversation.id}`)}
          tabIndex={isTabStop ? 0 : -1}
          aria-current={isSelected ? "page" : undefined}
          onFocus={onFocus}
          onDblClick={() => may(Scope.CONVERSATIONS_MANAGE) && onEdit("title")}
        >
          <span class="row-title" data-unread={isUnread(conversation)}>
            <bdi>{nameOf(conversation)}</bdi>
            {isUnread(conversation) && <span class="unread"><span class="hidden">{t.sidebar.unread}</span></span>}
          </span>
          <time title={fullTime(conversation.updateTime)}>{shortTime(conversation.updateTime)}</time>
          <span class="row-meta" title={channel}>
            <Icon name={channelIcon(conversation.channel)} />
            <span class="hidden">{channel}</span>
            {isWriting ? <em>{t.sidebar.writing}</em> : <Latest conversation={conversation} />}
            {conversation.unindexed && <Mark icon="hidden" text={t.sidebar.unindexed} />}
            {isReadOnly(conversation) && <Mark icon="lock" text={t.sidebar.readOnly(channel)} />}
          </span>
        </a>
      )}
      {hasMenu && !editing && (
        <button
          class="quiet row-menu" tabIndex={isTabStop ? 0 : -1} aria-haspopup="menu" aria-label={t.sidebar.menu(nameOf(conversation))}
          onClick={(event) => onMenu(event.currentTarget.getBoundingClientRect())}
        >
          <Icon name="more" />
        </button>
      )}
    </div>
  );
}

function Mark({ icon, text }: { icon: IconName; text: string }) {
  return <span class="mark" title={text}><Icon name={icon} /><span class="hidden">{text}</span></span>;
}

/** Who said what last, and the other side where neither that nor the title names it. */
function Latest({ conversation }: { conversation: Conversation }) {
  const { latestMessage: latest, name } = conversation;
  const party = partyOf(conversation);
  const user = conversation.party?.groupId ? t.roles.user : party || t.sidebar.you;
  const who = latest && (oneLine(latest.sender) || (latest.role === Role.USER ? user : t.roles.assistant));
  return (
    <>
      {party && who !== party && !name.startsWith(party) && <bdi class="row-party">{party}</bdi>}
      {who && <bdi class="row-who">{who}:</bdi>}
      <bdi class="row-words">{latest ? withoutMarkup(oneLine(latest.text)) : channelName(conversation.channel)}</bdi>
    </>
  );
}

/** Return the name that is shown of a conversation. */
export function nameOf(conversation: Conversation): string {
  return oneLine(conversation.name) || t.sidebar.unnamed;
}

/** Return the name of the other side, as its channel knows it. */
export function partyOf(conversation: Conversation): string {
  const party = conversation.party;
  if (!party) return "";
  if (party.groupName || party.groupId) return oneLine(party.groupName || party.groupId);
  return oneLine(party.contactName || party.contact || party.threadId);
}

/** Return where the messages of a pinned conversation come from. */
export function placeOf(conversation: Conversation): string {
  const [party, channel] = [partyOf(conversation), channelName(conversation.channel)];
  return party ? t.sidebar.placeOn(party, channel) : channel;
}

/** Return whether new messages come from the conversation's own channel alone. */
export function isReadOnly(conversation: Conversation): boolean {
  return conversation.pinned && conversation.channel !== "web";
}

/** The title of a conversation, to be changed in its place. */
export function RenameForm({ conversation, onEnd }: { conversation: Conversation; onEnd: () => void }) {
  const save = async (title: string) => {
    if (!title.trim() || title === conversation.title) return;
    await change(calls.rename({ conversationId: conversation.id, title }));
  };
  return <LineForm label={t.sidebar.renameLabel} submit={t.sidebar.rename} value={conversation.title} longest={80} save={save} onEnd={onEnd} />;
}

/** The topics of a conversation, to be changed in its place. */
export function TopicsForm({ conversation, onEnd }: { conversation: Conversation; onEnd: () => void }) {
  const old = conversation.topics.join(", ");
  const save = async (text: string) => void (text !== old && (await setTopics(conversation, text)));
  return <LineForm label={t.sidebar.topicsLabel} submit={t.sidebar.topics} value={old} longest={1200} save={save} onEnd={onEnd} />;
}

interface LineFormProps {
  label: string;
  submit: string;
  value: string;
  longest: number;
  save: (value: string) => Promise<void>;
  onEnd: () => void;
}

function LineForm({ label, submit, value, longest, save, onEnd }: LineFormProps) {
  const [text, setText] = useState(value);
  const [problem, setProblem] = useState<string>();
  const input = useFocus();
  const run = async (event: Event) => {
    event.preventDefault();
    try {
      await save(text);
      onEnd();
    } catch (failure) {
      setProblem(violationOf(failure));
    }
  };
  return (
    <form
      class="rename"
      onSubmit={run}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Escape") onEnd();
      }}
    >
      <input
        ref={input} aria-label={label} placeholder={label} value={text} maxLength={unitsOf(longest)} aria-invalid={!!problem}
        dir="auto" onInput={(event) => setText(event.currentTarget.value)}
      />
      <button class="quiet" aria-label={submit}><Icon name="check" /></button>
      <button class="quiet" type="button" aria-label={t.app.close} onClick={onEnd}><Icon name="close" /></button>
      {problem && <span class="error rename-problem" role="alert">{problem}</span>}
    </form>
  );
}
