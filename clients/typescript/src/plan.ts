/** A plan: the writes and effects of one event, all of them committed in one transaction, or none. */
import { type EffectJson, effectJson, type EffectOptions, type JsonValue } from "./effect.js";
import { identity, type ItemKey, type Key, type KeyJson, OnceKey, oneSpelling, type TableKey } from "./keys.js";
import {
  comparedNumbers,
  decode,
  decodeItem,
  Decimal,
  type Digits,
  encode,
  encodeItem,
  type Item,
  type Typed,
  type TypedItem,
  type Value,
} from "./values.js";

/** One requirement on an item before the commit. */
export type Clause =
  | { readonly absent: string }
  | { readonly present: string }
  | { readonly equals: readonly [string, Typed] }
  | { readonly one_of: readonly [string, readonly Typed[]] }
  | { readonly differs: readonly [string, Typed] };
export type Change =
  | { readonly set: readonly [string, Typed] }
  | { readonly add: readonly [string, number | { readonly N: string }] }
  | { readonly remove: string };
export type Action = { readonly put: TypedItem } | { readonly update: readonly Change[] } | "delete";
export type CheckJson = KeyJson & { readonly condition: readonly Clause[] };
export type WriteJson = CheckJson & { readonly action: Action; readonly blind?: true };
export type WhenConditionFails = "retry" | "permanent";
export type PlanJson = {
  readonly writes: readonly WriteJson[];
  readonly checks?: readonly CheckJson[];
  readonly effects?: readonly EffectJson[];
  readonly when_condition_fails: WhenConditionFails;
};
export type ItemJson = KeyJson & { readonly item: TypedItem | null };

/** The items that a handler asked for, each as it was when it was read. */
export class Items {
  readonly #items: ReadonlyMap<string, TypedItem | null>;

  constructor(entries: readonly ItemJson[] = []) {
    this.#items = new Map(entries.map((entry) => [identity(entry), entry.item]));
  }

  /** Whether the handler was shown this key, with or without an item. */
  wasRead(key: Key): boolean {
    return this.#items.has(identity(key.toJSON()));
  }

  /**
   * The item with this key. `undefined` if there is no such item.
   *
   * @throws RangeError when the handler did not ask for the key.
   */
  get(key: Key): Item | undefined {
    const item = this.#typed(key);
    return item && decodeItem(item);
  }

  /**
   * A whole number of an item. 0n if the item or the attribute does not exist, and also if it is no whole number of 64
   * bits: of an item that others write, too, look at `get`.
   */
  integer(key: Key, attribute: string): bigint {
    const typed = this.attribute(key, attribute);
    const text = typed !== undefined && "N" in typed ? typed.N : "";
    const value = /^[+-]?\d+$/.test(text) ? BigInt(text) : 0n;
    return BigInt.asIntN(64, value) === value ? value : 0n;
  }

  /** An attribute as DynamoDB stores it, such as `{ N: "42" }`. `undefined` if it does not exist. */
  attribute(key: Key, attribute: string): Typed | undefined {
    const item = this.#typed(key);
    return item !== undefined && Object.hasOwn(item, attribute) ? item[attribute] : undefined;
  }

  #typed(key: Key): TypedItem | undefined {
    const item = this.#items.get(identity(key.toJSON()));
    if (item === undefined) throw new RangeError("reads() did not ask for this key");
    return item ?? undefined;
  }
}

/** What must hold of an item when the plan commits. All conditions must hold. */
export class Check {
  protected readonly key: Key;
  protected readonly condition: Clause[] = [];

  constructor(key: Key) {
    this.key = key;
  }

  /** These attributes still are as in the items that were read. */
  asSeen(items: Items, attribute: string, ...more: readonly string[]): this {
    for (const name of [attribute, ...more]) {
      const seen = items.attribute(this.key, name);
      this.condition.push(seen === undefined ? { absent: name } : { equals: [name, seen] });
    }
    return this;
  }

  /** The attribute does not exist. Without a name: the item does not exist. */
  ifAbsent(attribute: string = this.key.keyAttribute): this {
    this.condition.push({ absent: attribute });
    return this;
  }

  /** The attribute exists. Without a name: the item exists. */
  ifPresent(attribute: string = this.key.keyAttribute): this {
    this.condition.push({ present: attribute });
    return this;
  }

  /** The attribute exists and equals the value. */
  ifEquals(attribute: string, value: Value): this {
    this.condition.push({ equals: [attribute, encode(value)] });
    return this;
  }

  /** The attribute exists and equals one of the values. */
  ifOneOf(attribute: string, values: readonly Value[]): this {
    this.condition.push({ one_of: [attribute, [...values.values()].map(encode)] });
    return this;
  }

  /** The attribute does not exist, or has another value. */
  ifDiffers(attribute: string, value: Value): this {
    this.condition.push({ differs: [attribute, encode(value)] });
    return this;
  }

  toJSON(): CheckJson {
    return { ...this.key.toJSON(), condition: this.condition };
  }
}

/** A write of one item, with the conditions that must hold before it. */
export class Write extends Check {
  #action: Action;
  #blind = false;
  #leftOut = false;

  constructor(key: Key, action: Action) {
    super(key);
    this.#action = action;
  }

  /** Whether `newerThan` left the write out of its plan. */
  get leftOut(): boolean {
    return this.#leftOut;
  }

  /**
   * Allows the write without a condition, although the handler was shown the item.
   *
   * Without this, such a write is refused: it would overwrite what came in between.
   */
  blind(): this {
    this.#blind = true;
    return this;
  }

  /**
   * Leaves the write out unless the item has an older version or none, and stores this version.
   *
   * So an older event never overwrites a newer one. `tie` says what happens to an equal version. If another event changes
   * the version before the commit, the event is planned again. A stored version of another type counts as older.
   */
  newerThan(items: Items, attribute: string, version: Digits | string, tie: "write" | "skip"): this {
    if (tie !== "write" && tie !== "skip") throw new RangeError("tie must be write or skip");
    const seen = items.attribute(this.key, attribute);
    const order = seen === undefined ? 1 : compared(version, decode(seen));
    this.#leftOut ||= order < 0 || (order === 0 && tie === "skip");
    this.#store(attribute, encode(version));
    return this.asSeen(items, attribute);
  }

  #store(attribute: string, version: Typed): void {
    const action = this.#action;
    if (action === "delete") {
      throw new TypeError("a delete forgets the version; mark the item as deleted with an update");
    }
    const sets = "put" in action ? Object.entries(action.put) : action.update.flatMap((it) => ("set" in it ? [it.set] : []));
    const known = sets.find(([name]) => name === attribute)?.[1];
    if (known === undefined) {
      const set = { set: [attribute, version] } as const;
      this.#action =
        "put" in action ? { put: { ...action.put, [attribute]: version } } : { update: [...action.update, set] };
    } else if (JSON.stringify(oneSpelling(known)) !== JSON.stringify(oneSpelling(version))) {
      throw new RangeError(`the write stores another ${attribute} than its version`);
    }
  }

  override toJSON(): WriteJson {
    const blind = this.#blind ? ({ blind: true } as const) : {};
    return { ...this.key.toJSON(), action: this.#action, condition: this.condition, ...blind };
  }
}

/** The changes of one update. `add` counts a missing attribute as 0. */
export type Changes = {
  readonly set?: { readonly [attribute: string]: Value };
  readonly add?: { readonly [attribute: string]: number | bigint };
  readonly remove?: readonly string[];
};

/** The changes of one event. A plan without a write is an event that is applied and changes nothing. */
export class Plan {
  readonly #writes: Write[] = [];
  readonly #checks: Check[] = [];
  readonly #effects: EffectJson[] = [];
  readonly #whenConditionFails: WhenConditionFails;

  /**
   * `whenConditionFails` says what happens if a condition does not hold at the commit: `retry` reads and plans again,
   * `permanent` makes the record DEAD.
   */
  constructor(whenConditionFails: WhenConditionFails = "retry") {
    this.#whenConditionFails = whenConditionFails;
  }

  /**
   * Creates the item of one effect. The commit fails if the item exists.
   *
   * A key that is not of `event.once()` outlives the event: a forced replay would meet its own item.
   */
  create(key: OnceKey, item: Item): Write {
    if (!(key instanceof OnceKey)) throw new TypeError("create takes a key of event.once(); createMissing takes any other");
    return this.put(key, item).ifAbsent();
  }

  /**
   * Creates an item that outlives the event, unless there is one. The handler must have asked for it. It may be one of a
   * table of your own.
   */
  createMissing(key: ItemKey | TableKey, item: Item, items: Items): void {
    if (key instanceof OnceKey) {
      throw new TypeError("createMissing takes a key that outlives the event; create takes one of event.once()");
    }
    if (items.get(key) === undefined) this.put(key, item).ifAbsent();
  }

  /** Replaces the whole item. The key attributes need not be in it. */
  put(key: Key, item: Item): Write {
    return this.#write(new Write(key, { put: encodeItem(item) }));
  }

  /** Changes attributes. Creates the item if it does not exist. */
  update(key: Key, { set = {}, add = {}, remove = [] }: Changes): Write {
    const sets = Object.entries(set).map(([name, value]) => ({ set: [name, encode(value)] }) as const);
    const adds = Object.entries(add).map(([name, amount]) => ({ add: [name, whole(amount)] }) as const);
    return this.#write(new Write(key, { update: [...sets, ...adds, ...remove.map((name) => ({ remove: name }))] }));
  }

  /** Deletes the item. */
  delete(key: Key): Write {
    return this.#write(new Write(key, "delete"));
  }

  /** Requires something of an item that the plan does not write, in the same transaction. */
  check(key: Key): Check {
    const check = new Check(key);
    this.#checks.push(check);
    return check;
  }

  /**
   * Sends something to a destination once the plan is committed. `name` is unique within the event.
   *
   * The route must list the destination. `path` follows its address, such as `/v1/charges`.
   */
  effect(name: string, destination: string, payload: JsonValue | Uint8Array, options: EffectOptions = {}): void {
    this.#effects.push(effectJson(name, destination, payload, options));
  }

  #write(write: Write): Write {
    this.#writes.push(write);
    return write;
  }

  /** The plan as an answer holds it. */
  toJSON(): PlanJson {
    const writes = this.#writes.filter((write) => !write.leftOut).map((write) => write.toJSON());
    const checks = this.#checks.length === 0 ? {} : { checks: this.#checks.map((check) => check.toJSON()) };
    const effects = this.#effects.length === 0 ? {} : { effects: [...this.#effects] };
    return { writes, ...checks, ...effects, when_condition_fails: this.#whenConditionFails };
  }
}

function compared(version: Digits | string, known: Value): number {
  if (typeof version === "string" && typeof known === "string") {
    return Buffer.compare(Buffer.from(version), Buffer.from(known));
  }
  const isNumber = typeof known === "number" || typeof known === "bigint" || known instanceof Decimal;
  return typeof version !== "string" && isNumber ? comparedNumbers(version, known) : 1;
}

/** The amount as JSON carries it: beyond 53 bits as text, because a JSON number would be rounded. */
function whole(amount: number | bigint): number | { readonly N: string } {
  // JavaScript may pass anything.
  if (Number.isSafeInteger(amount)) return amount as number;
  if (typeof amount !== "bigint" || BigInt.asIntN(64, amount) !== amount) {
    throw new RangeError("add takes whole numbers of at most 64 bits, beyond 53 bits as a bigint; another one would be rounded");
  }
  const number = Number(amount);
  return Number.isSafeInteger(number) ? number : { N: String(amount) };
}
