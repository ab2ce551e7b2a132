"""A second, independent implementation of the catalog's schemes: signs a sample as its provider would.

It reads the same data files as the Rust crate (shared/providers/catalog) and shares no code with it. Asymmetric keys are
throw-away test keys, named in samples.json as `p256:N`, `ed25519:N`, `ed25519_base64:N`, `jwk:N` (derived from N) or `rsa:N`, `cert:N` (keys/N.pem).
"""

import base64
import binascii
import datetime
import functools
import hashlib
import hmac
import json
import pathlib
import re
import tomllib
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
CATALOG = ROOT / "shared/providers/catalog"
HERE = pathlib.Path(__file__).resolve().parent


def catalog():
    return {path.stem: tomllib.loads(path.read_text()) for path in sorted(CATALOG.glob("*.toml"))}


@functools.cache
def samples():
    return json.loads((HERE / "samples.json").read_text())


class Request:
    """A request that can be changed and saved."""

    def __init__(self, provider, sample, now):
        self.provider, self.now, self.method = provider, now, "POST"
        self.url = sample.get("url", f"https://example.com/webhooks/{provider}")
        self.headers = [(name, value) for name, value in sample.get("headers", {}).items()]
        self.body = sample["body"].encode()
        self.settings = dict(sample.get("settings", {}))
        self.secrets = []

    def header(self, name):
        return next((value for key, value in self.headers if key == name), None)

    def set_header(self, name, value):
        self.headers = [(key, old) for key, old in self.headers if key != name] + [(name, value)]

    def captured(self):
        headers = {}
        for name, value in self.headers:
            headers[name] = [*([headers[name]] if isinstance(headers[name], str) else headers[name]), value] if name in headers else value
        captured = {"method": self.method, "url": self.url, "headers": headers}
        captured["body_base64"] = base64.b64encode(self.body).decode()
        captured["secrets"] = self.secrets
        if self.settings:
            captured["settings"] = self.settings
        captured["now_unix"] = self.now
        return captured


# Keys


@functools.cache
def p256(number):
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(0x1234567890ABCDEF * (number + 1), ec.SECP256R1())


@functools.cache
def ed25519(number):
    from cryptography.hazmat.primitives.asymmetric import ed25519 as curve

    return curve.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"hookonce test key %d" % number).digest())


@functools.cache
def rsa(number):
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key((HERE / f"keys/{number}.pem").read_bytes(), None)


def held(secret):
    """What an endpoint holds for a secret of a sample: the secret itself, or the public part of a key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    kind, _, number = secret.partition(":")
    if kind == "p256":
        return base64.b64encode(p256(int(number)).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
    if kind in ("ed25519", "ed25519_base64"):
        raw = ed25519(int(number)).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return raw.hex() if kind == "ed25519" else base64.b64encode(raw).decode()
    if kind == "jwk":
        numbers = p256(int(number)).public_key().public_numbers()
        coordinate = lambda value: base64url(value.to_bytes(32, "big"))
        return json.dumps({"kty": "EC", "crv": "P-256", "kid": f"key-{number}", "x": coordinate(numbers.x), "y": coordinate(numbers.y)})
    if kind == "rsa":
        return rsa(int(number)).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    if kind == "cert":
        return (HERE / f"keys/{number}.crt.pem").read_text()
    return secret


def sign_p256(secret, message, fixed=False):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    key = p256(int(secret.partition(":")[2]))
    signature = key.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    if not fixed:
        return signature
    r, s = utils.decode_dss_signature(signature)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def sign_rsa(secret, message):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return rsa(int(secret.partition(":")[2])).sign(message, padding.PKCS1v15(), hashes.SHA256())


# Pieces


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(data, encoding):
    return {"hex": lambda: data.hex(), "base64": lambda: base64.b64encode(data).decode(), "base64url": lambda: base64url(data)}[encoding]()


def stamp(at, unit):
    if unit == "seconds":
        return str(at)
    if unit == "milliseconds":
        return str(at * 1000)
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_get(document, path):
    for member in re.findall(r'\.([^.\[]+)|\["([^"]+)"\]', path[1:]):
        document = document[member[0] or member[1]]
    return document


def json_set(request, path, value):
    """Sets an existing member and writes the document in compact form, like the samples."""
    document = json.loads(request.body)
    parent, name = document, None
    for member in re.findall(r'\.([^.\[]+)|\["([^"]+)"\]', path[1:]):
        if name is not None:
            parent = parent[name]
        name = member[0] or member[1]
    parent[name] = value if isinstance(parent[name], str) else int(value)
    request.body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def key_bytes(scheme, secret):
    prefix = scheme.get("secret_prefix", "")
    secret = secret[len(prefix):] if prefix and secret.startswith(prefix) else secret
    return {"text": lambda: secret.encode(), "base64": lambda: base64.b64decode(secret), "hex": lambda: bytes.fromhex(secret)}[scheme["secret"]]()


def decoded_url(url):
    """What HubSpot signs of a URL: these encodings decoded, each once."""
    return re.sub(r"%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", lambda code: chr(int(code[1], 16)), url, flags=re.IGNORECASE)


# Schemes


def sign_message(request, scheme, secret, at, others=()):
    """The schemes with a template; `others` are further secrets whose signatures come before this one's."""
    timestamp, text = scheme.get("timestamp"), None
    if timestamp:
        text = stamp(at, timestamp["unit"])
        kind, _, place = timestamp["from"].partition(":")
        if kind == "header":
            request.set_header(place, text)
        elif kind == "json":
            json_set(request, place, text)
    for name, value in scheme.get("when", {}).items():
        request.set_header(name.partition(":")[2], value)

    def message(key):
        def part(match):
            hole = match.group(1)
            kind, _, place = hole.partition(":")
            fixed = {"body": request.body, "ts": (text or "").encode(), "url": request.url.encode(), "decoded_url": decoded_url(request.url).encode(), "method": request.method.encode(), "key": key}
            if hole in fixed:
                return fixed[hole].decode("latin-1")
            value = request.header(place) if kind == "header" else json_get(json.loads(request.body), place)
            return value.encode().decode("latin-1")

        # Latin-1 keeps the bytes of the body unchanged.
        return re.sub(r"\{([^}]+)\}", part, scheme["signs"]).encode("latin-1")

    def signature(secret):
        if scheme["kind"] == "ecdsa_p256":
            raw = sign_p256(secret, message(b""))
        elif scheme["kind"] == "ed25519":
            raw = ed25519(int(secret.partition(":")[2])).sign(message(b""))
        elif scheme["kind"] == "digest":
            raw = hashlib.new(scheme["hash"], message(key_bytes(scheme, secret))).digest()
        else:
            raw = hmac.new(key_bytes(scheme, secret), message(b""), scheme["hash"]).digest()
        return encoded(raw, scheme["encoding"])

    texts = [signature(each) for each in [*others, secret]]
    layout = scheme.get("format", "plain")
    if isinstance(layout, dict) and "pairs" in layout:
        pairs = layout["pairs"]
        named = [pairs["signature"] + pairs["assign"] + each for each in texts]
        if timestamp and timestamp["from"].startswith("pair:"):
            named.insert(0, timestamp["from"][5:] + pairs["assign"] + text)
        carried = (pairs["between"] + (" " if pairs.get("trim") else "")).join(named)
    else:
        carried = (layout.get("prefix", "") if isinstance(layout, dict) else "") + texts[-1]
    kind, _, place = scheme["signature"].partition(":")
    if kind == "json":
        json_set(request, place, carried)
    elif place.endswith("*"):
        for number, each in enumerate(texts, 1):
            request.set_header(f"{place[:-1]}{number}", each)
    else:
        request.set_header(place, carried)


def settled(header, settings):
    """The name of a header, or the one that a setting of the endpoint names."""
    return settings[header.removeprefix("setting:")] if header.startswith("setting:") else header


def sign_token(request, scheme, secret):
    header = settled(scheme["header"], request.settings)
    request.set_header(header, "Basic " + base64.b64encode(secret.encode()).decode() if scheme["kind"] == "basic" else secret)


def sign_jwt(request, scheme, secret, at):
    es256 = scheme["key_of"] == "plaid"
    header = {"alg": "ES256" if es256 else "HS256", "typ": "JWT"}
    if es256:
        header["kid"] = "key-" + secret.partition(":")[2]
    claims = {scheme["body_hash_claim"]: encoded(hashlib.sha256(request.body).digest(), scheme["body_hash_encoding"])}
    issuer = request.settings.get(scheme.get("issuer_setting")) or scheme.get("issuer")
    if issuer:
        claims["iss"] = issuer
    if at is not None and "issued_tolerance_seconds" in scheme:
        claims["iat"] = at
    if at is not None and "expiry_leeway_seconds" in scheme:
        claims |= {"nbf": at, "exp": at + 300}
    compact = lambda value: base64url(json.dumps(value, separators=(",", ":")).encode())
    signed = f"{compact(header)}.{compact(claims)}"
    raw = sign_p256(secret, signed.encode(), fixed=True) if es256 else hmac.new(secret.encode(), signed.encode(), "sha256").digest()
    request.set_header(scheme["header"], f"{scheme.get('prefix', '')}{signed}.{base64url(raw)}")


def sign_twilio(request, secret):
    parameters = {}
    for name, value in urllib.parse.parse_qsl(request.body.decode(), keep_blank_values=True):
        parameters.setdefault(name, set()).add(value)
    text = request.url + "".join(name + value for name in sorted(parameters) for value in sorted(parameters[name]))
    request.set_header("x-twilio-signature", base64.b64encode(hmac.new(secret.encode(), text.encode(), "sha1").digest()).decode())


def sign_paypal(request, secret, at):
    time, checksum = stamp(at, "rfc3339"), binascii.crc32(request.body) & 0xFFFFFFFF
    request.set_header("paypal-transmission-time", time)
    text = f"{request.header('paypal-transmission-id')}|{time}|{request.settings['webhook_id']}|{checksum}"
    request.set_header("paypal-transmission-sig", base64.b64encode(sign_rsa(secret, text.encode())).decode())


def sign_adyen(request, secret):
    document = json.loads(request.body)
    for element in document["notificationItems"]:
        item = element["NotificationRequestItem"]
        amount = item["amount"]
        fields = [item["pspReference"], item["originalReference"], item["merchantAccountCode"], item["merchantReference"]]
        fields += [str(amount["value"]), amount["currency"], item["eventCode"], item["success"]]
        raw = hmac.new(bytes.fromhex(secret), ":".join(fields).encode(), "sha256").digest()
        item["additionalData"]["hmacSignature"] = base64.b64encode(raw).decode()
    request.body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def sign_braintree(request, secret):
    payload = base64.b64encode(request.body).decode() + "\n"
    raw = hmac.new(hashlib.sha1(secret.encode()).digest(), payload.encode(), "sha1").hexdigest()
    form = {"bt_signature": f"{request.settings['public_key']}|{raw}", "bt_payload": payload}
    request.body = urllib.parse.urlencode(form).encode()


def sign_sns(request, secret):
    message = json.loads(request.body)
    names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    if message["Type"] != "Notification":
        names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    text = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
    message["Signature"] = base64.b64encode(sign_rsa(secret, text.encode())).decode()
    request.body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def sign_contentful(request, secret, at):
    request.set_header("x-contentful-timestamp", stamp(at, "milliseconds"))
    names = sorted([name for name, _ in request.headers if name.startswith("x-contentful-") and name not in ("x-contentful-signature", "x-contentful-signed-headers")] + ["x-contentful-signed-headers"])
    request.set_header("x-contentful-signed-headers", ",".join(names))
    listed = ";".join(f"{name}:{request.header(name)}" for name in names)
    path = urllib.parse.urlsplit(request.url).path
    text = f"{request.method}\n{path}\n{listed}\n".encode() + request.body
    request.set_header("x-contentful-signature", hmac.new(secret.encode(), text, "sha256").hexdigest())


def sign(request, scheme, secret, at, others=()):
    """Signs with one scheme of the request's provider."""
    special = {
        "token": lambda: sign_token(request, scheme, secret),
        "basic": lambda: sign_token(request, scheme, secret),
        "jwt": lambda: sign_jwt(request, scheme, secret, at),
        "twilio": lambda: sign_twilio(request, secret),
        "paypal": lambda: sign_paypal(request, secret, at),
        "adyen_items": lambda: sign_adyen(request, secret),
        "braintree": lambda: sign_braintree(request, secret),
        "aws_sns": lambda: sign_sns(request, secret),
        "contentful": lambda: sign_contentful(request, secret, at),
    }
    special.get(scheme["kind"], lambda: sign_message(request, scheme, secret, at, others))()


def main_scheme(provider, catalog_file):
    """The scheme that signs a sample: the strongest, and for Adyen the one of payments."""
    kinds = [scheme["kind"] for scheme in catalog_file["scheme"]]
    return catalog_file["scheme"][kinds.index("adyen_items") if "adyen_items" in kinds else 0]
