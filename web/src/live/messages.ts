// What the hub, which holds the one stream of updates, and the tabs say to each other.
export type HubStatus = "connecting" | "live" | "lost" | "denied";

export type FromHub =
  | { kind: "status"; status: HubStatus; reason: string }
  /** A connection stands: the server sends every unfinished answer from its beginning. */
  | { kind: "begin" }
  /** The log did not reach back to the cursor: everything that a tab shows must be read again. */
  | { kind: "reset" }
  /** Updates in their order, encoded, and the position after them. */
  | { kind: "updates"; updates: Uint8Array[]; cursor: string };

export type ToHub = { kind: "hello" } | { kind: "again" } | { kind: "restart" } | { kind: "bye" };
