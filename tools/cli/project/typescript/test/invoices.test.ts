import assert from "node:assert/strict";
import { test } from "node:test";

import { makeEvent, play } from "hookonce/testing";

import { Invoices } from "../src/invoices.js";

const PAID = { data: { object: { id: "in_1", customer: "cus_1", amount_paid: 4900 } } };

test("a paid invoice is stored and counted", async () => {
  const played = await play(makeEvent("invoice.paid", PAID, { provider: "stripe" }), new Invoices());
  assert.equal(played.error, undefined);
  assert.equal(played.fact, "invoice.paid#in_1");
  assert.deepEqual(
    played.plan?.writes.map((write) => write.key),
    ["stripe#invoice#in_1", "stripe#customer#cus_1"],
  );
});

test("other events are ignored", async () => {
  assert.ok((await play(makeEvent("customer.created", {}), new Invoices())).ignored);
});

test("an invoice that cannot be read is an error for good", async () => {
  const played = await play(makeEvent("invoice.paid", {}), new Invoices());
  assert.deepEqual(played.error, { code: "INVOICE_UNREADABLE", retryable: false, at: "data" });
});
