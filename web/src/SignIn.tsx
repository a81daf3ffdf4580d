// What is shown instead of everything while this browser may not call the server.
import { useEffect, useState } from "preact/hooks";
import { isSignedInByProxy } from "./api/base";
import { refreshSession, signIn, session, signInAgain, signOut } from "./api/session";
import { isSpaceValid, spaceAddress } from "./api/space";
import { t } from "./texts/views";
import { Icon } from "./ui/Icon";

const RETRY_MS = 2_000;

export default function SignIn() {
  const state = session.value;
  return (
    <main class="gate" id="content" tabIndex={-1}>
      <p class="gate-brand">{t.app.name}</p>
      {state.kind === "token" && !isSignedInByProxy && <TokenForm />}
      {isSignedInByProxy && (state.kind === "closed" || state.kind === "token") && (
        <section>
          <h1>{t.session.signedOutTitle}</h1>
          <p>{state.kind === "token" ? t.session.proxyToken : (state.reason ?? t.session.signedOut)}</p>
          <button class="button primary" onClick={signInAgain}>{t.session.submit}</button>
        </section>
      )}
      {state.kind === "closed" && !isSignedInByProxy && (
        <section>
          <h1>{t.session.closedTitle}</h1>
          <p>{t.session.closed}</p>
        </section>
      )}
      {state.kind === "space" && (
        <section>
          <h1>{t.session.spaceTitle}</h1>
          <p>{state.reason}</p>
          <p class="gate-actions">
            <a class="button primary" href={spaceAddress("")}>{t.session.ownSpace}</a>
            {isSpaceValid && <button class="button" onClick={() => void signOut()}>{t.app.signOut}</button>}
          </p>
        </section>
      )}
      {state.kind === "unreachable" && <Unreachable reason={state.reason} />}
    </main>
  );
}

function Unreachable({ reason }: { reason: string }) {
  useEffect(() => {
    const timer = setInterval(() => void refreshSession(), RETRY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <section>
      <h1>{t.session.unreachableTitle}</h1>
      <p>{reason}</p>
      <button class="button primary" onClick={() => void refreshSession()}>{t.app.retry}</button>
    </section>
  );
}

function TokenForm() {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(await signIn(token.trim()).catch(() => t.errors.pageServerGone));
    setBusy(false);
  };
  return (
    <form onSubmit={submit}>
      <h1>{t.session.tokenTitle}</h1>
      <p>{t.session.token}</p>
      <label class="field">
        <span>{t.session.tokenLabel}</span>
        <input
          type="password" autocomplete="off" spellcheck={false} required value={token}
          aria-describedby="token-hint" aria-invalid={!!error}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <p class="muted" id="token-hint">{t.session.tokenHint}</p>
      {error && <p class="error" role="alert"><Icon name="warning" />{error}</p>}
      <button class="button primary" disabled={isBusy || !token.trim()}>{t.session.submit}</button>
    </form>
  );
}
