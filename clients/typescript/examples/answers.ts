/**
 * Answers: what `Messages` does, and one answer to each WhatsApp message.
 *
 * The route must list the destination `answers`: the address of the WhatsApp Business API with its token. WhatsApp honours
 * no key of the caller, so its class is `at_most_once`.
 */
import { type Event, handler, type Items, type Plan } from "../src/index.js";

import { Messages, read } from "./messages.js";

const TEXT = "Thank you for your message. We will answer soon.";

/** Keeps conversations, and answers each message once. */
class Answers extends Messages {
  override plan(event: Event, items: Items): Plan {
    const plan = super.plan(event, items);
    const update = read(event);
    if ("from" in update) {
      const [context, text] = [{ message_id: update.id }, { body: TEXT }];
      const to = update.hasNumber ? { to: update.from } : { recipient: update.from };
      const answer = { messaging_product: "whatsapp", ...to, context, type: "text", text };
      plan.effect("answer", "answers", answer, { path: `/${update.phone}/messages` });
    }
    return plan;
  }
}

export const lambdaHandler = handler(new Answers());
