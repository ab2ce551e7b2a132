/**
 * The protocol between the worker and a handler: one request, one answer, in two rounds.
 *
 * In the first round the handler names the fact and the items that it must see. In the second it gets them and plans. It
 * writes nothing itself, so calling it twice is harmless.
 */
import { HandlerError } from "./errors.js";
import { Event, type EventJson, VERSION } from "./event.js";
import { Fact, ItemKey, type KeyJson, TableKey } from "./keys.js";
import { type ItemJson, Items, Plan, type PlanJson } from "./plan.js";

/** What `fact` returns for an event that the handler does not want. The event ends as IGNORED. */
export const IGNORE: unique symbol = Symbol("hookonce.ignore");
export type Ignore = typeof IGNORE;

/** A business rule. It is pure: the same event and the same items give the same plan. */
export interface Handler {
  /** Names the business fact, never the delivery: providers report one fact under several ids. */
  fact(event: Event): Fact | Ignore;
  /** The items that the plan depends on. An empty list if there are none. */
  reads(event: Event): readonly (ItemKey | TableKey)[];
  /** Plans the changes, given the items that the handler asked for. */
  plan(event: Event, items: Items): Plan;
}

export type Request = {
  readonly version: number;
  readonly request: string;
  readonly event: EventJson;
  readonly items?: readonly ItemJson[] | null;
};
/** Why a handler failed, and which field of the body does not fit, if that is known. */
export type ErrorJson = { readonly code: string; readonly retryable: boolean; readonly at?: string };
type Outcome =
  | { readonly fact: string; readonly reads: readonly KeyJson[] }
  | ({ readonly fact: string } & PlanJson)
  | { readonly ignore: true }
  | { readonly error: ErrorJson };
export type Answer = { readonly request: string } & Outcome;

/** A Lambda entry. */
export type Entry = (request: Request) => Promise<Answer>;

/**
 * Makes the entry of a Lambda function: `export const lambdaHandler = handler(new Payments())`.
 *
 * An error other than `Permanent` and `Retryable` leaves the function. The worker counts it as a failed attempt.
 */
export function handler(rule: Handler): Entry {
  return async (request) => {
    if (typeof request.request !== "string") throw new TypeError("the request has no id");
    return { request: request.request, ...outcome(rule, request) };
  };
}

function outcome(rule: Handler, request: Request): Outcome {
  if (request.version !== VERSION || request.event.version !== VERSION) {
    // Another attempt may meet a newer release of this function.
    return { error: { code: "REQUEST_VERSION_UNKNOWN", retryable: true } };
  }
  try {
    return decided(rule, new Event(request.event), new Items(request.items ?? []));
  } catch (error) {
    if (!(error instanceof HandlerError)) throw error;
    const { code, retryable, at } = error;
    return { error: at === undefined ? { code, retryable } : { code, retryable, at } };
  }
}

function isKeys(reads: unknown): reads is ReturnType<Handler["reads"]> {
  return Array.isArray(reads) && reads.every((key) => key instanceof ItemKey || key instanceof TableKey);
}

function decided(rule: Handler, event: Event, items: Items): Outcome {
  const fact = rule.fact(event);
  if (fact === IGNORE) return { ignore: true };
  if (!(fact instanceof Fact)) throw new TypeError("fact() must return what factOf() makes, or IGNORE");
  const reads: unknown = rule.reads(event);
  if (!isKeys(reads)) throw new TypeError("reads() must return an array of keys, none of them of event.once()");
  if (!reads.every((key) => items.wasRead(key))) return { fact: fact.text, reads: reads.map((key) => key.toJSON()) };
  const plan = rule.plan(event, items);
  if (!(plan instanceof Plan)) throw new TypeError("plan() must return a Plan");
  return { fact: fact.text, ...plan.toJSON() };
}
