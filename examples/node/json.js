// Between protobuf JSON, with the field names of the contract, and what proto-loader takes and gives: moments and free-form objects
// have a form of their own in JSON. (bytes and durations are nowhere in the contract.)

/** Makes what proto-loader takes of protobuf JSON. `types` is the loaded contract, `name` a message as in `recollect.v1.Message`. */
export const fromJson = (types, name, value) => mapped(types, name, value, { moment: parsedMoment, struct: toStruct });

/** The opposite: unset fields are null or not there. */
export const toJson = (types, name, value) => mapped(types, name, value, { moment: writtenMoment, struct: fromStruct });

function mapped(types, name, value, special) {
  if (value === null || value === undefined) return null;
  if (name === "google.protobuf.Timestamp") return special.moment(value);
  if (name === "google.protobuf.Struct") return special.struct(value);
  const made = { ...value };
  for (const field of types[name].type.field) {
    const it = made[field.name];
    if (field.type !== "TYPE_MESSAGE" || it === undefined) continue;
    const inner = typeName(types, name, field.typeName);
    made[field.name] = Array.isArray(it) ? it.map((one) => mapped(types, inner, one, special)) : mapped(types, inner, it, special);
  }
  return made;
}

function typeName(types, within, name) {
  if (name.startsWith(".")) return name.slice(1);
  return [`${within.slice(0, within.lastIndexOf("."))}.${name}`, name].find((it) => it in types);
}

function parsedMoment(text) {
  const [, whole, fraction = ""] = text.match(/^([^.Z]+)(?:\.(\d+))?Z$/);
  return { seconds: Date.parse(`${whole}Z`) / 1000, nanos: Number(fraction.padEnd(9, "0")) };
}

function writtenMoment({ seconds, nanos }) {
  const digits = nanos ? `.${String(nanos).padStart(9, "0")}`.replace(/(000){1,2}$/, "") : "";
  return new Date(seconds * 1000).toISOString().replace(".000Z", `${digits}Z`);
}

const toStruct = (object) => ({ fields: Object.fromEntries(Object.entries(object).map(([key, it]) => [key, toValue(it)])) });
const fromStruct = ({ fields }) => Object.fromEntries(Object.entries(fields).map(([key, it]) => [key, fromValue(it)]));

function toValue(it) {
  if (it === null) return { nullValue: "NULL_VALUE" };
  if (Array.isArray(it)) return { listValue: { values: it.map(toValue) } };
  if (typeof it === "object") return { structValue: toStruct(it) };
  return { [`${typeof it}Value`.replace("boolean", "bool")]: it };
}

function fromValue(it) {
  if (it.kind === "nullValue") return null;
  if (it.kind === "listValue") return it.listValue.values.map(fromValue);
  if (it.kind === "structValue") return fromStruct(it.structValue);
  return it[it.kind];
}
