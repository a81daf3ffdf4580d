// Texts of the view that imports a file, in English.
import { count } from "./count";

export const imports = {
  imports: {
    lead: "Conversations that another product keeps, or that Recollect exported, come from one file. A second import of it, or of a newer export, adds what is new and nothing twice.",
    products: "ChatGPT, Claude, Gemini, Claude Code, Codex, Gemini CLI, aider, Open WebUI, LibreChat, llm, WhatsApp, Telegram, Discord, Slack, Signal, mailboxes (mbox), Recollect: the zip archive as it was downloaded, or a file of it. The guide “Import and export” says where each comes from.",
    choose: "Choose a file, or drop it here",
    file: "File",
    most: (size: string) => `At most ${size}.`,
    tooLarge: (size: string, most: string) =>
      `The file has ${size}, and this page takes at most ${most}: --max-import of recollect-web says how much. recollect import takes a file of any size.`,
    oneFile: "Drop one file: of a folder make a zip archive first.",
    owner: "Your name in a chat of people, if it is one",
    ownerHint: "The name that you have in a chat of WhatsApp, Telegram, Discord, Slack or Signal, or your name or address in a mailbox. Such chats come only with it, and from then on your agent reads what the others wrote in them.",
    submit: "Import",
    running: (name: string) => `Importing ${name}`,
    sending: "The file is on its way…",
    reading: (percent: number, messages: number) => `${percent} % read, ${count(messages, "message", "messages")} so far`,
    stop: "Stop",
    stopped: "Stopped.",
    stays: "What was imported stays. Import the same file again to go on from there.",
    brokeOff: "The connection to the page's server broke off.",
    done: (name: string) => `${name} was imported`,
    nothing: (name: string) => `Nothing came from ${name}`,
    failed: (name: string) => `The import of ${name} did not end well`,
    conversations: "Conversations",
    messages: "Messages",
    counts: (fresh: number, known: number) => `${fresh.toLocaleString("en")} new, ${known.toLocaleString("en")} already there`,
    ids: "Given new ids",
    idsOf: (n: number) => count(n, "conversation, whose own id was taken or none", "conversations, whose own ids were taken or none"),
    keptOut: "Kept out",
    otherBranches: (n: number) => count(n, "message of another version of a question or an answer", "messages of other versions of a question or an answer"),
    hidden: (n: number) => count(n, "hidden one", "hidden ones"),
    leftOut: (lost: number, notes: number) =>
      [lost ? `Left out or cut: ${lost.toLocaleString("en")}` : "", notes ? `notes on the rest: ${notes.toLocaleString("en")}` : ""].filter(Boolean).join("; "),
    lost: "left out",
    note: "note on",
    showAll: (n: number) => `Show all ${n.toLocaleString("en")}`,
    unnamed: (n: number) => `and ${n.toLocaleString("en")} more, which recollect import names`,
    toList: "To the conversations",
  },
};
