"""Stores each paid invoice once, and counts the invoices of each customer."""

import hookonce
from hookonce import IGNORE, Event, Fact, Ignore, Items, Plan, ReadKey, fact_of


class Invoices:
    """A handler plans, and writes nothing itself: hookonce commits its plan once."""

    def fact(self, event: Event) -> Fact | Ignore:
        """Names the business fact, not the delivery: the same invoice is paid once, whoever reports it.

        The type is part of the name. Otherwise another event of the same invoice would be taken for a duplicate.
        """
        if event.type != "invoice.paid":
            return IGNORE
        return fact_of(event.type, invoice(event).text("id"))

    def reads(self, event: Event) -> list[ReadKey]:
        """The items that the plan depends on. This one needs none."""
        return []

    def plan(self, event: Event, items: Items) -> Plan:
        paid, plan = invoice(event), Plan()
        customer = paid.text("customer")
        plan.create(event.once("invoice", paid.text("id")), {"customer": customer, "minor": paid.integer("amount_paid")})
        plan.update(event.item_key("customer", customer), add={"invoices": 1})
        return plan


def invoice(event: Event) -> hookonce.Document:
    return event.read("INVOICE_UNREADABLE").at("data", "object")


lambda_handler = hookonce.handler(Invoices())
