// An agent that answers on the page: what the guide "Agents" has, where somebody waits for an answer.
import { Code } from "../../markdown/Code";
import { t } from "../../texts/views";
import { Dialog } from "../../ui/Dialog";

/** As in docs/guides/agents.md, which a test compares. */
const PROGRAM = `import json

from recollect import Client, ContextFormat, ConversationUpdated, Message, Role


def serve(client: Client, model) -> None:
    for update in client.conversations.watch(channels=["web"]):
        if isinstance(update.kind, ConversationUpdated):
            said = update.kind.messages
            if said and said[-1].role is Role.USER:
                answer_live(client, model, update.conversation_id, said[-1])


def answer_live(client: Client, model, conversation_id: str, said: Message) -> None:
    context = client.recall.build_context(
        conversation_id, said.content, format=ContextFormat.ANTHROPIC_MESSAGES
    )
    draft, text = f"answer-{said.sequence}", ""
    for part in model(context.system_prompt, json.loads(context.rendered)):
        client.conversations.publish_delta(conversation_id, draft, len(text), part)
        text += part
    client.conversations.append_turn(
        conversation_id,
        [Message.assistant(text, metadata={"context": given(context)})],
        in_reply_to_turn=said.turn_number,
        draft_id=draft,
        request_id=f"{conversation_id}-{said.sequence}",  # a second agent stores no second answer
    )


def given(context) -> dict:  # the page shows it at the answer
    parts = (*context.hot, *context.warm, *context.cold)
    turns = [[it.conversation_id, it.message.turn_number] for it in parts]
    return {"tokens": context.rendered_tokens, "turns": turns[:500]}


with Client() as client:
    serve(client, model)`;

export function AgentDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t.conversation.anAgent} class="agent" onClose={onClose}>
      <p>{t.conversation.anAgentHint}</p>
      <Code text={PROGRAM} language="python" />
    </Dialog>
  );
}
