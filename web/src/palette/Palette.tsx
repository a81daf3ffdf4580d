// The palette: one field that goes to views and conversations, runs commands, and searches as
// somebody types.
import { useEffect, useState } from "preact/hooks";
import { Scope, type Conversation, type SearchResult } from "@recollect/client";
import { conversations, recall } from "../api/calls";
import { describe, isCancelled } from "../api/errors";
import { may } from "../api/session";
import { can, paletteOpen, perform } from "../keyboard";
import { link, navigate, show } from "../router";
import { nameOf } from "../sidebar/Row";
import { list } from "../state/conversations";
import { openedActions } from "../state/opened";
import { theme, THEMES } from "../state/theme";
import { t } from "../texts/views";
import { Dialog } from "../ui/Dialog";
import { channelIcon, Icon, type IconName, themeIcon } from "../ui/Icon";
import { fold } from "../ui/folding";
import { DOUBTFUL, oneLine } from "../ui/text";
import { dayOf, shortTime } from "../ui/time";
import { maySee, views } from "../views/registry";
import { linkTo } from "../views/search/link";
import { Snippet } from "../views/search/Snippet";
import "./palette.css";

const PAUSE_MS = 150;
const FEW = 6;

interface Entry {
  id: string;
  icon: IconName;
  text: string;
  hint?: string;
  /** The result that it leads to. */
  result?: SearchResult;
  run: () => void;
}

export default function Palette() {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState("");
  const { named, found, problem } = useAnswers(text.trim());
  const groups = entriesOf(text.trim(), named, found);
  const all = groups.flatMap(([, entries]) => entries);
  const current = all.find((it) => it.id === chosen) ?? all[0];
  const close = () => (paletteOpen.value = false);
  // The focus goes back to where it was before anything takes it.
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    document.querySelector<HTMLDialogElement>("dialog.palette")?.close();
    close();
    entry.run();
  };
  const choose = (index: number) => {
    const entry = all[(index + all.length) % all.length];
    if (!entry) return;
    setChosen(entry.id);
    document.getElementById(entry.id)?.scrollIntoView({ block: "nearest" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const at = current ? all.indexOf(current) : 0;
    if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at - 1);
    else if (event.key === "Enter") run(current);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={t.palette.title} class="palette" onClose={close}>
      <input
        autofocus type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list"
        aria-activedescendant={current?.id} aria-label={t.palette.label} placeholder={t.palette.label} value={text}
        autocomplete="off" spellcheck={false} dir="auto" maxLength={1000} onKeyDown={onKeyDown}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosen("");
        }}
      />
      {problem && <p class="error" role="alert">{problem}</p>}
      <div id="palette-list" role="listbox" aria-label={t.palette.title}>
        {groups.map(([name, entries]) => entries.length > 0 && (
          <div key={name} role="group" aria-label={name}>
            <p class="palette-group" role="presentation">{name}</p>
            {entries.map((it) => (
              <div
                key={it.id} id={it.id} role="option" aria-selected={it === current} class="palette-entry"
                onPointerMove={() => setChosen(it.id)} onClick={() => run(it)}
              >
                <Icon name={it.icon} />
                <span class="palette-text">
                  <bdi>{it.text}</bdi>
                  {it.result && <small><Snippet of={it.result} /></small>}
                </span>
                {it.hint && <span class="muted tiny">{it.hint}</span>}
              </div>
            ))}
          </div>
        ))}
      </div>
    </Dialog>
  );
}

interface Answers {
  named: Conversation[];
  found: SearchResult[];
  problem: string;
}

/** Ask the server for what somebody typed: names of conversations, and what was said. */
function useAnswers(text: string): Answers {
  const [answers, setAnswers] = useState<Answers>({ named: [], found: [], problem: "" });
  useEffect(() => {
    if (!text) return setAnswers({ named: [], found: [], problem: "" });
    const abort = new AbortController();
    const { signal } = abort;
    const failed = (error: unknown) => {
      if (!isCancelled(error)) setAnswers((old) => ({ ...old, problem: describe(error) }));
    };
    const timer = setTimeout(() => {
      setAnswers((old) => ({ ...old, problem: "" }));
      if (may(Scope.CONVERSATIONS_READ)) {
        conversations.list({ query: text, pageSize: FEW }, { signal })
          .then((it) => setAnswers((old) => ({ ...old, named: it.conversations })), failed);
      }
      if (may(Scope.RECALL)) {
        recall.search({ query: text, limit: FEW, minScore: DOUBTFUL }, { signal })
          .then((it) => setAnswers((old) => ({ ...old, found: it.results })), failed);
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return answers;
}

/** Return what can be chosen, by groups with their names. */
function entriesOf(text: string, named: Conversation[], found: SearchResult[]): [string, Entry[]][] {
  const typed = wordsIn(text);
  const matches = (it: Entry) => {
    const words = wordsIn(it.text);
    return (!text || typed.length > 0) && typed.every((begun) => words.some((it) => it.startsWith(begun)));
  };
  const places = views.filter((it) => (it.order !== undefined || it.isInPalette) && maySee(it)).map((it): Entry => (
    { id: `palette-view-${it.path.slice(1)}`, icon: it.icon, text: it.name, run: () => navigate(it.path) }
  ));
  const shown = text ? named : list.value.items.slice(0, FEW);
  const conversationsNamed = shown.map((it): Entry => ({
    id: `palette-name-${it.id}`, icon: channelIcon(it.channel), text: nameOf(it), hint: shortTime(it.updateTime),
    run: () => show(link(`/c/${it.id}`)),
  }));
  const said = found.map((it): Entry => {
    return {
      id: `palette-said-${it.conversationId}`, icon: channelIcon(it.channel), text: oneLine(it.conversationName) || t.sidebar.unnamed,
      hint: dayOf(it.date), result: it, run: () => navigate(...linkTo(it, [], text)),
    };
  });
  if (text && may(Scope.RECALL)) {
    said.push({ id: "palette-all", icon: "search", text: t.palette.all(text), run: () => navigate("/search", { q: text }) });
  }
  return [
    [t.palette.conversations, conversationsNamed],
    [t.palette.opened, actions().filter(matches)],
    [t.palette.places, places.filter(matches)],
    [t.palette.commands, commands().filter(matches)],
    [t.palette.said, said],
  ];
}

/** Return the words of a text, as they are compared. */
function wordsIn(text: string): string[] {
  return fold(text).split(/[^\p{L}\p{N}]+/u).filter(Boolean);
}

/** Return what can be done to the conversation that is shown. */
function actions(): Entry[] {
  return openedActions.value.map(({ icon, text, key, run }, index) => ({ id: `palette-do-${index}`, icon, text, hint: key, run }));
}

/** Return the commands that can be run now: those of one key, and those of the buttons at the top. */
function commands(): Entry[] {
  const keys: [string, IconName, string][] = [
    ["n", "plus", t.keys.create], ["f", "search", t.keys.find], ["?", "keyboard", t.app.keys],
  ];
  return [
    ...keys.filter(([key]) => can(key)).map(([key, icon, text]) => (
      { id: `palette-key-${key.charCodeAt(0)}`, icon, text, hint: key, run: () => perform(key) }
    )),
    ...THEMES.filter((it) => it !== theme.value).map((it): Entry => (
      { id: `palette-theme-${it}`, icon: themeIcon(it), text: t.app.theme[it], run: () => (theme.value = it) }
    )),
  ];
}
