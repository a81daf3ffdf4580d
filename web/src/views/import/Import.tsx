// Importing a file: choosing it, how far it is, what came and what did not.
import { useState } from "preact/hooks";
import { mostImport } from "../../api/base";
import { link } from "../../router";
import { t } from "../../texts/imports";
import { Icon } from "../../ui/Icon";
import { Card, Page } from "../../ui/Page";
import { oneLine, sizeOf } from "../../ui/text";
import { begin, isRunning, shown, stop, type Counts, type Import as Importing, type Skip } from "./running";
import "./import.css";

/** Lines of what is left out that are shown before somebody asks for all of them. */
const FEW = 50;

export default function Import() {
  const now = shown.value;
  return (
    <Page class="import" title={t.nav.import}>
      <p class="lead">{t.imports.lead}</p>
      <Choosing isBusy={!!now && isRunning(now)} />
      {now && (isRunning(now) ? <Running now={now} /> : <Outcome now={now} />)}
    </Page>
  );
}

function Choosing({ isBusy }: { isBusy: boolean }) {
  const [file, setFile] = useState<File>();
  const [owner, setOwner] = useState("");
  const [isOver, setOver] = useState(false);
  const [problem, setProblem] = useState("");
  const choose = (files: FileList | null | undefined) => {
    const [one, other] = files ?? [];
    const isTooLarge = !!one && one.size > mostImport;
    setFile(other || isTooLarge ? undefined : one);
    setProblem(other ? t.imports.oneFile : isTooLarge ? t.imports.tooLarge(sizeOf(one.size), sizeOf(mostImport)) : "");
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (file) void begin(file, owner.trim());
  };
  return (
    <Card title={t.imports.choose}>
      <form
        onSubmit={submit} data-over={isOver}
        onDragOver={(event) => { event.preventDefault(); setOver(true); }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => { event.preventDefault(); setOver(false); choose(event.dataTransfer?.files); }}
      >
        <p class="hint">{t.imports.products} {t.imports.most(sizeOf(mostImport))}</p>
        <label class="field">
          <span>{t.imports.file}</span>
          <input type="file" aria-invalid={!!problem} onChange={(event) => choose(event.currentTarget.files)} />
        </label>
        {file && <p class="chosen"><bdi>{oneLine(file.name)}</bdi> <span class="muted">{sizeOf(file.size)}</span></p>}
        <label class="field">
          <span>{t.imports.owner}</span>
          <input
            value={owner} maxLength={512} dir="auto" autocomplete="off" aria-describedby="import-owner"
            onInput={(event) => setOwner(event.currentTarget.value)}
          />
        </label>
        <p class="note" id="import-owner">{t.imports.ownerHint}</p>
        {problem && <p class="error" role="alert">{problem}</p>}
        <div class="form-actions">
          <button class="button primary" disabled={!file || isBusy}><Icon name="upload" />{t.imports.submit}</button>
        </div>
      </form>
    </Card>
  );
}

function Running({ now: { name, read, skips } }: { now: Importing }) {
  const part = read?.of ? Math.min(read.bytes / read.of, 1) : 0;
  const title = t.imports.running(oneLine(name));
  return (
    <Card title={title} tools={<button class="button" onClick={stop}>{t.imports.stop}</button>}>
      <progress aria-label={title} {...(read && { value: part })} />
      <p role="status">{read ? t.imports.reading(Math.floor(100 * part), read.messages) : t.imports.sending}</p>
      <LeftOut skips={skips} />
    </Card>
  );
}

function Outcome({ now: { name, counts, problem, skips } }: { now: Importing }) {
  const shownName = oneLine(name);
  const hasAny = !!counts && counts.conversationsNew + counts.conversationsKnown > 0;
  const title = problem !== undefined ? t.imports.failed(shownName) : hasAny ? t.imports.done(shownName) : t.imports.nothing(shownName);
  return (
    <Card title={title} tools={hasAny && <a class="button" href={link("/")}>{t.imports.toList}</a>}>
      {problem !== undefined && <p class="error" role="alert">{oneLine(problem)}</p>}
      {problem !== undefined && <p class="note">{t.imports.stays}</p>}
      {counts && <Facts counts={counts} />}
      <LeftOut skips={skips} counts={counts} />
    </Card>
  );
}

function Facts({ counts }: { counts: Counts }) {
  const { otherBranches = 0, hidden = 0 } = counts;
  const keptOut = [otherBranches && t.imports.otherBranches(otherBranches), hidden && t.imports.hidden(hidden)].filter(Boolean);
  const facts = [
    [t.imports.conversations, t.imports.counts(counts.conversationsNew, counts.conversationsKnown)],
    [t.imports.messages, t.imports.counts(counts.messagesNew, counts.messagesKnown)],
    ...(counts.idsGiven ? [[t.imports.ids, t.imports.idsOf(counts.idsGiven)]] : []),
    ...(keptOut.length ? [[t.imports.keptOut, keptOut.join(", ")]] : []),
  ];
  return (
    <div role="status">
      <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </div>
  );
}

/** What was left out, cut or guessed, each by its place and with the reason. */
function LeftOut({ skips, counts }: { skips: Skip[]; counts?: Counts | undefined }) {
  const [isWhole, setWhole] = useState(false);
  if (!skips.length) return null;
  const lost = counts?.leftOut ?? skips.filter((it) => it.isLost).length;
  const notes = counts ? counts.notes ?? 0 : skips.length - lost;
  const unnamed = lost + notes - skips.length;
  const lines = isWhole ? skips : skips.slice(0, FEW);
  return (
    <div class="left-out">
      <h3>{t.imports.leftOut(lost, notes)}</h3>
      <ul>
        {lines.map((it, index) => (
          <li key={index}><span class="muted">{it.isLost ? t.imports.lost : t.imports.note}</span> <bdi class="place">{oneLine(it.where)}</bdi>: <bdi>{oneLine(it.reason)}</bdi></li>
        ))}
      </ul>
      {lines.length < skips.length && <button class="button" onClick={() => setWhole(true)}>{t.imports.showAll(skips.length)}</button>}
      {unnamed > 0 && <p class="note">{t.imports.unnamed(unnamed)}</p>}
    </div>
  );
}
