import type { Token } from "@recollect/client";
import { oneLine } from "../../ui/text";

/** Return the name of a token for people: its note, else its id. */
export function tokenName({ note, id }: Token): string {
  return oneLine(note) || id;
}
