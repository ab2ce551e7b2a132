/**
 * Handlers for hookonce, the webhook inbox that applies every event exactly once.
 *
 * A handler is pure: it names a business fact, asks for the items that it must see, and plans conditional writes. hookonce
 * commits the plan in one transaction with the record of the event. See the package's README for an example.
 */
export type { EffectJson, EffectOptions, JsonValue, Method } from "./effect.js";
export { HandlerError, Permanent, Retryable } from "./errors.js";
export { Document, Event, type EventJson } from "./event.js";
export type { Json } from "./json.js";
export { Fact, factOf, ItemKey, type Key, type KeyJson, OnceKey, TableKey } from "./keys.js";
export { type Changes, Check, type ItemJson, Items, Plan, type PlanJson, Write } from "./plan.js";
export { type Answer, type Entry, type Handler, handler, IGNORE, type Ignore, type Request } from "./protocol.js";
export { Decimal, type Digits, type Item, type Typed, type Value } from "./values.js";
