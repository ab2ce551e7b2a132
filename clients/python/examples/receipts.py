"""Receipts: what `Payments` does, and one receipt for each paid invoice.

The route must list the destination `receipts`: whoever writes and sends them.
"""

from __future__ import annotations

import hookonce
from hookonce import Event, Items, Json, Plan
from payments import PAID, Payments, read


class Receipts(Payments):
    """Books payments, and asks for one receipt for each paid invoice."""

    def plan(self, event: Event, items: Items) -> Plan:
        plan, payment = super().plan(event, items), read(event)
        if payment.kind == PAID:
            receipt: Json = {
                "invoice": payment.id,
                "account": payment.account,
                "currency": payment.currency,
                # As text: some languages round large numbers in JSON.
                "minor": str(payment.amount),
            }
            plan.effect("receipt", "receipts", receipt)
        return plan


lambda_handler = hookonce.handler(Receipts())
