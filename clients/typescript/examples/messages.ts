/**
 * Messages: WhatsApp messages and their statuses.
 *
 * Each message becomes an item and updates its conversation. The first message of a contact creates a lead. A status (sent,
 * delivered, read, played, failed) only moves forward, in whatever order the deliveries arrive. In a group, each participant
 * has statuses of their own.
 */
import {
  type Document,
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

const LAST_MESSAGE_AT = "last_message_at";
/** How far along a status is. An unknown status changes nothing. */
const RANKS = new Map([["sent", 1], ["delivered", 2], ["read", 3], ["played", 4], ["failed", 5]]);

/** A message with its sender and receiver. */
type Message = {
  readonly phone: string;
  readonly id: string;
  readonly from: string;
  readonly hasNumber: boolean;
  readonly name: string;
  readonly timestamp: string;
  readonly kind: string;
  readonly text: string;
};

/** The status of a sent message. Only in a group is there a participant. */
type Status = {
  readonly id: string;
  readonly participant: readonly string[];
  readonly status: string;
  readonly timestamp: string;
};

/** Turns WhatsApp deliveries into conversations, leads and message statuses. */
export class Messages implements Handler {
  fact(event: Event): Fact | Ignore {
    const wanted = event.type === "message" || event.type.startsWith("status");
    if (event.provider !== "meta_whatsapp" || !wanted) return IGNORE;
    const update = read(event);
    if ("from" in update) return factOf("message", update.id);
    return factOf("status", update.id, update.status, ...update.participant);
  }

  reads(event: Event): ItemKey[] {
    const update = read(event);
    if ("from" in update) return [conversationKey(event, update), leadKey(event, update)];
    return [statusKey(event, update)];
  }

  plan(event: Event, items: Items): Plan {
    const update = read(event);
    return "from" in update ? planMessage(event, update, items) : planStatus(event, update, items);
  }
}

function planMessage(event: Event, message: Message, items: Items): Plan {
  const { id, from, kind, text, name } = message;
  const plan = new Plan();
  const sentAt = seconds(message.timestamp);
  plan.create(event.once("message", id), { from, kind, text, sent_at: sentAt });
  const conversation = conversationKey(event, message);
  const last = plan.update(conversation, { add: { messages: 1 } }).newerThan(items, LAST_MESSAGE_AT, sentAt, "skip");
  // A message that comes late is counted, but never becomes the last one.
  if (last.leftOut) plan.update(conversation, { add: { messages: 1 } }).blind();
  plan.createMissing(leadKey(event, message), { name, first_message: id }, items);
  return plan;
}

function planStatus(event: Event, update: Status, items: Items): Plan {
  const { status, timestamp } = update;
  const plan = new Plan();
  const rank = RANKS.get(status);
  if (rank !== undefined) {
    const changes = { set: { status, at: seconds(timestamp) }, add: { changes: 1 } };
    plan.update(statusKey(event, update), changes).newerThan(items, "rank", rank, "skip");
  }
  return plan;
}

/** The one update in an event. */
export function read(event: Event): Message | Status {
  const changes = event.read("MESSAGE_UNREADABLE").list("entry").flatMap((entry) => entry.list("changes"));
  for (const value of changes.map((change) => change.at("value"))) {
    const phone = value.text("metadata", "phone_number_id");
    const [message] = each(value, "messages");
    if (message !== undefined) return readMessage(phone, value, message);
    const [status] = each(value, "statuses");
    if (status !== undefined) {
      const [id, timestamp] = [status.text("id"), status.text("timestamp")];
      return { id, participant: participant(status), status: status.text("status"), timestamp };
    }
  }
  throw new Permanent("MESSAGE_UNREADABLE");
}

/** The participant of a group, by a user id or a number. */
function participant(status: Document): string[] {
  const found = status.optional("recipient_participant_user_id") ?? status.optional("recipient_participant_id");
  return found === undefined ? [] : [found.text()];
}

function readMessage(phone: string, value: Document, message: Document): Message {
  // Whoever has a user name may have no number, but a user id.
  const number = message.optional("from");
  const from = number?.text() ?? message.text("from_user_id");
  const isSender = (contact: Document) =>
    [contact.optional("wa_id"), contact.optional("user_id")].some((id) => id?.text() === from);
  const contact = each(value, "contacts").find(isSender);
  return {
    phone,
    id: message.text("id"),
    from,
    hasNumber: number !== undefined,
    name: contact?.optional("profile")?.optional("name")?.text() ?? "",
    timestamp: message.text("timestamp"),
    kind: message.text("type"),
    text: message.optional("text")?.text("body") ?? "",
  };
}

function each(value: Document, name: string): Document[] {
  return value.optional(name)?.list() ?? [];
}

function seconds(timestamp: string): bigint {
  if (!/^[+-]?\d{1,18}$/.test(timestamp)) throw new Permanent("TIMESTAMP_UNREADABLE");
  return BigInt(timestamp.replace(/^\+/, ""));
}

function conversationKey(event: Event, { phone, from }: Message): ItemKey {
  return event.itemKey("conversation", phone, from);
}

function leadKey(event: Event, { from }: Message): ItemKey {
  return event.itemKey("lead", from);
}

function statusKey(event: Event, { id, participant }: Status): ItemKey {
  return event.itemKey("status", id, ...participant);
}

export const lambdaHandler = handler(new Messages());
