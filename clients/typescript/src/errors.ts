/**
 * How a handler says that an event cannot be applied.
 *
 * The code is shown in logs, in metrics and on the record, so it must never hold a byte of the event.
 */
export abstract class HandlerError extends Error {
  readonly code: string;
  abstract readonly retryable: boolean;

  constructor(code: string) {
    super(code);
    if (!/^[A-Z0-9_]{1,64}$/.test(code)) throw new RangeError("a code has 1 to 64 of the characters A-Z, 0-9 and _");
    this.code = code;
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
