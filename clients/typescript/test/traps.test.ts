/** What would silently have a wrong effect. */
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Decimal,
  type Event,
  factOf,
  type Handler,
  type Item,
  ItemKey,
  Items,
  OnceKey,
  Permanent,
  Plan,
  TableKey,
} from "../src/index.js";
import type { Document } from "../src/event.js";
import { parseJson } from "../src/json.js";
import { identity } from "../src/keys.js";
import { checkAnswer } from "../src/rules.js";
import { makeEvent, play } from "../src/testing.js";
import { comparedNumbers, encode } from "../src/values.js";

const ORDER = new TableKey("orders", { number: 17, shop: "acme" });

test("a second version brings nothing back", () => {
  const items = new Items([{ ...ORDER.toJSON(), item: { epoch: { N: "2" }, seq: { N: "3" } } }]);
  const plan = new Plan();
  plan.put(ORDER, {}).newerThan(items, "epoch", 1, "skip").newerThan(items, "seq", 9, "skip");
  assert.deepEqual(plan.toJSON().writes, []);
});

test("an item of a table is absent without its own key attribute", () => {
  assert.deepEqual(new Plan().put(ORDER, {}).ifAbsent().toJSON().condition, [{ absent: "number" }]);
  assert.deepEqual(new Plan().check(ORDER).ifPresent().toJSON().condition, [{ present: "number" }]);
  assert.deepEqual(new Plan().put(new ItemKey("a#b#c"), {}).ifAbsent().toJSON().condition, [{ absent: "pk" }]);
  assert.throws(() => new TableKey("orders", {}), /at least one attribute/);
});

test("half of a surrogate pair is no text", () => {
  for (const length of [1, 200]) {
    const half = "\ud83d".repeat(length);
    const refused = [
      () => factOf(half),
      () => encode(half),
      () => encode({ [half]: 1 }),
      () => checkAnswer({ request: "r-1", fact: half, reads: [] }, "test", []),
      () => new Plan().effect("e", "d", half),
      () => new Plan().effect("e", "d", { lines: [{ [half]: 1 }] }),
      () => new Plan().effect("e", "d", ["\ud83d", "\ude00"]),
    ];
    for (const refuse of refused) assert.throws(refuse, /half of a surrogate pair/, String(refuse));
    const plan = new Plan();
    plan.effect("e", "d", "\u{1f600}".repeat(length));
    assert.deepEqual(plan.toJSON().effects, [{ effect: "e", destination: "d", payload: "\u{1f600}".repeat(length) }]);
  }
});

test("only numbers are added", () => {
  for (const amount of [null, "", [], true, "5"]) {
    assert.throws(() => new Plan().update(ORDER, { add: { minor: amount as never } }), RangeError);
  }
});

test("a hole in an array is refused", () => {
  const holed = new Array<number>(2);
  assert.throws(() => encode(holed), TypeError);
  assert.throws(() => new Plan().check(ORDER).ifOneOf("state", holed), TypeError);
  assert.throws(() => new Plan().effect("e", "d", holed), TypeError);
});

test("a tie is one of two words", () => {
  const items = new Items([{ ...ORDER.toJSON(), item: null }]);
  const write = new Plan().put(ORDER, {});
  assert.throws(() => write.newerThan(items, "epoch", 1, "sometimes" as never), /write or skip/);
});

test("numbers are compared digit by digit", () => {
  const pairs: [string, string, number][] = [
    ["9007199254740993.5", "9007199254740993.25", 1],
    ["9007199254740993", "9007199254740993.0", 0],
    ["-1.5", "-1.25", -1],
    ["1e-130", "1e125", -1],
    ["0", "-0.00", 0],
    [".5", "+5e-1", 0],
  ];
  for (const [first, second, order] of pairs) {
    assert.equal(comparedNumbers(new Decimal(first), new Decimal(second)), order, `${first} and ${second}`);
  }
  assert.throws(() => comparedNumbers(1, new Decimal("1e999999999")), /out of range/);
});

test("one number is one key", () => {
  const key = (number: string): string => identity({ table: "t", key: { n: { N: number } } });
  for (const number of ["17", "17.0", "1.7e1", "0170e-1"]) assert.equal(key(number), key("17"));
  assert.notEqual(key("17"), key("-17"));
  assert.equal(key("0.0"), key("-0"));
});

test("a set holds an equal member once", () => {
  assert.deepEqual(encode(new Set([new Uint8Array([1]), new Uint8Array([1])])), { BS: ["AQ=="] });
  assert.deepEqual(encode(new Set([1n, 1, new Decimal("1.0")])), { NS: ["1.0"] });
});

test("no error holds what a provider sent", () => {
  assert.throws(
    () => parseJson("secret-token"),
    (error: Error) => error instanceof SyntaxError && !error.message.includes("secret"),
  );
});

type Keys = readonly (ItemKey | TableKey)[];

function rule(plan: (plan: Plan, event: Event) => unknown, reads: (event: Event) => Keys = () => []): Handler {
  const planned = (event: Event): Plan => {
    const made = new Plan();
    plan(made, event);
    return made;
  };
  return { fact: () => factOf("x"), reads, plan: planned };
}

function own(attributes: Item): TableKey {
  return new TableKey("o", attributes);
}

test("the kit refuses what the answer alone shows", async () => {
  const event = makeEvent("a", {});
  const refused: [Handler, RegExp][] = [
    [rule(() => {}, () => [new ItemKey("other#a#b")]), /another tenant/],
    [rule((plan) => plan.put(new ItemKey("other#a#b"), {})), /another tenant/],
    [rule((plan) => plan.put(event.itemKey("a"), { pk: "b" })), /a key attribute/],
    [rule((plan) => plan.update(ORDER, { set: { shop: 1 } })), /a key attribute/],
    [rule((plan) => plan.check(event.itemKey("a")).ifAbsent("")), /by an empty text/],
    [rule((plan) => plan.check(event.itemKey("a")).ifPresent("")), /by an empty text/],
    [rule((plan) => plan.check(event.itemKey("a")).ifOneOf("state", [])), /with no value/],
    [rule((plan) => [1, 2].map(() => plan.effect("e", "d", 1))), /have one name/],
  ];
  for (const [handler, reason] of refused) await assert.rejects(play(event, handler), reason);
  await play(event, rule((plan) => plan.update(event.itemKey("a"), { set: { x: 1 } })));
});

test("the kit takes the longest keys", async () => {
  const event = makeEvent("a", {});
  const longest = [
    own({ pk: Buffer.alloc(2_048) }),
    own({ sk: "é".repeat(512), pk: "é".repeat(1_024) }),
    own({ pk: Buffer.alloc(2_048), sk: 1 }),
    event.itemKey("a".repeat(2_042)),
  ];
  await play(event, rule(() => {}, () => longest));
  await play(event, rule((plan) => longest.map((key) => plan.put(key, {}))));
});

test("reads must be returned at once", async () => {
  for (const reads of [() => undefined, async () => [], () => ["key"], () => [new OnceKey("test#a#b")]]) {
    await assert.rejects(play(makeEvent("a", {}), rule(() => {}, reads as never)), /reads\(\) must return/);
  }
});

test("a handler may leave the fact to its route", async () => {
  const handler: Handler = { fact: () => factOf(""), reads: () => [], plan: () => new Plan() };
  const event = makeEvent("a", {});
  assert.equal((await play(event, handler, [], { routeNamesFact: true })).fact, "");
  await assert.rejects(play(event, handler), /FACT_MISSING/);
});

test("a body that does not fit is told by the path that the code asks for, and by no value", () => {
  const sent = { data: { object: { lines: [{ amount: 1 }, { amount: "hush" }], half: "\ud83d", hush: 1 } } };
  const at = (read: (body: Document) => unknown, body: unknown = sent): string | undefined => {
    try {
      read(makeEvent("a", body).read("BAD"));
    } catch (error) {
      assert.ok(error instanceof Permanent && error.code === "BAD" && !error.message.includes("hush"), String(error));
      return error.at;
    }
    return assert.fail("it fits");
  };
  assert.equal(at((body) => body.text("data", "object", "id")), "data.object.id");
  assert.equal(at((body) => body.at("data", "other", "id")), "data.other");
  const amounts = (body: Document): unknown => body.list("data", "object", "lines").map((line) => line.integer("amount"));
  assert.equal(at(amounts), "data.object.lines[1].amount");
  assert.equal(at((body) => body.text("data", "object", "half")), "data.object.half");
  assert.equal(at((body) => body.flag("data", "object")), "data.object");
  assert.equal(at((body) => body.text("a"), [1]), undefined, "the whole body is no object");
  assert.equal(at((body) => body.text("a name")), undefined, "it is no path");
  assert.equal(at((body) => body.text("x".repeat(257))), undefined);
});

test("an answer and a test name the field", async () => {
  const rule: Handler = {
    fact: (event: Event) => factOf(event.read("BAD").text("data", "id")),
    reads: () => [],
    plan: () => new Plan(),
  };
  const played = await play(makeEvent("a", { data: {} }), rule);
  assert.deepEqual(played.error, { code: "BAD", retryable: false, at: "data.id" });
});

test("a row of a table of your own is created unless it is there", () => {
  const created = new Plan();
  created.createMissing(ORDER, { state: "paid" }, new Items([{ ...ORDER.toJSON(), item: null }]));
  const write = { ...ORDER.toJSON(), action: { put: { state: { S: "paid" } } }, condition: [{ absent: "number" }] };
  assert.deepEqual(JSON.parse(JSON.stringify(created)).writes, JSON.parse(JSON.stringify([write])));
  const found = new Plan();
  found.createMissing(ORDER, { state: "paid" }, new Items([{ ...ORDER.toJSON(), item: { state: { S: "new" } } }]));
  assert.deepEqual(JSON.parse(JSON.stringify(found)).writes, [], "a forced replay finds it");
});

test("a key that outlives the event is not created as one of the event", () => {
  const once = makeEvent("a", {}).once("ledger", "in_1");
  for (const key of [ORDER, new ItemKey("a#b#c")]) {
    assert.throws(() => new Plan().create(key as unknown as OnceKey, {}), /createMissing/);
  }
  assert.throws(() => new Plan().createMissing(once as unknown as ItemKey, {}, new Items([])), /outlives/);
});
