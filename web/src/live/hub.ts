// The hub: one stream of updates for all tabs of a space. It resumes by cursor whatever breaks, so
// that tabs get every update in order; each tab drops what it has seen.
import { toBinary } from "@bufbuild/protobuf";
import { RecollectError, UpdateSchema, type Update, type Watch } from "@recollect/client";
import { client } from "../api/calls";
import type { FromHub, HubStatus } from "./messages";

/** Before another watch, where the client itself gave up trying. */
const PAUSE_MS = 2_000;
/** Before another watch where the caller may not have one: a token may be given the scope. */
const DENIED_PAUSE_MS = 60_000;

export class Hub {
  private status: HubStatus = "connecting";
  private reason = "";
  private watch: Watch<Update> | undefined;
  private changes: Update[] = [];
  private flushing = 0;
  private wake: (() => void) | undefined;

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
    if (this.status !== "live") this.renew();
  }

  /** Begin anew, as after signing in: another caller may see other conversations. */
  restart(): void {
    this.renew();
    this.cursor = "";
  }

  /** Hold the stream for as long as this tab or worker lives. */
  async run(): Promise<void> {
    for (;;) {
      let pause = 0;
      try {
        await this.follow();
      } catch (error) {
        const { code, message } = error instanceof RecollectError ? error : { code: "", message: String(error) };
        const isDenied = code === "UNAUTHENTICATED" || code === "PERMISSION_DENIED";
        this.tell(isDenied ? "denied" : "lost", message);
        if (code === "INVALID_ARGUMENT") this.cursor = ""; // not of this server: anew
        pause = isDenied ? DENIED_PAUSE_MS : PAUSE_MS * (0.5 + Math.random());
      }
      if (pause) await this.wait(pause);
    }
  }

  private async follow(): Promise<void> {
    const onConnection = (isConnected: boolean) => {
      if (isConnected) this.tellAll({ kind: "begin" });
      this.tell(isConnected ? "live" : "lost", "");
    };
    const request = { cursor: this.cursor, maxTurns: 1, maxBatch: 1000 };
    const watch = (this.watch = client.watch(request, { onConnection }));
    try {
      await this.pass(watch);
    } finally {
      // Heartbeats move the cursor on too, and are not passed.
      if (watch === this.watch) this.cursor = watch.cursor;
    }
  }

  private async pass(watch: Watch<Update>): Promise<void> {
    for await (const update of watch) {
      if (watch !== this.watch) return; // it was ended within what it had received
      // A snapshot stands for everything before it: tabs read what they show themselves.
      const kind = update.kind.case;
      if (kind === "conversationList") this.tellAll({ kind: "reset" });
      else if (kind !== "conversationLoaded") this.changes.push(update);
      this.cursor = watch.cursor;
      this.flushing ||= self.setTimeout(() => this.flush());
    }
  }

  /** End the watch, so that the next one begins at once. */
  private renew(): void {
    this.watch?.close();
    this.watch = undefined;
    this.wake?.();
  }

  /** Send what came since the last time, as one message. */
  private flush(): void {
    clearTimeout(this.flushing);
    this.flushing = 0;
    const updates = this.changes.map((it) => toBinary(UpdateSchema, it));
    this.changes = [];
    this.send({ kind: "updates", updates, cursor: this.cursor });
  }

  private tellAll(message: FromHub): void {
    if (this.changes.length) this.flush();
    this.send(message);
  }

  private tell(status: HubStatus, reason: string): void {
    if (status === this.status && reason === this.reason) return;
    this.status = status;
    this.reason = reason;
    this.tellAll({ kind: "status", status, reason });
  }

  private wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
