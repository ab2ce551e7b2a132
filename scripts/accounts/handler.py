"""The handler of the stack that scripts/account makes. It writes one item for each event and counts them, so that an event which is
applied twice shows in the count. Some events take longer, so that a function can be killed in the middle of them."""

import time

import hookonce

CODE = "PROOF_UNREADABLE"


class Counted:
    def fact(self, event):
        return hookonce.fact_of(event.read(CODE).text("id"))

    def reads(self, event):
        return []

    def plan(self, event, items):
        body = event.read(CODE)
        told = body.at("data", "object")
        time.sleep(told.integer("pause_ms") / 1000)
        plan = hookonce.Plan()
        plan.create(event.once("applied", body.text("id")), {"event": body.text("id")})
        plan.update(event.item_key("total", told.text("step")), set={"step": told.text("step")}, add={"events": 1})
        return plan


lambda_handler = hookonce.handler(Counted())
