/** What a plan sends out of the account once its changes are committed. */
import { isUtf8 } from "node:buffer";

import { isPlain, wellFormed } from "./values.js";

/** What JSON holds. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue | undefined };

export type Method = "POST" | "PUT" | "PATCH" | "DELETE";

export type EffectJson = { readonly effect: string; readonly destination: string } & (
  | { readonly payload: JsonValue }
  | { readonly payload_base64: string }
) & { readonly method?: Method; readonly path?: string };

/** How an effect is sent: `POST` to the address of the destination, unless said otherwise. */
export type EffectOptions = { readonly method?: Method; readonly path?: string };

const METHODS = ["POST", "PUT", "PATCH", "DELETE"];
const NAME = /^[a-z0-9_-]{1,64}$/;
const PATH = /^(\/[A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?$/;
const PATH_MAX = 1024;
const OUTSIDE = /\/\/|\.\.|\/\.(?:[/;]|$)|\\|[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})/;

/** An effect as a plan holds it. */
export function effectJson(
  name: string,
  destination: string,
  payload: JsonValue | Uint8Array,
  { method = "POST", path = "" }: EffectOptions,
): EffectJson {
  if (!NAME.test(name) || !NAME.test(destination)) {
    throw new RangeError("names of effects and destinations have 1 to 64 of the characters a-z, 0-9, - and _");
  }
  if (!METHODS.includes(method)) throw new RangeError(`method must be one of ${METHODS.join(", ")}`);
  checkPath(path);
  const sent =
    payload instanceof Uint8Array
      ? { payload_base64: Buffer.from(payload).toString("base64") }
      : { payload: frozen(payload) };
  return { effect: name, destination, ...sent, ...(method === "POST" ? {} : { method }), ...(path === "" ? {} : { path }) };
}

/** Refuses a path that could leave the address of its destination. A query cannot, so it is not decoded. */
function checkPath(path: string): void {
  let decoded = path.split("?")[0] ?? "";
  let fits = PATH.test(path) && path.length <= PATH_MAX;
  // A server in front of another may decode once more, so it is looked at in every form.
  for (let before = ""; fits && before !== decoded; ) {
    fits = !OUTSIDE.test(decoded) && isUtf8(Buffer.from(decoded, "latin1"));
    before = decoded;
    decoded = decoded.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
  if (fits) return;
  throw new RangeError(
    "path must be empty, or begin with one / and hold no //, .., \\, # or . as a step, not even percent-encoded, " +
      `be UTF-8, and have at most ${PATH_MAX} bytes of a URL's characters`,
  );
}

/** A copy, so that nothing changes it any more. Like JSON, it leaves out a field that is `undefined`. */
function frozen(payload: unknown): JsonValue {
  if (typeof payload === "string") return wellFormed(payload);
  if (typeof payload === "boolean" || payload === null) return payload;
  if (typeof payload === "number" && (Number.isInteger(payload) ? Number.isSafeInteger(payload) : Number.isFinite(payload))) {
    return payload;
  }
  if (Array.isArray(payload)) return Array.from(payload, frozen);
  if (isPlain(payload)) {
    const fields = Object.entries(payload).filter(([, field]) => field !== undefined);
    return Object.fromEntries(fields.map(([name, field]) => [wellFormed(name), frozen(field)]));
  }
  throw new TypeError(
    "payload must be bytes or JSON: text, numbers, booleans, null, arrays, plain objects; pass a bigint, a Decimal or a " +
      "number beyond 53 bits as text",
  );
}
