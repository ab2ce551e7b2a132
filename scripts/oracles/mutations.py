"""Changes to a request, as attackers, proxies and mistakes make them. The same seed makes the same changes."""

import copy

from reference import sign

PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]


def mutate(random, cases):
    """A request of the provider with a few changes, signed at some time with a current, an old or a foreign secret."""
    secret = random.choice([0, 0, 0, 0, 0, 1])
    at = 1767225600 + random.choice([0, 0, 0, 0, -1, -4, -6, -29, -31, -59, -61, -179, -181, -299, -301, -601, 7, 61, 301, 4000])
    request = cases.request(at=at, secret=secret, held_secrets=random.choice([(0,), (0,), (1, 0)]))
    if cases.scheme["kind"] not in ("token", "basic") and random.random() < 0.1 and "pairs" in str(cases.scheme.get("format")):
        request = cases.request(at=at, secret=secret, others=(1,))
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        random.choice(MUTATIONS)(random, request, cases)
    return request


def read_headers(request, cases):
    """Chooses a header, those of the signature more often than others."""
    names = [name for name, _ in request.headers]
    related = [name for name in names if name == cases.header or any(part in name for part in ("signature", "timestamp", "-id", "-time"))]
    return related * 3 + names


def pick(random, request, cases):
    names = read_headers(request, cases)
    return random.choice(names) if names else None


def changed_text(random, text):
    """A text with one small change."""
    at = random.randrange(len(text) + 1)
    kind = random.randrange(9)
    if kind == 0:
        return text[:at] + random.choice(PRINTABLE) + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    if kind == 2 and text:
        at = random.randrange(len(text))
        flipped = chr(ord(text[at]) ^ (1 << random.randrange(7)))
        return text[:at] + (flipped if flipped in PRINTABLE else "x") + text[at + 1 :]
    if kind == 3:
        return text[:at]
    if kind == 4:
        return text.upper()
    if kind == 5:
        return random.choice([text + "=", text.rstrip("="), text + ",", "," + text, text + ";", text.replace("=", ":", 1)])
    if kind == 6:
        return text + random.choice([",v0=", ",v2=", " v2,", ";h2=", ",t=1"]) + "0" * random.choice([1, 64])
    if kind == 7:
        parts = text.split(",")
        random.shuffle(parts)
        return ",".join(parts)
    return ""


def change_header(random, request, cases):
    name = pick(random, request, cases)
    if name:
        request.set_header(name, changed_text(random, request.header(name)).strip())


def drop_header(random, request, cases):
    name = pick(random, request, cases)
    request.headers = [pair for pair in request.headers if pair[0] != name]


def swap_headers(random, request, cases):
    first, second = pick(random, request, cases), pick(random, request, cases)
    if first and second:
        one, other = request.header(first), request.header(second)
        request.set_header(first, other)
        request.set_header(second, one)


def twice(random, request, cases):
    name = pick(random, request, cases)
    if name:
        request.headers.append((name, random.choice([request.header(name), changed_text(random, request.header(name)).strip()])))


def change_body(random, request, cases):
    body, at = request.body, random.randrange(len(request.body) + 1)
    kind = random.randrange(6)
    if kind == 0 and at < len(body):
        request.body = body[:at] + bytes([body[at] ^ (1 << random.randrange(8))]) + body[at + 1 :]
    elif kind == 1:
        request.body = body[:at] + random.choice([b" ", b"\n", b"x", b"0", "\u00e9".encode()]) + body[at:]
    elif kind == 2:
        request.body = body[:at] + body[at + 1 :]
    elif kind == 3:
        request.body = body[:at]
    elif kind == 4:
        request.body = body + random.choice([b"\n", b" ", b"}", b"\x00"])
    else:
        request.body = random.choice([b"", b"{}", b"[]", b"null"])


def change_url(random, request, cases):
    request.url = random.choice([request.url + "/", request.url + "?x=1", request.url.replace("https:", "http:"), request.url.replace("example", "examp1e")])


def sign_again(random, request, cases):
    """Another body, signed again: authentic again, unless it is too old."""
    fresh = copy.deepcopy(request)
    try:
        sign(fresh, cases.scheme, cases.sample["secrets"][0], request.now - random.choice([0, 1, 400]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    request.headers, request.body = fresh.headers, fresh.body


def keep(random, request, cases):
    """Changes nothing: authentic requests are compared, too."""


MUTATIONS = [change_header] * 6 + [change_body] * 5 + [drop_header, swap_headers, twice, change_url, sign_again, keep]
