// The shared worker: it runs the hub once for all tabs of this browser that show one space.
import { onSessionChange } from "../api/changes";
import { Hub } from "./hub";
import type { ToHub } from "./messages";

const scope = self as unknown as { onconnect: (event: MessageEvent) => void };
const ports = new Set<MessagePort>();
const hub = new Hub((message) => ports.forEach((port) => port.postMessage(message)));
void hub.run();
onSessionChange(() => hub.restart());

scope.onconnect = (event) => {
  const port = event.ports[0]!;
  port.onmessage = ({ data }: MessageEvent<ToHub>) => {
    if (data.kind === "hello") {
      ports.add(port);
      port.postMessage(hub.greeting());
    } else if (data.kind === "again") {
      hub.again();
    } else if (data.kind === "restart") {
      hub.restart();
    } else {
      ports.delete(port);
      port.close();
    }
  };
};
