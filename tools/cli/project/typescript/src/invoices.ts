/** Stores each paid invoice once, and counts the invoices of each customer. */
import { type Document, type Event, type Fact, factOf, type Handler, handler, IGNORE, type Ignore, Plan } from "hookonce";

/** A handler plans, and writes nothing itself: hookonce commits its plan once. */
export class Invoices implements Handler {
  /**
   * Names the business fact, not the delivery: the same invoice is paid once, whoever reports it. The type is part of
   * the name. Otherwise another event of the same invoice would be taken for a duplicate.
   */
  fact(event: Event): Fact | Ignore {
    return event.type === "invoice.paid" ? factOf(event.type, invoice(event).text("id")) : IGNORE;
  }

  /** The items that the plan depends on. This one needs none. */
  reads(): [] {
    return [];
  }

  plan(event: Event): Plan {
    const paid = invoice(event);
    const customer = paid.text("customer");
    const plan = new Plan();
    plan.create(event.once("invoice", paid.text("id")), { customer, minor: paid.integer("amount_paid") });
    plan.update(event.itemKey("customer", customer), { add: { invoices: 1 } });
    return plan;
  }
}

function invoice(event: Event): Document {
  return event.read("INVOICE_UNREADABLE").at("data", "object");
}

export const lambdaHandler = handler(new Invoices());
