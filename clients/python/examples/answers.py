"""Answers: what `Messages` does, and one answer to each WhatsApp message.

The route must list the destination `answers`: the address of the WhatsApp Business API with its token. WhatsApp honours no
key of the caller, so its class is `at_most_once`.
"""

from __future__ import annotations

import hookonce
from hookonce import Event, Items, Json, Plan
from messages import Message, Messages, read

TEXT = "Thank you for your message. We will answer soon."


class Answers(Messages):
    """Keeps conversations, and answers each message once."""

    def plan(self, event: Event, items: Items) -> Plan:
        plan, update = super().plan(event, items), read(event)
        if isinstance(update, Message):
            answer: Json = {
                "messaging_product": "whatsapp",
                "to" if update.has_number else "recipient": update.sender,
                "context": {"message_id": update.id},
                "type": "text",
                "text": {"body": TEXT},
            }
            plan.effect("answer", "answers", answer, path=f"/{update.phone}/messages")
        return plan


lambda_handler = hookonce.handler(Answers())
