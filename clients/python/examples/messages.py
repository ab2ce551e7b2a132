"""Messages: WhatsApp messages and their statuses.

Each message becomes an item and updates its conversation. The first message of a contact creates a lead. A status
(sent, delivered, read, played, failed) only moves forward, in whatever order the deliveries arrive. In a group, each
participant has statuses of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import hookonce
from hookonce import IGNORE, Document, Event, Fact, Ignore, Item, ItemKey, Items, Permanent, Plan, fact_of

LAST_MESSAGE_AT = "last_message_at"
RANK = "rank"
# How far along a status is. An unknown status changes nothing.
RANKS = {"sent": 1, "delivered": 2, "read": 3, "played": 4, "failed": 5}


@dataclass(frozen=True)
class Message:
    """A message with its sender and receiver."""

    phone: str
    id: str
    sender: str
    has_number: bool
    name: str
    timestamp: str
    kind: str
    text: str


@dataclass(frozen=True)
class Status:
    """The status of a sent message. Only in a group is there a participant."""

    id: str
    participant: tuple[str, ...]
    word: str
    timestamp: str


class Messages:
    """Turns WhatsApp deliveries into conversations, leads and message statuses."""

    def fact(self, event: Event) -> Fact | Ignore:
        wanted = event.type == "message" or event.type.startswith("status")
        if event.provider != "meta_whatsapp" or not wanted:
            return IGNORE
        update = read(event)
        if isinstance(update, Message):
            return fact_of("message", update.id)
        return fact_of("status", update.id, update.word, *update.participant)

    def reads(self, event: Event) -> list[ItemKey]:
        update = read(event)
        if isinstance(update, Message):
            return [conversation_key(event, update), lead_key(event, update)]
        return [status_key(event, update)]

    def plan(self, event: Event, items: Items) -> Plan:
        update = read(event)
        if isinstance(update, Message):
            return plan_message(event, update, items)
        return plan_status(event, update, items)


def plan_message(event: Event, message: Message, items: Items) -> Plan:
    plan, sent_at = Plan(), seconds(message.timestamp)
    kept: Item = {"from": message.sender, "kind": message.kind, "text": message.text, "sent_at": sent_at}
    plan.create(event.once("message", message.id), kept)
    conversation = conversation_key(event, message)
    last = plan.update(conversation, add={"messages": 1}).newer_than(items, LAST_MESSAGE_AT, sent_at, tie="skip")
    if last.left_out:
        # A message that comes late is counted, but never becomes the last one.
        plan.update(conversation, add={"messages": 1}).blind()
    plan.create_missing(lead_key(event, message), {"name": message.name, "first_message": message.id}, items)
    return plan


def plan_status(event: Event, status: Status, items: Items) -> Plan:
    plan, rank = Plan(), RANKS.get(status.word)
    if rank is not None:
        changes: Item = {"status": status.word, "at": seconds(status.timestamp)}
        update = plan.update(status_key(event, status), set=changes, add={"changes": 1})
        update.newer_than(items, RANK, rank, tie="skip")
    return plan


def read(event: Event) -> Message | Status:
    """The one update in an event."""
    for entry in event.read("MESSAGE_UNREADABLE").list("entry"):
        for change in entry.list("changes"):
            value = change.at("value")
            phone = value.text("metadata", "phone_number_id")
            for message in each(value, "messages"):
                return read_message(phone, value, message)
            for status in each(value, "statuses"):
                return Status(status.text("id"), participant(status), status.text("status"), status.text("timestamp"))
    raise Permanent("MESSAGE_UNREADABLE")


def participant(status: Document) -> tuple[str, ...]:
    """The participant of a group, by a user id or a number."""
    found = status.optional("recipient_participant_user_id") or status.optional("recipient_participant_id")
    return () if found is None else (found.text(),)


def read_message(phone: str, value: Document, message: Document) -> Message:
    # Whoever has a user name may have no number, but a user id.
    number, text, name = message.optional("from"), message.optional("text"), ""
    sender = message.text("from_user_id") if number is None else number.text()
    for contact in each(value, "contacts"):
        profile = contact.optional("profile")
        given = None if profile is None else profile.optional("name")
        ids = [contact.optional("wa_id"), contact.optional("user_id")]
        if sender in [known.text() for known in ids if known is not None]:
            name = "" if given is None else given.text()
            break
    return Message(
        phone=phone,
        id=message.text("id"),
        sender=sender,
        has_number=number is not None,
        name=name,
        timestamp=message.text("timestamp"),
        kind=message.text("type"),
        text="" if text is None else text.text("body"),
    )


def each(value: Document, name: str) -> list[Document]:
    found = value.optional(name)
    return [] if found is None else found.list()


def seconds(timestamp: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", timestamp):
        raise Permanent("TIMESTAMP_UNREADABLE")
    return int(timestamp)


def conversation_key(event: Event, message: Message) -> ItemKey:
    return event.item_key("conversation", message.phone, message.sender)


def lead_key(event: Event, message: Message) -> ItemKey:
    return event.item_key("lead", message.sender)


def status_key(event: Event, status: Status) -> ItemKey:
    return event.item_key("status", status.id, *status.participant)


lambda_handler = hookonce.handler(Messages())
