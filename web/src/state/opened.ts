// What can be done to the conversation that is shown, for who asks for it elsewhere.
import { signal } from "@preact/signals";
import type { MenuItem } from "../ui/Menu";

export const openedActions = signal<readonly MenuItem[]>([]);
