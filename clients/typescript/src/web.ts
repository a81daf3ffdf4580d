import { createConnectTransport } from "@connectrpc/connect-web";
import { Recollect, type RecollectOptions } from "./client.js";

/** How a page connects and calls. */
export interface ConnectOptions extends RecollectOptions {
  /** The bridge's address, `location.origin` by default. */
  readonly baseUrl?: string;
  /** Replaces `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Connects a page to its server through the bridge of `recollect-web`, by the Connect protocol in
 * binary form. The bridge knows the page by its cookie.
 */
export function connect(options: ConnectOptions = {}): Recollect {
  const { baseUrl = globalThis.location.origin, fetch, ...calls } = options;
  return new Recollect(createConnectTransport({ baseUrl, useBinaryFormat: true, ...(fetch && { fetch }) }), calls);
}
