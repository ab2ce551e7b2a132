/**
 * Receipts: what `Payments` does, and one receipt for each paid invoice.
 *
 * The route must list the destination `receipts`: whoever writes and sends them.
 */
import { type Event, handler, type Items, type Plan } from "../src/index.js";

import { PAID, Payments, read } from "./payments.js";

/** Books payments, and asks for one receipt for each paid invoice. */
class Receipts extends Payments {
  override plan(event: Event, items: Items): Plan {
    const plan = super.plan(event, items);
    const { kind, id, account, currency, amount } = read(event);
    if (kind === PAID) {
      // The amount is text: some languages round large numbers in JSON.
      plan.effect("receipt", "receipts", { invoice: id, account, currency, minor: String(amount) });
    }
    return plan;
  }
}

export const lambdaHandler = handler(new Receipts());
