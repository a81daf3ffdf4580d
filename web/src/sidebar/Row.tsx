// One conversation of the list.
import { Scope, type Conversation } from "@recollect/client";
import { useState } from "preact/hooks";
import { conversations as calls, newRequestId } from "../api/calls";
import { describe } from "../api/errors";
import { may } from "../api/session";
import { useFocus } from "../App";
import { link } from "../router";
import { upsert, writing } from "../state/conversations";
import { isUnread } from "../state/unread";
import { t } from "../texts";
import { channelIcon, Icon } from "../ui/Icon";
import { channelName, oneLine } from "../ui/text";
import { fullTime, shortTime } from "../ui/time";

interface Props {
  conversation: Conversation;
  position: number;
  total: number;
  isSelected: boolean;
  isTabStop: boolean;
  isRenaming: boolean;
  onFocus: () => void;
  onRename: (isOn: boolean) => void;
}

export function Row(props: Props) {
  const { conversation, position, total, isSelected, isTabStop, isRenaming, onFocus, onRename } = props;
  const isWriting = writing.value.has(conversation.id);
  const channel = channelName(conversation.channel);
  return (
    <div class="row" role="listitem" aria-setsize={total} aria-posinset={position} data-selected={isSelected}>
      {isRenaming ? (
        <RenameForm conversation={conversation} onEnd={() => onRename(false)} />
      ) : (
        <a
          id={`row-${conversation.id}`}
          class="row-link"
          href={link(`/c/${conversation.id}`)}
          tabIndex={isTabStop ? 0 : -1}
          aria-current={isSelected ? "page" : undefined}
          onFocus={onFocus}
          onDblClick={() => may(Scope.CONVERSATIONS_MANAGE) && onRename(true)}
        >
          <span class="row-title" data-unread={isUnread(conversation)}>
            <bdi>{titleOf(conversation)}</bdi>
            {isUnread(conversation) && <span class="unread"><span class="hidden">{t.sidebar.unread}</span></span>}
          </span>
          <time title={fullTime(conversation.updateTime)}>{shortTime(conversation.updateTime)}</time>
          <span class="row-meta">
            <Icon name={channelIcon(conversation.channel)} />
            <span class="row-channel">{channel}</span>
            <PartyName conversation={conversation} />
            {isWriting ? <em>{t.sidebar.writing}</em> : <span class="row-turns">{t.sidebar.turns(conversation.turnCount)}</span>}
            {isReadOnly(conversation) && (
              <span class="mark" title={t.sidebar.readOnly(channel)}>
                <Icon name="lock" />
                <span class="hidden">{t.sidebar.readOnly(channel)}</span>
              </span>
            )}
          </span>
        </a>
      )}
    </div>
  );
}

function PartyName({ conversation }: { conversation: Conversation }) {
  const name = partyOf(conversation);
  return name ? <bdi class="row-party">{name}</bdi> : null;
}

/** Return the title that is shown of a conversation. */
export function titleOf(conversation: Conversation): string {
  return oneLine(conversation.title) || partyOf(conversation) || t.sidebar.untitled;
}

/** Return the name of the other side, as its channel knows it. */
export function partyOf(conversation: Conversation): string {
  const party = conversation.party;
  if (!party) return "";
  if (party.groupId) return t.sidebar.withGroup(oneLine(party.groupId));
  return oneLine(party.contactName || party.contact || party.threadId);
}

/** Return whether new messages come from the conversation's own channel alone. */
export function isReadOnly(conversation: Conversation): boolean {
  return conversation.pinned && conversation.channel !== "web";
}

export function RenameForm({ conversation, onEnd }: { conversation: Conversation; onEnd: () => void }) {
  const [title, setTitle] = useState(conversation.title);
  const [problem, setProblem] = useState<string>();
  const input = useFocus<HTMLInputElement>();
  const save = async (event: Event) => {
    event.preventDefault();
    if (!title.trim() || title === conversation.title) return onEnd();
    try {
      const request = { conversationId: conversation.id, title, requestId: newRequestId() };
      const { conversation: renamed } = await calls.rename(request);
      upsert(renamed!);
      onEnd();
    } catch (failure) {
      setProblem(describe(failure));
    }
  };
  return (
    <form
      class="rename"
      onSubmit={save}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Escape") onEnd();
      }}
    >
      <input
        ref={input} aria-label={t.sidebar.renameLabel} value={title} maxLength={80} aria-invalid={!!problem}
        title={problem} onInput={(event) => setTitle(event.currentTarget.value)}
        onFocus={(event) => event.currentTarget.select()}
      />
      <button class="quiet" aria-label={t.sidebar.rename}><Icon name="check" /></button>
      <button class="quiet" type="button" aria-label={t.app.close} onClick={onEnd}><Icon name="close" /></button>
      {problem && <span class="hidden" role="alert">{problem}</span>}
    </form>
  );
}
