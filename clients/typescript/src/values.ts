/**
 * Attribute values of items, to and from DynamoDB's typed JSON, without losing a digit.
 *
 * | TypeScript | DynamoDB |
 * |---|---|
 * | `string` | S |
 * | `number`, `bigint`, `Decimal` | N |
 * | `Uint8Array` | B |
 * | `boolean` | BOOL |
 * | `null` | NULL |
 * | array | L |
 * | plain object | M |
 * | `Set` of texts, numbers or bytes | SS, NS, BS |
 */

/** A number that neither `number` nor `bigint` holds digit by digit, such as `12.50`. */
export class Decimal {
  readonly text: string;

  constructor(text: string) {
    if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text)) {
      throw new RangeError("a Decimal takes a decimal number");
    }
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/** A number as it was written: a `number` where it prints the same way, else a `bigint` or a `Decimal`. */
export type Digits = number | bigint | Decimal;
export type Value =
  | string
  | Digits
  | Uint8Array
  | boolean
  | null
  | readonly Value[]
  | ReadonlySet<string>
  | ReadonlySet<Digits>
  | ReadonlySet<Uint8Array>
  | { readonly [name: string]: Value };
export type Item = { readonly [attribute: string]: Value };

/** A value in DynamoDB's JSON. */
export type Typed =
  | { readonly S: string }
  | { readonly N: string }
  | { readonly B: string }
  | { readonly BOOL: boolean }
  | { readonly NULL: true }
  | { readonly L: readonly Typed[] }
  | { readonly M: TypedItem }
  | { readonly SS: readonly string[] }
  | { readonly NS: readonly string[] }
  | { readonly BS: readonly string[] };
export type TypedItem = { readonly [attribute: string]: Typed };

/** The value in DynamoDB's JSON. */
export function encode(value: Value): Typed {
  if (typeof value === "string") return { S: wellFormed(value) };
  if (typeof value === "boolean") return { BOOL: value };
  if (isNumber(value)) return { N: numberText(value) };
  if (value === null) return { NULL: true };
  if (value instanceof Uint8Array) return { B: base64(value) };
  if (value instanceof Set) return encodeSet([...value]);
  if (Array.isArray(value)) return { L: Array.from(value, encode) };
  if (isPlain(value)) return { M: encodeItem(value) };
  throw new TypeError("an attribute cannot hold this value");
}

/** Every attribute of the item in DynamoDB's JSON. An attribute that is `undefined` is an error. */
export function encodeItem(item: Item): TypedItem {
  Object.keys(item).forEach(wellFormed);
  return mapped(item, encode);
}

/** The number's digits, as DynamoDB takes them. */
export function numberText(value: Digits): string {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError("a number must be finite");
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new RangeError("this number has lost digits; use a bigint");
  }
  return String(value);
}

/** One text for one number: 17, 17.0 and 1.7e1 are one. */
export function normalizedNumber(text: string): string {
  const { digits: significant, exponent, negative } = scaled(text);
  return significant === "" ? "0" : `${negative ? "-" : ""}${significant}e${exponent}`;
}

/** Which of two numbers is larger, digit by digit: negative if the first is smaller, 0 if they are equal. */
export function comparedNumbers(first: Digits, second: Digits): number {
  const [a, b] = [scaled(String(first)), scaled(String(second))];
  const exponent = Math.min(a.exponent, b.exponent);
  if (Math.max(a.exponent, b.exponent) - exponent > 1_000) throw new RangeError("a number is out of range");
  const whole = ({ digits, exponent: own, negative }: Scaled): bigint =>
    BigInt(digits || "0") * 10n ** BigInt(own - exponent) * (negative ? -1n : 1n);
  const [left, right] = [whole(a), whole(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

type Scaled = { readonly digits: string; readonly exponent: number; readonly negative: boolean };

/** A number as digits without zeros at either end, and a power of ten. Zero has no digits. */
function scaled(text: string): Scaled {
  const [, sign = "", whole = "", fraction = "", power = "0"] =
    /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const all = `${whole}${fraction}`.replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  const exponent = digits === "" ? 0 : Number(power) - fraction.length + all.length - digits.length;
  return { digits, exponent, negative: sign === "-" };
}

/** The text. Half of a surrogate pair is no text: no store and no queue takes it. */
export function wellFormed(text: string): string {
  if (!text.isWellFormed()) throw new RangeError("a text holds half of a surrogate pair");
  return text;
}

/** The value that DynamoDB's JSON stands for. */
export function decode(typed: Typed): Value {
  if ("S" in typed) return typed.S;
  if ("N" in typed) return digits(typed.N);
  if ("B" in typed) return Buffer.from(typed.B, "base64");
  if ("BOOL" in typed) return typed.BOOL;
  if ("NULL" in typed) return null;
  if ("L" in typed) return typed.L.map(decode);
  if ("M" in typed) return decodeItem(typed.M);
  if ("SS" in typed) return new Set(typed.SS);
  if ("NS" in typed) return new Set(typed.NS.map(digits));
  if ("BS" in typed) return new Set(typed.BS.map((each) => new Uint8Array(Buffer.from(each, "base64"))));
  throw new TypeError("no type of DynamoDB");
}

/** Every attribute of the item as a TypeScript value. */
export function decodeItem(item: TypedItem): Item {
  return mapped(item, decode);
}

/** The number of this text, digit by digit. */
export function digits(text: string): Digits {
  const number = Number(text);
  const exact = String(number) === text && (!Number.isInteger(number) || Number.isSafeInteger(number));
  if (exact) return number;
  // A `bigint` has no -0.
  return /^-?\d+$/.test(text) && text !== "-0" ? BigInt(text) : new Decimal(text);
}

function isNumber(value: unknown): value is Digits {
  return typeof value === "number" || typeof value === "bigint" || value instanceof Decimal;
}

export function isPlain(value: unknown): value is { readonly [name: string]: Value } {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function encodeSet(members: readonly unknown[]): Typed {
  if (members.length === 0) throw new RangeError("DynamoDB has no empty set; remove the attribute instead");
  if (members.every((member) => typeof member === "string")) {
    return { SS: members.map(wellFormed).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))) };
  }
  if (members.every((member) => member instanceof Uint8Array)) {
    return { BS: distinct(members.toSorted(Buffer.compare).map(base64)) };
  }
  if (members.every(isNumber)) return { NS: distinct(members.map(numberText).sort(), normalizedNumber) };
  throw new TypeError("a set holds texts, numbers or bytes, and only one of them");
}

/** Each member once. A `Set` compares bytes and Decimals as objects, so it may hold equal ones. */
function distinct(members: readonly string[], name = (member: string): string => member): string[] {
  return [...new Map(members.map((member) => [name(member), member])).values()];
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}

function mapped<A, B>(fields: { readonly [name: string]: A }, map: (value: A) => B): { [name: string]: B } {
  // Unlike an assignment, this also holds a field `__proto__`.
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, map(value)]));
}
