/** The sample handlers answer every case as the other languages do. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";

import * as answers from "../examples/answers.js";
import * as builds from "../examples/builds.js";
import * as messages from "../examples/messages.js";
import * as payments from "../examples/payments.js";
import * as receipts from "../examples/receipts.js";
import type { EventJson } from "../src/event.js";
import { factOf, identity, itemKey, type KeyJson, type Part, onceKey } from "../src/keys.js";
import type { EffectJson, JsonValue, Method } from "../src/effect.js";
import { type ItemJson, Plan, type PlanJson } from "../src/plan.js";
import type { Answer, Entry, Request } from "../src/protocol.js";
import { checkAnswer } from "../src/rules.js";

const ROOT = new URL("../../../../", import.meta.url);
const ENTRIES: [string, Entry][] = [
  ["payments", payments.lambdaHandler],
  ["messages", messages.lambdaHandler],
  ["builds", builds.lambdaHandler],
  ["answers", answers.lambdaHandler],
  ["receipts", receipts.lambdaHandler],
];

type Case = {
  name: string;
  event?: Partial<EventJson>;
  delivery?: string;
  body?: string;
  replace?: { [old: string]: string };
  repeat?: { [text: string]: number };
  items?: ItemJson[];
  expect: { plan: PlanJson } | { error: unknown } | { ignore: true };
};

for (const [name, entry] of ENTRIES) {
  const file = load(`${name}.json`) as { event: EventJson; cases: Case[] };
  describe(name, () => {
    for (const one of file.cases) {
      test(one.name, async () => {
        const event = { ...file.event, ...one.event, body_base64: body(one).toString("base64") };
        const expected = "plan" in one.expect ? { ...one.expect, plan: canonical(one.expect.plan) } : one.expect;
        assert.deepEqual(await answer(entry, event, one.items ?? []), expected);
      });
    }
  });
}

async function answer(entry: Entry, event: EventJson, stored: readonly ItemJson[]): Promise<unknown> {
  const request: Request = { version: 1, request: "r-1", event };
  const first = await invoke(entry, request);
  if (!("reads" in first)) return shape(first, []);
  const found = new Map(stored.map((item) => [identity(item), item.item]));
  const items = first.reads.map((key) => ({ ...key, item: found.get(identity(key)) ?? null }));
  const second = await invoke(entry, { ...request, items });
  assert.ok("error" in second || ("fact" in second && second.fact === first.fact));
  return shape(second, first.reads);
}

async function invoke(entry: Entry, request: Request): Promise<Answer> {
  return JSON.parse(JSON.stringify(await entry(request))) as Answer;
}

function shape({ request, ...rest }: Answer, reads: unknown): unknown {
  assert.equal(request, "r-1");
  if ("error" in rest) {
    // Where a language noticed it is its own.
    const { code, retryable } = rest.error;
    return { error: { code, retryable } };
  }
  if (!("writes" in rest)) return rest;
  const { fact, ...plan } = rest;
  return { fact, reads, plan: canonical(plan) };
}

function load(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`tests/cases/${name}`, ROOT), "utf8"), (_, value: unknown) => repeated(value));
}

/** A text so many times, or a list of so many values. In those, `%` is the number of each. */
function repeated(value: unknown): unknown {
  if (!isObject(value) || !("times" in value && "of" in value)) return value;
  const { times, of } = value as { times: number; of: unknown };
  if (typeof of === "string") return of.repeat(times);
  return Array.from({ length: times }, (_, number): unknown => JSON.parse(JSON.stringify(of).replaceAll("%", String(number))));
}

function body({ body, delivery, replace = {}, repeat = {} }: Case): Buffer {
  let text = body ?? readFileSync(new URL(`events/deliveries/${delivery}`, ROOT), "utf8");
  const repeated = Object.entries(repeat).map(([part, times]) => [part, part.repeat(times)] as const);
  for (const [old, changed] of [...Object.entries(replace), ...repeated]) {
    assert.ok(text.includes(old), `the body does not hold ${old}`);
    text = text.replaceAll(old, () => changed);
  }
  return Buffer.from(text);
}

/** The plan with everything sorted whose order means nothing. */
function canonical(plan: PlanJson): unknown {
  const writes = plan.writes.map((write) => {
    const { action, condition } = write;
    const update = typeof action === "object" && "update" in action ? { update: byText(action.update) } : action;
    return { ...write, action: update, condition: byText(condition) };
  });
  return { ...plan, writes: byText(writes) };
}

function byText<T>(values: readonly T[]): T[] {
  const text = (value: unknown): string =>
    JSON.stringify(value, (_, field: unknown) => (isObject(field) ? Object.fromEntries(Object.entries(field).sort()) : field));
  return values.toSorted((a, b) => (text(a) < text(b) ? -1 : 1));
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

test("keys are those of the worker", () => {
  type Named = { tenant: string; kind: string; parts: Part[]; key: string };
  type Once = Named & { record: string; generation: number };
  const keys = load("keys.json") as { items: Named[]; once: Once[]; facts: { parts: Part[]; fact: string }[] };
  for (const { tenant, kind, parts, key } of keys.items) assert.equal(itemKey(tenant, kind, parts).text, key);
  for (const { tenant, kind, parts, key, record, generation } of keys.once) {
    assert.equal(onceKey(itemKey(tenant, kind, parts), record, generation).text, key);
  }
  for (const { parts, fact } of keys.facts) assert.equal(factOf(...parts).text, fact);
});

test("effects are written as the cases say", () => {
  type Named = { name: string; effect: string; destination: string; method?: Method; path?: string; expect: EffectJson };
  type Sent = { payload: JsonValue } | { payload_base64: string };
  type Texts = { valid: string[]; refused: string[] };
  const { names, paths, effects } = load("effects.json") as { names: Texts; paths: Texts; effects: (Named & Sent)[] };
  for (const one of effects) {
    const payload = "payload" in one ? one.payload : Buffer.from(one.payload_base64, "base64");
    const { method = "POST", path = "" } = one;
    const plan = new Plan();
    plan.effect(one.effect, one.destination, payload, { method, path });
    assert.deepEqual(plan.toJSON().effects, [one.expect], one.name);
  }
  for (const name of names.valid) new Plan().effect(name, name, {});
  for (const path of paths.valid) new Plan().effect("e", "d", {}, { path });
  for (const name of names.refused) {
    assert.throws(() => new Plan().effect(name, "d", {}), RangeError, name);
    assert.throws(() => new Plan().effect("e", name, {}), RangeError, name);
  }
  for (const path of paths.refused) assert.throws(() => new Plan().effect("e", "d", {}, { path }), RangeError, path);
});

type Refused = { name: string; says?: string; fact?: string; reads?: KeyJson[]; plan?: Partial<PlanJson> };
const refused = load("refused.json") as { tenant: string; cases: Refused[] };
for (const { name, says: text, fact = "f", reads = [], plan = { reads } } of refused.cases) {
  test(`${name} is ${text === undefined ? "taken" : "refused"}`, () => {
    const answer = { request: "r-1", fact, when_condition_fails: "retry", ...plan } as Answer;
    const check = (): void => checkAnswer(answer, refused.tenant, reads);
    if (text === undefined) return check();
    const fits = (error: Error): boolean => error instanceof assert.AssertionError && error.message.includes(text);
    assert.throws(check, fits);
  });
}
