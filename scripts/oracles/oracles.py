"""The PyPI SDKs' verdicts on captured requests. oracles.mjs describes the form of lines and verdicts."""

import asyncio
import base64
import importlib.metadata
import json
import sys
import types


def header(request, name):
    for key, value in request["headers"].items():
        if key.lower() == name:
            return value if isinstance(value, str) else ", ".join(value)
    return None


def text(request):
    return base64.b64decode(request["body_base64"]).decode()


def airtable(request, secret):
    from pyairtable.models import WebhookNotification

    WebhookNotification.from_request(text(request), header(request, "x-airtable-content-mac"), secret)


def twitch(request, secret):
    from twitchAPI.eventsub.webhook import EventSubWebhook

    async def read():
        return text(request)

    prefix = "Twitch-Eventsub-Message-"
    headers = {prefix + name: header(request, (prefix + name).lower()) for name in ("Signature", "Id", "Timestamp")}
    received = types.SimpleNamespace(headers=headers, text=read)
    return asyncio.run(EventSubWebhook._verify_signature(types.SimpleNamespace(secret=secret), received))


ORACLES = {
    "airtable": ("pyairtable", "WebhookNotification.from_request", airtable),
    "twitch_eventsub": ("twitchAPI", "EventSubWebhook._verify_signature (private; no age check)", twitch),
}

for line in sys.stdin:
    request = json.loads(line)
    oracle = ORACLES.get(request["provider"])
    if oracle is None or request["method"] != "POST":
        print(json.dumps({"verdict": None}))
        continue
    package, function, check = oracle
    valid = False
    for secret in request["secrets"]:
        try:
            valid = valid or check(request, secret) is not False
        except Exception:
            pass
    verdict = {"verdict": "valid" if valid else "invalid", "ecosystem": "pypi", "package": package, "version": importlib.metadata.version(package), "function": function}
    print(json.dumps(verdict))
