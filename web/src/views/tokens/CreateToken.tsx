// The dialog that makes a token, and shows its secret this once.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useState } from "preact/hooks";
import { AdminService, Scope, type CreateTokenResponse } from "@recollect/client";
import { client } from "../../api/calls";
import { violationOf } from "../../api/errors";
import { holdSession, session } from "../../api/session";
import { t } from "../../texts/administration";
import { Copy } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { unitsOf } from "../../ui/text";

const admin = client.of(AdminService);
const KINDS = ["brain", "project", "gateway", "panel", "reader", "monitor", "admin", "custom"];
const SCOPES = Object.values(Scope).filter((it): it is Scope => typeof it === "number" && it > Scope.ANY);
/** Days that a token may live; 0: for ever. */
const DAYS = [30, 90, 365, 0];
const DAY_MS = 86_400_000;

interface Props {
  /** Whether it is the first token of a server that asks for none yet. */
  isFirst: boolean;
  onClose: () => void;
  onCreated: () => void;
}

export function CreateToken({ isFirst, onClose, onCreated }: Props) {
  const [kind, setKind] = useState("brain");
  const [scopes, setScopes] = useState<Scope[]>([]);
  const [note, setNote] = useState("");
  const [spaces, setSpaces] = useState(session.value.kind === "open" ? session.value.caller.space : "");
  const [conversationId, setConversation] = useState("");
  const [days, setDays] = useState(DAYS[1]!);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [made, setMade] = useState<CreateTokenResponse>();
  if (made) return <Secret made={made} isFirst={isFirst} onClose={onClose} />;
  const create = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    const release = isFirst ? holdSession() : undefined; // a refusal would take the secret from the screen
    const names = spaces.split(/[\s,]+/).filter(Boolean);
    admin.createToken({
      kind, note, spaces: names,
      scopes: kind === "custom" ? scopes : [],
      conversationId: mayNameConversation(kind) ? conversationId.trim() : "",
      ...(days && { expireTime: timestampFromMs(Date.now() + days * DAY_MS) }),
    }).then(
      (answer) => {
        setMade(answer);
        if (!isFirst) onCreated();
      },
      (error: unknown) => {
        release?.();
        setProblem(violationOf(error));
      },
    ).finally(() => setBusy(false));
  };
  return (
    <Dialog title={t.tokens.createTitle} class="action" onClose={onClose}>
      <form onSubmit={create}>
        <label class="field">
          <span>{t.tokens.note}</span>
          <input autofocus value={note} maxLength={unitsOf(256)} placeholder={t.tokens.noteHint} onInput={(event) => setNote(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>{t.tokens.kind}</span>
          <select value={kind} aria-describedby="token-kind-hint" onChange={(event) => setKind(event.currentTarget.value)}>
            {KINDS.map((it) => <option key={it} value={it}>{t.tokens.kinds[it]}</option>)}
          </select>
        </label>
        <p class="muted" id="token-kind-hint">{t.tokens.kindHints[kind]}</p>
        {kind === "custom" && (
          <fieldset>
            <legend>{t.tokens.may}</legend>
            {SCOPES.map((it) => (
              <label key={it} class="check">
                <input type="checkbox" checked={scopes.includes(it)} onChange={() => setScopes(scopes.includes(it) ? scopes.filter((one) => one !== it) : [...scopes, it])} />
                {t.tokens.scopes[Scope[it]]}
              </label>
            ))}
          </fieldset>
        )}
        <label class="field">
          <span>{t.tokens.spaces}</span>
          <input value={spaces} spellcheck={false} autocomplete="off" aria-describedby="token-spaces-hint" onInput={(event) => setSpaces(event.currentTarget.value)} />
        </label>
        <p class="muted" id="token-spaces-hint">{t.tokens.spacesHint}</p>
        {mayNameConversation(kind) && (
          <label class="field">
            <span>{kind === "project" ? t.tokens.conversation : t.tokens.conversationIfAny}</span>
            <input value={conversationId} required={kind === "project"} placeholder="conv-…" spellcheck={false} autocomplete="off" onInput={(event) => setConversation(event.currentTarget.value)} />
          </label>
        )}
        <label class="field">
          <span>{t.tokens.lives}</span>
          <select value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {DAYS.map((it) => <option key={it} value={it}>{it ? t.tokens.days(it) : t.tokens.never}</option>)}
          </select>
        </label>
        {isFirst && <p class="warned"><Icon name="warning" /><span>{t.tokens.first}</span></p>}
        {problem && <p class="error" role="alert">{problem}</p>}
        <p class="form-actions">
          <button class="button primary" disabled={isBusy}>{t.tokens.submit}</button>
          <button class="button" type="button" onClick={onClose}>{t.app.cancel}</button>
        </p>
      </form>
    </Dialog>
  );
}

/** Return whether a token of a kind can be for one conversation alone. */
function mayNameConversation(kind: string): boolean {
  return kind === "project" || kind === "custom";
}

/** The secret of a new token, which nobody can read again. */
function Secret({ made, isFirst, onClose }: { made: CreateTokenResponse; isFirst: boolean; onClose: () => void }) {
  const close = () => {
    onClose();
    if (isFirst) location.reload(); // from now on this page needs a token too
  };
  return (
    <Dialog title={t.tokens.made} class="action" onClose={close}>
      <p>{t.tokens.madeHint}</p>
      <figure class="code-block bare">
        <Copy text={made.secret} label={t.tokens.copySecret} />
        <pre class="code secret" tabIndex={0}>{made.secret}</pre>
      </figure>
      {isFirst && <p class="warned"><Icon name="warning" /><span>{t.tokens.firstMade}</span></p>}
      <p class="form-actions"><button class="button primary" onClick={close}>{t.tokens.kept}</button></p>
    </Dialog>
  );
}
