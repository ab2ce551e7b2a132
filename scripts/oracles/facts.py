"""Which facts are different and which are the same: for every provider, more deliveries than its sample.

Each names the facts in it, one for each event. Over all vectors of a provider, a name has one dedup key and a key has one
name. So every provider shows a fact that is nearly the same and still another one, and the same fact once more, as a retry
brings it.
"""

import json

from reference import Request, held, samples, sign


class Delivery:
    """A delivery that differs from the sample: `edit` changes its JSON, `text` and `body` its bytes."""

    def __init__(self, case, reason, *names, edit=None, text=(), body=None, headers=(), later=0, signed_later=None):
        self.case, self.reason, self.names = case, reason, list(names)
        self.edit, self.text, self.body, self.headers = edit, text, body, dict(headers)
        self.later = later
        self.signed_later = later if signed_later is None else signed_later

    def request(self, cases):
        sample = samples()[cases.provider]
        request = Request(cases.provider, sample, cases.request().now)
        now = request.now
        request.now += self.later
        for name, value in self.headers.items():
            request.set_header(name, value)
        if self.body is not None:
            request.body = compact(self.body) if not isinstance(self.body, str) else self.body.encode()
        for old, new in self.text:
            assert old.encode() in request.body, (cases.provider, self.case, old)
            request.body = request.body.replace(old.encode(), new.encode())
        if self.edit:
            document = json.loads(request.body)
            self.edit(document)
            request.body = compact(document)
        sign(request, cases.scheme, sample["secrets"][0], now + self.signed_later)
        request.secrets = [held(sample["secrets"][0])]
        return request


def compact(document):
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def of(cases):
    """The names of the sample's facts, and the further deliveries."""
    made = FACTS[cases.provider]
    names = [fact for fact in made if isinstance(fact, str)]
    return names, [delivery for delivery in made if isinstance(delivery, Delivery)]


RETRIED = "a retry of the provider is the same event"
REGROUPED = "a retry may group events differently"


def by_header(name, other, retry=()):
    """The id is in a header, so equal bodies can be different events."""
    return [
        "the event",
        Delivery("another-id", "an equal body under another id is another event", "another event", headers={name: other}),
        Delivery("retried", RETRIED, "the event", later=60, headers=retry),
    ]


def by_member(old, new, retried=()):
    """The id is in the body."""
    return [
        "the event",
        Delivery("another-id", "another id is another event", "another event", text=[(old, new)]),
        Delivery("retried", RETRIED, "the event", later=60, text=retried),
    ]


# Meta


def whatsapp(changes, time=None):
    entry = {"id": "102290129340398", **({"time": time} if time else {}), "changes": changes}
    return {"object": "whatsapp_business_account", "entry": [entry]}


def whatsapp_value(**lists):
    return {"field": "messages", "value": {"messaging_product": "whatsapp", **lists}}


def standby(**lists):
    return {"field": "standby", "value": {"messaging_product": "whatsapp", "standby": lists}}


def status(word, at=1767225590, **members):
    return {"id": "wamid.G1", "status": word, "timestamp": str(at), **members}


def participant(word, at=1767225590, **members):
    return status(word, at, recipient_id="group-1", recipient_type="group", **members)


BOB = {"recipient_participant_id": "15550011"}
EVE = {"recipient_participant_id": "15550012"}
USER = {"recipient_participant_user_id": "US.13491208655302741918"}
MESSAGE = {"id": "wamid.A1", "from": "15550001", "type": "text", "text": {"body": "hi"}}
ACCOUNT = {"field": "account_update", "value": {"event": "VERIFIED_ACCOUNT"}}
TEMPLATE = {"field": "message_template_status_update", "value": {"event": "APPROVED", "message_template_id": 1}}
CALL = {"id": "wacid.C1", "to": "15550002", "from": "15550001", "timestamp": "1767225590"}
EDIT = {"id": "wamid.E1", "from": "15550001", "type": "edit", "edit": {"original_message_id": "wamid.A1"}}
REVOKE = {"id": "wamid.R1", "from": "15550001", "type": "revoke", "revoke": {"original_message_id": "wamid.A1"}}
GROUP = {"group_id": "G1", "type": "group_create", "timestamp": "1767225590", "request_id": "q1", "subject": "a"}
ECHOED = {"id": "wamid.A1", "from": "15550002", "to": "15550001", "type": "text", "text": {"body": "hi"}}
ECHOED_REVOKE = {"id": "wamid.R2", "from": "15550002", "to": "15550001", "type": "revoke", "revoke": {"original_message_id": "wamid.A1"}}
ANSWERED = {"id": "wamid.A1", "timestamp": "1767225590", "message": {"to": "15550001", "type": "text", "text": {"body": "hi"}}}

WHATSAPP = [
    "message A1",
    "B2 delivered",
    Delivery(
        "group-statuses",
        "each participant of a group has a status, all under the message's id",
        *["G1 delivered to Bob", "G1 delivered to Eve", "G1 delivered to a user id", "G1 read by Bob", "G1 sent"],
        body=whatsapp(
            [
                whatsapp_value(
                    statuses=[
                        *[participant("delivered", **BOB), participant("delivered", **EVE), participant("delivered", **USER)],
                        *[participant("read", **BOB), participant("sent")],
                    ]
                )
            ]
        ),
    ),
    Delivery(
        "group-statuses-regrouped",
        REGROUPED,
        *["G1 delivered to Eve", "G1 delivered to a user id"],
        body=whatsapp([whatsapp_value(statuses=[participant("delivered", **EVE)]), whatsapp_value(statuses=[participant("delivered", **USER)])]),
    ),
    Delivery(
        "status-again",
        "a status that comes again later says something new, such as another error",
        *["G1 failed", "G1 failed later"],
        body=whatsapp([whatsapp_value(statuses=[status("failed"), status("failed", 1767225599, errors=[{"code": 131026}])])]),
    ),
    Delivery(
        "edited-and-revoked",
        "an edit and a revocation have ids of their own",
        *["message A1", "A1 edited", "A1 revoked"],
        body=whatsapp([whatsapp_value(messages=[MESSAGE, EDIT, REVOKE])]),
    ),
    Delivery(
        "calls",
        "a call is connected and terminated under one id",
        *["C1 connected", "C1 terminated"],
        body=whatsapp([{"field": "calls", "value": {"calls": [{**CALL, "event": "connect"}, {**CALL, "event": "terminate"}]}}]),
    ),
    Delivery(
        "groups",
        "a group is created and deleted under one id",
        *["group created", "group deleted"],
        body=whatsapp([{"field": "group_lifecycle_update", "value": {"groups": [GROUP, {**GROUP, "type": "group_delete"}]}}]),
    ),
    Delivery("group-alone", REGROUPED, "group created", body=whatsapp([{"field": "group_lifecycle_update", "value": {"groups": [GROUP]}}])),
    Delivery("message-alone", REGROUPED, "message A1", body=whatsapp([whatsapp_value(messages=[MESSAGE])])),
    Delivery("status-alone", REGROUPED, "G1 failed", body=whatsapp([whatsapp_value(statuses=[status("failed")])])),
    Delivery(
        "echoes",
        "what the business sent is another fact than what it received, and a revocation has an id of its own",
        *["message A1", "A1 echoed", "revocation R2 echoed"],
        body=whatsapp([whatsapp_value(messages=[MESSAGE]), {"field": "smb_message_echoes", "value": {"message_echoes": [ECHOED, ECHOED_REVOKE]}}]),
    ),
    Delivery("echo-alone", REGROUPED, "A1 echoed", body=whatsapp([{"field": "smb_message_echoes", "value": {"message_echoes": [ECHOED]}}])),
    Delivery(
        "standby",
        "what another app handles is another fact than what comes to this one",
        *["message A1", "A1 in standby", "G1 sent in standby", "A1 answered in standby", "A1 echoed"],
        body=whatsapp(
            [
                whatsapp_value(messages=[MESSAGE]),
                standby(messages=[MESSAGE]),
                standby(statuses=[participant("sent")]),
                standby(message_echoes=[ANSWERED]),
                {"field": "smb_message_echoes", "value": {"message_echoes": [ECHOED]}},
            ]
        ),
    ),
    *(
        Delivery(f"standby-{case}", REGROUPED, fact, body=whatsapp([standby(**lists)]))
        for case, fact, lists in (
            ("message-alone", "A1 in standby", {"messages": [MESSAGE]}),
            ("status-alone", "G1 sent in standby", {"statuses": [participant("sent")]}),
            ("echo-alone", "A1 answered in standby", {"message_echoes": [ANSWERED]}),
        )
    ),
    Delivery(
        "standby-by-field",
        "the field alone says it, too",
        *["A1 in standby", "G1 sent in standby"],
        body=whatsapp([{**whatsapp_value(messages=[MESSAGE], statuses=[participant("sent")]), "field": "standby"}]),
    ),
    Delivery("call-regrouped", REGROUPED, "C1 terminated", body=whatsapp([{"field": "calls", "value": {"calls": [{**CALL, "event": "terminate"}]}}])),
    Delivery("without-id", "an event without an id is known by its hash", "account verified", body=whatsapp([ACCOUNT], 1767225590)),
    Delivery(
        "without-id-among-others",
        "an event without an id has the same key alone and in a batch",
        *["message A1", "account verified", "template approved"],
        body=whatsapp([whatsapp_value(messages=[MESSAGE]), ACCOUNT, TEMPLATE], 1767225590),
    ),
    Delivery("without-id-later", "an equal change of another time is another fact", "account verified later", body=whatsapp([ACCOUNT], 1767225599)),
    Delivery("retried", RETRIED, "message A1", "B2 delivered", later=60),
]


def messaging(*items, **lists):
    return {"object": "instagram", "entry": [{"id": "1", "time": 1767225590000, **({"messaging": list(items)} if items else {}), **lists}]}


def item(sender="2", at=1767225590000, **members):
    return {"sender": {"id": sender}, "recipient": {"id": "1"}, "timestamp": at, **members}


TEXT = item(message={"mid": "m_A", "text": "hi"})
UNSENT = item(at=1767225600000, message={"mid": "m_A", "is_deleted": True})
ECHO = item("1", message={"mid": "m_A", "text": "hi", "is_echo": True})
PRESSED = item(postback={"mid": "m_A", "title": "Start", "payload": "true"})
READ = item(read={"mid": "m_A"})
CHANGE = {"field": "feed", "value": {"item": "like"}}

MESSENGER = [
    "message A",
    "postback B",
    Delivery("unsent", "an unsent message comes again under its id", "A unsent", body=messaging(UNSENT)),
    Delivery(
        "one-mid",
        "an echo, a postback, edits, reactions and a read name the message by its id",
        *["message A", "A unsent", "A echoed", "postback A", "A edited", "A edited again", "reaction to A", "no reaction to A", "A read"],
        body=messaging(
            *[TEXT, UNSENT, ECHO, PRESSED],
            item(message_edit={"mid": "m_A", "text": "ho", "num_edit": 1}),
            item(message_edit={"mid": "m_A", "text": "ha", "num_edit": 2}),
            item(reaction={"mid": "m_A", "action": "react", "emoji": "+"}),
            item(at=1767225600001, reaction={"mid": "m_A", "action": "unreact"}),
            READ,
        ),
    ),
    Delivery("regrouped", REGROUPED, "A echoed", "A read", body=messaging(ECHO, READ)),
    Delivery("standby", "what another app of the page handles is another fact", "A in standby", "A unsent in standby", "A read in standby", body=messaging(standby=[TEXT, UNSENT, READ])),
    Delivery("standby-among-others", "an app can be handed a conversation that it has followed", "message A", "A read", "A in standby", "A read in standby", body=messaging(TEXT, READ, standby=[TEXT, READ])),
    Delivery("standby-alone", REGROUPED, "A in standby", body=messaging(standby=[TEXT])),
    Delivery(
        "conversation",
        "what is said of a conversation has no id; its text has its time",
        *["passed on", "taken", "asked for", "roles", "blocked", "linked"],
        body=messaging(
            item(pass_thread_control={"new_owner_app_id": "1"}),
            item(take_thread_control={"previous_owner_app_id": "1"}),
            item(request_thread_control={"requested_owner_app_id": "1"}),
            item(app_roles={"1": ["primary_receiver"]}),
            item(policy_enforcement={"action": "block", "reason": "spam"}),
            item(account_linking={"status": "linked", "authorization_code": "A"}),
        ),
    ),
    Delivery("change", "a change has no id", "liked", body=messaging(changes=[CHANGE])),
    Delivery("change-among-others", "an event without an id has the same key alone and in a batch", "message A", "liked", body=messaging(TEXT, changes=[CHANGE])),
    Delivery("retried", RETRIED, "message A", "postback B", later=60),
]


# X


def account(user="2244994945", **lists):
    return {"for_user_id": user, **lists}


def activity(kind, number="2080761390344937796", **members):
    return {"data": {"event_uuid": number, "filter": {"user_id": "2244994945"}, "event_type": kind, "payload": {"id": "2080761390344937796"}, **members}}


POST = {"id_str": "1", "text": "hi"}
LIKE = {"id": "f1", "timestamp_ms": 1767225590000}
DIRECT = {"id": "1", "created_timestamp": "1767225590000"}
# Each list of events, with one event and what it is called.
LISTS = {
    "tweet_create_events": (POST, "post 1"),
    "tweet_delete_events": ({"status": {"id": "1"}, "timestamp_ms": "1767225590000"}, "post 1 deleted"),
    "favorite_events": (LIKE, "like f1"),
    **{f"{deed}_events": ({"type": deed, "created_timestamp": "1767225590000", "target": {"id": "3"}}, f"{deed} 3") for deed in ("follow", "unfollow", "block", "unblock", "mute", "unmute")},
    "direct_message_events": (DIRECT, "message 1"),
    "direct_message_indicate_typing_events": ({"created_timestamp": "1767225590000", "sender_id": "3"}, "3 types"),
    "direct_message_mark_read_events": ({"created_timestamp": "1767225590000", "last_read_event_id": "1"}, "message 1 read"),
}

X = [
    *["post 1", "like f1"],
    Delivery(
        "one-number",
        "a message, a like taken back and given again, and another user's view of a post are facts of their own",
        *["message 1", "like f1 again", "unfollowed"],
        body=account(direct_message_events=[DIRECT], favorite_events=[{**LIKE, "timestamp_ms": 1767225599000}], unfollow_events=[{"created_timestamp": "1767225590000"}]),
    ),
    Delivery("another-user", "one post is sent to each user who subscribed", "post 1 for another user", body=account("1", tweet_create_events=[POST])),
    Delivery("regrouped", REGROUPED, "post 1", body=account(tweet_create_events=[POST])),
    Delivery("every-list", "the lists of a delivery", *[name for _, name in LISTS.values()], body=account(**{place: [event] for place, (event, _) in LISTS.items()})),
    *(Delivery(f"{place}-alone", REGROUPED, name, body=account(**{place: [event]})) for place, (event, name) in LISTS.items()),
    Delivery("activity", "the X Activity API sends one event at a time", "A posted", body=activity("post.create")),
    Delivery("activity-retried", RETRIED, "A posted", body=activity("post.create"), later=60),
    Delivery("activity-of-another-type", "the id of a post event is that of the post", "A mentioned B", body=activity("post.mention.create", filter={"user_id": "3"})),
    Delivery("activity-of-another-user", "a post is reported to each filter", "A mentioned C", body=activity("post.mention.create", filter={"user_id": "4"})),
    Delivery("activity-given", "a like is reported from both sides", "A liked", body=activity("like.create", "-34", filter={"user_id": "2244994945", "direction": "outbound"})),
    Delivery("activity-received", "a like is reported from both sides", "A is liked", body=activity("like.create", "-34", filter={"user_id": "2244994945", "direction": "inbound"})),
    Delivery("activity-by-word", "news is filtered by a word", "news", body=activity("news.new", filter={"keyword": "weather"})),
    Delivery("activity-by-another-word", "news is filtered by a word", "the same news by another word", body=activity("news.new", filter={"keyword": "rain"})),
    Delivery("activity-without-filter", "a revocation has no filter", "revoked", body=activity("oauth.revoke", "59", filter={})),
]


# The others whose facts are more than an id


def adyen_item(event, number="7914073381342284"):
    item = json.loads(samples()["adyen"]["body"])["notificationItems"][0]
    item["NotificationRequestItem"] |= {"eventCode": event, "pspReference": number}
    return item


def last_of(*path):
    """Leaves the last of several events."""

    def edit(document):
        for member in path:
            document = document[member]
        del document[:-1]

    return edit


def without(member, *path):
    """Takes a member out of the first of several events."""

    def edit(document):
        for name in path:
            document = document[name]
        del document[0][member]

    return edit


POSTMARK = {"RecordType": "Delivery", "MessageID": "883953f4-6105-42a2-a16a-77a8eac79483", "DeliveredAt": "2025-12-31T23:59:50Z"}
SEEN = {"MessageID": POSTMARK["MessageID"], "Recipient": "a@example.com", "ReceivedAt": "2025-12-31T23:59:55Z"}
DOCUSIGN = {"event": "recipient-sent", "generatedDateTime": "2025-12-31T23:59:40.0000000Z", "retryCount": 0}
CALENDLY = {"event": "event_type.updated", "payload": {"uri": "https://api.calendly.com/event_types/E"}}

FACTS = {
    "adyen": [
        *["284 authorised", "285 refused"],
        Delivery(
            "other-events",
            "a payment has several events under one reference",
            *["284 charged back", "284 reversed"],
            body={"live": "false", "notificationItems": [adyen_item("CHARGEBACK"), adyen_item("CHARGEBACK_REVERSED")]},
        ),
        Delivery("regrouped", REGROUPED, "285 refused", edit=last_of("notificationItems")),
        Delivery(
            "report",
            "the name of a report may hold times",
            "report of midnight",
            body={"live": "false", "notificationItems": [adyen_item("REPORT_AVAILABLE", "payments_2026-01-01T00:00:00.csv")]},
        ),
    ],
    "airtable": by_member("23:59:50.000", "23:59:50.001"),
    "anthropic": by_member("event_01HXSAMPLE", "event_01HXSAMPLF"),
    "attio": [
        *["record created", "note created"],
        Delivery("another-id", "an equal body under another id is another message", "record created again", "note created again", headers={"idempotency-key": "5f3e0c2b"}),
        Delivery("alone", "an event has the same key alone and in company", "note created", edit=last_of("events")),
        Delivery("retried", RETRIED, "record created", "note created", later=60),
    ],
    "auth0": [
        *["9002026", "9002027"],
        Delivery("another-id", "another id is another event", "9002026", "9002028", text=[("9002027", "9002028")]),
        Delivery("regrouped", REGROUPED, "9002027", body=[{"log_id": "9002027", "data": {"type": "fp", "date": "2025-12-31T23:59:51.000Z"}}]),
    ],
    "aws_sns": by_member("22b80b92", "22b80b93"),
    "basic": [
        "deal 1 changed",
        Delivery("another-change", "another change is another event", "deal 1 changed again", text=[("2025-12-31T23:59:50.000Z", "2025-12-31T23:59:51.000Z")]),
        Delivery("retried", "Pipedrive counts the tries in the body", "deal 1 changed", text=[('"attempt":1', '"attempt":2')], later=60),
        Delivery("deepgram", "a body of Deepgram", "transcript 1", body={"metadata": {"request_id": "1"}, "results": {"channels": []}}),
    ],
    "bigcommerce": by_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "bitbucket": by_header("x-request-uuid", "af0ddd9c-8eb0-4e40-a5b3-1b4d3bd7f3e2", {"x-attempt-number": "2"}),
    "braintree": by_member("<id>s1</id>", "<id>s2</id>"),
    "brex": by_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "cal_com": [
        "booked",
        Delivery("another-trigger", "one booking triggers several events", "paid", text=[("BOOKING_CREATED", "BOOKING_PAID")]),
        Delivery("another-time", "an equal event of another time is another event", "booked again", text=[("23:59:50.000", "23:59:50.001")]),
        Delivery("retried", RETRIED, "booked", later=60),
    ],
    "checkout_com": by_member("evt_caxmnvuvbe4elkbdx2imwbnjxu", "evt_caxmnvuvbe4elkbdx2imwbnjxv"),
    "calendly": [
        "B invited",
        Delivery("updated", "an event type keeps its address", "E updated", body={**CALENDLY, "created_at": "2025-12-31T23:59:50.000000Z"}),
        Delivery("updated-again", "an event type keeps its address", "E updated again", body={**CALENDLY, "created_at": "2025-12-31T23:59:51.000000Z"}),
        Delivery("canceled", "one invitee is created and canceled", "B canceled", text=[("invitee.created", "invitee.canceled")]),
        Delivery("retried", RETRIED, "B invited", later=60),
    ],
    "circleci": by_member("3888f21b", "3888f21c"),
    "clerk": by_header("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "clickup": [
        "status changed",
        Delivery("another-event", "one change comes under several events", "task created", text=[("taskStatusUpdated", "taskCreated")]),
        Delivery("another-change", "another change has another id", "status changed again", text=[("140857", "140858")]),
        Delivery("deleted", "what is deleted has no history", "task deleted", body={"event": "taskDeleted", "task_id": "1vj37mc", "webhook_id": "7fa3ec74"}),
        Delivery("retried", RETRIED, "status changed", later=60),
    ],
    "coinbase_commerce": by_member("24934862", "24934863", [('"id":1,"attempt_number":1', '"id":2,"attempt_number":2')]),
    "commerce_layer": [
        "order placed",
        Delivery("another-topic", "one action is sent under several topics, with one body", "order pending", headers={"x-commercelayer-topic": "orders.pending"}),
        Delivery("placed-later", "a body is the resource as it is", "order placed later", text=[("23:59:50", "23:59:55")]),
        Delivery("retried", RETRIED, "order placed", later=60),
    ],
    "contentful": [
        "published",
        Delivery("another-body", "the header stands for a body of very recent requests only", "published later", text=[('"fields":{}', '"fields":{"a":1}')]),
        Delivery("another-id", "an equal body under another id is another event", "published again", headers={"x-contentful-idempotency-key": "9e" * 32}),
        Delivery("retried", RETRIED, "published", later=60),
    ],
    "discord": by_member('"id":"1071"', '"id":"1072"'),
    "docusign": [
        "e1 completed",
        *(
            Delivery(
                f"sent-to-{recipient}",
                "recipients of one envelope get it at once",
                f"e1 sent to {recipient}",
                body={**DOCUSIGN, "data": {"accountId": "a1", "envelopeId": "e1", "recipientId": recipient}},
            )
            for recipient in ("1", "2")
        ),
        Delivery("template", "some events belong to no envelope", "template made", body={**DOCUSIGN, "event": "template-created", "data": {"accountId": "a1", "templateId": "t1"}}),
        Delivery("template-retried", RETRIED, "template made", body={**DOCUSIGN, "event": "template-created", "retryCount": 1, "data": {"accountId": "a1", "templateId": "t1"}}),
        Delivery("retried", RETRIED, "e1 completed", text=[('"retryCount":0', '"retryCount":1')], later=60),
    ],
    "dropbox": [
        "the ping",
        Delivery("ping-again", "a ping says nothing of its own, so a later one is equal and yet another", "another ping", later=1),
        Delivery("retried", "an equal ping of the same second is the same one", "the ping"),
    ],
    "elevenlabs": [
        "transcribed",
        Delivery("audio", "a conversation has several events", "recorded", text=[("post_call_transcription", "post_call_audio")]),
        Delivery("analysed-again", "one conversation may be told of again", "transcribed again", text=[("1767225590", "1767225595")]),
        Delivery("voice-removed", "some events belong to no conversation", "voice removed", body={"type": "voice_removed", "event_timestamp": 1767225590, "data": {"voice_id": "v1"}}),
        Delivery("retried", RETRIED, "transcribed", later=60),
    ],
    "github": [
        *by_header("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0959"),
        Delivery(
            "form",
            "a form holds the document in a field",
            "an event in a form",
            body="payload=%7B%22zen%22%3A%22hi%22%7D",
            headers={"x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0960", "content-type": "application/x-www-form-urlencoded"},
        ),
        Delivery(
            "secret-sent-along",
            "GitHub sent the secret along until January 2026; it is no part of an event and is not kept",
            "an event with the secret",
            headers={"x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0961", "x-github-encoded-secret": "aGlnaGx5LXNlY3JldA=="},
        ),
    ],
    "gitlab": [
        "the event",
        Delivery(
            "another-id",
            "an equal body under another id is another event",
            "another event",
            headers={"webhook-id": "f5e5f430-f57b-4e6e-9fac-d9128cd72330", "idempotency-key": "f5e5f430-f57b-4e6e-9fac-d9128cd72330"},
        ),
        Delivery("retried", RETRIED, "the event", later=60),
    ],
    "gocardless": [
        *["EV123", "EV124"],
        Delivery("another-id", "another id is another event", "EV123", "EV125", text=[("EV124", "EV125")]),
        Delivery("regrouped", REGROUPED, "EV124", edit=last_of("events")),
    ],
    "hubspot": [
        *["deal 123 changed", "contact 123 created"],
        Delivery(
            "same-event-id",
            "the id of an event is not guaranteed to be unique",
            *["deal 124 changed", "contact 124 created"],
            text=[('"objectId":123', '"objectId":124')],
        ),
        Delivery(
            "associations",
            "an association has two objects",
            *["1 and 2 associated", "1 and 3 associated"],
            body=[
                {"eventId": 7, "portalId": 62515, "subscriptionId": 2, "subscriptionType": "contact.associationChange", "occurredAt": 1767225590000, "fromObjectId": 1, "toObjectId": to}
                for to in (2, 3)
            ],
        ),
        Delivery("retried", RETRIED, "deal 123 changed", "contact 123 created", text=[('"attemptNumber":0', '"attemptNumber":1')], later=60),
        Delivery("without-id", "an event without an id has a key, too", "a deal changed", "contact 123 created", edit=without("eventId")),
        Delivery("without-id-retried", RETRIED, "a deal changed", "contact 123 created", text=[('"attemptNumber":0', '"attemptNumber":1')], edit=without("eventId"), later=60),
        Delivery("regrouped", REGROUPED, "contact 123 created", edit=last_of()),
    ],
    "intercom": by_member("notif_ccd8a4d0", "notif_ccd8a4d1", [('"delivery_attempts":1', '"delivery_attempts":2')]),
    "jira": by_header("x-atlassian-webhook-identifier", "41ba8cb9-0b2d-4a8b-93f2-4d2a4c1cbe32", {"x-atlassian-webhook-retry": "1"}),
    "lemonsqueezy": [
        "order made",
        Delivery("same-second", "an object changes twice in a second", "order changed", edit=lambda document: document["data"]["attributes"].update(status="paid")),
        Delivery("retried", RETRIED, "order made", later=60),
    ],
    "line": [
        *["XKC3ZR", "XKC3ZS"],
        Delivery("another-id", "another id is another event", "XKC3ZR", "XKC3ZT", text=[("XKC3ZS", "XKC3ZT")]),
        Delivery("retried", RETRIED, "XKC3ZR", "XKC3ZS", text=[('"isRedelivery":false', '"isRedelivery":true')]),
        Delivery("without-id", "an event without an id has a key, too", "a message", "XKC3ZS", edit=without("webhookEventId", "events")),
        Delivery("without-id-retried", RETRIED, "a message", "XKC3ZS", text=[('"isRedelivery":false', '"isRedelivery":true')], edit=without("webhookEventId", "events")),
        Delivery("regrouped", REGROUPED, "XKC3ZS", edit=last_of("events")),
    ],
    "linear": by_header("linear-delivery", "234d1a4e-b617-4388-90fe-adc3633d6b73"),
    "livekit": by_member("EV_1", "EV_2"),
    "mailgun": [
        "the event",
        Delivery("same-id-next-day", "the id of an event is unique within a day only", "an event of the next day", text=[("1767225589.5", "1767311989.5")]),
        Delivery("retried", RETRIED, "the event", text=[("a8ce0edb", "a8ce0edc")], later=60),
    ],
    "meta_messenger_instagram": MESSENGER,
    "meta_whatsapp": WHATSAPP,
    "mux": by_member("3a56ac3d", "3a56ac3e", [('"attempts":[]', '"attempts":[{"response_status_code":500}]')]),
    "netlify": [
        "deploy ready",
        Delivery("locked", "a ready deploy is also locked and restored", "deploy locked", headers={"x-netlify-event": "deploy_locked"}),
        Delivery("ready-again", "a deploy is published again later", "deploy ready again", text=[("23:59:50", "23:59:55")]),
        Delivery("retried", RETRIED, "deploy ready", later=60),
    ],
    "notion": by_member("367cba44", "367cba45", [('"attempt_number":1', '"attempt_number":2')]),
    "okta": [
        *["1a2b", "3c4d"],
        Delivery("another-id", "another id is another event", "1a2b", "3c4e", text=[("3c4d", "3c4e")]),
        Delivery("regrouped", REGROUPED, "3c4d", edit=last_of("data", "events")),
    ],
    "openai": by_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "paddle_billing": by_member("evt_01hv8x2acma2gz7he8kg2s0hna", "evt_01hv8x2acma2gz7he8kg2s0hnb", [("ntf_01", "ntf_02")]),
    "pagerduty": by_member("5ac64822", "5ac64823"),
    "paypal": by_member("WH-2WR32451HC0233532", "WH-2WR32451HC0233533"),
    "plaid": [
        "an update",
        Delivery("equal-body", "another update may have an equal body; the time in its token tells them apart", "another update", later=1),
        Delivery("retried", RETRIED, "an update", later=60, signed_later=0),
    ],
    "postmark": [
        "delivered to a",
        Delivery("another-recipient", "each recipient of a message has a delivery", "delivered to b", body={**POSTMARK, "Recipient": "b@example.com"}),
        Delivery("opened", "a message is opened and clicked", "opened", body={"RecordType": "Open", **SEEN}),
        *(
            Delivery(f"clicked-{link}", "several links are clicked in one second", f"clicked {link}", body={"RecordType": "Click", **SEEN, "OriginalLink": f"https://example.com/{link}"})
            for link in ("a", "b")
        ),
        Delivery("unknown-type", "an unknown record type has no known time", "something", body={"RecordType": "New", "MessageID": POSTMARK["MessageID"], "n": 1}),
        Delivery("unknown-type-again", "an unknown record type has no known time", "something else", body={"RecordType": "New", "MessageID": POSTMARK["MessageID"], "n": 2}),
        Delivery("retried", RETRIED, "delivered to a", later=60),
    ],
    "razorpay": by_header("x-razorpay-event-id", "IgOtnSpPnJYyPh"),
    "recall": by_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "replicate": by_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "resend": by_header("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "retell": [
        "call ended",
        Delivery("analysed", "a call has several events", "call analysed", text=[("call_ended", "call_analyzed")]),
        *(
            Delivery(f"transcript-{words}", "a transcript is updated many times", f"transcript {words}", body={"event": "transcript_updated", "call": {"call_id": "call_1", "transcript": words}})
            for words in ("a", "ab")
        ),
        Delivery("chat", "a chat is no call", "chat ended", body={"event": "chat_ended", "chat": {"chat_id": "chat_1"}}),
        Delivery("retried", RETRIED, "call ended", later=60),
    ],
    "sanity": by_header("idempotency-key", "c2Fuc2l0eS1rZXl"),
    "sendgrid": [
        *["ev-1", "ev-2"],
        Delivery("another-id", "another id is another event", "ev-1", "ev-3", text=[("ev-2", "ev-3")]),
        Delivery("regrouped", REGROUPED, "ev-2", edit=last_of()),
    ],
    "sentry": by_header("request-id", "dc5e18cf-6e0b-4d2a-9e4e-1b35c1f4e3b1"),
    "shopify": [
        "order created",
        Delivery(
            "another-topic",
            "one action of a merchant is sent under several topics, with one event id",
            "order paid",
            headers={"x-shopify-topic": "orders/paid", "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd044"},
        ),
        Delivery("retried", RETRIED, "order created", later=60),
    ],
    "slack": [
        "the event",
        Delivery("another-id", "another id is another event", "another event", text=[("Ev0PV52K25", "Ev0PV52K26")]),
        Delivery("retried", RETRIED, "the event", headers={"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"}, later=60),
    ],
    "square": by_member("13b867cf", "13b867cd"),
    "standard_webhooks": by_header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "stripe": by_member("evt_1Sample", "evt_2Sample"),
    "svix": by_header("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJel"),
    "telegram": [
        "message 1365",
        Delivery("edited", "an edited message is another update", "message 1365 edited", text=[('"update_id":10000,"message"', '"update_id":10001,"edited_message"')]),
        Delivery("retried", RETRIED, "message 1365", later=60),
    ],
    "token": [
        "order 7 placed",
        Delivery("another-record", "another record is another event", "order 8 placed", text=[('"id":7', '"id":8')]),
        Delivery("equal-body", "nothing but the body tells events apart", "order 7 placed", later=60),
        Delivery("hugging-face", "a body of Hugging Face", "commit 1", body={"event": {"action": "update", "scope": "repo.content"}, "repo": {"name": "a/b"}, "webhook": {"id": "1"}}),
        Delivery("assembly-ai", "a body of AssemblyAI", "transcript 1", body={"transcript_id": "5552493-16d8-42d8-8feb-c2a16b56f6e8", "status": "completed"}),
        Delivery("monday-token", "a token that the sender adds is no part of an event and is not kept", "order 7 placed", headers={"authorization": "eyJhbGciOiJIUzI1NiJ9.eyJzaG9ydExpdmVkVG9rZW4iOiJhIn0.c2ln"}),
    ],
    "telnyx": by_member("4ee8c3a6", "4ee8c3a7", [('"attempt":1', '"attempt":2')]),
    "twilio": [
        "SM1 delivered",
        Delivery("another-status", "a message has one status after the other", "SM1 read", text=[("delivered", "read")]),
        Delivery("recording", "a recording has a state of its own", "RE1 done", body="AccountSid=AC1&CallSid=CA1&RecordingSid=RE1&RecordingStatus=completed"),
        Delivery("other-form", "a form of another product", "CH1 added", body="AccountSid=AC1&EventType=onMessageAdded&ConversationSid=CH1&MessagingBinding.Address=a&MessagingBinding.Address=b"),
        Delivery("call", "a call has no status of a message", "CA1 waits", body="CallSid=CA1&CallStatus=in-progress", headers={"i-twilio-idempotency-token": "t1"}),
        Delivery("call-again", "the token is not signed: whoever holds a request could choose another", "CA1 waits", body="CallSid=CA1&CallStatus=in-progress", headers={"i-twilio-idempotency-token": "t2"}),
        Delivery("retried", RETRIED, "SM1 delivered", later=60),
    ],
    "twitch_eventsub": [
        *by_header("twitch-eventsub-message-id", "befa7b53-d79d-478f-86b9-120f112b044f", {"twitch-eventsub-message-retry": "1"}),
        Delivery("revoked", "the end of a subscription is no event of it", "revoked", headers={"twitch-eventsub-message-id": "m-2", "twitch-eventsub-message-type": "revocation"}),
    ],
    "typeform": by_member("LtWXD3crgy", "LtWXD3crgz"),
    "vercel": by_member("uev_1", "uev_2"),
    "vonage": [
        "submitted",
        Delivery("delivered", "a message has one status after the other", "delivered", text=[('"submitted"', '"delivered"')]),
        Delivery("received", "a message has a type", "received", body={"message_uuid": "aaaaaaaa-bbbb-4ccc-8ddd-0123456789ac", "channel": "sms", "message_type": "text", "text": "hi"}),
        Delivery("call", "a call is no message", "call answered", body={"uuid": "aaaaaaaa-bbbb-4ccc-8ddd-0123456789ad", "conversation_uuid": "CON-1", "status": "answered"}),
        Delivery("retried", RETRIED, "submitted", later=60),
    ],
    "woocommerce": [
        "order updated",
        Delivery("same-second", "two changes of one second have one delivery id", "order updated again", text=[("29.99", "39.99")]),
        Delivery("another-second", "an object that is restored has the same body again", "order updated later", headers={"x-wc-webhook-delivery-id": "0a1b2c3e"}),
        Delivery("sent-twice", "a copy of a delivery is the same event", "order updated", later=60),
    ],
    "workos": by_member("wh_123", "wh_124"),
    "x_twitter": X,
    "zendesk": [
        "ticket created",
        Delivery("another-id", "another id is another event", "ticket created again", text=[("01HXSAMPLE", "01HXSAMPLF")]),
        *(
            Delivery(f"trigger-{number}", "the author of a trigger chooses its body, so its id may be the ticket's", f"trigger {number}", body={"id": "35436"}, headers={"x-zendesk-webhook-invocation-id": f"01HX{number}"})
            for number in (1, 2)
        ),
        Delivery("trigger-retried", RETRIED, "trigger 2", body={"id": "35436"}, headers={"x-zendesk-webhook-invocation-id": "01HX2"}, later=60),
        Delivery("retried", RETRIED, "ticket created", later=60),
    ],
    "zoom": by_member("1767225590000", "1767225590001"),
}
