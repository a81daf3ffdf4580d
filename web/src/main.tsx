// The beginning of the page.
import { render } from "preact";
import { conversations } from "./api/calls";
import { openSession, refreshSession } from "./api/session";
import { isSpaceValid } from "./api/space";
import { App } from "./App";
import { joinStream } from "./live/connection";
import { keepList } from "./state/conversations";
import { keepDrafts } from "./state/drafts";
import { navigate, route } from "./router";
import { isNarrow } from "./state/theme";
import { t } from "./texts";
import { viewOf } from "./views/registry";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";

const view = viewOf(route.value.path);
const code = view?.load(); // while the caller is asked for
code?.catch(() => undefined); // the view says so
/** Show the newest conversation of the page's own channel, unless the address names something. */
async function beginAtNewest(): Promise<void> {
  const isHome = () => route.peek().path === "/" && [...route.peek().query.keys()].every((it) => it === "space");
  if (!isHome() || isNarrow.peek()) return;
  // Who may not read conversations is told so by the list.
  const answer = await conversations.list({ channels: ["web"], pageSize: 1 }).catch(() => undefined);
  const newest = answer?.conversations[0];
  if (newest && isHome()) navigate(`/c/${newest.id}`, {}, true);
}

document.documentElement.lang = t.language;
render(<App />, document.getElementById("app")!);
// Who the caller is, the list and the stream are asked for at once. A caller without a session or a
// token is refused by each of them, and signing in begins anew.
void openSession().then(() => {
  if (isSpaceValid) {
    keepList();
    keepDrafts();
    joinStream();
    void beginAtNewest();
    code?.then((it) => it.prepare?.(), () => undefined);
  }
  return refreshSession();
});
