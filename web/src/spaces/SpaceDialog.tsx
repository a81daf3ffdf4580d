// The spaces that a caller may name. Each is a link to a page of its own.
import { useEffect, useState } from "preact/hooks";
import { AdminService, Scope } from "@recollect/client";
import { client } from "../api/calls";
import { describe, isCancelled } from "../api/errors";
import { may } from "../api/session";
import { mayBeSpace, spaceAddress } from "../api/space";
import { t } from "../texts/views";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import "./spaces.css";

/** More than this can be searched. */
const FEW = 8;
const PAGE = 200;

const admin = client.of(AdminService);

export interface DialogProps {
  current: string;
  /** Those that the token is for; empty: every one. */
  named: string[];
  onClose: () => void;
}

export function SpaceDialog({ current, named, onClose }: DialogProps) {
  const [names, setNames] = useState(named);
  const [next, setNext] = useState("");
  const [words, setWords] = useState("");
  const [problem, setProblem] = useState("");
  const isAny = named.length === 0;
  const isListed = isAny && may(Scope.ADMIN);
  const load = (pageToken: string, signal?: AbortSignal) =>
    admin.listSpaces({ pageToken, pageSize: PAGE }, { signal }).then(
      (it) => {
        setNames((old) => [...new Set([...(pageToken ? old : []), ...it.spaces.map((one) => one.name)])]);
        setNext(it.nextPageToken);
      },
      (error: unknown) => isCancelled(error) || setProblem(describe(error)),
    );
  useEffect(() => {
    const abort = new AbortController();
    if (isListed) void load("", abort.signal);
    return () => abort.abort();
  }, []);
  const known = names.includes(current) ? names : [current, ...names];
  const shown = known.filter((it) => it.includes(words.trim().toLowerCase()));
  return (
    <Dialog title={t.spaces.title} class="spaces" onClose={onClose}>
      <p class="muted">{t.spaces.hint}</p>
      {(known.length > FEW || next) && (
        <input type="search" aria-label={t.spaces.find} placeholder={t.spaces.find} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      )}
      {problem && <p class="error" role="alert">{problem}</p>}
      {shown.length === 0 && <p class="muted">{t.spaces.none}</p>}
      <ul class="space-list">
        {shown.map((it) => (
          <li key={it}>
            <a href={spaceAddress(it)} aria-current={it === current ? "true" : undefined}>
              <Icon name="space" />
              <span>{it}</span>
              {it === current && <span class="muted tiny">{t.spaces.current}</span>}
            </a>
          </li>
        ))}
      </ul>
      {next && <button class="button" onClick={() => void load(next)}>{t.spaces.more}</button>}
      {isAny && <Other />}
    </Dialog>
  );
}

/** A space that is not listed, by its name. */
function Other() {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const open = (event: Event) => {
    event.preventDefault();
    if (mayBeSpace(name.trim())) location.assign(spaceAddress(name.trim()));
    else setProblem(t.spaces.wrong);
  };
  return (
    <form class="space-other" onSubmit={open}>
      <label class="field">
        <span>{t.spaces.other}</span>
        <span class="space-line">
          <input
            value={name} autocomplete="off" spellcheck={false} maxLength={128} aria-invalid={problem !== ""}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <button class="button" disabled={!name.trim()}>{t.spaces.open}</button>
        </span>
      </label>
      {problem && <p class="error" role="alert">{problem}</p>}
    </form>
  );
}
