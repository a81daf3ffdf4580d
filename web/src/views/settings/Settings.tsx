// The settings view: every setting of the server with its value, where that comes from, what it may
// be, and when a change counts.
import { useEffect, useState } from "preact/hooks";
import {
  AdminService, type ListSettingsResponse, type PreviewRetentionResponse, Scope, type Setting, SettingSource, SettingType,
} from "@recollect/client";
import { client } from "../../api/calls";
import { violationOf } from "../../api/errors";
import { may } from "../../api/session";
import { route, setQuery } from "../../router";
import { t } from "../../texts/administration";
import { Icon } from "../../ui/Icon";
import { Page } from "../../ui/Page";
import { Failure, Loading } from "../../ui/States";
import { oneLine } from "../../ui/text";
import { fullTime } from "../../ui/time";
import "./settings.css";

const admin = client.of(AdminService);

const RETENTION = "retention";
/** Conversations that are named before rules of retention are set. */
const SHOWN = 10;

interface Group {
  key: string;
  label: string;
  settings: Setting[];
}

export default function SettingsView() {
  const [answer, setAnswer] = useState<ListSettingsResponse>();
  const [error, setError] = useState<unknown>();
  const load = () => {
    setError(undefined);
    admin.listSettings({}).then(setAnswer, setError);
  };
  useEffect(load, []);
  const take = (setting: Setting) =>
    setAnswer((it) => it && { ...it, settings: it.settings.map((one) => (one.key === setting.key ? setting : one)) });
  const query = route.value.query;
  const words = (query.get("find") ?? "").toLowerCase();
  const onlyChanged = query.get("changed") === "1";
  const groups = groupsOf(answer?.settings ?? [], words, onlyChanged);
  return (
    <Page
      class="settings" title={t.nav.settings}
      tools={<>
        <label class="check changed-only">
          <input type="checkbox" checked={onlyChanged} onChange={(event) => setQuery({ changed: event.currentTarget.checked ? "1" : undefined })} />
          {t.settings.changed}
        </label>
        <input
          type="search"
          class="find"
          aria-label={t.settings.find}
          placeholder={t.settings.find}
          value={query.get("find") ?? ""}
          onInput={(event) => setQuery({ find: event.currentTarget.value || undefined })}
        />
      </>}
    >
      {error !== undefined ? (
        <Failure error={error} retry={load} />
      ) : !answer ? (
        <Loading />
      ) : (
        <>
          <p class="where">
            {answer.locked ? <><Icon name="lock" />{oneLine(answer.locked)}</> : answer.file && <span>{t.settings.file}<code>{answer.file}</code></span>}
          </p>
          {groups.length === 0 && <p class="nothing">{t.settings.none}</p>}
          {groups.map((group) => (
            <section class="card" key={group.key} aria-labelledby={`group-${group.key}`}>
              <header><h2 id={`group-${group.key}`}>{group.label}</h2></header>
              {sharedLock(group) && !answer.locked && <p class="where"><Icon name="lock" />{sentence(sharedLock(group))}</p>}
              {group.settings.map((it) => (
                <Row key={it.key} setting={it} mayChange={!answer.locked && may(Scope.ADMIN)} shared={sharedLock(group)} onChange={take} />
              ))}
            </section>
          ))}
        </>
      )}
    </Page>
  );
}

/** Return the settings that match, in their groups. */
function groupsOf(settings: Setting[], words: string, onlyChanged: boolean): Group[] {
  const groups = new Map<string, Group>();
  for (const it of settings) {
    if (onlyChanged && it.source === SettingSource.DEFAULT && !it.pending) continue;
    const text = `${it.key} ${it.label} ${it.help} ${it.groupLabel} ${it.environmentName}`.toLowerCase();
    if (!words.split(/\s+/).every((word) => text.includes(word))) continue;
    const group = groups.get(it.group) ?? { key: it.group, label: it.groupLabel, settings: [] };
    group.settings.push(it);
    groups.set(it.group, group);
  }
  return [...groups.values()];
}

/** Return why several settings of a group cannot be changed here, to be said once. */
function sharedLock({ settings }: Group): string {
  const reasons = settings.map((it) => it.locked).filter(Boolean);
  return reasons.find((it, index) => reasons.indexOf(it) !== index) ?? "";
}

interface RowProps {
  setting: Setting;
  /** The reason that the head of the group gives. */
  shared: string;
  mayChange: boolean;
  onChange: (setting: Setting) => void;
}

function Row({ setting, mayChange, shared, onChange }: RowProps) {
  const current = setting.pending && setting.pendingValue ? setting.pendingValue : setting.value;
  const [draft, setDraft] = useState(current);
  const [problem, setProblem] = useState("");
  const [done, setDone] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [plan, setPlan] = useState<PreviewRetentionResponse>();
  useEffect(() => setDraft(current), [current]);
  useEffect(() => setPlan(undefined), [draft]);
  const isLocked = !mayChange || setting.locked !== "" || setting.masked;
  const isChanged = draft !== current;
  const id = `setting-${setting.key}`;
  const look = async () => {
    if (setting.key !== RETENTION || !draft.trim()) return undefined;
    const found = await admin.previewRetention({ retention: draft, limit: SHOWN, everySpace: true });
    return found.total > 0n ? found : undefined;
  };
  const submit = () => {
    setBusy(true);
    setProblem("");
    setDone("");
    look().then(
      (found) => (found ? setPlan(found) : save({ value: draft })),
      (error: unknown) => setProblem(violationOf(error)),
    ).finally(() => setBusy(false));
  };
  const save = (change: { value: string } | { reset: true }) => {
    setBusy(true);
    setProblem("");
    setDone("");
    setPlan(undefined);
    admin
      .setSetting({ key: setting.key, ...change })
      .then(
        (answer) => {
          if (answer.setting) onChange(answer.setting);
          const start = answer.retentionStartTime;
          setDone(answer.restartNeeded ? t.settings.savedLater : start ? t.settings.savedFrom(fullTime(start)) : t.settings.saved);
        },
        (error: unknown) => setProblem(violationOf(error)),
      )
      .finally(() => setBusy(false));
  };
  const mayReset = !isLocked && (setting.source === SettingSource.FILE || setting.pending);
  return (
    <form
      class="setting"
      onSubmit={(event) => {
        event.preventDefault();
        if (isChanged && !plan) submit();
      }}
    >
      <div class="setting-text">
        <label for={id}>{setting.label}</label>
        <code>{setting.key}</code>
        <p id={`${id}-help`}>{sentence(setting.help)}</p>
        <p class="setting-facts">
          <span>{setting.defaultValue === "" ? t.settings.noDefault : t.settings.default(shownValue(setting, setting.defaultValue))}</span>
          {rangeOf(setting) && <span>{rangeOf(setting)}</span>}
          {setting.restartNeeded && <span>{t.settings.restart}</span>}
          {setting.masked && <span>{t.settings.masked}</span>}
          {setting.locked && mayChange && <span class="locked"><Icon name="lock" />{setting.locked === shared ? t.settings.lockedHere : sentence(setting.locked)}</span>}
        </p>
      </div>
      <div class="setting-value">
        <div class="setting-control">
          <Control setting={setting} id={id} value={draft} isLocked={isLocked} isWrong={problem !== ""} onInput={setDraft} />
          {setting.source !== SettingSource.DEFAULT && <span class="badge" data-tone="ok">{t.settings.sources[setting.source]}</span>}
        </div>
        {setting.pending && <p class="pending"><Icon name="warning" />{t.settings.pending(setting.pendingValue)}</p>}
        <p class="error" id={`${id}-error`} role="alert">{problem}</p>
        {done && <p class="done" role="status"><Icon name="check" />{done}</p>}
        {plan && <Meant plan={plan} isBusy={isBusy} onYes={() => save({ value: draft })} onNo={() => { setDraft(current); setPlan(undefined); }} />}
        {(isChanged || mayReset) && !isLocked && !plan && (
          <div class="setting-actions">
            {isChanged && <button class="button primary" disabled={isBusy}>{t.settings.save}</button>}
            {isChanged && <button type="button" class="button" onClick={() => { setDraft(current); setProblem(""); }}>{t.app.cancel}</button>}
            {mayReset && !isChanged && <button type="button" class="button" disabled={isBusy} onClick={() => save({ reset: true })}>{t.settings.reset}</button>}
          </div>
        )}
      </div>
    </form>
  );
}

interface MeantProps {
  plan: PreviewRetentionResponse;
  isBusy: boolean;
  onYes: () => void;
  onNo: () => void;
}

/** The conversations that rules would take now, and the question whether they are meant. */
function Meant({ plan, isBusy, onYes, onNo }: MeantProps) {
  const [typed, setTyped] = useState("");
  const isMeant = !plan.isMost || typed.trim() === String(plan.total);
  return (
    <div class="meant" role="alertdialog" aria-label={t.settings.taken(plan.total, plan.isMost)}>
      <p><Icon name="warning" />{t.settings.taken(plan.total, plan.isMost)}</p>
      <ul>
        {plan.conversations.map((it) => <li key={it.conversationId}>{oneLine(it.name || it.conversationId)}</li>)}
        {plan.hasMore && <li>{t.settings.takenMore(Number(plan.total) - plan.conversations.length)}</li>}
      </ul>
      {plan.isMost && (
        <label>
          {t.settings.typeNumber}
          <input value={typed} inputMode="numeric" autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
      )}
      <div class="setting-actions">
        <button type="button" class="button danger" disabled={isBusy || !isMeant} onClick={onYes}>{t.settings.setRules}</button>
        <button type="button" class="button" onClick={onNo}>{t.app.cancel}</button>
      </div>
    </div>
  );
}

/** Return a text of the server's as a sentence begins. */
function sentence(text: string): string {
  return oneLine(text.charAt(0).toUpperCase() + text.slice(1));
}

function shownValue(setting: Setting, value: string): string {
  if (setting.type !== SettingType.BOOLEAN) return oneLine(value);
  return value === "true" ? t.settings.yes : t.settings.no;
}

/** Return what the value may be, in words. */
function rangeOf({ minimum, maximum, minimumExcluded }: Setting): string {
  if (minimum && maximum && !minimumExcluded) return t.settings.from(minimum, maximum);
  return [minimum && t.settings.minimum(minimum, minimumExcluded), maximum && t.settings.maximum(maximum)].filter(Boolean).join(", ");
}

interface ControlProps {
  setting: Setting;
  id: string;
  value: string;
  isLocked: boolean;
  isWrong: boolean;
  onInput: (value: string) => void;
}

function Control({ setting, id, value, isLocked, isWrong, onInput }: ControlProps) {
  const shared = {
    id,
    disabled: isLocked,
    "aria-describedby": `${id}-help ${id}-error`,
    "aria-invalid": isWrong ? true : undefined,
  };
  const choices: [string, string][] | undefined =
    setting.type === SettingType.BOOLEAN
      ? [["true", t.settings.yes], ["false", t.settings.no]]
      : setting.type === SettingType.CHOICE
        ? [...new Set([...setting.choices, value])].map((it) => [it, it])
        : undefined;
  if (choices) {
    return (
      <select {...shared} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
        {choices.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select>
    );
  }
  const isNumber = setting.type === SettingType.INTEGER || setting.type === SettingType.NUMBER;
  return (
    <input
      {...shared}
      value={value}
      inputMode={isNumber ? "decimal" : "text"}
      autocomplete="off"
      spellcheck={false}
      placeholder={setting.value === "" ? t.settings.empty : undefined}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}
