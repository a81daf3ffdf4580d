// The beginning of the page.
import { render } from "preact";
import { openSession, refreshSession } from "./api/session";
import { isSpaceValid } from "./api/space";
import { App } from "./App";
import { joinStream } from "./live/connection";
import { keepList } from "./state/conversations";
import { keepDrafts } from "./state/drafts";
import { route } from "./router";
import { viewOf } from "./views/registry";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/conversation.css";

const view = viewOf(route.value.path);
const code = view?.load(); // while the caller is asked for
code?.catch(() => undefined); // the view says so
render(<App />, document.getElementById("app")!);
// Who the caller is, the list and the stream are asked for at once. A caller without a session or a
// token is refused by each of them, and signing in begins anew.
void openSession().then(() => {
  if (isSpaceValid) {
    keepList();
    keepDrafts();
    joinStream();
    code?.then((it) => it.prepare?.(), () => undefined);
  }
  return refreshSession();
});
