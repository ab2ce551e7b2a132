/** A kit to test handlers without a worker, a table or a network. */
import assert from "node:assert/strict";

import { Event, type EventJson, VERSION } from "./event.js";
import { identity, type Key, type KeyJson } from "./keys.js";
import type { PlanJson } from "./plan.js";
import { type Answer, type ErrorJson, type Handler, handler, type Request } from "./protocol.js";
import { checkAnswer } from "./rules.js";
import { encodeItem, type Item, type TypedItem } from "./values.js";

/** What a handler answered, in the JSON of the protocol. */
export class Played {
  /** The fact. `undefined` if the handler ignored the event or failed. */
  readonly fact: string | undefined;
  /** The items that it asked for. */
  readonly reads: readonly KeyJson[];
  /** The plan. `undefined` if the handler ignored the event or failed. */
  readonly plan: PlanJson | undefined;
  /** The code of the failure, whether it is retryable, and `at`: which field of the body does not fit, if that is known. */
  readonly error: ErrorJson | undefined;
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
 * Plays both rounds, as the worker would, and returns the answer. `items` is what the tables hold. With `routeNamesFact`
 * the route has a `fact`: that of the handler is not used, and may have no name.
 *
 * Every round is played twice: a handler that is not pure fails here. So does an answer that fails one of the worker's
 * checks that need only the answer. The worker checks more: sizes of items and effects, digits, the key schema of each
 * table, and what the route lists.
 */
export async function play(
  event: Event,
  rule: Handler,
  items: readonly (readonly [Key, Item])[] = [],
  { routeNamesFact = false }: { readonly routeNamesFact?: boolean } = {},
): Promise<Played> {
  const stored = new Map<string, TypedItem>(items.map(([key, item]) => [identity(key.toJSON()), encodeItem(item)]));
  const entry = handler(rule);
  const call = async (shown: Request["items"] & object): Promise<Answer> => {
    const request = JSON.stringify({ version: VERSION, request: "test", event, items: shown });
    const answers = [await entry(JSON.parse(request) as Request), await entry(JSON.parse(request) as Request)];
    const [first, second] = answers.map((answer) => JSON.stringify(answer));
    assert.equal(first, second, "the handler gave two answers to one request; it must be pure");
    return JSON.parse(first ?? "") as Answer;
  };
  const first = await call([]);
  checkAnswer(first, event.tenant, [], routeNamesFact);
  if (!("reads" in first)) return new Played([], first);
  const answer = await call(first.reads.map((key) => ({ ...key, item: stored.get(identity(key)) ?? null })));
  const sameFact = routeNamesFact || !("fact" in answer) || answer.fact === first.fact;
  const fixed = !("reads" in answer) && sameFact;
  assert.ok(fixed, "reads() and fact() must not depend on the items");
  checkAnswer(answer, event.tenant, first.reads, routeNamesFact);
  return new Played(first.reads, answer);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, field]) => [name, sorted(field)]));
}
