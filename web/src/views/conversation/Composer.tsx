// Writing into a conversation, as the user, from the web.
import { Role, type Conversation } from "@recollect/client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { conversations as calls, newRequestId } from "../../api/calls";
import { describe } from "../../api/errors";
import { change, connections } from "../../live/connection";
import { navigate } from "../../router";
import { begun, NEW } from "../../state/conversations";
import { unsent } from "../../state/unsent";
import { t } from "../../texts/views";
import { Icon } from "../../ui/Icon";
import { completions, isCommand, reply, run } from "./commands";

/** `conversation` is unset for one that begins with what is written. */
export function Composer({ conversation }: { conversation?: Conversation }) {
  const conversationId = conversation?.id ?? NEW;
  const [text, setText] = useState(unsent.get(conversationId) ?? "");
  const [problem, setProblem] = useState<string>();
  const [chosen, setChosen] = useState(-1);
  const [isClosed, setClosed] = useState(false);
  // A try that failed may have been stored: the same text again is the same request.
  const request = useRef({ text: "", id: "" });
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    // Who begins a conversation writes next; elsewhere each letter would be a shortcut.
    if (begun.id === conversationId) area.current?.focus();
    begun.id = "";
  }, []);
  // A failure from before the connection came back is none any more.
  useEffect(() => setProblem(undefined), [connections.value]);
  const keep = (typed: string) => {
    setChosen(-1);
    setClosed(false);
    if (typed) unsent.set(conversationId, typed);
    else unsent.delete(conversationId);
    setText(typed);
  };
  const offers = isClosed ? [] : completions(text);
  const at = Math.min(chosen, offers.length - 1);
  const complete = (index: number) => {
    keep(offers[index]![0]);
    area.current?.focus();
  };
  /** Begin the conversation, and go to it. */
  const begin = async (messages: { role: Role; content: string }[]): Promise<string> => {
    const answer = await change(calls.create({ channel: "web", messages, requestId: request.current.id }));
    begun.id = answer.conversation!.id;
    return begun.id;
  };
  const send = async () => {
    if (!text.trim()) return;
    if (request.current.text !== text) request.current = { text, id: newRequestId() };
    setProblem(undefined);
    try {
      if (isCommand(text)) {
        reply.value = undefined;
        await run(conversation?.id ?? (await begin([])), text);
      } else if (!conversation) {
        navigate(`/c/${await begin([{ role: Role.USER, content: text }])}`, {}, true);
      } else {
        // Elsewhere it says where it was written, so that no gateway sends it out.
        const channel = conversation.channel === "web" ? "" : "web";
        const messages = [{ role: Role.USER, content: text, channel }];
        await calls.appendTurn({ conversationId, messages, requestId: request.current.id });
      }
      request.current = { text: "", id: "" };
      // Only what was sent goes: what was typed since is the next message.
      const typed = unsent.get(conversationId) ?? "";
      keep(typed.startsWith(text) ? typed.slice(text.length).trimStart() : typed);
    } catch (failure) {
      setProblem(describe(failure));
    }
  };
  const onEnter = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      {reply.value?.conversationId === conversationId && (
        <div class="command-reply" role="status">
          <p class="text" dir="auto">{reply.value.text}</p>
          <button class="quiet" type="button" aria-label={t.app.close} onClick={() => (reply.value = undefined)}><Icon name="close" /></button>
        </div>
      )}
      {offers.length > 0 && (
        <ul class="command-offers" id="command-offers" role="listbox" aria-label={t.conversation.commands}>
          {offers.map(([name, what], index) => (
            <li key={name} id={`command-${index}`} role="option" aria-selected={index === at} onPointerDown={(event) => { event.preventDefault(); complete(index); }}>
              <code>{name}</code><span class="muted">{what}</span>
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={area}
        rows={Math.min(6, text.split("\n").length)} value={text} placeholder={t.conversation.write}
        aria-label={t.conversation.write} title={t.conversation.writeHint} dir="auto"
        onInput={(event) => keep(event.currentTarget.value)}
        aria-controls={offers.length ? "command-offers" : undefined}
        aria-activedescendant={at >= 0 ? `command-${at}` : undefined}
        onKeyDown={(event) => {
          const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at < 0 ? offers.length - 1 : at - 1 };
          const to = moves[event.key];
          if (offers.length && to !== undefined) setChosen((to + offers.length) % offers.length);
          else if (offers.length && event.key === "Escape") setClosed(true);
          else if (offers.length && event.key === "Tab" && !event.shiftKey) complete(Math.max(at, 0));
          else if (at >= 0 && event.key === "Enter" && !event.isComposing) complete(at);
          else return onEnter(event);
          event.preventDefault();
        }}
      />
      <button class="button primary" disabled={!text.trim()} aria-label={t.conversation.send}><Icon name="send" /></button>
      {problem && <p class="error" role="alert">{problem}</p>}
    </form>
  );
}
