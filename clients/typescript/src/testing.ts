/** A kit to test handlers without a worker, a table or a network. */
import assert from "node:assert/strict";

import { Event, type EventJson, VERSION } from "./event.js";
import { identity, type Key, type KeyJson } from "./keys.js";
import type { PlanJson } from "./plan.js";
import { type Answer, type Handler, handler, type Request } from "./protocol.js";
import { encodeItem, type Item, type Typed, type TypedItem } from "./values.js";

const READS_MAX = 100;
const PARTS_MAX = 98;
const KEY_BYTES_MAX = 2_048;
const SORT_KEY_BYTES_MAX = 1_024;
const NO_KEY =
  "a key that no table takes: it has one or two parts, each text, a number or bytes, none of them empty or longer " +
  `than ${KEY_BYTES_MAX} bytes (${SORT_KEY_BYTES_MAX} for a sort key)`;

/** What a handler answered, in the JSON of the protocol. */
export class Played {
  /** The fact. `undefined` if the handler ignored the event or failed. */
  readonly fact: string | undefined;
  /** The items that it asked for. */
  readonly reads: readonly KeyJson[];
  /** The plan. `undefined` if the handler ignored the event or failed. */
  readonly plan: PlanJson | undefined;
  /** The code of the failure, and whether it is retryable. */
  readonly error: { readonly code: string; readonly retryable: boolean } | undefined;
  /** Whether the handler ignored the event. */
  readonly ignored: boolean;

  constructor(reads: readonly KeyJson[], { request, ...answer }: Answer) {
    this.reads = reads;
    this.error = "error" in answer ? answer.error : undefined;
    this.ignored = "ignore" in answer;
    if ("writes" in answer) {
      const { fact, ...plan } = answer;
      this.fact = fact;
      this.plan = plan;
    }
  }

  /** The plan as text that changes only if the plan does: keep it in a file and compare. */
  snapshot(): string {
    return `${JSON.stringify(sorted(this.plan), null, 2)}\n`;
  }
}

/** An event for tests. `changes` gives any field of the protocol's event; `body` may be bytes, or anything that JSON holds. */
export function makeEvent(type: string, body: unknown, changes: Partial<EventJson> = {}): Event {
  const endpoint = changes.endpoint ?? changes.provider ?? "test";
  const key = changes.key ?? "evt_1";
  const data = body instanceof Uint8Array ? body : JSON.stringify(body);
  return new Event({
    version: VERSION,
    endpoint,
    tenant: endpoint,
    provider: "test",
    record: `in#${endpoint}#${key}`,
    key,
    received_at_ms: 1_767_225_600_000,
    generation: 0,
    headers: {},
    ...changes,
    type,
    body_base64: Buffer.from(data).toString("base64"),
  });
}

/**
 * Plays both rounds, as the worker would, and returns the answer. `items` is what the tables hold.
 *
 * Every round is played twice: a handler that is not pure fails here. A plan fails here, too, if the worker would refuse it
 * for what the plan alone shows. The worker checks more: sizes of items, digits, and the key schema of each table.
 */
export async function play(event: Event, rule: Handler, items: readonly (readonly [Key, Item])[] = []): Promise<Played> {
  const stored = new Map<string, TypedItem>(items.map(([key, item]) => [identity(key.toJSON()), encodeItem(item)]));
  const entry = handler(rule);
  const ask = async (shown: Request["items"] & object): Promise<Answer> => {
    const request = JSON.stringify({ version: VERSION, request: "test", event, items: shown });
    const answers = [await entry(JSON.parse(request) as Request), await entry(JSON.parse(request) as Request)];
    const [first, second] = answers.map((answer) => JSON.stringify(answer));
    assert.equal(first, second, "the handler gave two answers to one request; it must be pure");
    return JSON.parse(first ?? "") as Answer;
  };
  const first = await ask([]);
  const prefix = `${event.tenant}#`;
  if (!("reads" in first)) return checked(new Played([], first), prefix);
  assert.ok(first.reads.length <= READS_MAX, `reads() asks for more than ${READS_MAX} items`);
  for (const [number, { key }] of first.reads.entries()) assert.ok(fits(key), `reads[${number}] is ${NO_KEY}`);
  const answer = await ask(first.reads.map((key) => ({ ...key, item: stored.get(identity(key)) ?? null })));
  const fixed = !("reads" in answer) && (!("fact" in answer) || answer.fact === first.fact);
  assert.ok(fixed, "reads() and fact() must not depend on the items");
  return checked(new Played(first.reads, answer), prefix);
}

function checked(played: Played, tenant: string): Played {
  const shown = new Set(played.reads.map(identity));
  const named = new Set<string>();
  const { writes = [], checks = [], effects = [] } = played.plan ?? {};
  const parts = writes.length + checks.length + effects.length;
  assert.ok(parts <= PARTS_MAX, `the plan has more than ${PARTS_MAX} writes, checks and effects`);
  const names = new Set(effects.map(({ effect }) => effect));
  assert.ok(names.size === effects.length, "two effects of the plan have one name");
  for (const [number, part] of [...writes, ...checks].entries()) {
    const key = identity(part);
    assert.ok(!named.has(key), `part ${number} of the plan names an item for the second time`);
    named.add(key);
    assert.ok(fits(part.key), `part ${number} of the plan names ${NO_KEY}`);
    const own = typeof part.key !== "string" || part.key.startsWith(tenant);
    assert.ok(own, `part ${number} of the plan names an item of another tenant: use event.itemKey()`);
  }
  for (const [number, check] of checks.entries()) {
    assert.ok(check.condition.length > 0, `check ${number} requires nothing`);
  }
  for (const [number, write] of writes.entries()) {
    const careless = write.condition.length === 0 && write.blind !== true && shown.has(identity(write));
    assert.ok(!careless, `write ${number} overwrites an item that was read: add asSeen() or blind()`);
    if (write.action === "delete" || !("update" in write.action)) continue;
    const changed = write.action.update.map((change) => ("set" in change ? change.set[0] : "add" in change ? change.add[0] : change.remove));
    const once = changed.length > 0 && new Set(changed).size === changed.length;
    assert.ok(once, `write ${number} changes nothing, or one attribute twice`);
    const keys = typeof write.key === "string" ? ["pk"] : Object.keys(write.key);
    assert.ok(!changed.some((name) => keys.includes(name)), `write ${number} changes a key attribute`);
  }
  return played;
}

/** Whether a table can have the key. Which of two parts is the sort key, only the table knows. */
function fits(key: KeyJson["key"]): boolean {
  const parts = typeof key === "string" ? [{ S: key }] : Object.values(key);
  const sizes = parts.map(keyBytes);
  const areSized = sizes.every((size) => size >= 1 && size <= KEY_BYTES_MAX);
  return areSized && (sizes.length === 1 || (sizes.length === 2 && Math.min(...sizes) <= SORT_KEY_BYTES_MAX));
}

/** The size of a part of a key. A number fits always, and another type never. */
function keyBytes(part: Typed): number {
  if ("S" in part) return Buffer.byteLength(part.S);
  if ("B" in part) return Buffer.from(part.B, "base64").length;
  return "N" in part ? 1 : 0;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, field]) => [name, sorted(field)]));
}
