"""Where this project and a provider's SDK disagree on purpose, with the reason."""

import base64
import json
import re
import urllib.parse

LATE_RETRY = "the SDK allows less; here a time is taken for as long as the provider retries, because a retry may have the first one, and clocks may differ by 300 s"
# How far a time may be off for SDKs that allow less than the limits here.
SDK_SECONDS = {"bigcommerce": 300, "brex": 300, "contentful": 30, "elevenlabs": 1800, "hubspot": 300, "linear": 60, "mux": 300, "paddle_billing": 5, "recall": 300, "retell": 300, "slack": 300, "telnyx": 300, "workos": 180}

TOKEN_ALONE = "the function checks the token alone; here its hash must be that of the body, and its age counts"
SIGNATURE_ALONE = {"discord", "replicate", "sanity", "sendgrid", "twitch_eventsub", "vonage"}
AGE_ONLY = {"elevenlabs", "stripe", "slack", "paddle_billing", "hubspot", "contentful", "mux", "workos"}


def between_vectors(vector):
    """Why the expected verdict of a vector differs from its SDK's; None when no reason is known."""
    provider, case = vector["id"].split("/")
    if vector["sdk"]["verdict"] == "valid":
        return sdk_accepts(provider, case)
    return sdk_refuses(provider, case)


def sdk_accepts(provider, case):
    if provider == "vonage" and case in ("tampered-body", "missing-timestamp"):
        return TOKEN_ALONE
    if case == "bare-token":
        return "the caller takes the token out of the header"
    if case == "future-timestamp" and provider in AGE_ONLY:
        return "the SDK looks at the age only; here a timestamp may be off in neither direction"
    if case in ("stale-timestamp", "future-timestamp") and provider in SIGNATURE_ALONE:
        return "the function compares the signature alone; here the age counts, too"
    if case == "upper-case-signature":
        return "the SDK compares decoded bytes; here one signature has one text"
    if case == "truncated-signature" and provider in ("adyen", "aws_sns", "line", "openai", "sendgrid"):
        return "the SDK decodes base64 without its padding; here one signature has one text"
    if case in ("duplicated-signature-header", "joined-signature-header"):
        return "the SDK picks a signature out of the joined value; here a header that decides something comes once"
    if case == "duplicated-signature":
        return "the SDK takes the last of two members of one name; here a value that decides something comes once"
    if case == "non-utf8-document":
        return "the SDK replaces bytes that are no text; here they make no document"
    if case == "subscription-of-other-topic":
        return "the SDK checks that SNS sent it, not whose topic it is"
    return None


def sdk_refuses(provider, case):
    if case in ("non-utf8-body", "non-utf8-body-without-key"):
        return "the SDK takes the body as text; the signature is over bytes"
    if case == "oldest-timestamp":
        return LATE_RETRY
    if case == "encoded-query":
        return "the SDK leaves the decoding of the address to its caller"
    if case == "two-signatures" and provider in ("elevenlabs", "retell", "sanity", "workos"):
        return "the SDK expects one signature; here a list is read the same at every provider that has one"
    if case == "two-signatures" and provider == "paddle_billing":
        return "the SDK keeps the last signature alone; Paddle documents that any may match"
    if case == "verification-token":
        return "the SDK judges deliveries; this question is never signed"
    return None


# Mutated requests

FUTURE = "the SDK looks at the age only; here a timestamp may be off in neither direction"
NO_AGE = "the function compares the signature alone; here the age counts, too"
ID = "the SDK also takes a request without the id that it signs"
TWICE = "the SDK picks a value out of two; here a header that decides something comes once"
ONE_TEXT = "the SDK decodes leniently; here one signature has one text"
TEXT = "the SDK takes the body as text; the signature is over bytes"
BARE = "the SDK also takes a signature without its version; here a version that is not v1 is not looked at"
NAMES = {
    "openai": BARE,
    "replicate": "the SDK takes a signature of any version; here one that is not v1 is not looked at",
    "retell": "the SDK reads the names in either case; here a name has one text",
}
DIGITS = "the SDK reads the digits that the timestamp begins with; here a timestamp is digits alone"
DER = "the SDK reads numbers in DER that DER does not allow; here one signature has one encoding"
NUMBER = "the SDK is handed a number, which has many texts; here a timestamp is digits alone"
EMPTY = "the SDK takes an empty body for a missing one; an empty body is signed like any other"
LISTED = "the SDK writes the list of signed headers anew before it checks it; here it is as it was sent"
CHALLENGE = "the SDK also signs challenges of strangers with this key; here a payload that is no XML could be one of them"
PARSES = "the SDK also parses the body; here it is stored as it came"

# SDKs that read hexadecimal in either case, or base64 with and without padding and stray characters.
LENIENT = {"adyen", "aws_sns", "discord", "gocardless", "line", "livekit", "mux", "notion", "openai", "paddle_billing", "retell", "sendgrid", "slack", "stripe", "workos"}
# SDKs that read a number from the digits that a text begins with.
LEADING_DIGITS = {"anthropic", "bigcommerce", "brex", "clerk", "contentful", "gitlab", "mux", "openai", "paddle_billing", "recall", "resend", "standard_webhooks", "stripe", "svix"}
# SDKs whose caller turns the timestamp into a number.
NUMERIC = {"hubspot", "slack"}
# SDKs that refuse an empty body before they check its signature.
WANTING = {"github", "replicate"}
# SDKs that parse the body after they have verified it.
PARSING = {"airtable", "anthropic", "bigcommerce", "brex", "clerk", "elevenlabs", "gitlab", "gocardless", "recall", "resend", "standard_webhooks", "stripe", "svix", "telnyx"}


def between_verdicts(request, ours, sdk):
    """Why our verdict on a mutated request differs from its SDK's; None when no reason is known."""
    provider, code = request["provider"], ours["code"]
    if sdk == "valid":
        if provider == "workos" and code in ("signature_mismatch", "signature_malformed", "signature_missing", "timestamp_missing"):
            return "the SDK reads the header by position and writes the body anew before it checks it"
        if provider == "vonage" and code in ("signature_mismatch", "timestamp_missing"):
            return TOKEN_ALONE
        if provider == "braintree" and code == "signature_malformed" and not holds_xml(request):
            return CHALLENGE
        if provider == "contentful" and code == "signature_mismatch" and is_rewritten_list(request):
            return LISTED
        if provider == "sendgrid" and code == "signature_mismatch" and not holds_der(request):
            return DER
        if provider == "twitch_eventsub" and code == "signature_missing" and not request["headers"].get("twitch-eventsub-message-id"):
            return ID
        if provider in LENIENT and code == "signature_mismatch" and holds_odd_signature(request):
            return ONE_TEXT
        return {
            "duplicate_header": TWICE,
            "timestamp_out_of_range": NO_AGE if provider in SIGNATURE_ALONE else FUTURE if provider in AGE_ONLY and of_the_future(request) else None,
            "signature_missing": NAMES.get(provider),
            "timestamp_malformed": DIGITS if provider in LEADING_DIGITS else NUMBER if provider in NUMERIC else None,
            "signature_malformed": ONE_TEXT if provider in LENIENT else LISTED if provider == "contentful" else NAMES.get(provider),
        }.get(code)
    if provider in SDK_SECONDS and is_off(request, SDK_SECONDS[provider]):
        return LATE_RETRY
    if not is_text(request):
        return TEXT
    if provider in WANTING and not request["body_base64"]:
        return EMPTY
    if provider in PARSING and not parses(request):
        return PARSES
    return {
        "airtable": "the SDK takes ASCII alone and checks the body's fields",
        "elevenlabs": "the SDK takes the first signature alone; here a list is read the same at every provider that has one",
        "paddle_billing": "the SDK keeps the last signature alone; Paddle documents that any may match",
        "retell": "the SDK expects the time, then one signature; here a list is read by its names",
        "sanity": "the SDK expects the time, then one signature; here a list is read by its names",
        "shopify": "the SDK also wants headers that it does not check; here only what decides is needed",
        "workos": "the SDK expects the time, then one signature; here a list is read by its names",
    }.get(provider)


def is_text(request):
    try:
        base64.b64decode(request["body_base64"]).decode()
    except UnicodeDecodeError:
        return False
    return True


def parses(request):
    try:
        json.loads(base64.b64decode(request["body_base64"]))
    except ValueError:
        return False
    return True


def holds_der(request):
    """True when the signature of an elliptic curve is valid DER."""
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    try:
        decode_dss_signature(base64.b64decode(request["headers"]["x-twilio-email-event-webhook-signature"]))
    except (KeyError, TypeError, ValueError):
        return False
    return True


def holds_odd_signature(request):
    """True when one of several signatures is neither lower-case hexadecimal nor base64 with its padding."""
    lists = [value for name, value in request["headers"].items() if name.endswith("-signature") and isinstance(value, str)]
    signatures = [item for value in lists for item in re.findall(r"\b(?:v1|h1)[=,]([^, ;]*[^, ]*)", value)]
    return len(signatures) > 1 and not all(re.fullmatch(r"[0-9a-f]{64}|[A-Za-z0-9+/]{43}=", one) for one in signatures)


def is_rewritten_list(request):
    """True when the list of signed headers is not the sorted list of those that are there."""
    name = "x-contentful-signed-headers"
    listed = request["headers"].get(name, "")
    return listed != ",".join(sorted({*(one.strip() for one in listed.split(",")), name} & set(request["headers"])))


def holds_xml(request):
    """True when the payload of a form is base64 of XML."""
    form = urllib.parse.parse_qs(base64.b64decode(request["body_base64"]).decode("latin-1"))
    try:
        return base64.b64decode("".join(form["bt_payload"]).encode()).lstrip().startswith(b"<")
    except (KeyError, ValueError):
        return False


def of_the_future(request):
    """True when a timestamp of the request is in the future."""
    return any(second > request["now_unix"] for second in times(request))


def is_off(request, most):
    """True when a timestamp of the request is further from the time at which it is judged."""
    return any(abs(second - request["now_unix"]) >= most for second in times(request))


def times(request):
    """The timestamps in the headers, and in the body that of Linear."""
    texts = [value for values in request["headers"].values() for value in ([values] if isinstance(values, str) else values)]
    texts += re.findall(r'"webhookTimestamp":[0-9]+', base64.b64decode(request["body_base64"]).decode(errors="replace"))
    numbers = [int(number) for text in texts for number in re.findall(r"(?<![0-9a-fA-F])(?:17[0-9]{8}|17[0-9]{11})(?![0-9a-fA-F])", text)]
    return [number / 1000 if number > 10**11 else number for number in numbers]
