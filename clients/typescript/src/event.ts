/** An event, and typed access to its body. */
import { checkedCode, Permanent } from "./errors.js";
import { parseJson, type Json, standsTwice } from "./json.js";
import { type ItemKey, itemKey, type OnceKey, onceKey, type Part } from "./keys.js";

export const VERSION = 1;

/** An event in the JSON of the protocol. */
export type EventJson = {
  readonly version: number;
  readonly endpoint: string;
  readonly tenant: string;
  readonly provider: string;
  readonly record: string;
  readonly key: string;
  readonly type: string;
  readonly received_at_ms: number;
  readonly generation: number;
  readonly headers: { readonly [name: string]: string };
  readonly body_base64: string;
};

/** One business fact, as the provider reported it. */
export class Event {
  /** The endpoint that received it. */
  readonly endpoint: string;
  /** Whose event it is: the tenant that the endpoint's document names, else the endpoint. */
  readonly tenant: string;
  /** The provider's id in the catalog. */
  readonly provider: string;
  /** The key of its record. */
  readonly record: string;
  /** Its id: the provider's, or a hash if it has none. */
  readonly key: string;
  /** The provider's name for the type of event. */
  readonly type: string;
  /** When the delivery was received, in milliseconds since 1970. */
  readonly receivedAtMs: number;
  /** 0, plus one for each forced replay. */
  readonly generation: number;
  /** The request headers that are kept, with names in lower case. */
  readonly headers: { readonly [name: string]: string };
  /** The provider's delivery, with only this event. */
  readonly body: Uint8Array;

  constructor(json: EventJson) {
    this.endpoint = json.endpoint;
    this.tenant = json.tenant;
    this.provider = json.provider;
    this.record = json.record;
    this.key = json.key;
    this.type = json.type;
    this.receivedAtMs = json.received_at_ms;
    this.generation = json.generation;
    this.headers = json.headers;
    this.body = Buffer.from(json.body_base64, "base64");
  }

  /**
   * Names an item that events share: `event.itemKey("balance", customer, currency)`.
   *
   * The key begins with the event's tenant. Parts may be any text from a provider: different parts never make the same key.
   */
  itemKey(kind: string, ...parts: readonly Part[]): ItemKey {
    return itemKey(this.tenant, kind, parts);
  }

  /** Names an item that stands for one effect of this event, such as a ledger entry. */
  once(kind: string, ...parts: readonly Part[]): OnceKey {
    return onceKey(this.itemKey(kind, ...parts), this.record, this.generation);
  }

  /**
   * The body as JSON. A number that a `number` would not print the same way is a `bigint` or a `Decimal`. Of a field that
   * stands twice in its object, the last value counts; `read` refuses to choose.
   *
   * @throws an error when the body is no JSON.
   */
  json(): Json {
    return parseJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.body));
  }

  /**
   * The body as a document whose fields are checked when they are read.
   *
   * Whatever does not fit fails for good with this code, because no retry can help.
   */
  read(code: string): Document {
    checkedCode(code);
    let json: Json;
    try {
      json = this.json();
    } catch {
      throw new Permanent(code);
    }
    return new Document(json, code);
  }

  /** The event as a request holds it. */
  toJSON(): EventJson {
    const { endpoint, tenant, provider, record, key, type, receivedAtMs, generation, headers, body } = this;
    const named = { version: VERSION, endpoint, tenant, provider, record, key, type, generation, headers };
    return { ...named, received_at_ms: receivedAtMs, body_base64: Buffer.from(body).toString("base64") };
  }
}

/**
 * A part of a JSON body. Reading a field that is missing, appears twice or has another type fails with the document's
 * code and with the path that was asked for. The path holds the names that the handler gave, and no value.
 */
export class Document {
  readonly #value: Json;
  readonly #code: string;
  readonly #path: string;

  constructor(value: Json, code: string, path = "") {
    this.#value = value;
    this.#code = code;
    this.#path = path;
  }

  /** The value at this path of names. */
  at(...path: readonly string[]): Document {
    return path.reduce<Document>((found, name) => found.#field(name) ?? found.#refuse(found.#below(name)), this);
  }

  /** The value of a field. `undefined` if the field is missing or null. */
  optional(name: string): Document | undefined {
    const found = this.#field(name);
    return found === undefined || found.#value === null ? undefined : found;
  }

  /** The text at this path. Half of a surrogate pair is no text. */
  text(...path: readonly string[]): string {
    const { value, refuse } = this.#end(path);
    return typeof value === "string" && value.isWellFormed() ? value : refuse();
  }

  /** The whole number at this path, of at most 64 bits. */
  integer(...path: readonly string[]): bigint {
    const { value, refuse } = this.#end(path);
    const whole = typeof value === "bigint" || (typeof value === "number" && Number.isInteger(value));
    return whole && BigInt.asIntN(64, BigInt(value)) === BigInt(value) ? BigInt(value) : refuse();
  }

  /** The boolean at this path. */
  flag(...path: readonly string[]): boolean {
    const { value, refuse } = this.#end(path);
    return typeof value === "boolean" ? value : refuse();
  }

  /** The elements of the list at this path. */
  list(...path: readonly string[]): Document[] {
    const { value, refuse, at } = this.#end(path);
    const element = (value: Json, index: number): Document => new Document(value, this.#code, `${at}[${index}]`);
    return Array.isArray(value) ? value.map(element) : refuse();
  }

  #end(path: readonly string[]): { value: Json; refuse: () => never; at: string } {
    const found = this.at(...path);
    return { value: found.#value, refuse: () => found.#refuse(found.#path), at: found.#path };
  }

  #below(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }

  #field(name: string): Document | undefined {
    const value = this.#value;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return this.#refuse(this.#path);
    if (standsTwice(value, name)) return this.#refuse(this.#below(name));
    const found = Object.entries(value).find(([field]) => field === name);
    return found && new Document(found[1], this.#code, this.#below(name));
  }

  #refuse(at: string): never {
    throw new Permanent(this.#code, at);
  }
}
