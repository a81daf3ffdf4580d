// Clients of the services, over the bridge that serves this page.
import type { DescService } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AccessService, ConversationService, RecallService } from "@recollect/client";

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

const transport = createConnectTransport({
  baseUrl: self.location.origin,
  useBinaryFormat: true,
  interceptors: [watchRefusals],
});

/** Return a client of a service. */
export function clientOf<T extends DescService>(service: T): Client<T> {
  return createClient(service, transport);
}

export const access = clientOf(AccessService);
export const conversations = clientOf(ConversationService);
export const recall = clientOf(RecallService);

/** Return a new id for a request that must take effect once, however often it is sent. */
export function newRequestId(): string {
  return `web-${crypto.randomUUID()}`;
}
