/** JSON with every digit of its numbers. */
import { digits, type Digits } from "./values.js";

export type Json = string | Digits | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** The names that stand twice in an object. Like `JSON.parse`, the object itself has the last value of each. */
const TWICE = new WeakMap<object, ReadonlySet<string>>();

/** Whether the text of this object holds the name twice. */
export function standsTwice(object: object, name: string): boolean {
  return TWICE.get(object)?.has(name) ?? false;
}

const TOKEN = /[[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s[\]{},:"]+/g;

/**
 * Parses JSON, however deeply it is nested. A number that a `number` would not print the same way becomes a `bigint` or
 * a `Decimal`.
 *
 * @throws SyntaxError when the text is no JSON.
 */
export function parseJson(text: string): Json {
  checked(text);
  let part: Part = new List();
  const outer: Part[] = [];
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "[" || token === "{") {
      outer.push(part);
      part = token === "[" ? new List() : new Fields();
    } else if (token === "]" || token === "}") {
      const ended: Json = part.made();
      part = outer.pop() as Part;
      part.add(ended);
    } else if (token !== "," && token !== ":") {
      part.add(scalar(token));
    }
  }
  const [whole] = part.made() as [Json];
  return whole;
}

/** Says whether the text is JSON, so that reading its tokens needs no checks. */
function checked(text: string): void {
  try {
    JSON.parse(text);
  } catch {
    // Not the engine's own error: it quotes the text, and errors reach logs.
    throw new SyntaxError("the text is no JSON");
  }
}

function scalar(token: string): Json {
  return /^["tfn]/.test(token) ? (JSON.parse(token) as string | boolean | null) : digits(token);
}

/** A list or an object that has not ended yet. */
type Part = List | Fields;

class List {
  readonly #elements: Json[] = [];

  add(element: Json): void {
    this.#elements.push(element);
  }

  made(): Json {
    return this.#elements;
  }
}

class Fields {
  readonly #fields: [string, Json][] = [];
  readonly #names = new Set<string>();
  readonly #twice = new Set<string>();
  #name: string | undefined;

  /** Takes a name, then its value. */
  add(given: Json): void {
    if (this.#name === undefined) {
      this.#name = given as string;
      return;
    }
    this.#fields.push([this.#name, given]);
    (this.#names.has(this.#name) ? this.#twice : this.#names).add(this.#name);
    this.#name = undefined;
  }

  made(): Json {
    const made = Object.fromEntries(this.#fields);
    if (this.#twice.size > 0) TWICE.set(made, this.#twice);
    return made;
  }
}
