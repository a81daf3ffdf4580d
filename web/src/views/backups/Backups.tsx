// Backups: one now, what it holds, how they are kept, and what a restore takes.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { AdminService, type BackupResponse, RecollectError, type Setting } from "@recollect/client";
import { client } from "../../api/calls";
import { violationOf } from "../../api/errors";
import { namedSpaces } from "../../api/session";
import { link } from "../../router";
import { t } from "../../texts/administration";
import { Copy } from "../../ui/Copy";
import { Icon } from "../../ui/Icon";
import { Card, Page } from "../../ui/Page";
import { oneLine, sizeOf } from "../../ui/text";
import { dates } from "../../ui/time";
import "./backups.css";

const admin = client.of(AdminService);
/** The settings that say where backups lie, and which stay. */
const KEYS = ["backup_dir", "backup_keep", "backup_url", "backup_key_file"];
/** How long a backup is waited for. */
const PATIENCE_MS = 10 * 60_000;
const clock = dates({ dateStyle: "medium", timeStyle: "short" });

interface Made {
  backup: BackupResponse;
  at: number;
}

/** The newest that this tab had made; it stays while other views are shown. */
const made = signal<Made | undefined>(undefined);
const isMaking = signal(false);
const problem = signal("");

async function make(name: string): Promise<void> {
  isMaking.value = true;
  problem.value = "";
  try {
    made.value = { backup: await admin.backup({ name }, { timeoutMs: PATIENCE_MS }), at: Date.now() };
  } catch (error) {
    const hasNoFolder = error instanceof RecollectError && error.reason === "NO_BACKUP_FOLDER";
    problem.value = hasNoFolder ? t.backups.noFolder : violationOf(error);
  } finally {
    isMaking.value = false;
  }
}

export default function Backups() {
  const [settings, setSettings] = useState<Setting[]>([]);
  const maySeeSettings = namedSpaces().length === 0;
  useEffect(() => {
    if (maySeeSettings) admin.listSettings({}).then((it) => setSettings(it.settings.filter(({ key }) => KEYS.includes(key))), () => undefined);
  }, []);
  const folder = settings.find((it) => it.key === "backup_dir")?.value ?? "";
  const path = made.value?.backup.path ?? `${folder || "BACKUP_DIR"}/recollect-…`;
  return (
    <Page class="backups" title={t.nav.backups}>
      <p class="lead">{t.backups.lead}</p>
      <Now />
      {made.value && <Receipt made={made.value} />}
      <Card title={t.backups.restore}>
        <ol class="steps">{t.backups.steps.map((it) => <li key={it}>{it}</li>)}</ol>
        <Command text={`recollect-server restore ${path} --data-dir NEW`} />
        <p class="note">{t.backups.afterwards}</p>
      </Card>
      <Card title={t.backups.list}>
        <p class="hint">{t.backups.listHint}</p>
        <Command text={`recollect-server backups list --backup-dir ${folder || "BACKUP_DIR"}\nrecollect-server backups verify --backup-dir ${folder || "BACKUP_DIR"}`} />
      </Card>
      {settings.length > 0 && (
        <Card title={t.backups.settings} tools={<a class="button" href={link("/settings", { find: "backup" })}>{t.backups.toSettings}</a>}>
          <dl class="facts">
            {settings.map((it) => <div key={it.key}><dt>{it.label}</dt><dd>{oneLine(it.value) || <span class="muted">{t.backups.noValue}</span>}</dd></div>)}
          </dl>
        </Card>
      )}
    </Page>
  );
}

function Now() {
  const [name, setName] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    void make(name.trim());
  };
  return (
    <Card title={t.backups.now}>
      <p class="hint">{t.backups.nowHint}</p>
      <form class="now" onSubmit={submit}>
        <label class="field">
          <span>{t.backups.name}</span>
          <input value={name} maxLength={64} placeholder={t.backups.nameHint} spellcheck={false} autocomplete="off" aria-invalid={!!problem.value} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button class="button primary" disabled={isMaking.value}><Icon name="disks" />{isMaking.value ? t.backups.making : t.backups.make}</button>
      </form>
      {problem.value && <p class="error" role="alert">{oneLine(problem.value)}</p>}
    </Card>
  );
}

function Receipt({ made: { backup, at } }: { made: Made }) {
  const facts: [string, string][] = [
    [t.backups.path, oneLine(backup.path)],
    [t.backups.spaces, backup.spaces.join(", ")],
    [t.backups.conversations, Number(backup.conversations).toLocaleString(t.language)],
    [t.backups.exchanges, Number(backup.externalCommunications).toLocaleString(t.language)],
    [t.backups.bytes, sizeOf(Number(backup.bytes))],
  ];
  return (
    <Card title={t.backups.made} tools={<span class="muted tiny">{t.backups.madeAt(clock.format(at))}</span>}>
      <dl class="facts" role="status">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {backup.problemCount ? (
        <>
          <p class="error">{t.backups.problems(Number(backup.problemCount))}</p>
          <ul class="error">{backup.problems.map((it) => <li key={it}>{oneLine(it)}</li>)}</ul>
        </>
      ) : <p class="note">{t.backups.fine}</p>}
    </Card>
  );
}

function Command({ text }: { text: string }) {
  return (
    <figure class="code-block bare">
      <Copy text={text} label={t.backups.copy} />
      <pre class="code" tabIndex={0}>{text}</pre>
    </figure>
  );
}
