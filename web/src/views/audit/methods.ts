// What the methods of the contract are: those that only read, and those that change something.
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import {
  AccessService, AdminService, ChannelService, CheckpointService, ConversationService, ExternalCommunicationService, InsightService, RecallService,
} from "@recollect/client";

const services = [
  AccessService, AdminService, ChannelService, CheckpointService, ConversationService, ExternalCommunicationService, InsightService, RecallService,
];
const reading = new Set(services.flatMap(({ name, methods }) => (
  methods
    .filter((it) => it.methodKind === "server_streaming" || it.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS)
    .map((it) => `${name}.${it.name}`)
)));

/** Return whether a method, as `ConversationService.Load`, only reads. */
export function isReading(method: string): boolean {
  return reading.has(method);
}
