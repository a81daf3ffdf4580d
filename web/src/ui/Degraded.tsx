// What a search or a context left out, and why.
import type { DegradedLeg } from "@recollect/client";
import { t } from "../texts/views";
import { Icon } from "./Icon";
import { oneLine } from "./text";

/** Return the name of a retriever as people understand it. */
export function legName(leg: string): string {
  return t.search.legs[leg] ?? oneLine(leg);
}

/** One line for each reason: what is missing for it, and behind a click the server's own words. */
export function Degraded({ legs }: { legs: DegradedLeg[] }) {
  const reasons = [...new Set(legs.map((it) => it.reason))];
  return reasons.map((reason) => (
    <details key={reason} class="degraded-search">
      <summary><Icon name="warning" /><span>{lossesBy(reason, legs).join(" ")} <u>{t.search.whyIncomplete}</u></span></summary>
      <p>{oneLine(reason.replace(/^keyword_budget: */, ""))}</p>
    </details>
  ));
}

function lossesBy(reason: string, legs: DegradedLeg[]): string[] {
  const names = legs.filter((it) => it.reason === reason).map((it) => it.leg);
  return [...new Set(names.map((it) => t.search.incomplete[it] ?? t.search.incompleteElse(legName(it))))];
}
