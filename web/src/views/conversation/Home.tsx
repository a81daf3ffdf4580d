// What stands beside the list while nothing is chosen: a field to write in at once, and for who has no
// conversation yet the lines that store the first.
import { Scope } from "@recollect/client";
import { may, onlyConversation } from "../../api/session";
import { shortcutsOn } from "../../keyboard";
import { route } from "../../router";
import { list } from "../../state/conversations";
import { isNarrow } from "../../state/theme";
import { t } from "../../texts/views";
import { Empty } from "../../ui/States";
import { FirstLines } from "../../sidebar/FirstLines";
import { Composer } from "./Composer";
import "./conversation.css";

export default function Home() {
  const mayWrite = may(Scope.CONVERSATIONS_WRITE) && !onlyConversation();
  const { state, items } = list.value;
  const isNew = state === "ready" && !items.length && [...route.value.query.keys()].every((it) => it === "space");
  return (
    <Empty icon="chat" level="p" title={mayWrite ? t.home.write : t.home.choose}>
      {mayWrite && <Composer />}
      {shortcutsOn.value && !isNarrow.value && <Hints mayWrite={mayWrite} />}
      {isNew && !isNarrow.value && <section class="first"><p>{t.home.orLines}</p><FirstLines /></section>}
    </Empty>
  );
}

function Hints({ mayWrite }: { mayWrite: boolean }) {
  const { create, search, help, palette } = t.home.hints;
  const hints: [string, string][] = [["Ctrl K", palette], ["?", help]];
  if (may(Scope.RECALL)) hints.unshift(["/", search]);
  if (mayWrite) hints.unshift(["n", create]);
  return <p class="hints">{hints.map(([key, text]) => <span key={key}><kbd>{key}</kbd> {text}</span>)}</p>;
}
