// Backups: one now, what it holds, those that are there, how they are kept, and what a restore takes.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { AdminService, type BackupResponse, RecollectError, type Setting, type StoredBackup } from "@recollect/client";
import { client } from "../../api/calls";
import { isCancelled, violationOf } from "../../api/errors";
import { namedSpaces } from "../../api/session";
import { link } from "../../router";
import { t } from "../../texts/administration";
import { Copy } from "../../ui/Copy";
import { Icon } from "../../ui/Icon";
import { Card, Page } from "../../ui/Page";
import { Failure, Loading } from "../../ui/States";
import { oneLine, sizeOf } from "../../ui/text";
import { dates, fullTime, millis } from "../../ui/time";
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
    problem.value = hasNoFolder(error) ? t.backups.noFolder : violationOf(error);
  } finally {
    isMaking.value = false;
  }
}

function hasNoFolder(error: unknown): boolean {
  return error instanceof RecollectError && error.reason === "NO_BACKUP_FOLDER";
}

interface Listed {
  backups: StoredBackup[];
  next: string;
}

export default function Backups() {
  const [settings, setSettings] = useState<Setting[]>([]);
  const maySeeSettings = namedSpaces().length === 0;
  useEffect(() => {
    if (maySeeSettings) admin.listSettings({}).then((it) => setSettings(it.settings.filter(({ key }) => KEYS.includes(key))), () => undefined);
  }, []);
  const { listed, error, load } = useBackups(false);
  const newest = listed?.backups.find((it) => it.complete);
  const valueOf = (key: string) => settings.find((it) => it.key === key)?.value ?? "";
  const [folder, bucket] = [valueOf("backup_dir"), valueOf("backup_url")];
  const command = newest ? restoreCommand(newest) : `recollect-server restore ${folder || "BACKUP_DIR"}/recollect-… --data-dir NEW`;
  return (
    <Page class="backups" title={t.nav.backups}>
      <p class="lead">{t.backups.lead}</p>
      <Now />
      {made.value && <Receipt made={made.value} />}
      <Card title={t.backups.list}>
        {hasNoFolder(error) ? <p class="hint">{t.backups.noFolder}</p>
          : error !== undefined ? <Failure error={error} retry={() => load(listed)} level="p" />
          : !listed ? <Loading />
          : listed.backups.length === 0 ? <p class="hint">{maySeeSettings ? t.backups.none : t.backups.noneOfSpaces}</p>
          : <ul class="backup-list">{listed.backups.map((it) => <Row key={it.path} backup={it} />)}</ul>}
        {listed?.next && <button class="button" onClick={() => load(listed)}>{t.backups.more}</button>}
        <p class="hint">{t.backups.listHint}</p>
        <Command text={`recollect-server backups verify --backup-dir ${folder ? quoted(folder) : "BACKUP_DIR"}`} />
      </Card>
      {bucket && folder && <Copies flags={`--backup-dir ${quoted(folder)} --backup-url ${quoted(bucket)}`} />}
      <Card title={t.backups.restore}>
        <ol class="steps">{t.backups.steps.map((it) => <li key={it}>{it}</li>)}</ol>
        <Command text={command} />
        <p class="note">{t.backups.afterwards}</p>
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

/** Return the backups in the folder, or their copies in the bucket, and what loads the next page of them. */
function useBackups(inBucket: boolean) {
  const [listed, setListed] = useState<Listed>();
  const [error, setError] = useState<unknown>();
  const load = (before?: Listed) => {
    const abort = new AbortController();
    setError(undefined);
    admin.listBackups({ pageToken: before?.next ?? "", inBucket }, { signal: abort.signal }).then(
      ({ backups, nextPageToken }) => setListed({ backups: [...(before?.backups ?? []), ...backups], next: nextPageToken }),
      (failure: unknown) => isCancelled(failure) || setError(failure),
    );
    return () => abort.abort();
  };
  useEffect(() => load(), [made.value]);
  return { listed, error, load };
}

/** The copies in the bucket; `flags` say to a command where they are. */
function Copies({ flags }: { flags: string }) {
  const { listed, error, load } = useBackups(true);
  return (
    <Card title={t.backups.copies}>
      {error !== undefined ? <Failure error={error} retry={() => load(listed)} level="p" />
        : !listed ? <Loading />
        : listed.backups.length === 0 ? <p class="hint">{t.backups.noCopies}</p>
        : (
          <ul class="backup-list">
            {listed.backups.map(({ name, createTime }) => (
              <li class="backup" key={name}>
                <div class="backup-name"><strong><bdi>{name}</bdi></strong></div>
                <dl class="backup-facts">
                  <div><dt>{t.backups.time}</dt><dd title={fullTime(createTime)}>{clock.format(millis(createTime))}</dd></div>
                </dl>
                <details>
                  <summary>{t.backups.fetchOf}<span class="hidden"> ({name})</span></summary>
                  <Command text={`recollect-server backups fetch ${name} ${flags}`} />
                </details>
              </li>
            ))}
          </ul>
        )}
      {listed?.next && <button class="button" onClick={() => load(listed)}>{t.backups.more}</button>}
      <p class="hint">{t.backups.copiesHint}</p>
      <Command text={`recollect-server backups upload ${flags}`} />
    </Card>
  );
}

/** Return what is run on the server's machine to restore a backup. */
function restoreCommand({ path, encrypted }: StoredBackup): string {
  return `recollect-server restore ${quoted(path)} --data-dir NEW${encrypted ? " --backup-key-file KEYS" : ""}`;
}

/** Return a path as a shell takes it. */
function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

function Row({ backup }: { backup: StoredBackup }) {
  const { complete, encrypted, keyId, damagedLines, createTime } = backup;
  const reason = oneLine(backup.problem);
  const facts: [string, string][] = complete ? [[t.backups.bytes, sizeOf(Number(backup.bytes))]] : [];
  if (complete && !encrypted) facts.push([t.backups.conversations, Number(backup.conversations).toLocaleString(t.language)], [t.backups.spaces, backup.spaces.join(", ")]);
  if (keyId) facts.push([t.backups.key, keyId]);
  return (
    <li class="backup">
      <div class="backup-name">
        <strong><bdi>{backup.name}</bdi></strong>
        {encrypted && <span class="badge">{t.backups.encrypted}</span>}
        {!complete && <span class="badge" data-tone="danger">{reason ? t.backups.unreadable : t.backups.incomplete}</span>}
        {damagedLines > 0 && <span class="badge" data-tone="danger">{t.backups.damaged(Number(damagedLines))}</span>}
      </div>
      <dl class="backup-facts">
        <div><dt>{t.backups.time}</dt><dd title={fullTime(createTime)}>{clock.format(millis(createTime))}</dd></div>
        {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>
      {reason && <p class="error">{reason}</p>}
      {complete && (
        <details>
          <summary>{t.backups.restoreOf}<span class="hidden"> ({backup.name})</span></summary>
          <Command text={restoreCommand(backup)} />
        </details>
      )}
    </li>
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
      <div role="status">
        <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      </div>
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
