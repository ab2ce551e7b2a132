#!/usr/bin/env python3
"""Writes starting points for the fuzz targets from the vectors and the catalog, below fuzz/corpus, what earlier runs found and
is kept in fuzz/kept (one input per line, in base64), and a dictionary of the words in the vectors, fuzz/corpus/words.dict.

usage: fuzz/seeds.py
"""

import base64
import hashlib
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
CATALOG = {path.stem: path.read_text() for path in sorted((ROOT / "shared/providers/catalog").glob("*.toml"))}


def write(target, name, data):
    folder = ROOT / "fuzz/corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name.replace("/", "-")).write_bytes(data)


def lines(vector):
    for name, values in vector["headers"].items():
        for value in [values] if isinstance(values, str) else values:
            yield f"{name}: {value}".encode()


def gateway_event(provider, vector):
    headers = {name: value if isinstance(value, str) else ", ".join(value) for name, value in vector["headers"].items()}
    event = {"version": "2.0", "rawPath": f"/webhooks/{provider}", "rawQueryString": "", "headers": headers}
    event |= {"requestContext": {"http": {"method": vector["method"], "sourceIp": "192.0.2.1"}}}
    return json.dumps({**event, "body": vector["body_base64"], "isBase64Encoded": True}).encode()


def words():
    """The names and values that decide something: names of headers and members, and values that several vectors share."""
    found = {"rawPath", "isBase64Encoded", "multiValueHeaders", "requestContext", "rawQueryString", "cookies"}
    for provider in CATALOG:
        for vector in map(json.loads, (ROOT / f"events/vectors/{provider}.jsonl").open()):
            found |= {f"/webhooks/{provider}", *vector["headers"]}
            body = base64.b64decode(vector["body_base64"]).decode(errors="ignore")
            found |= set(re.findall(r'"([A-Za-z_-]{2,40})" *:', body))
    return sorted(found)


for path in (ROOT / "events/gateway").glob("*.json"):
    write("gateway_event", path.stem, path.read_bytes())
    write("webhook", path.stem, path.read_bytes())
for path in (ROOT / "fuzz/kept").glob("*.txt"):
    for data in map(base64.b64decode, path.read_text().split()):
        write(path.stem, hashlib.sha256(data).hexdigest(), data)
(ROOT / "fuzz/corpus/words.dict").write_text("".join(f'"{word}"\n' for word in words()))
for index, (provider, text) in enumerate(CATALOG.items()):
    write("catalog", provider, text.encode())
    for vector in map(json.loads, (ROOT / f"events/vectors/{provider}.jsonl").open()):
        body = base64.b64decode(vector["body_base64"])
        write("split", vector["id"], bytes([index]) + body)
        write("gateway_event", vector["id"], gateway_event(provider, vector))
        write("webhook", vector["id"], gateway_event(provider, vector))
        for value in vector["headers"].values():
            if isinstance(value, str):
                write("signature_header", f"{vector['id']}-{len(value)}", bytes([index]) + value.encode())
        write("request", vector["id"], bytes([index]) + b"\n".join(lines(vector)) + b"\n\n" + body)
print(f"seeds: {sum(1 for _ in (ROOT / 'fuzz/corpus').rglob('*') if _.is_file())} files")
