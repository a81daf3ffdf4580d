// The beginning of the page.
import { effect } from "@preact/signals";
import { render } from "preact";
import { openSession, session } from "./api/session";
import { App } from "./App";
import { joinStream } from "./live/connection";
import { keepList } from "./state/conversations";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/conversation.css";

render(<App />, document.getElementById("app")!);
void openSession();

const stop = effect(() => {
  if (session.value.kind !== "open") return;
  queueMicrotask(() => stop());
  keepList();
  joinStream();
});
