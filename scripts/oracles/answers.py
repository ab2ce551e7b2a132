"""What the first answer to an accepted delivery is, the answer to a refused one, and the content type of the answer to a handshake."""

import json

# A small report in JSON, whose bytes name the record.
REPORT = {"status": 200, "content_type": "application/json"}

# Of what a handshake gives back.
TEXT = "text/plain; charset=utf-8"


def fixed(status, body="", content_type=None):
    return {"status": status, **({"content_type": content_type} if content_type else {}), "body": body}


# Providers that read the body of an answer, or want none.
OTHERS = {
    "adyen": fixed(202, "[accepted]", "text/plain"),
    "airtable": fixed(200),
    "bigcommerce": fixed(200),
    "discord": fixed(204),
    "slack": fixed(200),
    "telegram": fixed(200),
    "twilio": fixed(200, "<Response/>", "text/xml"),
    "vonage": fixed(200),
}


def of(provider, body, known=None):
    """The answer to a delivery with this body. A report names the record, as it did when the vector was made."""
    if provider == "discord" and document(body).get("token"):
        return fixed(202)
    return OTHERS.get(provider, {**REPORT, "body": known} if known else REPORT)


def refused(code, file):
    """The answer to a request that is refused: nothing but the code, and the methods by which the provider calls."""
    status = {"method_not_allowed": 405, "malformed": 400}.get(code, 401)
    methods = sorted({"POST", *(handshake["method"] for handshake in file.get("handshake", []))})
    allowed = {"allow": ", ".join(methods)} if status == 405 else {}
    return {**fixed(status, json.dumps({"error": code}), "application/json"), **allowed}


def document(body):
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def content_type(body):
    """That of an answer to a handshake."""
    if not body:
        return None
    try:
        json.loads(body)
    except ValueError:
        return TEXT
    return "application/json" if body[0] in "{[" else TEXT
