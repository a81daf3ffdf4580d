// The client of the server, over the bridge that serves this page: a call that is refused for a
// moment is tried again, and one that changes something takes effect once.
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AccessService, RecallService, RecollectCore } from "@recollect/client";
import { base, isSignedInByProxy } from "./base";
import { space } from "./space";

/** Callbacks on calls that are refused for want of a session or of a token. */
export const onRefusal: { session?: () => void; token?: () => void } = {};

const watchRefusals: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    const refused = ConnectError.from(error);
    if (refused.code === Code.Unauthenticated) {
      if (refused.metadata.get("recollect-web") === "session") onRefusal.session?.();
      else onRefusal.token?.();
    }
    throw error;
  }
};

/** Statuses with which a proxy shows its own page of signing in. */
const SIGN_IN_STATUSES = [200, 401, 403];

/** Return whether the proxy before this page asks in its place who signs in. */
export function isOfProxy(response: Response): boolean {
  const isPage = response.headers.get("content-type")?.startsWith("text/html") ?? false;
  const isSignIn = isPage && SIGN_IN_STATUSES.includes(response.status);
  return isSignedInByProxy && (response.type === "opaqueredirect" || isSignIn);
}

/** Fetch from the server of this page. What leads to the proxy's sign-in is followed by no script. */
export const fetchOwn: typeof fetch = async (input, init) => {
  const response = await fetch(input, isSignedInByProxy ? { ...init, redirect: "manual" } : init);
  if (isOfProxy(response)) onRefusal.session?.();
  return response;
};

const transport = createConnectTransport({
  baseUrl: self.location.origin + base,
  useBinaryFormat: true,
  fetch: fetchOwn,
  interceptors: [watchRefusals],
});

// Views make clients of the other services, so that their code comes with the view.
// A person who waits is told after a few attempts that the server is away, and may try again.
export const client = new RecollectCore(transport, { space: space || undefined, retry: { failsFast: true } });
export const { conversations } = client;
export const access = client.of(AccessService);
export const recall = client.of(RecallService);

/** Return a new id for a request that must take effect once, also if a person repeats it. */
export function newRequestId(): string {
  return `web-${crypto.randomUUID()}`;
}
