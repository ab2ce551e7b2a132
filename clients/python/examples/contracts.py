from __future__ import annotations

import hookonce
from hookonce import IGNORE, Event, Fact, Ignore, ItemKey, Items, Plan, fact_of


class Contracts:
    """Stores each signed contract once, and counts the contracts of each customer."""

    def fact(self, event: Event) -> Fact | Ignore:
        if event.type != "contract.signed":
            return IGNORE
        return fact_of(event.read("CONTRACT_UNREADABLE").text("contract"))

    def reads(self, event: Event) -> list[ItemKey]:
        return []

    def plan(self, event: Event, items: Items) -> Plan:
        body = event.read("CONTRACT_UNREADABLE")
        contract, customer = body.text("contract"), body.text("customer")
        plan = Plan()
        plan.create(event.once("contract", contract), {"customer": customer, "received_at": event.received_at_ms})
        plan.update(event.item_key("customer", customer), add={"contracts": 1})
        return plan


lambda_handler = hookonce.handler(Contracts())
