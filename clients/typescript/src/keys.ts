/**
 * Keys of facts and items, byte for byte as hookonce itself makes them.
 *
 * `#` separates the parts of a key. Parts that a provider chooses are escaped: `%23` stands for `#`, `%25` for `%`, and a
 * lone `%` for an empty part. Parts that are longer than 512 bytes together are replaced by `%h` and their hash. So two
 * different lists of parts never make the same key.
 */
import { createHash } from "node:crypto";

import { encodeItem, normalizedNumber, type Typed, type TypedItem, type Value, wellFormed } from "./values.js";

const PARTS_BYTES_MAX = 512;

/** A part of a key: text, or a whole number. */
export type Part = string | number | bigint;

/** A key in the JSON of the protocol. */
export type KeyJson = { readonly table?: string; readonly key: string | TypedItem };

/** The key of an item in the domain table. */
class TextKey {
  readonly keyAttribute = "pk";
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): KeyJson {
    return { key: this.text };
  }
}

/** The key of an item in the domain table that several events share, such as a balance. */
export class ItemKey extends TextKey {
  readonly kind = "item";
}

/**
 * The key of an item that stands for one effect of one event, such as a ledger entry.
 *
 * A forced replay must have a further effect, so it gets another key.
 */
export class OnceKey extends TextKey {
  readonly kind = "once";
}

/**
 * The key of an item in a table of your own: the table's alias and the key attributes.
 *
 * The worker's setting of tables names the alias, and the route must list it.
 */
export class TableKey {
  readonly kind = "table";
  readonly keyAttribute: string;
  readonly table: string;
  readonly attributes: TypedItem;

  constructor(table: string, attributes: { readonly [name: string]: Value }) {
    const [first] = Object.keys(attributes);
    if (first === undefined) throw new RangeError("a key has at least one attribute");
    this.keyAttribute = first;
    this.table = table;
    this.attributes = encodeItem(attributes);
  }

  toJSON(): KeyJson {
    return { table: this.table, key: this.attributes };
  }
}

export type Key = ItemKey | OnceKey | TableKey;

/** One text for one item, whatever the order of its key attributes and the spelling of its numbers. */
export function identity({ table, key }: KeyJson): string {
  const attributes =
    typeof key === "string"
      ? key
      : Object.entries(key)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, typed]) => [name, oneSpelling(typed)]);
  return JSON.stringify([table ?? null, attributes]);
}

/** The value, such that numbers are equal if they are one number. */
export function oneSpelling(typed: Typed): Typed {
  return "N" in typed ? { N: normalizedNumber(typed.N) } : typed;
}

export function itemKey(tenant: string, kind: string, parts: readonly Part[]): ItemKey {
  return new ItemKey(`${tenant}#${escaped(kind)}#${joined(parts)}`);
}

export function onceKey(first: ItemKey, record: string, generation: number): OnceKey {
  return new OnceKey(generation === 0 ? first.text : `${first.text}##${record}#g${generation}`);
}

/** The name of a business fact. `factOf` makes it. */
export class Fact {
  readonly kind = "fact";
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Names a fact by its parts: `factOf("invoice.paid", "in_1")` is `invoice.paid#in_1`. Different parts are different facts.
 *
 * With an empty part, the fact has no name: otherwise all events that lack the part would be the same fact. The event then
 * dies with FACT_MISSING.
 */
export function factOf(...parts: readonly Part[]): Fact {
  return new Fact(parts.some((part) => part === "") ? "" : joined(parts));
}

function joined(parts: readonly Part[]): string {
  const text = parts.map(escaped).join("#");
  const bytes = Buffer.from(text);
  return bytes.length <= PARTS_BYTES_MAX ? text : `%h${createHash("sha256").update(bytes).digest("hex")}`;
}

function escaped(part: Part): string {
  if (typeof part === "number" ? !Number.isSafeInteger(part) : typeof part !== "string" && typeof part !== "bigint") {
    throw new TypeError("a part of a key is text or a whole number");
  }
  return wellFormed(String(part)).replaceAll("%", "%25").replaceAll("#", "%23") || "%";
}
