// The uses of tokens, read token by token.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { AdminService, Token, TokenUse } from "@recollect/client";
import { client } from "../../api/calls";
import { millis } from "../../ui/time";

const AT_ONCE = 4;
/** The most entries of a page. */
const PAGE = 500;
const DAY_MS = 86_400_000;

export interface Use {
  token: Token;
  use: TokenUse;
}

/** Return the first moment of so many days (UTC), today's included. */
export function daysSince(days: number): number {
  return Math.floor(Date.now() / DAY_MS - days + 1) * DAY_MS;
}

type Admin = ReturnType<typeof client.of<typeof AdminService>>;

/** Read the uses of a token, or of all, since a moment: the newest day first, in it the newest call. Also tells which
 * tokens there are, and how many are read. */
export async function readUses(
  admin: Admin, tokenId: string, since: number, signal: AbortSignal, onTokens: (tokens: Token[]) => void, onRead: (n: number) => void,
): Promise<Use[]> {
  const tokens: Token[] = [];
  let pageToken = "";
  do {
    const page = await admin.listTokens({ includeEnded: true, pageSize: PAGE, pageToken }, { signal });
    tokens.push(...page.tokens);
    pageToken = page.nextPageToken;
  } while (pageToken);
  onTokens(tokens);
  const waiting = tokens.filter((it) => !tokenId || it.id === tokenId);
  const uses: Use[] = [];
  let read = 0;
  const work = async () => {
    for (let token = waiting.shift(); token; token = waiting.shift()) {
      let next = "";
      do {
        const page = await admin.listTokenUses(
          { tokenId: token.id, startTime: timestampFromMs(since), pageSize: PAGE, pageToken: next }, { signal },
        );
        for (const use of page.uses) uses.push({ token, use });
        next = page.nextPageToken;
      } while (next);
      onRead(++read);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return uses.sort((a, b) => b.use.day.localeCompare(a.use.day) || millis(b.use.lastCallTime) - millis(a.use.lastCallTime));
}
