/**
 * The library of the Standard Webhooks project takes what the dispatcher signs, and nothing else.
 * `tests/destinations` compares the dispatcher with the same cases.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { Webhook, WebhookVerificationError } from "standardwebhooks";

type Call = { name: string; secret: string; body: string; signature: string };

const CASES = new URL("../../../../tests/cases/signatures.json", import.meta.url);
const { key, timestamp, calls } = JSON.parse(readFileSync(CASES, "utf8")) as { key: string; timestamp: number; calls: Call[] };

function headers({ signature }: Call, changes: Record<string, string> = {}): Record<string, string> {
  return { "webhook-id": key, "webhook-timestamp": `${timestamp}`, "webhook-signature": signature, ...changes };
}

function at(context: TestContext, seconds: number): void {
  context.mock.timers.reset();
  context.mock.timers.enable({ apis: ["Date"], now: seconds * 1_000 });
}

for (const call of calls) {
  test(`what the dispatcher signs is taken: ${call.name}`, (context) => {
    at(context, timestamp);
    new Webhook(call.secret).verify(call.body, headers(call));
  });

  test(`anything else is refused: ${call.name}`, (context) => {
    const other = calls.find(({ secret }) => secret !== call.secret);
    assert.ok(other);
    const refused: [string, string, Record<string, string>][] = [
      [other.secret, call.body, headers(call)],
      [call.secret, `${call.body} `, headers(call)],
      [call.secret, call.body, headers(call, { "webhook-id": key.toUpperCase() })],
      [call.secret, call.body, headers(call, { "webhook-timestamp": `${timestamp + 1}` })],
      [call.secret, call.body, headers(call, { "webhook-signature": other.signature })],
    ];
    at(context, timestamp);
    for (const [secret, body, signed] of refused) {
      assert.throws(() => new Webhook(secret).verify(body, signed), WebhookVerificationError);
    }
    at(context, timestamp + 301);
    assert.throws(() => new Webhook(call.secret).verify(call.body, headers(call)), WebhookVerificationError);
  });
}
