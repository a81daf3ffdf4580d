// Slash commands that are typed into the composer. The server runs them; none is stored.
import { signal } from "@preact/signals";
import { ChannelService, type Conversation } from "@recollect/client";
import { client, newRequestId } from "../../api/calls";
import { change } from "../../live/connection";
import { navigate, route } from "../../router";
import { begun } from "../../state/conversations";
import { t } from "../../texts/views";

const channels = client.of(ChannelService);

/** As the server tells a command from a message: one line, a word of letters behind the slash. */
const COMMAND = /^\/[A-Za-z]{1,32}(?:@[A-Za-z0-9_.-]{1,64})?(?:[ \t]+\S.*)?$/;

/** What the last command said, in the conversation that it led to. */
export const reply = signal<{ conversationId: string; text: string } | undefined>(undefined);

/** Return whether a text is a command, and no message. */
export function isCommand(text: string): boolean {
  return COMMAND.test(text.trim());
}

/** Return the commands that a beginning may become, with what they do. */
export function completions(text: string): [string, string][] {
  if (!text.startsWith("/") || text.includes("\n")) return [];
  const typed = text.toLowerCase();
  return Object.entries(t.commands).filter(([name]) => name.startsWith(typed) && name !== typed);
}

/** Run a command, and go to the conversation that it leads to. */
export async function run(conversationId: string, text: string): Promise<void> {
  const answer = await change(channels.runCommand({ conversationId, text: text.trim(), requestId: newRequestId() }));
  const now: Conversation = answer.conversation!;
  reply.value = { conversationId: now.id, text: answer.reply };
  if (route.value.path === `/c/${now.id}`) return;
  begun.id = now.id;
  navigate(`/c/${now.id}`);
}
