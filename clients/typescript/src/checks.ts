import type { DescMessage } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { invalid } from "./retry.js";

/** Half of a surrogate pair, as `text.slice` leaves where it cuts a character in two. */
const HALF = /\p{Surrogate}/u;
const CANNOT_BE_JSON = new Set(["bigint", "function", "symbol"]);

/**
 * Throws a RecollectError, with the field's path, for what could be sent only as something else: a
 * text with half a character, which an encoder replaces, and metadata that JSON lacks.
 */
export function checkMessage(type: DescMessage, message: object, path = ""): void {
  const values = message as Record<string, unknown>;
  for (const field of type.fields) {
    const group = field.oneof && (values[field.oneof.localName] as { case?: string; value?: unknown } | undefined);
    const value = field.oneof === undefined ? values[field.localName] : group?.case === field.localName ? group.value : undefined;
    if (value === undefined || value === null) continue;
    const place = path + field.name;
    const check = (it: unknown, where: string) => {
      if (field.message === undefined) checkText(it, where);
      else if (field.message.typeName === StructSchema.typeName) checkJson(it, where);
      else if (typeof it === "object" && it !== null) checkMessage(field.message, it, `${where}.`);
    };
    if (field.fieldKind === "list" && Array.isArray(value)) value.forEach((it, index) => check(it, `${place}[${String(index)}]`));
    else if (field.fieldKind === "map") {
      for (const [key, it] of Object.entries(value)) {
        checkText(key, place);
        check(it, `${place}.${key}`);
      }
    } else check(value, place);
  }
}

function checkText(value: unknown, place: string): void {
  if (typeof value === "string" && HALF.test(value)) {
    const text = "holds half a character (a lone surrogate), which UTF-8 cannot carry";
    throw invalid(place, text);
  }
}

function checkJson(value: unknown, place: string): void {
  checkText(value, place);
  if (CANNOT_BE_JSON.has(typeof value) || value instanceof Date) {
    const kind = typeof value === "object" ? "Date" : typeof value;
    throw invalid(place, `is of the type ${kind}, which JSON cannot hold; give it as text`);
  }
  if (Array.isArray(value)) value.forEach((it, index) => { checkJson(it, `${place}[${String(index)}]`); });
  else if (typeof value === "object" && value !== null) {
    for (const [key, it] of Object.entries(value)) {
      checkText(key, place);
      checkJson(it, `${place}.${key}`);
    }
  }
}
