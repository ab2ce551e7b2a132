/**
 * Payments: paid Stripe invoices and refunded charges.
 *
 * Amounts are integers in the currency's minor unit, as Stripe sends them. A refund event carries the total refunded so far,
 * so the ledger books the difference from the last total it saw. The balance is right even if events arrive out of order or
 * some never arrive.
 */
import {
  type Event,
  type Fact,
  factOf,
  type Handler,
  handler,
  IGNORE,
  type Ignore,
  type ItemKey,
  type Items,
  Permanent,
  Plan,
} from "../src/index.js";

export const PAID = "invoice.paid";
const REFUNDED = "charge.refunded";
const REFUNDED_MINOR = "refunded_minor";

/** What happened. A refund's amount is the total refunded so far. */
type Payment = {
  readonly kind: string;
  readonly id: string;
  readonly account: string;
  readonly currency: string;
  readonly amount: bigint;
};

/** Turns Stripe events into ledger entries and balances. */
export class Payments implements Handler {
  fact(event: Event): Fact | Ignore {
    const wanted = event.provider === "stripe" && (event.type === PAID || event.type === REFUNDED);
    return wanted ? factOf(...parts(read(event))) : IGNORE;
  }

  reads(event: Event): ItemKey[] {
    return event.type === REFUNDED ? [refundKey(event, read(event))] : [];
  }

  plan(event: Event, items: Items): Plan {
    const payment = read(event);
    const plan = new Plan();
    if (payment.kind === PAID) {
      book(plan, event, payment, payment.amount);
      return plan;
    }
    const key = refundKey(event, payment);
    const step = payment.amount - items.integer(key, REFUNDED_MINOR);
    if (step > 0n) {
      book(plan, event, payment, -step);
      plan.update(key, { set: { [REFUNDED_MINOR]: payment.amount } }).asSeen(items, REFUNDED_MINOR);
    }
    return plan;
  }
}

export function read(event: Event): Payment {
  const paid = event.type === PAID;
  const body = event.read(paid ? "INVOICE_UNREADABLE" : "CHARGE_UNREADABLE").at("data", "object");
  const payment = {
    kind: event.type,
    id: body.text("id"),
    // All payments without a customer share one account.
    account: body.optional("customer")?.text() ?? "guest",
    currency: body.text("currency"),
    amount: body.integer(paid ? "amount_paid" : "amount_refunded"),
  };
  if (payment.amount < 0n) throw new Permanent("AMOUNT_NEGATIVE");
  return payment;
}

/** The refunded total is part of the name, so that each further refund of a charge is a new fact. */
function parts({ kind, id, amount }: Payment): (string | bigint)[] {
  return kind === PAID ? [kind, id] : [kind, id, amount];
}

function refundKey(event: Event, payment: Payment): ItemKey {
  return event.itemKey("refund", payment.id);
}

/** A ledger entry and a change of the balance. */
function book(plan: Plan, event: Event, payment: Payment, minor: bigint): void {
  const { account, currency } = payment;
  const entry = { kind: event.type, account, currency, minor, event: event.key, received_at: event.receivedAtMs };
  plan.create(event.once("ledger", ...parts(payment)), entry);
  plan.update(event.itemKey("balance", account, currency), { add: { minor, entries: 1 } });
}

export const payments = new Payments();
export const lambdaHandler = handler(payments);
