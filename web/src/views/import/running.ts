// The import that runs, or ran last. It goes on while other views are shown, and ends with the tab.
import { signal } from "@preact/signals";
import { base } from "../../api/base";
import { fetchOwn, onRefusal } from "../../api/calls";
import { isCancelled } from "../../api/errors";
import { messageOf } from "../../api/session";
import { space } from "../../api/space";
import { t } from "../../texts/imports";

/** Something that is left out, cut or guessed. */
export interface Skip {
  where: string;
  reason: string;
  /** Whether it is left out; else it is a note. */
  isLost: boolean;
}

/** The counts of an import, by the names that `recollect import --json` has. */
export interface Counts {
  conversationsNew: number;
  conversationsKnown: number;
  messagesNew: number;
  messagesKnown: number;
  idsGiven: number;
  leftOut: number;
  notes?: number;
  otherBranches?: number;
  hidden?: number;
}

export interface Import {
  name: string;
  /** How far it is read; unset while the file is on its way. */
  read?: { bytes: number; of: number; messages: number };
  skips: Skip[];
  /** Set at its end. */
  counts?: Counts;
  /** Why it did not come to its end. */
  problem?: string;
}

type Line = { read?: Import["read"]; skip?: Skip; done?: Counts; failed?: string };

const UNAUTHENTICATED = 401;

export const shown = signal<Import | undefined>(undefined);
let control: AbortController | undefined;

/** Return whether an import is at work. */
export function isRunning({ counts, problem }: Import): boolean {
  return !counts && problem === undefined;
}

/** End the import that runs. */
export function stop(): void {
  control?.abort();
}

/** Import a file. `owner` is the person's name in a chat of people. */
export async function begin(file: File, owner: string): Promise<void> {
  control = new AbortController();
  shown.value = { name: file.name, skips: [] };
  const to = (change: Partial<Import>) => (shown.value = { ...shown.peek()!, ...change });
  try {
    const headers = { "content-type": "application/octet-stream", ...(space && { "recollect-space": space }) };
    const query = new URLSearchParams({ name: file.name, owner });
    const response = await fetchOwn(`${base}/session/import?${query}`, { method: "POST", headers, body: file, signal: control.signal });
    if (response.status === UNAUTHENTICATED) (response.headers.get("recollect-web") ? onRefusal.session : onRefusal.token)?.();
    if (!response.ok) return void to({ problem: await messageOf(response) });
    let last: Partial<Import> = { problem: t.imports.brokeOff };
    for await (const { read, skip, done, failed } of linesOf(response)) {
      if (done) last = { counts: done };
      else if (failed !== undefined) last = { problem: failed };
      else to({ ...(read && { read }), ...(skip && { skips: [...shown.peek()!.skips, skip] }) });
    }
    to(last); // only now: until the answer has ended the server takes no other file
  } catch (error) {
    to({ problem: control.signal.aborted || isCancelled(error) ? t.imports.stopped : t.imports.brokeOff });
  }
}

async function* linesOf(response: Response): AsyncGenerator<Line> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop()!;
    yield* lines.map((it) => JSON.parse(it) as Line);
  }
}
