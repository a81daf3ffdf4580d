// The tokens of the server: who may call it, what each allows, when it was last used; new ones, and their end.
import { useEffect, useState } from "preact/hooks";
import { AdminService, Scope, type Token, TokenState } from "@recollect/client";
import { client } from "../../api/calls";
import { describe, isCancelled } from "../../api/errors";
import { refreshSession, session } from "../../api/session";
import { link, route, setQuery } from "../../router";
import { t } from "../../texts/administration";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Page } from "../../ui/Page";
import { Empty, Failure, Loading } from "../../ui/States";
import { oneLine } from "../../ui/text";
import { dayOf, fullTime, shortTime } from "../../ui/time";
import { CreateToken } from "./CreateToken";
import { tokenName } from "./names";
import { type LastUse, lastUse, useLastUses } from "./uses";
import "./tokens.css";

const admin = client.of(AdminService);

interface Listed {
  tokens: Token[];
  next: string;
}

export default function Tokens() {
  const includeEnded = route.value.query.get("ended") === "1";
  const [listed, setListed] = useState<Listed>();
  const [error, setError] = useState<unknown>();
  const [isCreating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token>();
  const uses = useLastUses(listed?.tokens);
  const load = (before?: Listed) => {
    const abort = new AbortController();
    setError(undefined);
    admin.listTokens({ includeEnded, pageToken: before?.next ?? "" }, { signal: abort.signal }).then(
      ({ tokens, nextPageToken }) => setListed({ tokens: [...(before?.tokens ?? []), ...tokens], next: nextPageToken }),
      (failure: unknown) => isCancelled(failure) || setError(failure),
    );
    return () => abort.abort();
  };
  useEffect(() => load(), [includeEnded]);
  const take = (changed: Token) =>
    setListed((it) => it && { ...it, tokens: it.tokens.map((one) => (one.id === changed.id ? changed : one)) });
  return (
    <Page
      class="tokens" title={t.nav.tokens}
      tools={<>
        <label class="check">
          <input type="checkbox" checked={includeEnded} onChange={(event) => setQuery({ ended: event.currentTarget.checked ? "1" : undefined })} />
          {t.tokens.ended}
        </label>
        <button class="button primary" onClick={() => setCreating(true)}><Icon name="plus" />{t.tokens.create}</button>
      </>}
    >
      {error !== undefined && <Failure error={error} retry={() => load(listed)} />}
      {!listed && error === undefined && <Loading />}
      {listed?.tokens.length === 0 && (
        <Empty icon="key" level="p" title={t.tokens.none}>
          <p>{t.tokens.noneHint}</p>
          <button class="button" onClick={() => setCreating(true)}>{t.tokens.create}</button>
        </Empty>
      )}
      {listed && listed.tokens.length > 0 && (
        <ul class="token-list">
          {listed.tokens.map((it) => <Row key={it.id} token={it} use={uses.get(it.id)} onRevoke={() => setRevoking(it)} />)}
        </ul>
      )}
      {listed?.next && <button class="button" onClick={() => load(listed)}>{t.tokens.more}</button>}
      {isCreating && (
        <CreateToken
          isFirst={!callerToken() && !listed?.tokens.some((it) => it.state === TokenState.VALID)}
          onClose={() => setCreating(false)}
          onCreated={() => load()}
        />
      )}
      {revoking && <Revoke token={revoking} onClose={() => setRevoking(undefined)} onRevoked={take} />}
    </Page>
  );
}

/** Return the id of the token that the page itself calls with; empty: none. */
function callerToken(): string {
  return session.value.kind === "open" ? session.value.caller.tokenId : "";
}

interface RowProps {
  token: Token;
  /** Undefined: not read yet. */
  use: LastUse | undefined;
  onRevoke: () => void;
}

function Row({ token, use, onRevoke }: RowProps) {
  const isValid = token.state === TokenState.VALID;
  return (
    <li class="token" data-token={token.id} data-ended={!isValid}>
      <div class="token-name">
        <strong><bdi>{tokenName(token)}</bdi></strong>
        <span class="badge">{t.tokens.kinds[token.kind] ?? token.kind}</span>
        {token.id === callerToken() && <span class="badge" data-tone="ok">{t.tokens.own}</span>}
        {!isValid && <span class="badge" data-tone="danger">{t.tokens.states[token.state]}</span>}
        {token.note && <code>{token.id}</code>}
      </div>
      <p class="token-may">{mayOf(token)}</p>
      <dl class="token-facts">
        <div><dt>{t.tokens.where}</dt><dd>{whereOf(token)}</dd></div>
        <div><dt>{t.tokens.created}</dt><dd title={fullTime(token.createTime)}>{dayOf(token.createTime)}</dd></div>
        <div><dt>{t.tokens.ends}</dt><dd title={token.expireTime && fullTime(token.expireTime)}>{token.expireTime ? dayOf(token.expireTime) : t.tokens.never}</dd></div>
        <div>
          <dt>{t.tokens.lastUse}</dt>
          <dd>
            {use?.time ? <a href={link("/audit", { token: token.id })} title={fullTime(use.time)}>{shortTime(use.time)}</a> : use ? t.tokens.unused : "…"}
          </dd>
        </div>
      </dl>
      {isValid && <button class="button token-end" onClick={onRevoke} aria-label={t.tokens.revokeOf(tokenName(token))}>{t.tokens.revoke}</button>}
    </li>
  );
}

/** Return what a token allows, in words. */
function mayOf({ scopes }: Token): string {
  return scopes.filter((it) => it !== Scope.ANY).map((it) => t.tokens.scopes[Scope[it]] ?? Scope[it]).join("; ");
}

/** Return where a token counts, in words. */
function whereOf({ spaces, conversationId, channel }: Token): string {
  const named = spaces.includes("*") ? t.tokens.everySpace : t.tokens.inSpaces(spaces);
  return [named, conversationId && t.tokens.inConversation(conversationId), channel && t.tokens.onChannel(oneLine(channel))].filter(Boolean).join(", ");
}

interface RevokeProps {
  token: Token;
  onClose: () => void;
  onRevoked: (token: Token) => void;
}

/** Asks before a token ends, with what ends then. */
function Revoke({ token, onClose, onRevoked }: RevokeProps) {
  const [use, setUse] = useState<LastUse>();
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const isOwn = token.id === callerToken();
  useEffect(() => {
    const abort = new AbortController();
    lastUse(token.id, abort.signal).then(setUse, () => undefined); // it may be used this minute
    return () => abort.abort();
  }, []);
  const revoke = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    admin.revokeToken({ tokenId: token.id }).then(
      ({ token: ended }) => {
        onRevoked(ended!);
        onClose();
        if (isOwn) void refreshSession();
      },
      (error: unknown) => setProblem(describe(error)),
    ).finally(() => setBusy(false));
  };
  return (
    <Dialog title={t.tokens.revokeTitle(tokenName(token))} class="action" onClose={onClose}>
      <form onSubmit={revoke}>
        <p>{t.tokens.revokeHint}</p>
        {t.tokens.ending[token.kind] && <p>{t.tokens.ending[token.kind]}</p>}
        <p>{use?.time ? t.tokens.usedNow(fullTime(use.time), use.calls) : use && t.tokens.unusedNow}</p>
        {isOwn && <p class="error"><Icon name="warning" /> {t.tokens.ownEnds}</p>}
        {problem && <p class="error" role="alert">{problem}</p>}
        <p class="form-actions">
          <button class="button danger" disabled={isBusy}>{t.tokens.revoke}</button>
          <button class="button" type="button" onClick={onClose}>{t.app.cancel}</button>
        </p>
      </form>
    </Dialog>
  );
}
