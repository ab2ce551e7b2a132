/** The worker's checks that need only the answer. The test kit makes them, too. */
import assert from "node:assert/strict";

import { identity, type KeyJson, oneSpelling } from "./keys.js";
import type { Action, Change, Clause, PlanJson } from "./plan.js";
import type { Answer } from "./protocol.js";
import { type Typed, type TypedItem, wellFormed } from "./values.js";

const FACT_BYTES_MAX = 1_024;
const READS_MAX = 100;
const PARTS_MAX = 98;
const CLAUSES_MAX = 50;
const COMPARED_MAX = 100;
const CHANGES_MAX = 200;
const LEVELS_MAX = 32;
const NAME_BYTES_MAX = 65_535;
const RESERVED_PREFIX = "hookonce_";
const KEY_BYTES_MAX = 2_048;
const SORT_KEY_BYTES_MAX = 1_024;
const ALIAS = /^[a-z0-9_-]{1,32}$/;
const NO_KEY =
  "a key that no table takes: it has one or two parts, each text, a number or bytes, none of them empty or longer " +
  `than ${KEY_BYTES_MAX} bytes (${SORT_KEY_BYTES_MAX} for a sort key)`;
const NO_FACT =
  `the fact is none that factOf() makes: it has at most ${FACT_BYTES_MAX} bytes and no empty part between two #, ` +
  "and does not begin with %type or %fact, as only the fact of a route does";

/** @throws AssertionError if the worker would refuse this answer to a request that showed these items. */
export function checkAnswer(
  answer: Answer,
  tenant: string,
  shown: readonly KeyJson[],
  routeNamesFact = false,
): void {
  if ("fact" in answer) assert.ok(isFact(answer.fact), NO_FACT);
  if ("reads" in answer) {
    assert.ok(answer.reads.length <= READS_MAX, `reads() asks for more than ${READS_MAX} items`);
    for (const [number, key] of answer.reads.entries()) checkItem(`reads[${number}]`, key, tenant);
  }
  if ("writes" in answer) {
    const unnamed = "the fact has no name, so the event dies with FACT_MISSING: name it by parts that are never empty";
    assert.ok(routeNamesFact || answer.fact !== "", unnamed);
    checkPlan(answer, tenant, new Set(shown.map(identity)));
  }
}

function isFact(text: string): boolean {
  const parts = text.split("#");
  const ofRoute = parts[0] === "%type" || parts[0] === "%fact";
  return (text === "" || !parts.includes("")) && !ofRoute && size(text) <= FACT_BYTES_MAX;
}

function checkPlan(plan: PlanJson, tenant: string, shown: ReadonlySet<string>): void {
  const { writes, checks = [], effects = [] } = plan;
  const parts = writes.length + checks.length + effects.length;
  assert.ok(parts <= PARTS_MAX, `the plan has more than ${PARTS_MAX} writes, checks and effects`);
  const names = new Set(effects.map(({ effect }) => effect));
  assert.ok(names.size === effects.length, "two effects of the plan have one name");
  const known = ["retry", "permanent"].includes(plan.when_condition_fails);
  assert.ok(known, "when a condition fails, the plan says something other than retry and permanent");
  const named = new Set<string>();
  const checkPart = (place: string, part: KeyJson & { readonly condition: readonly Clause[] }): void => {
    const item = identity(part);
    checkItem(place, part, tenant);
    assert.ok(!named.has(item), `${place} names an item for the second time`);
    named.add(item);
    checkCondition(place, part.condition);
  };
  for (const [number, write] of writes.entries()) {
    const place = `writes[${number}]`;
    checkPart(place, write);
    const guarded = write.condition.length > 0 || write.blind === true || !shown.has(identity(write));
    assert.ok(guarded, `${place} overwrites an item that was read: add asSeen(items, "attribute") or blind()`);
    checkAction(place, write.key, write.action);
  }
  for (const [number, check] of checks.entries()) {
    const place = `checks[${number}]`;
    checkPart(place, check);
    assert.ok(check.condition.length > 0, `${place} requires nothing: add a condition`);
  }
}

function checkItem(place: string, { table, key }: KeyJson, tenant: string): void {
  const alias = table === undefined || ALIAS.test(table);
  assert.ok(alias, `${place} names no alias of a table: it has 1 to 32 of the characters a-z, 0-9, - and _`);
  assert.ok(fits(key), `${place} names ${NO_KEY}`);
  const own = typeof key !== "string" || (key.startsWith(`${tenant}#`) && key !== `${tenant}#`);
  assert.ok(own, `${place} names an item of another tenant or of hookonce itself: use event.itemKey()`);
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
  if ("S" in part) return size(part.S);
  if ("B" in part) return Buffer.from(part.B, "base64").length;
  return "N" in part ? 1 : 0;
}

function checkCondition(place: string, condition: readonly Clause[]): void {
  let compared = 0;
  for (const clause of condition) {
    const [name, values] = requirement(clause);
    checkAttribute(place, name, values);
    const holds = !("one_of" in clause) || values.length > 0;
    assert.ok(holds, `${place} compares an attribute with no value, which never holds`);
    compared += values.length;
  }
  const short = condition.length <= CLAUSES_MAX && compared <= COMPARED_MAX;
  assert.ok(short, `${place} has a condition of more than ${CLAUSES_MAX} clauses or ${COMPARED_MAX} values`);
}

/** The attribute of a clause, and the values that it is compared with. */
function requirement(clause: Clause): readonly [string, readonly Typed[]] {
  if ("one_of" in clause) return clause.one_of;
  if ("absent" in clause) return [clause.absent, []];
  if ("present" in clause) return [clause.present, []];
  const [name, value] = "equals" in clause ? clause.equals : clause.differs;
  return [name, [value]];
}

function checkAction(place: string, key: KeyJson["key"], action: Action): void {
  const attributes: TypedItem = typeof key === "string" ? { pk: { S: key } } : key;
  const changesKey = `${place} changes a key attribute`;
  if (action === "delete") return;
  if ("put" in action) {
    for (const [name, value] of Object.entries(action.put)) {
      checkAttribute(place, name, [value]);
      const part = Object.hasOwn(attributes, name) ? attributes[name] : undefined;
      const text = (typed: Typed): string => JSON.stringify(oneSpelling(typed));
      assert.ok(part === undefined || text(part) === text(value), changesKey);
    }
    return;
  }
  for (const change of action.update) checkAttribute(place, changed(change), "set" in change ? [change.set[1]] : []);
  const names = new Set(action.update.map(changed));
  assert.ok(action.update.length <= CHANGES_MAX, `${place} has more than ${CHANGES_MAX} changes`);
  const once = names.size > 0 && names.size === action.update.length;
  assert.ok(once, `${place} changes nothing, or one attribute twice`);
  assert.ok(!Object.keys(attributes).some((name) => names.has(name)), changesKey);
}

function changed(change: Change): string {
  return "set" in change ? change.set[0] : "add" in change ? change.add[0] : change.remove;
}

function checkAttribute(place: string, name: string, values: readonly Typed[]): void {
  assert.ok(isName(name), `${place} names an attribute by an empty text, or one of more than ${NAME_BYTES_MAX} bytes`);
  const own = !name.startsWith(RESERVED_PREFIX);
  assert.ok(own, `${place} names an attribute that begins with ${RESERVED_PREFIX}: only hookonce may use such a name`);
  const kept = values.every((value) => isKept(value, LEVELS_MAX));
  assert.ok(kept, `${place} holds a value of more than ${LEVELS_MAX} levels, or with a name that is empty or too long`);
}

/** Whether a table takes the value: of lists, maps and the value in them it has at most so many levels. */
function isKept(value: Typed, levels: number): boolean {
  const fields = "M" in value ? value.M : {};
  const inner = "L" in value ? value.L : Object.values(fields);
  return levels > 0 && Object.keys(fields).every(isName) && inner.every((each) => isKept(each, levels - 1));
}

function isName(name: string): boolean {
  return name !== "" && size(name) <= NAME_BYTES_MAX;
}

function size(text: string): number {
  return Buffer.byteLength(wellFormed(text));
}
