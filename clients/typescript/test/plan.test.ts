/** The plan builder, values, documents and JSON. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  Decimal,
  type Digits,
  Event,
  type Item,
  ItemKey,
  Items,
  OnceKey,
  Permanent,
  Plan,
  Retryable,
  TableKey,
  type Value,
  type Write,
} from "../src/index.js";
import { RESERVED, RESERVED_PREFIX } from "../src/errors.js";
import { parseJson } from "../src/json.js";
import type { ItemJson, WriteJson } from "../src/plan.js";
import { makeEvent } from "../src/testing.js";
import { decode, encode, type Typed, type TypedItem } from "../src/values.js";

function load(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../../../tests/cases/${name}`, import.meta.url), "utf8"));
}

const ORDER = new TableKey("orders", { shop: "acme", number: 17 });
const ORDER_JSON = { table: "orders", key: { shop: { S: "acme" }, number: { N: "17" } } };
const BALANCE = new ItemKey("acme#balance#1");

function shown(item: TypedItem | null): Items {
  return new Items([{ ...ORDER_JSON, item }]);
}

function onlyWrite(plan: Plan): WriteJson {
  const [write, ...others] = plan.toJSON().writes;
  assert.ok(write !== undefined && others.length === 0);
  return write;
}

function everyKind(items: Items): Plan {
  const plan = new Plan("permanent");
  plan.create(new OnceKey("acme#ledger#1"), { minor: 5n });
  plan.update(BALANCE, { set: { a: "x" }, add: { minor: -5n }, remove: ["old"] }).blind();
  plan.put(ORDER, { paid: true, tags: new Set(["b", "a"]) }).asSeen(items, "state", "paid_at");
  plan.delete(new TableKey("carts", { id: new Uint8Array(1) })).ifPresent("id");
  plan.check(new ItemKey("acme#customer#1")).ifEquals("a", 1).ifDiffers("b", null).ifOneOf("c", ["x", "y"]);
  return plan;
}

function checkOfAUserTable(items: Items): Plan {
  const plan = new Plan();
  plan.update(new ItemKey("acme#note#1"), { add: { count: 1 } });
  plan.check(ORDER).asSeen(items, "state");
  return plan;
}

function setsUnderTypedKeys(items: Items): Plan {
  const plan = new Plan();
  const cart = new TableKey("carts", { id: new Uint8Array([0, 255]) });
  const order = plan.put(ORDER, { lines: new Set([3, new Decimal("2.50")]) });
  order.asSeen(items, "lines").newerThan(items, "version", 9007199254740994n, "skip");
  const set = { seen: new Set([new Uint8Array([0])]), tags: new Set(["😀", "\uffee", "b"]) };
  plan.update(cart, { set }).asSeen(items, "seen").newerThan(items, "version", "b", "skip");
  return plan;
}

const BUILT: { [name: string]: (items: Items) => Plan } = {
  "every kind of write and condition": everyKind,
  "a check of an item of a user table, as it was read": checkOfAUserTable,
  "sets of every type under typed keys, with a version": setsUnderTypedKeys,
};

test("plans have the form that the cases show", () => {
  const { cases } = load("plans.json") as { cases: { name: string; items: ItemJson[]; plan: unknown }[] };
  assert.deepEqual(new Set(cases.map(({ name }) => name)), new Set(Object.keys(BUILT)));
  for (const { name, items, plan } of cases) {
    assert.deepEqual(JSON.parse(JSON.stringify(BUILT[name]?.(new Items(items)))), plan, name);
  }
});

type Version = { stored: Typed | null; version: Typed; tie: "write" | "skip"; written: boolean };
for (const { stored, version, tie, written } of (load("versions.json") as { cases: Version[] }).cases) {
  test(`version ${JSON.stringify(version)} after ${JSON.stringify(stored)} with tie ${tie}`, () => {
    const plan = new Plan();
    const items = shown(stored === null ? null : { version: stored });
    const number = decode(version) as Digits | string;
    const { leftOut } = plan.put(ORDER, { state: "paid" }).newerThan(items, "version", number, tie);
    assert.equal(leftOut, !written);
    if (leftOut) return assert.deepEqual(plan.toJSON().writes, []);
    const write = onlyWrite(plan);
    assert.deepEqual(write.action, { put: { state: { S: "paid" }, version } });
    assert.deepEqual(write.condition, [stored === null ? { absent: "version" } : { equals: ["version", stored] }]);
  });
}

type Given = { value: Typed; version: Typed; refused: boolean };
for (const { value, version, refused } of (load("versions.json") as { given: Given[] }).given) {
  test(`a write that gives its version ${JSON.stringify(version)} the value ${JSON.stringify(value)}`, () => {
    const attributes = { version: decode(value) };
    const number = decode(version) as Digits | string;
    const writes: [Write, unknown][] = [
      [new Plan().put(ORDER, attributes), { put: { version: value } }],
      [new Plan().update(ORDER, { set: attributes }), { update: [{ set: ["version", value] }] }],
    ];
    for (const [write, action] of writes) {
      const versioned = (): unknown => write.newerThan(shown(null), "version", number, "skip");
      if (refused) assert.throws(versioned, /another version/);
      else versioned();
      assert.deepEqual(write.toJSON().action, action);
    }
  });
}

test("a version is stored once and never forgotten", () => {
  const plan = new Plan();
  plan.update(ORDER, { set: { version: 7 } }).newerThan(shown(null), "version", 7, "skip");
  assert.deepEqual(onlyWrite(plan).action, { update: [{ set: ["version", { N: "7" }] }] });
  const another = plan.put(ORDER, { version: 8 });
  assert.throws(() => another.newerThan(shown(null), "version", 7, "skip"), /another version/);
  assert.throws(() => plan.delete(ORDER).newerThan(shown(null), "version", 7, "skip"), /forgets the version/);
});

test("an item that lives longer than its event is created once", () => {
  const lead = new ItemKey("acme#lead#1");
  const plan = new Plan();
  plan.createMissing(lead, { name: "Ada" }, new Items([{ key: lead.text, item: { name: { S: "Ada" } } }]));
  assert.deepEqual(plan.toJSON().writes, []);
  plan.createMissing(lead, { name: "Ada" }, new Items([{ key: lead.text, item: null }]));
  assert.deepEqual(onlyWrite(plan).condition, [{ absent: "pk" }]);
});

test("items are found whatever the order of their key", () => {
  const items = shown({ total: { N: "12.50" }, count: { N: "3" }, large: { N: "9007199254740993" } });
  const key = new TableKey("orders", { number: 17, shop: "acme" });
  const expected: Item = { total: new Decimal("12.50"), count: 3, large: 9007199254740993n };
  assert.deepEqual(items.get(key), expected);
  assert.deepEqual(
    ["count", "none", "large"].map((name) => items.integer(ORDER, name)),
    [3n, 0n, 9007199254740993n],
  );
  assert.equal(shown(null).get(ORDER), undefined);
  assert.equal(items.attribute(ORDER, "constructor"), undefined);
  assert.throws(() => items.get(BALANCE), /did not ask/);
});

test("a comparison with nothing is no program", () => {
  // @ts-expect-error Without an attribute the write would have no condition.
  const compare = (): unknown => new Plan().put(ORDER, { paid: true }).asSeen(shown(null));
  assert.equal(typeof compare, "function");
});

test("what is no whole number of 64 bits counts as zero", () => {
  const stored: [Typed, bigint][] = [
    [{ N: "9223372036854775807" }, 2n ** 63n - 1n],
    [{ N: "9223372036854775808" }, 0n],
    [{ N: "-9223372036854775808" }, -(2n ** 63n)],
    [{ N: "-9223372036854775809" }, 0n],
    [{ N: "+7" }, 7n],
    [{ N: "-0" }, 0n],
    [{ N: "7.0" }, 0n],
    [{ N: "7e0" }, 0n],
    [{ S: "7" }, 0n],
    [{ BOOL: true }, 0n],
    [{ NS: ["7"] }, 0n],
  ];
  for (const [typed, integer] of stored) {
    assert.equal(shown({ total: typed }).integer(ORDER, "total"), integer, JSON.stringify(typed));
  }
});

const VALUES: [Value, Typed][] = [
  ["ü#", { S: "ü#" }],
  [42, { N: "42" }],
  [-0.1, { N: "-0.1" }],
  [123456789012345678901234567890n, { N: "123456789012345678901234567890" }],
  [new Decimal("0.10"), { N: "0.10" }],
  [Buffer.from([255, 0]), { B: "/wA=" }],
  [true, { BOOL: true }],
  [null, { NULL: true }],
  [["a", 1, [null]], { L: [{ S: "a" }, { N: "1" }, { L: [{ NULL: true }] }] }],
  [{ a: { b: false } }, { M: { a: { M: { b: { BOOL: false } } } } }],
  [new Set(["😀", "\uffee", "a"]), { SS: ["a", "\uffee", "😀"] }],
  [new Set([2, new Decimal("1.50")]), { NS: ["1.50", "2"] }],
  [new Set([new Uint8Array([98]), new Uint8Array([97])]), { BS: ["YQ==", "Yg=="] }],
];
for (const [value, typed] of VALUES) {
  test(`${JSON.stringify(typed)} is written and read without loss`, () => {
    assert.deepEqual(encode(value), typed);
    assert.deepEqual(encode(decode(typed)), typed);
    if (!(value instanceof Set)) assert.deepEqual(decode(typed), value);
  });
}

test("what would lose something is refused", () => {
  const lossy = [undefined, NaN, 2 ** 53, new Set(), new Set([1, "a"]), new Date(), new Map(), () => 1, { a: undefined }];
  for (const value of lossy) assert.throws(() => encode(value as Value), String(value));
  for (const text of ["", "1,5", "0x10", "Infinity"]) assert.throws(() => new Decimal(text), RangeError);
  for (const amount of [1.5, 2 ** 53, 2n ** 63n, -(2n ** 63n) - 1n]) {
    assert.throws(() => new Plan().update(BALANCE, { add: { minor: amount } }), /another one would be rounded/);
  }
});

test("an amount beyond 53 bits leaves as text, so that no parser rounds it", () => {
  const amounts: [number | bigint, string][] = [
    [2n ** 53n - 1n, "9007199254740991"],
    [2n ** 53n, '{"N":"9007199254740992"}'],
    [2n ** 63n - 1n, '{"N":"9223372036854775807"}'],
    [-(2n ** 63n), '{"N":"-9223372036854775808"}'],
    [-(2 ** 53 - 1), "-9007199254740991"],
  ];
  for (const [amount, json] of amounts) {
    const plan = new Plan();
    plan.update(BALANCE, { add: { minor: amount } });
    assert.ok(JSON.stringify(plan).includes(`{"add":["minor",${json}]}`), json);
  }
});

test("a code is a fixed word, and says whether another attempt can succeed", () => {
  for (const code of ["", "lower", "A".repeat(65), "A B"]) assert.throws(() => new Permanent(code), RangeError);
  assert.deepEqual([new Permanent("A").retryable, new Retryable("A").retryable], [false, true]);
});

test("a code of hookonce is not a handler's own", () => {
  const codes = load("codes.json") as { reserved: string[]; reserved_prefix: string; own: string[] };
  assert.deepEqual([[...RESERVED], RESERVED_PREFIX], [codes.reserved, codes.reserved_prefix]);
  const event = makeEvent("a", {});
  for (const code of [...codes.reserved, codes.reserved_prefix, `${codes.reserved_prefix}CRASHED`]) {
    assert.throws(() => new Permanent(code), /a code of hookonce itself/);
    assert.throws(() => new Retryable(code), /a code of hookonce itself/);
    assert.throws(() => event.read(code), /a code of hookonce itself/);
  }
  for (const code of codes.own) {
    assert.equal(new Permanent(code).code, code);
    event.read(code);
  }
});

test("an event survives the wire", () => {
  const event = makeEvent("a", Buffer.from([255]), { key: "k", generation: 2, headers: { x: "y" } });
  assert.deepEqual(new Event(event.toJSON()), event);
});

test("a document refuses what does not fit", () => {
  const body = { text: "x", one: 1, yes: true, none: null, list: [{ a: 1 }] };
  const document = makeEvent("a", body).read("BAD");
  assert.deepEqual([document.text("text"), document.integer("one"), document.flag("yes")], ["x", 1n, true]);
  assert.deepEqual(document.list("list").map((element) => element.integer("a")), [1n]);
  assert.deepEqual([document.optional("none"), document.optional("missing")], [undefined, undefined]);
  const readers = [
    () => document.text("one"),
    () => document.text("missing"),
    () => document.text("constructor"),
    () => document.integer("yes"),
    () => document.flag("one"),
    () => document.list("text"),
    () => document.at("text", "deeper"),
    () => document.at("list").optional("a"),
    () => makeEvent("a", Buffer.from([255])).read("BAD"),
    () => makeEvent("a", Buffer.from("[".repeat(100_000) + "]".repeat(100_000))).read("BAD").text(),
  ];
  for (const read of readers) assert.throws(read, (error) => error instanceof Permanent && error.code === "BAD", String(read));
});

test("JSON keeps the digits of its numbers", () => {
  const numbers = "1, 1.0, 9007199254740993, -0.5, -0, 1e2";
  const text = `{"a": [${numbers}, "1.0 \\" ]"], "__proto__": {"b": [true, false, null, {}, []]}}`;
  const expected = Object.fromEntries([
    ["a", [1, new Decimal("1.0"), 9007199254740993n, -0.5, new Decimal("-0"), new Decimal("1e2"), '1.0 " ]']],
    ["__proto__", { b: [true, false, null, {}, []] }],
  ]);
  assert.deepEqual(parseJson(text), expected);
  for (const broken of ["", "{", "[1,]", "01", "NaN", "\ufeff1"]) assert.throws(() => parseJson(broken), SyntaxError);
});

test("a payload is what it was when it was planned", () => {
  const payload = { lines: ["a"], left: undefined };
  const plan = new Plan();
  plan.effect("e", "d", payload);
  payload.lines.push("b");
  assert.deepEqual(plan.toJSON().effects, [{ effect: "e", destination: "d", payload: { lines: ["a"] } }]);
  assert.ok(!("effects" in new Plan().toJSON()));
});

test("a payload that JSON would change is refused", () => {
  const changed = [1n, { a: NaN }, [2 ** 53], undefined, () => 1, { a: Infinity }, [undefined]];
  const others = [new Map([["a", 1]]), { a: new Set([1]) }, new Decimal("1.10"), new Date(0)];
  for (const payload of [...changed, ...others]) {
    assert.throws(() => new Plan().effect("e", "d", payload as never), TypeError);
  }
  assert.throws(() => new Plan().effect("e", "d", {}, { method: "GET" as never }), RangeError);
});
