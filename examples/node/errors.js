// Reads what the server says of an error beyond its code: `google.rpc.Status`, as far as a caller needs it.
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const field = (type, id, rule) => ({ type, id, ...(rule && { rule }) });
const messages = {
  Any: { fields: { type_url: field("string", 1), value: field("bytes", 2) } },
  Status: { fields: { code: field("int32", 1), message: field("string", 2), details: field("Any", 3, "repeated") } },
  ErrorInfo: {
    fields: { reason: field("string", 1), domain: field("string", 2), metadata: { keyType: "string", type: "string", id: 3 } },
  },
  FieldViolation: { fields: { field: field("string", 1), description: field("string", 2) } },
  BadRequest: { fields: { field_violations: field("FieldViolation", 1, "repeated") } },
};
const types = protoLoader.fromJSON({ nested: messages }, { keepCase: true, defaults: true });

/** What a call failed with: `code` and, where the server said them, `reason`, `metadata` and the names of wrong `fields`. */
export function failure(error) {
  const said = { code: grpc.status[error.code], reason: "", domain: "", metadata: {}, fields: [] };
  const [bytes] = error.metadata?.get("grpc-status-details-bin") ?? [];
  for (const { type_url, value } of bytes ? types.Status.deserialize(bytes).details : []) {
    if (type_url.endsWith("/google.rpc.ErrorInfo")) Object.assign(said, types.ErrorInfo.deserialize(value));
    if (type_url.endsWith("/google.rpc.BadRequest")) {
      said.fields = types.BadRequest.deserialize(value).field_violations.map((violation) => violation.field);
    }
  }
  return said;
}
