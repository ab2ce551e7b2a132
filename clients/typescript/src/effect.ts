/** What a plan sends out of the account once its changes are committed. */
import { isUtf8 } from "node:buffer";

import { wellFormed } from "./values.js";

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

/** A copy, so that nothing changes it any more. */
function frozen(payload: JsonValue): JsonValue {
  const text = JSON.stringify(payload, (name, value: unknown) => {
    for (const part of [name, value]) if (typeof part === "string") wellFormed(part);
    const exact = typeof value !== "number" || (Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value));
    if (exact && typeof value !== "bigint" && typeof value !== "function" && typeof value !== "symbol") return value;
    throw new TypeError("payload must be bytes or JSON; pass a bigint or a number beyond 53 bits as text");
  }) as string | undefined;
  if (text === undefined) throw new TypeError("payload must be bytes or JSON");
  return JSON.parse(text) as JsonValue;
}
