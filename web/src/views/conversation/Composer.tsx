// Writing into a conversation of the web channel, as the user.
import { Role } from "@recollect/client";
import { useEffect, useRef, useState } from "preact/hooks";
import { conversations as calls, newRequestId } from "../../api/calls";
import { describe } from "../../api/errors";
import { connections } from "../../live/connection";
import { begun, unsent } from "../../state/conversations";
import { t } from "../../texts";
import { Icon } from "../../ui/Icon";

export function Composer({ conversationId }: { conversationId: string }) {
  const [text, setText] = useState(unsent.get(conversationId) ?? "");
  const [problem, setProblem] = useState<string>();
  // A try that failed may have been stored: the same text again is the same request.
  const request = useRef({ text: "", id: "" });
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // Who begins a conversation writes next; elsewhere each letter would be a shortcut.
    if (begun.id === conversationId) area.current?.focus();
    begun.id = "";
  }, []);
  // A failure from before the connection came back is none any more.
  useEffect(() => setProblem(undefined), [connections.value]);
  const keep = (typed: string) => {
    if (typed) unsent.set(conversationId, typed);
    else unsent.delete(conversationId);
    setText(typed);
  };
  const send = async () => {
    if (!text.trim()) return;
    if (request.current.text !== text) request.current = { text, id: newRequestId() };
    setProblem(undefined);
    try {
      const messages = [{ role: Role.USER, content: text }];
      await calls.appendTurn({ conversationId, messages, requestId: request.current.id });
      request.current = { text: "", id: "" };
      // Only what was sent goes: what was typed since is the next message.
      const typed = unsent.get(conversationId) ?? "";
      keep(typed.startsWith(text) ? typed.slice(text.length).trimStart() : typed);
    } catch (failure) {
      setProblem(describe(failure));
    }
  };
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      <textarea
        ref={area}
        rows={Math.min(6, text.split("\n").length)} value={text} placeholder={t.conversation.write}
        aria-label={t.conversation.write} title={t.conversation.writeHint} dir="auto"
        onInput={(event) => keep(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      <button class="button primary" disabled={!text.trim()} aria-label={t.conversation.send}><Icon name="send" /></button>
      {problem && <p class="error" role="alert">{problem}</p>}
    </form>
  );
}
