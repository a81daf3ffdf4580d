// What somebody wants to do to conversations, until it is done or given up. The dialogs that ask for
// the rest, and their code, come with the first one.
import { signal } from "@preact/signals";
import type { Conversation, ExternalCommunication, ExternalMessage, Message } from "@recollect/client";

export type Asked =
  | { what: "delete" | "export" | "topics"; conversations: Conversation[] }
  | { what: "redact"; conversationId: string; message: Message }
  | { what: "redactExchanged"; communicationId: string; message: ExternalMessage; onRedacted: () => void }
  | { what: "deleteParty"; communication: ExternalCommunication; onDeleted: () => void };

export const asked = signal<Asked | undefined>(undefined);

/** Open the dialog for a change. */
export function ask(change: Asked): void {
  asked.value = change;
}
