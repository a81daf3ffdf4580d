export { Recollect, RecollectCore, type RecollectOptions, type WatchOptions } from "./client.js";
export { RecollectError, type CodeName, type FieldViolation, type Reason } from "./errors.js";
export { DEFAULT_RETRY, type RetryPolicy } from "./retry.js";
export { Watch, type OnConnection } from "./watch.js";
export * from "./gen/index.js";
export { Health, HealthCheckResponse_ServingStatus as HealthStatus } from "./gen/grpc/health/v1/health_pb.js";
export { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
