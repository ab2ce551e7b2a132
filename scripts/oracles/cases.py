"""The cases of every provider's vectors: what is changed, and the expected verdict."""

import copy
import hashlib
import json
import re

import facts
from reference import Request, held, main_scheme, samples, settled, sign

NOW = 1767225600

REASONS = {
    "valid": "an unchanged delivery is accepted",
    "rotated-secret": "during a rotation the endpoint holds two secrets, and either may match",
    "two-signatures": "during a rotation the provider sends two signatures, and either may match",
    "encoded-query": "the provider decodes some characters of the address before it signs it",
    "tampered-body": "the signature covers the body",
    "unsigned-part-changed": "the provider does not sign this part of the body",
    "wrong-secret": "a signature made with another secret never matches",
    "missing-signature": "a request without a signature proves nothing",
    "empty-signature": "an empty signature proves nothing",
    "truncated-signature": "a truncated signature proves nothing",
    "duplicated-signature-header": "two programs can read two headers with the same name differently",
    "joined-signature-header": "a gateway joined two headers into one",
    "bare-token": "the scheme of the authorization is a part of the header's text",
    "upper-case-signature": "a signature has one spelling, and every other spelling is refused",
    "stale-timestamp": "a delivery that was signed too long ago may be a replay",
    "future-timestamp": "a timestamp from the future is refused like an old one",
    "oldest-timestamp": "a timestamp exactly at the limit is accepted",
    "missing-timestamp": "without a timestamp the age of a delivery cannot be checked",
    "duplicated-signature": "a value that decides something may come only once",
    "non-utf8-document": "the signed values are read from text, and these bytes are not text",
    "duplicated-id-header": "the id is signed, and two programs can read two headers with the same name differently",
    "differing-id-headers": "an authentic delivery whose ids differ is kept under the hash of its body",
    "missing-key": "an authentic delivery without an id is kept under the hash of its body",
    "non-utf8-body": "a body is bytes; it need not be text",
    "non-utf8-body-without-key": "a genuine body that cannot be parsed is kept under its hash",
    "wrong-method": "the provider delivers with POST",
}


# What a retry changes in the body is no part of its hash.
RETRY_CHANGES = {"linear": rb'(?<="webhookTimestamp":)\d+'}

# The signatures in the body, as they are written there.
IN_BODY = {
    "adyen": rb'"hmacSignature":"([^"]*)"',
    "aws_sns": rb'"Signature":"([^"]*)"',
    "braintree": rb"bt_signature=([^&]*)",
    "mailgun": rb'"signature":"([0-9a-f]*)"',
}

# Something that the signature does not cover, to be followed by bytes that are not text.
UNSIGNED_TEXT = {"adyen": b'"visa', "aws_sns": b"?Action=", "braintree": b"bt_payload=", "mailgun": b'"delivered', "twilio": b"MessageStatus="}

# Added to the address of a sample, and decoded before it is signed.
ENCODED_QUERY = {"hubspot": "?next=https%3A%2F%2Fexample.org%2Fa%20b&to=%40home%3b%253A"}


def scheme_header(scheme, settings):
    """The header that carries the signature or token; nothing when it is in the body."""
    if scheme["kind"] in ("token", "basic", "jwt"):
        return settled(scheme["header"], settings)
    special = {"twilio": "x-twilio-signature", "paypal": "paypal-transmission-sig", "contentful": "x-contentful-signature"}
    if scheme["kind"] in special:
        return special[scheme["kind"]]
    kind, _, place = scheme.get("signature", "").partition(":")
    return place.replace("*", "1") if kind == "header" else None


def hashed(body, type_):
    """The event of an authentic body without an id."""
    return {"key": "sha256:" + hashlib.sha256(body).hexdigest(), "type": type_}


class Cases:
    def __init__(self, provider, catalog_file):
        self.provider, self.file = provider, catalog_file
        self.sample = samples()[provider]
        self.scheme = main_scheme(provider, catalog_file)
        self.header = scheme_header(self.scheme, self.sample.get("settings", {}))
        self.vectors = []
        self.signed = self.scheme["kind"] not in ("token", "basic")

    def request(self, at=NOW, body=None, secret=0, others=(), held_secrets=(0,)):
        request = Request(self.provider, self.sample, NOW)
        if body is not None:
            request.body = body
        secrets = self.sample["secrets"]
        sign(request, self.scheme, secrets[secret], at, [secrets[other] for other in others])
        request.secrets = [held(secrets[index]) for index in held_secrets]
        return request

    def add(self, case, request, verdict, code=None, reason=None, **expected):
        reason = reason or REASONS.get(case) or self.reason
        expected = {"verdict": verdict, **({"code": code} if code else {}), **expected}
        self.vectors.append(
            {"id": f"{self.provider}/{case}", "case": case, "reason": reason, **request.captured(), "expected": expected}
        )

    def all(self):
        self.authentic()
        self.further_facts()
        self.forged()
        self.times()
        self.unreadable()
        self.questions()
        return self.vectors

    def authentic(self):
        events = {"events": self.sample["events"]} if "events" in self.sample else {}
        names, _ = facts.of(self)
        self.add("valid", self.request(), "accepted", matched_secret=0, **events, facts=names)
        self.add("rotated-secret", self.request(secret=1, held_secrets=(0, 1)), "accepted", matched_secret=1, **events)
        layout = self.scheme.get("format")
        if (isinstance(layout, dict) and "pairs" in layout) or self.scheme.get("signature", "").endswith("*"):
            self.add("two-signatures", self.request(others=(1,)), "accepted", matched_secret=0, **events)
        if self.provider in ENCODED_QUERY:
            self.sample = {**self.sample, "url": self.request().url + ENCODED_QUERY[self.provider]}
            self.add("encoded-query", self.request(), "accepted", matched_secret=0, **events)
            self.sample = samples()[self.provider]

    def further_facts(self):
        _, deliveries = facts.of(self)
        for delivery in deliveries:
            self.add(delivery.case, delivery.request(self), "accepted", reason=delivery.reason, facts=delivery.names)

    def forged(self):
        if self.signed:
            self.add("tampered-body", self.tampered(), "rejected", "signature_mismatch")
        unsigned = {"mailgun": (b"delivered", b"failed!!!"), "adyen": (b'"visa"', b'"amex"'), "aws_sns": (b"?Action=Unsubscribe", b"?Action=Somethingel")}
        if self.provider in unsigned:
            request = self.request()
            request.body = request.body.replace(*unsigned[self.provider])
            self.add("unsigned-part-changed", request, "accepted")
        self.add("wrong-secret", self.request(secret=1), "rejected", "signature_mismatch")
        self.forged_headers()

    def forged_headers(self):
        if self.header is None:
            self.forged_fields()
            return
        good = self.request()
        value = good.header(self.header)

        def changed(change):
            request = copy.deepcopy(good)
            change(request)
            return request

        drop = lambda r: setattr(r, "headers", [pair for pair in r.headers if pair[0] != self.header])
        self.add("missing-signature", changed(drop), "rejected", "signature_missing")
        empty, truncated, joined = self.codes()
        self.add("empty-signature", changed(lambda r: r.set_header(self.header, "")), "rejected", empty)
        self.add("truncated-signature", changed(lambda r: r.set_header(self.header, value[:-1])), "rejected", truncated)
        twice = changed(lambda r: r.headers.append((self.header, value)))
        self.add("duplicated-signature-header", twice, "rejected", "duplicate_header")
        if "prefix" in self.scheme:
            self.add("bare-token", changed(lambda r: r.set_header(self.header, value.removeprefix(self.scheme["prefix"]))), "rejected", "signature_malformed")
        if self.joined_is_refused():
            self.add("joined-signature-header", changed(lambda r: r.set_header(self.header, f"{value}, {value}")), "rejected", joined)
        if self.scheme.get("encoding") == "hex" and value.upper() != value:
            layout = self.scheme.get("format")
            start = 0 if not isinstance(layout, dict) else value.rindex("=") + 1
            upper = value[:start] + value[start:].upper()
            self.add("upper-case-signature", changed(lambda r: r.set_header(self.header, upper)), "rejected", "signature_malformed")

    def codes(self):
        """Why a signature is refused that is empty, lacks its last character, or comes twice in one header."""
        layout = self.scheme.get("format")
        is_listed = isinstance(layout, dict) and "pairs" in layout
        empty = "signature_missing" if is_listed or self.scheme["kind"] == "paypal" else "signature_malformed"
        by_kind = {"token": ("signature_mismatch", "signature_mismatch"), "basic": ("signature_malformed", "signature_malformed")}
        return empty, *by_kind.get(self.scheme["kind"], ("signature_malformed", "duplicate_header"))

    def forged_fields(self):
        """A signature in the body: its field is changed as headers are elsewhere."""
        good, pattern = self.request(), IN_BODY[self.provider]
        found = re.search(pattern, good.body)
        field, value = found.group(0), found.group(1)

        def changed(other):
            request = copy.deepcopy(good)
            request.body = other(request.body)
            return request

        dropped = lambda body: re.sub(rb"[,&]" + pattern + rb"|" + pattern + rb"[,&]?", b"", body, count=1)
        self.add("missing-signature", changed(dropped), "rejected", "signature_missing")
        empty = "signature_missing" if self.provider == "mailgun" else "signature_malformed"
        self.add("empty-signature", changed(lambda body: body.replace(field, field.replace(value, b""))), "rejected", empty)
        self.add("truncated-signature", changed(lambda body: body.replace(value, value[:-1])), "rejected", "signature_malformed")
        separator = b"&" if self.provider == "braintree" else b","
        self.add("duplicated-signature", changed(lambda body: body.replace(field, field + separator + field)), "rejected", "signature_malformed")

    def joined_is_refused(self):
        """Two lists of signatures, joined, are one longer list where no timestamp comes twice in it."""
        pairs = self.scheme.get("format", {}).get("pairs") if isinstance(self.scheme.get("format"), dict) else None
        return not (pairs and pairs["between"] == "," and not self.scheme.get("timestamp", {}).get("from", "").startswith("pair:"))

    def tampered(self):
        """Changes one signed character of the body."""
        changes = {
            "mailgun": (b"a8ce0edb", b"a8ce0edc"),
            "adyen": (b'"value":1130', b'"value":1131'),
            "braintree": (b"bt_payload=P", b"bt_payload=Q"),
            "aws_sns": (b"next line", b"next lime"),
            "twilio": (b"MessageSid=SM1", b"MessageSid=SM2"),
        }
        request = self.request()
        old, new = changes.get(self.provider, (b"", b""))
        if old:
            assert old in request.body, self.provider
            request.body = request.body.replace(old, new, 1)
        else:
            at = max(index for index, byte in enumerate(request.body) if chr(byte).isalnum())
            request.body = request.body[:at] + bytes([request.body[at] ^ 1]) + request.body[at + 1 :]
        return request

    def times(self):
        timestamp = self.scheme.get("timestamp", {})
        tolerance = timestamp.get("tolerance_seconds") or self.scheme.get("issued_tolerance_seconds") or self.scheme.get("tolerance_seconds")
        if self.scheme["kind"] == "paypal":
            # Longer than PayPal retries.
            tolerance = 73 * 3600
        if not tolerance:
            self.times_of_sender()
            return
        self.add("stale-timestamp", self.request(at=NOW - tolerance - 1), "rejected", "timestamp_out_of_range")
        self.add("oldest-timestamp", self.request(at=NOW - tolerance), "accepted")
        self.add("future-timestamp", self.request(at=NOW + min(tolerance, 300) + 1), "rejected", "timestamp_out_of_range")
        kind, _, place = timestamp.get("from", "").partition(":")
        request = self.request()
        if self.scheme["kind"] in ("jwt", "contentful"):
            self.timeless()
        elif kind == "json":
            body = json.loads(request.body)
            *path, last = place.removeprefix("$.").split(".")
            parent = body
            for step in path:
                parent = parent[step]
            del parent[last]
            request.body = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
            if "{ts}" not in self.scheme["signs"]:
                sign(request, {**self.scheme, "timestamp": None}, self.sample["secrets"][0], NOW)
            self.add("missing-timestamp", request, "rejected", "timestamp_missing")
        elif kind == "header":
            request.headers = [pair for pair in request.headers if pair[0] != place]
            self.add("missing-timestamp", request, "rejected", "timestamp_missing")
        elif kind == "pair":
            pairs = self.scheme["format"]["pairs"]
            items = [item.strip() for item in request.header(self.header).split(pairs["between"])]
            kept = [item for item in items if not item.startswith(place + pairs["assign"])]
            request.set_header(self.header, pairs["between"].join(kept))
            self.add("missing-timestamp", request, "rejected", "timestamp_missing")

    def times_of_sender(self):
        """The sender signs until when a token is valid."""
        leeway = self.scheme.get("expiry_leeway_seconds")
        if leeway is not None:
            # The token is valid for 300 s.
            self.add("stale-timestamp", self.request(at=NOW - 301 - leeway), "rejected", "timestamp_out_of_range")
            self.add("future-timestamp", self.request(at=NOW + 1 + leeway), "rejected", "timestamp_out_of_range")
            self.timeless()

    def timeless(self):
        if self.scheme["kind"] == "contentful":
            request = self.request()
            request.headers = [pair for pair in request.headers if pair[0] != "x-contentful-timestamp"]
            self.add("missing-timestamp", request, "rejected", "timestamp_missing")
        else:
            self.add("missing-timestamp", self.request(at=None), "rejected", "timestamp_missing")

    def unreadable(self):
        """Authentic deliveries that have no id, or are no document."""
        items = self.file.get("items", [])
        rules = [rule for item in items for rule in item["key"]] or self.scheme.get("key") or self.file.get("key", [])
        body_signed = self.scheme["kind"] not in ("adyen_items", "aws_sns", "braintree", "twilio")
        json_timestamp = self.scheme.get("timestamp", {}).get("from", "").startswith("json:") or self.scheme.get("signature", "").startswith("json:")
        if body_signed and not json_timestamp:
            bytes_ = b'\xff\xfe{"not":"text"}\x00'
            if any(rule.split(" + ")[0].startswith(("header:", "sha256", "request_sha256")) and "json:" not in rule for rule in rules) and not items:
                self.add("non-utf8-body", self.request(body=bytes_), "accepted", **self.broken(rules, bytes_))
            else:
                self.add("non-utf8-body-without-key", self.request(body=bytes_), "accepted", events=[hashed(bytes_, "unreadable")])
                if all("json:" in rule or "header:" in rule for rule in rules) and not items:
                    self.add("missing-key", self.without_id_headers(self.request(body=b"{}")), "accepted", events=[hashed(b"{}", "unknown")])
        else:
            self.no_text()
        id_headers = [rule[7:] for rule in rules if rule.startswith("header:") and " + " not in rule and self.sample.get("headers", {}).get(rule[7:])]
        if id_headers and self.scheme["kind"] != "contentful":
            self.doubled(id_headers[0], is_only_key=rules == [f"header:{id_headers[0]}"])

    def broken(self, rules, body):
        """What an authentic body is that is no document, where the provider always sends one. The id of its header stays its key."""
        if "document" not in self.file:
            return {}
        headers = [self.sample.get("headers", {}).get(rule[7:]) for rule in rules if rule.startswith("header:") and " + " not in rule]
        keys = [value for value in headers if value]
        return {"events": [{"key": keys[0], "type": "unreadable"} if keys else hashed(body, "unreadable")]}

    def doubled(self, name, is_only_key):
        """The id header twice: refused where it is signed, because it may be read in two ways."""
        events = self.sample.get("events")
        request = self.request()
        request.headers.append((name, request.header(name)))
        if f"header:{name}" in self.scheme.get("signs", ""):
            self.add("duplicated-id-header", request, "rejected", "duplicate_header")
            return
        self.add("duplicated-id-header", request, "accepted", reason="one id that comes twice is one id", **({"events": events} if events else {}))
        if is_only_key and events:
            request = self.request()
            request.headers.append((name, "another"))
            changed = RETRY_CHANGES.get(self.provider)
            kept = re.sub(changed, b"", request.body) if changed else request.body
            self.add("differing-id-headers", request, "accepted", events=[hashed(kept, events[0]["type"])])

    def no_text(self):
        if self.provider in UNSIGNED_TEXT:
            request, place = self.request(), UNSIGNED_TEXT[self.provider]
            assert place in request.body, self.provider
            request.body = request.body.replace(place, place + b"\xff\xfe", 1)
            self.add("non-utf8-document", request, "rejected", "signature_malformed")
        else:
            request = self.request()
            request.body = b"\xff\xfe" + request.body
            sign(request, {**self.scheme, "timestamp": None}, self.sample["secrets"][0], NOW)
            self.add("non-utf8-document", request, "rejected", "signature_malformed")

    def without_id_headers(self, request):
        names = {rule[7:] for rule in self.file.get("key", []) if rule.startswith("header:")}
        request.headers = [pair for pair in request.headers if pair[0] not in names]
        return request

    def questions(self):
        import questions

        for case, request, expected, reason in questions.of(self):
            self.reason = reason
            self.add(case, request, expected.pop("verdict"), expected.pop("code", None), **expected)
        if not any(handshake["method"] == "GET" for handshake in self.file.get("handshake", [])):
            request = self.request()
            request.method = "GET"
            self.add("wrong-method", request, "rejected", "method_not_allowed")
