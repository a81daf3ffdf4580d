// When tokens were last used. The contract keeps counts a day, so each token is asked for the entries of its
// newest day.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { useEffect, useState } from "preact/hooks";
import { AdminService, type Token } from "@recollect/client";
import { client } from "../../api/calls";
import { millis } from "../../ui/time";

const admin = client.of(AdminService);
/** Tokens that are asked for at a time. */
const AT_ONCE = 4;
/** The most entries of a page. */
const PAGE = 500;

export interface LastUse {
  /** Unset: it was not used in the days that are kept. */
  time?: Timestamp;
  /** Calls of its newest day. */
  calls: number;
}

/** Return the last use of each token by its id, as it becomes known. */
export function useLastUses(tokens: Token[] | undefined): Map<string, LastUse> {
  const [uses, setUses] = useState(new Map<string, LastUse>());
  const ids = tokens?.map((it) => it.id).join() ?? "";
  useEffect(() => {
    const abort = new AbortController();
    const waiting = (tokens ?? []).filter((it) => !uses.has(it.id));
    const work = async () => {
      for (let it = waiting.shift(); it && !abort.signal.aborted; it = waiting.shift()) {
        const { id } = it;
        const use = await lastUse(id, abort.signal).catch(() => undefined);
        if (use) setUses((old) => new Map(old).set(id, use));
      }
    };
    for (let n = 0; n < AT_ONCE; n++) void work();
    return () => abort.abort();
  }, [ids]);
  return uses;
}

/** Return the last use of a token. */
export async function lastUse(tokenId: string, signal: AbortSignal): Promise<LastUse> {
  const { uses } = await admin.listTokenUses({ tokenId, pageSize: PAGE }, { signal });
  const newest = uses.filter((it) => it.day === uses[0]?.day);
  const last = newest.sort((a, b) => millis(b.lastCallTime) - millis(a.lastCallTime))[0];
  const calls = newest.reduce((sum, it) => sum + Number(it.calls + it.refusedCalls), 0);
  return { calls, ...(last?.lastCallTime && { time: last.lastCallTime }) };
}
