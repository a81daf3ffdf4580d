// What a search or a context left out, and why.
import type { DegradedLeg } from "@recollect/client";
import { t } from "../texts";
import { Icon } from "./Icon";
import { oneLine } from "./text";

/** Return the name of a retriever as people understand it. */
export function legName(leg: string): string {
  return t.search.legs[leg] ?? oneLine(leg);
}

/** One line for each reason, with the retrievers that it stopped. */
export function Degraded({ legs }: { legs: DegradedLeg[] }) {
  const reasons = [...new Set(legs.map((it) => it.reason))];
  const stoppedBy = (reason: string) => legs.filter((it) => it.reason === reason).map((it) => legName(it.leg));
  return reasons.map((reason) => (
    <p key={reason} class="degraded-search"><Icon name="warning" />{t.search.degraded(stoppedBy(reason), oneLine(reason))}</p>
  ));
}
