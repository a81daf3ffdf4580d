import { readFileSync } from "node:fs";
import { connect as connectSocket, isIP } from "node:net";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Recollect, type RecollectOptions } from "./client.js";
import { invalid } from "./retry.js";

export const DEFAULT_ADDRESS = "127.0.0.1:50051";

/** A file in PEM by its path, or its content. */
export type Pem = string | Uint8Array;

/** How a client connects and calls. */
export interface ConnectOptions extends Omit<RecollectOptions, "onClose"> {
  /** Turns TLS on: the authority of the server's certificate, or `"system"` for those that Node
   * trusts anyway. Else RECOLLECT_CA. */
  readonly ca?: Pem | undefined;
  /** The client's own certificate and its key, for servers that ask for one. Else
   * RECOLLECT_CLIENT_CERT and RECOLLECT_CLIENT_KEY. */
  readonly cert?: readonly [certificate: Pem, key: Pem] | undefined;
  /** Allows a token to go over the network in plain text. */
  readonly insecure?: boolean;
  /** The environment to read; `process.env` by default. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Connects to a server by gRPC: `HOST:PORT` or `unix:PATH`. Nothing is sent before the first call.
 * `token` and `space` come from RECOLLECT_TOKEN and RECOLLECT_SPACE if they are not given.
 */
export function connect(address: string = DEFAULT_ADDRESS, options: ConnectOptions = {}): Recollect {
  const { ca, cert, insecure = false, env = process.env, ...calls } = options;
  const token = calls.token ?? (env["RECOLLECT_TOKEN"] || undefined);
  const space = calls.space ?? (env["RECOLLECT_SPACE"] || undefined);
  const path = socketPath(address);
  const tls = path === undefined ? tlsOptions(ca ?? (env["RECOLLECT_CA"] || undefined), cert ?? ownCertificate(env)) : undefined;
  const url = path === undefined ? checkedUrl(address, tls !== undefined) : new URL("http://localhost");
  if (token !== undefined && path === undefined && tls === undefined && !insecure && !isLoopback(url.hostname)) {
    throw invalid(
      "token",
      `would go to ${address} over the network in plain text: name the authority of the server's certificate with ca` +
        ' ("system" for a public one), or say insecure: true where the network itself is trusted',
    );
  }
  const manager = new Http2SessionManager(
    url.origin,
    // Notices a server that went away without a word, only while a call waits for it.
    { pingIntervalMs: 60_000, pingTimeoutMs: 20_000 },
    path === undefined ? tls : { createConnection: () => connectSocket(path) },
  );
  const transport = createGrpcTransport({ baseUrl: url.origin, sessionManager: manager, readMaxBytes: 64 * 1024 * 1024 });
  return new Recollect(transport, { ...calls, token, space, onClose: () => manager.abort() });
}

function socketPath(address: string): string | undefined {
  if (!address.startsWith("unix:")) return undefined;
  const path = address.slice("unix:".length).replace(/^\/\//, "");
  if (path === "") throw invalid("address", "names no path after unix:");
  return path;
}

function checkedUrl(address: string, tls: boolean): URL {
  const [, host, port] = /^(\[[0-9A-Fa-f:.]+\]|[^[\]:,/\s@?#]+):([0-9]{1,5})$/.exec(address) ?? [];
  if (host === undefined || port === undefined || Number(port) < 1 || Number(port) > 0xffff || (host.startsWith("[") && isIP(host.slice(1, -1)) !== 6)) {
    throw invalid("address", `is HOST:PORT or unix:PATH, such as ${DEFAULT_ADDRESS}, not ${JSON.stringify(address).slice(0, 200)}`);
  }
  return new URL(`${tls ? "https" : "http"}://${host}:${port}`);
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || (isIP(hostname) === 4 && hostname.startsWith("127."));
}

function ownCertificate(env: Readonly<Record<string, string | undefined>>): readonly [Pem, Pem] | undefined {
  const [certificate, key] = [env["RECOLLECT_CLIENT_CERT"], env["RECOLLECT_CLIENT_KEY"]];
  return certificate && key ? [certificate, key] : undefined;
}

function tlsOptions(ca: Pem | undefined, cert: readonly [Pem, Pem] | undefined) {
  if (ca === undefined) {
    if (cert !== undefined) throw invalid("ca", "is needed beside cert, to know the server by its certificate");
    return undefined;
  }
  const own = cert && { cert: pem("cert[0]", cert[0], "-----BEGIN CERTIFICATE-----"), key: pem("cert[1]", cert[1], "PRIVATE KEY-----") };
  return { ...(ca === "system" ? {} : { ca: pem("ca", ca, "-----BEGIN CERTIFICATE-----") }), ...own };
}

/** Returns PEM that is given, or read. An error never shows the content. */
function pem(field: string, given: Pem, marker: string): string {
  let content: string;
  if (typeof given !== "string") content = Buffer.from(given).toString("latin1");
  else {
    try {
      content = readFileSync(given, "latin1");
    } catch (error) {
      throw invalid(field, `cannot be read: ${(error as Error).message}`);
    }
  }
  if (!content.includes(marker)) throw invalid(field, `holds no ${marker.startsWith("-") ? "certificate" : "private key"} in PEM`);
  return content;
}
