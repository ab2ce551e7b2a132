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
 * Parses JSON. A number that a `number` would not print the same way becomes a `bigint` or a `Decimal`.
 *
 * @throws SyntaxError when the text is no JSON.
 */
export function parseJson(text: string): Json {
  checked(text);
  const tokens = text.matchAll(TOKEN);
  return value(next(tokens), tokens);
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

type Tokens = Iterator<RegExpExecArray>;

function next(tokens: Tokens): string {
  const token = tokens.next();
  if (token.done === true) throw new SyntaxError("the text ends early");
  return token.value[0];
}

function value(token: string, tokens: Tokens): Json {
  if (token === "{") return object(tokens);
  if (token === "[") return array(tokens);
  if (token.startsWith('"') || /^[tfn]/.test(token)) return JSON.parse(token) as string | boolean | null;
  return digits(token);
}

function array(tokens: Tokens): Json[] {
  const elements: Json[] = [];
  for (let token = next(tokens); token !== "]"; token = next(tokens)) {
    if (token !== ",") elements.push(value(token, tokens));
  }
  return elements;
}

function object(tokens: Tokens): { [name: string]: Json } {
  const fields: [string, Json][] = [];
  const [names, twice] = [new Set<string>(), new Set<string>()];
  for (let token = next(tokens); token !== "}"; token = next(tokens)) {
    if (token === ",") continue;
    const name = JSON.parse(token) as string;
    next(tokens); // the colon
    fields.push([name, value(next(tokens), tokens)]);
    (names.has(name) ? twice : names).add(name);
  }
  const made = Object.fromEntries(fields);
  if (twice.size > 0) TWICE.set(made, twice);
  return made;
}
