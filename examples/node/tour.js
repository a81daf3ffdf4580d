// Begins a conversation, writes to it, watches it, goes on after a pause, and finds it again.
import { Role } from "@recollect/client";
import { connect } from "@recollect/client/node";

const recollect = connect(process.argv[2]);

const { conversation } = await recollect.conversations.create({ channel: "web" });
console.log(`Created   ${conversation.id} on ${conversation.channel}`);

let watch = recollect.watch({ conversationIds: [conversation.id] });
console.log(`Watches   ${(await next("conversationList")).conversations.length} conversation`);

await say("Why was the server so slow?", "The disk is full: logs, mostly.");
console.log(`Saw       ${texts(await next("conversationUpdated"))}`);

watch.close(); // what follows is missed, and told to a watch that begins at the cursor
await say("Then rotate them daily.", "Done: every night at three.");
watch = recollect.watch({ conversationIds: [conversation.id], cursor: watch.cursor });
console.log(`Missed    ${texts(await next("conversationUpdated"))}`);

const question = "are they rotated daily?";
const { hits } = await recollect.recall.search({ query: question, conversationId: conversation.id, limit: 1 });
console.log(`Searched  turn ${hits[0].turnNumber}: ${hits[0].snippetText}`);

recollect.close();

async function say(user, assistant) {
  const messages = [
    { role: Role.USER, content: user },
    { role: Role.ASSISTANT, content: assistant },
  ];
  await recollect.conversations.appendTurn({ conversationId: conversation.id, messages });
}

async function next(kind) {
  for (;;) {
    const { value } = await watch.next();
    if (value.kind.case === kind) return value.kind.value;
  }
}

function texts(updated) {
  return updated.messages.map((message) => message.content).join(" / ");
}
