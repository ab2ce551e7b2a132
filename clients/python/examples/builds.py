"""Builds: each commit pushed to GitHub requests one build.

GitHub signs the body, but not the delivery id or the event name. So the fact is named by signed data: the repository
and the commit. A push replayed under a new id requests no further build.
"""

from __future__ import annotations

import hookonce
from hookonce import IGNORE, Document, Event, Fact, Ignore, Item, ItemKey, Items, Plan, fact_of


class Builds:
    """Turns GitHub pushes into build requests."""

    def fact(self, event: Event) -> Fact | Ignore:
        if event.provider != "github" or event.type != "push":
            return IGNORE
        push = Push(event)
        if push.deleted:
            return fact_of("deleted", push.repository, push.reference, push.before)
        return fact_of("build", push.repository, push.after)

    def reads(self, event: Event) -> list[ItemKey]:
        return []

    def plan(self, event: Event, items: Items) -> Plan:
        push, plan = Push(event), Plan()
        if push.deleted:
            return plan
        request: Item = {
            "repository": push.full_name,
            "commit": push.after,
            "ref": push.reference,
            "requested_at": event.received_at_ms,
            "state": "REQUESTED",
        }
        plan.create(event.once("build", push.repository, push.after), request)
        plan.update(event.item_key("repository", push.repository), add={"builds": 1})
        return plan


class Push:
    """The signed fields of a push that matter here."""

    def __init__(self, event: Event) -> None:
        body: Document = event.read("PUSH_UNREADABLE")
        self.reference = body.text("ref")
        self.before = body.text("before")
        self.after = body.text("after")
        deleted = body.optional("deleted")
        self.deleted = deleted is not None and deleted.flag()
        self.repository = body.integer("repository", "id")
        self.full_name = body.text("repository", "full_name")


lambda_handler = hookonce.handler(Builds())
