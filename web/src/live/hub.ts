// The hub: one stream of updates for all tabs. It resumes by cursor whatever breaks, so that tabs
// get every update in order; each tab drops what it has seen.
import { toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { UpdateSchema, type Update } from "@recollect/client";
import { conversations } from "../api/calls";
import type { FromHub, HubStatus } from "./messages";

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

export class Hub {
  private status: HubStatus = "connecting";
  private reason = "";
  private waiting: (() => void) | undefined;
  private abort = new AbortController();

  constructor(
    private readonly send: (message: FromHub) => void,
    private cursor = "",
  ) {}

  /** Return the message that tells a new tab how the stream stands. */
  greeting(): FromHub {
    return { kind: "status", status: this.status, reason: this.reason };
  }

  /** Try at once instead of at the end of a pause. */
  again(): void {
    this.waiting?.();
  }

  /** Begin anew, as after signing in: another caller may see other conversations. */
  restart(): void {
    this.cursor = "";
    this.abort.abort();
    this.again();
  }

  /** Hold the stream for as long as this tab or worker lives. */
  async run(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    for (;;) {
      try {
        await this.follow(() => (pause = FIRST_PAUSE_MS));
        this.tell("lost", "");
      } catch (error) {
        const failure = ConnectError.from(error);
        const denied = failure.code === Code.Unauthenticated || failure.code === Code.PermissionDenied;
        this.tell(denied ? "denied" : "lost", failure.rawMessage);
        if (failure.code === Code.InvalidArgument) this.cursor = ""; // not of this server: anew
      }
      const length = this.status === "denied" ? LONGEST_PAUSE_MS * 12 : pause * (0.5 + Math.random());
      await this.wait(length);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  private async follow(onLive: () => void): Promise<void> {
    this.abort = new AbortController();
    const request = { cursor: this.cursor, maxTurns: 1, maxBatch: 1000 };
    for await (const element of conversations.streamUpdates(request, { signal: this.abort.signal })) {
      const all = [element.update, ...element.following].filter((it) => it !== undefined);
      const changes: Update[] = [];
      for (const update of all) {
        const kind = update.kind.case;
        // A snapshot stands for everything before it: tabs read what they show themselves.
        if (kind === "conversationList") this.send({ kind: "reset" });
        else if (kind !== "conversationLoaded" && kind !== "heartbeat") changes.push(update);
        if (update.cursor) this.cursor = update.cursor;
      }
      const updates = changes.map((it) => toBinary(UpdateSchema, it));
      this.send({ kind: "updates", updates, cursor: this.cursor });
      if (this.status !== "live" && all.some((it) => it.kind.case !== "conversationList")) {
        onLive();
        this.tell("live", "");
      }
    }
  }

  private tell(status: HubStatus, reason: string): void {
    this.status = status;
    this.reason = reason;
    this.send({ kind: "status", status, reason });
  }

  private wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.waiting = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
