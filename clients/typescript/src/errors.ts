/** Codes that hookonce itself gives. A handler that used one would mislead whoever reads it. */
export const RESERVED: ReadonlySet<string> = new Set([
  "ATTEMPTS_EXHAUSTED",
  "BODY_MISSING",
  "BODY_NOT_COMPRESSED",
  "BODY_UNREADABLE",
  "CALL_UNCLEAR",
  "CONDITION_FAILED",
  "DEAD_LETTER",
  "DESTINATION_UNAVAILABLE",
  "ENVELOPE_UNREADABLE",
  "EVENT_TOO_LARGE",
  "EVENT_UNREADABLE",
  "FACT_MISSING",
  "ID_COLLISION",
  "PERMANENT",
  "PLAN_REFUSED",
  "PROVIDER_UNKNOWN",
  "REFUSED",
  "REWOUND",
  "STALE",
  "TABLE_UNAVAILABLE",
  "UNKNOWN_OUTCOME",
  "UNROUTED",
  "WRITE_INVALID",
]);

/** What the codes of hookonce about handlers begin with. */
export const RESERVED_PREFIX = "HANDLER_";

/**
 * The code.
 *
 * @throws RangeError when no handler can fail with it.
 */
export function checkedCode(code: string): string {
  if (!/^[A-Z0-9_]{1,64}$/.test(code)) throw new RangeError("a code has 1 to 64 of the characters A-Z, 0-9 and _");
  if (RESERVED.has(code) || code.startsWith(RESERVED_PREFIX)) {
    throw new RangeError("this is a code of hookonce itself; name one of your own");
  }
  return code;
}

/**
 * How a handler says that an event cannot be applied.
 *
 * The code is shown in logs, in metrics and on the record, so it must never hold a byte of the event.
 */
export abstract class HandlerError extends Error {
  readonly code: string;
  /** Where the body does not fit, such as `data.object.amount`. It is in the worker's log. */
  readonly at: string | undefined;
  abstract readonly retryable: boolean;

  /**
   * `at` is made of names in your code and of positions, never of what the event holds. One that is longer than 256
   * characters, or has others than letters, digits and `_.$-[]`, is left out.
   */
  constructor(code: string, at?: string) {
    const place = at !== undefined && /^[A-Za-z0-9_.$\-[\]]{1,256}$/.test(at) ? at : undefined;
    super(place === undefined ? code : `${code} at ${place}`);
    this.code = checkedCode(code);
    this.at = place;
  }
}

/** No further attempt can succeed. The record becomes DEAD at once, with its payload. */
export class Permanent extends HandlerError {
  override readonly name = "Permanent";
  readonly retryable = false;
}

/** Another attempt may succeed. It counts as an attempt. */
export class Retryable extends HandlerError {
  override readonly name = "Retryable";
  readonly retryable = true;
}
