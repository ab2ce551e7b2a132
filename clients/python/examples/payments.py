"""Payments: paid Stripe invoices and refunded charges.

Amounts are integers in the currency's minor unit, as Stripe sends them. A refund event carries the total refunded so
far, so the ledger books the difference from the last total it saw. The balance is right even if events arrive out of
order or some never arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

import hookonce
from hookonce import IGNORE, Document, Event, Fact, Ignore, Item, ItemKey, Items, Permanent, Plan, fact_of

PAID = "invoice.paid"
REFUNDED = "charge.refunded"
REFUNDED_MINOR = "refunded_minor"


@dataclass(frozen=True)
class Payment:
    """What happened. A refund's amount is the total refunded so far."""

    kind: str
    id: str
    account: str
    currency: str
    amount: int

    def parts(self) -> list[str | int]:
        """The refunded total is part of the name, so that each further refund of a charge is a new fact."""
        return [self.kind, self.id] if self.kind == PAID else [self.kind, self.id, self.amount]


class Payments:
    """Turns Stripe events into ledger entries and balances."""

    def fact(self, event: Event) -> Fact | Ignore:
        if event.provider != "stripe" or event.type not in (PAID, REFUNDED):
            return IGNORE
        return fact_of(*read(event).parts())

    def reads(self, event: Event) -> list[ItemKey]:
        return [refund_key(event, read(event))] if event.type == REFUNDED else []

    def plan(self, event: Event, items: Items) -> Plan:
        payment, plan = read(event), Plan()
        if payment.kind == PAID:
            book(plan, event, payment, payment.amount)
            return plan
        key = refund_key(event, payment)
        step = payment.amount - items.integer(key, REFUNDED_MINOR)
        if step > 0:
            book(plan, event, payment, -step)
            plan.update(key, set={REFUNDED_MINOR: payment.amount}).as_seen(items, REFUNDED_MINOR)
        return plan


def read(event: Event) -> Payment:
    paid = event.type == PAID
    body = event.read("INVOICE_UNREADABLE" if paid else "CHARGE_UNREADABLE").at("data", "object")
    amount = body.integer("amount_paid" if paid else "amount_refunded")
    payment = Payment(event.type, body.text("id"), account(body), body.text("currency"), amount)
    if payment.amount < 0:
        raise Permanent("AMOUNT_NEGATIVE")
    return payment


def account(body: Document) -> str:
    """All payments without a customer share one account."""
    customer = body.optional("customer")
    return "guest" if customer is None else customer.text()


def refund_key(event: Event, payment: Payment) -> ItemKey:
    return event.item_key("refund", payment.id)


def book(plan: Plan, event: Event, payment: Payment, amount: int) -> None:
    """A ledger entry and a change of the balance."""
    entry: Item = {
        "kind": event.type,
        "account": payment.account,
        "currency": payment.currency,
        "minor": amount,
        "event": event.key,
        "received_at": event.received_at_ms,
    }
    plan.create(event.once("ledger", *payment.parts()), entry)
    plan.update(event.item_key("balance", payment.account, payment.currency), add={"minor": amount, "entries": 1})


lambda_handler = hookonce.handler(Payments())
