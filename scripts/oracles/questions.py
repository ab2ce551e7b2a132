"""The providers' handshakes, and the expected answers."""

import base64
import hashlib
import hmac
import json

from reference import Request, held


def of(cases):
    """(case, request, expected, reason) of one provider's handshakes."""
    return {
        "meta_whatsapp": meta,
        "meta_messenger_instagram": meta,
        "slack": slack,
        "zoom": zoom,
        "x_twitter": x,
        "okta": okta,
        "dropbox": dropbox,
        "twitch_eventsub": twitch,
        "discord": discord,
        "line": line,
        "intercom": intercom,
        "braintree": braintree,
        "notion": notion,
        "aws_sns": sns,
        "woocommerce": woocommerce,
    }.get(cases.provider, lambda _: [])(cases)


def question(cases, method, query="", headers=()):
    request = Request(cases.provider, cases.sample, cases_now(cases))
    request.method, request.body = method, b""
    request.headers = list(headers)
    request.url = f"https://example.com/webhooks/{cases.provider}{query}"
    request.secrets = [held(cases.sample["secrets"][0])]
    return request


def cases_now(cases):
    return cases.request().now


def answered(body, status=200):
    return {"verdict": "handshake", "response": {"status": status, "body": body}}


def signed_question(cases, body, answer, case="challenge", headers=()):
    document = json.dumps(body, separators=(",", ":")).encode()
    good = cases.request(body=document)
    for name, value in headers:
        good.set_header(name, value)
    forged = cases.request(body=document, secret=1)
    for name, value in headers:
        forged.set_header(name, value)
    return [
        (case, good, answer, "a handshake is answered at once and never stored"),
        (f"forged-{case}", forged, {"verdict": "rejected", "code": "signature_mismatch"}, "a handshake is answered only after its signature was checked"),
    ]


def meta(cases):
    query = "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
    return [
        ("challenge", question(cases, "GET", query + "verify-me"), answered("1158201444"), "the verify token is right"),
        ("challenge-with-wrong-token", question(cases, "GET", query + "verify-mf"), {"verdict": "rejected", "code": "signature_mismatch"}, "the verify token is wrong"),
        ("challenge-without-token", question(cases, "GET", query.rpartition("&")[0]), {"verdict": "rejected", "code": "signature_missing"}, "the verify token is missing"),
    ]


def slack(cases):
    return signed_question(cases, {"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}, answered("3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"))


def zoom(cases):
    plain = "qgg8vlvZRS6UYooatFL8Aw"
    encrypted = hmac.new(cases.sample["secrets"][0].encode(), plain.encode(), "sha256").hexdigest()
    body = {"event": "endpoint.url_validation", "event_ts": 1767225600000, "payload": {"plainToken": plain}}
    return signed_question(cases, body, answered(json.dumps({"plainToken": plain, "encryptedToken": encrypted})))


def x(cases):
    token = "OGNmMmJkZGQtOGY5OS00"
    raw = hmac.new(cases.sample["secrets"][0].encode(), token.encode(), hashlib.sha256).digest()
    answer = json.dumps({"response_token": "sha256=" + base64.b64encode(raw).decode()})
    oracle = "a text that could be a delivery is never signed for a stranger"
    return [
        ("challenge", question(cases, "GET", f"?crc_token={token}"), answered(answer), "the challenge is answered with its HMAC"),
        ("challenge-that-is-a-delivery", question(cases, "GET", "?crc_token=%7B%22for_user_id%22%3A%221%22%7D"), {"verdict": "rejected", "code": "malformed"}, oracle),
    ]


def okta(cases):
    return [("challenge", question(cases, "GET", headers=[("x-okta-verification-challenge", "a1b2")]), answered('{"verification":"a1b2"}'), "the challenge is echoed")]


def dropbox(cases):
    return [("challenge", question(cases, "GET", "?challenge=a1b2%20c"), answered("a1b2 c"), "the challenge is echoed as plain text")]


def twitch(cases):
    kind = ("twitch-eventsub-message-type", "webhook_callback_verification")
    return signed_question(cases, {"challenge": "pogchamp-kappa-360noscope-vohiyo", "subscription": {"id": "f1c2a387"}}, answered("pogchamp-kappa-360noscope-vohiyo"), headers=[kind])


def discord(cases):
    ping = signed_question(cases, {"type": 1, "id": "1", "application_id": "2"}, answered('{"type":1}'))
    event_ping = signed_question(cases, {"version": 1, "application_id": "2", "type": 0}, answered("", 204), "webhook-event-ping")
    event = {"version": 1, "application_id": "2", "type": 1, "event": {"type": "APPLICATION_AUTHORIZED", "timestamp": "2025-12-31T23:59:50Z"}}
    request = cases.request(body=json.dumps(event, separators=(",", ":")).encode())
    return [*ping, *event_ping, ("webhook-event", request, {"verdict": "accepted"}, "a webhook event of type 1 is an event, not a ping")]


def line(cases):
    return signed_question(cases, {"destination": "U1", "events": []}, answered(""), "verify-button")


def intercom(cases):
    ping = {"type": "notification_event", "topic": "ping", "id": None, "data": {"item": {"type": "ping"}}}
    return [
        ("save", question(cases, "HEAD"), answered(""), "the provider asks once, when somebody saves the address"),
        *signed_question(cases, ping, answered(""), "ping"),
    ]


def braintree(cases):
    challenge = "20f9f8ed05f77439fe955c977e4c8a53"
    key = hashlib.sha1(cases.sample["secrets"][0].encode()).digest()
    answer = "integration_public_key|" + hmac.new(key, challenge.encode(), "sha1").hexdigest()
    return [
        ("challenge", question(cases, "GET", f"?bt_challenge={challenge}"), answered(answer), "the challenge is answered with its HMAC"),
        ("challenge-that-is-a-payload", question(cases, "GET", "?bt_challenge=PG5vdGlmaWNhdGlvbj48a2luZD48"), {"verdict": "rejected", "code": "malformed"}, "a text that could be a payload is never signed for a stranger"),
    ]


def notion(cases):
    request = question(cases, "POST")
    request.body = b'{"verification_token":"secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"}'
    return [("verification-token", request, answered(""), "sent once, unsigned; a person copies the token")]


def woocommerce(cases):
    request = question(cases, "POST", headers=[("content-type", "application/x-www-form-urlencoded")])
    other = question(cases, "POST", headers=[("content-type", "application/json")])
    request.body = other.body = b"webhook_id=12"
    signed = cases.request(body=b"webhook_id=12")
    return [
        ("ping", request, answered(""), "sent once, unsigned; only a 200 makes the webhook active"),
        ("ping-that-is-no-form", other, {"verdict": "rejected", "code": "signature_missing"}, "only a form asks; everything else is signed"),
        ("ping-with-a-signature", signed, {"verdict": "accepted"}, "what is signed is a delivery"),
    ]


def sns(cases):
    message = json.loads(cases.sample["body"])
    message |= {"Type": "SubscriptionConfirmation", "Token": "2336412f37", "Message": "You have chosen to subscribe."}
    message |= {"SubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37"}
    del message["Subject"], message["UnsubscribeURL"]
    other = dict(message, TopicArn="arn:aws:sns:us-west-2:999999999999:Other")
    foreign = dict(message, SigningCertURL="https://sns.us-west-2.amazonaws.com.evil.example/x.pem")
    request = lambda body: cases.request(body=json.dumps(body, separators=(",", ":")).encode())
    return [
        ("subscription", request(message), answered(""), "the topic is the endpoint's own"),
        ("subscription-of-other-topic", request(other), {"verdict": "rejected", "code": "signature_mismatch"}, "anyone can subscribe any address"),
        ("foreign-certificate", request(foreign), {"verdict": "rejected", "code": "signature_malformed"}, "a certificate is believed only from the provider's own hosts"),
    ]
