// Begins a conversation, writes to it, watches it over a connection that drops, and finds it again.
import { Recollect, call } from "./recollect.js";

const target = process.argv[2] ?? "127.0.0.1:50051";
const recollect = new Recollect(target);

const { conversation } = await call(recollect.conversations, "Create", { channel: "web", request_id: crypto.randomUUID() });
console.log(`Created   ${conversation.id} on ${conversation.channel}`);

const watch = recollect.watch({ conversation_ids: [conversation.id] });
console.log(`Watches   ${(await next("conversation_list")).conversations.length} conversation`);

await say("Why was the server so slow?", "The disk is full: logs, mostly.");
console.log(`Saw       ${texts(await next("conversation_updated"))}`);

watch.drop(); // as a train in a tunnel does; what follows is missed
await say("Then rotate them daily.", "Done: every night at three.");
console.log(`Missed    ${texts(await next("conversation_updated"))}`);

const { hits } = await call(recollect.recall, "Search", { query: "which logs are rotated?", limit: 1 });
// The words that match stand between two characters of their own.
console.log(`Searched  turn ${hits[0].turn_number}: ${hits[0].snippet.replace(/[\ue000\ue001]/g, "")}`);

watch.close();
recollect.close();

async function say(user, assistant) {
  const messages = [
    { role: "ROLE_USER", content: user },
    { role: "ROLE_ASSISTANT", content: assistant },
  ];
  await call(recollect.conversations, "AppendTurn", {
    conversation_id: conversation.id,
    messages,
    request_id: crypto.randomUUID(), // repeated with the same id, it is stored once
  });
}

async function next(kind) {
  for await (const update of watch) {
    if (update.kind === kind) return update[kind];
  }
}

function texts(updated) {
  return updated.messages.map((message) => message.content).join(" / ");
}
