/** The entry, the test kit and the runtime. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Contracts } from "../examples/contracts.js";
import { payments } from "../examples/payments.js";
import {
  type Event,
  type Fact,
  factOf,
  handler,
  IGNORE,
  type Ignore,
  type ItemKey,
  type Items,
  Plan,
  type Request,
  Retryable,
} from "../src/index.js";
import { makeEvent, play } from "../src/testing.js";

const PACKAGE = new URL("../../", import.meta.url);
/** What each release stored and sent. */
const STORED = new URL("../../tests/stored/", PACKAGE);

/** Counts events. Its parts can be replaced, to see what a wrong handler does. */
class Counter {
  fact(event: Event): Fact | Ignore {
    return factOf(event.key);
  }

  reads(event: Event): ItemKey[] {
    return [event.itemKey("count", "all")];
  }

  plan(event: Event, _items: Items): Plan {
    const plan = new Plan();
    plan.update(event.itemKey("count", "all"), { add: { events: 1 } }).blind();
    return plan;
  }
}

function request(changes: Partial<Request> = {}): Request {
  return { version: 1, request: "r-9", event: makeEvent("a", {}).toJSON(), ...changes };
}

test("a request of another version is refused and may be tried again", async () => {
  const event = { ...makeEvent("a", {}).toJSON(), version: 2 };
  for (const changed of [request({ version: 2 }), request({ event })]) {
    const error = { code: "REQUEST_VERSION_UNKNOWN", retryable: true };
    assert.deepEqual(await handler(new Counter())(changed), { request: "r-9", error });
  }
});

test("a request of every release is read", async () => {
  const releases = readdirSync(STORED, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  assert.ok(releases.length > 0);
  for (const release of releases) {
    const [first, second] = JSON.parse(readFileSync(new URL(`${release.name}/stored.json`, STORED), "utf8")).requests;
    const entry = handler(new Counter());
    assert.deepEqual(await entry(first), { request: "r-1", fact: "evt_1", reads: [{ key: "acme#count#all" }] });
    assert.ok("writes" in (await entry(second)));
  }
});

test("a handler is asked for its plan only once its items are there", async () => {
  const entry = handler(new Counter());
  const wanted = { request: "r-9", fact: "evt_1", reads: [{ key: "test#count#all" }] };
  for (const shape of [{}, { items: null }, { items: [] }]) assert.deepEqual(await entry(request(shape)), wanted);
  assert.ok("writes" in (await entry(request({ items: [{ key: "test#count#all", item: null }] }))));
});

test("forgetting to return is an error and never ignores an event", async () => {
  class Forgetful extends Counter {
    override fact(): Fact {
      return undefined as unknown as Fact;
    }
  }
  class Planless extends Counter {
    override plan(): Plan {
      return undefined as unknown as Plan;
    }
  }
  await assert.rejects(handler(new Forgetful())(request()), /fact/);
  await assert.rejects(play(makeEvent("a", {}), new Planless()), /plan/);
});

test("a plan is played in both rounds with the items of the tables", async () => {
  const refund = { data: { object: { id: "ch_1", currency: "eur", amount_refunded: 700 } } };
  const event = makeEvent("charge.refunded", refund, { provider: "stripe" });
  const played = await play(event, payments, [[event.itemKey("refund", "ch_1"), { refunded_minor: 200 }]]);
  assert.equal(played.fact, "charge.refunded#ch_1#700");
  assert.deepEqual(played.reads, [{ key: "stripe#refund#ch_1" }]);
  assert.match(played.snapshot(), /"-500"[^]*}\n$/);
  assert.ok((await play(makeEvent("other", {}), payments)).ignored);
});

test("the readme shows the example, and its test passes", async () => {
  const [code] = readFileSync(new URL("README.md", PACKAGE), "utf8").split("```typescript\n").slice(1);
  const example = readFileSync(new URL("examples/contracts.ts", PACKAGE), "utf8");
  assert.equal(code?.split("```")[0], example.replace("../src/index.js", "hookonce"));
  const played = await play(makeEvent("contract.signed", { contract: "c_1", customer: "cus_1" }), new Contracts());
  assert.equal(played.fact, "c_1");
  assert.deepEqual(played.plan?.writes.map((write) => write.key), ["test#contract#c_1", "test#customer#cus_1"]);
});

test("a failure is played with its code", async () => {
  class Busy extends Counter {
    override plan(): Plan {
      throw new Retryable("LIMIT_REACHED");
    }
  }
  const played = await play(makeEvent("a", {}), new Busy());
  const expected = [{ code: "LIMIT_REACHED", retryable: true }, undefined, false];
  assert.deepEqual([played.error, played.plan, played.ignored], expected);
});

test("the kit finds what the worker would refuse", async () => {
  class Restless extends Counter {
    calls = 0;

    override fact(): Fact {
      this.calls += 1;
      return factOf(this.calls);
    }
  }
  class Careless extends Counter {
    override plan(event: Event): Plan {
      const plan = new Plan();
      plan.put(event.itemKey("count", "all"), {});
      return plan;
    }
  }
  class Twice extends Counter {
    override plan(event: Event, items: Items): Plan {
      const plan = super.plan(event, items);
      plan.check(event.itemKey("count", "all")).ifPresent();
      return plan;
    }
  }
  await assert.rejects(play(makeEvent("a", {}), new Restless()), /pure/);
  await assert.rejects(play(makeEvent("a", {}), new Careless()), /was read/);
  await assert.rejects(play(makeEvent("a", {}), new Twice()), /second time/);
});

test("ignoring is a word of its own", async () => {
  class Picky extends Counter {
    override fact(): Ignore {
      return IGNORE;
    }
  }
  assert.deepEqual(await handler(new Picky())(request()), { request: "r-9", ignore: true });
});

test("the runtime answers one invocation after the other", async () => {
  const event = makeEvent("invoice.paid", {}, { provider: "stripe" }).toJSON();
  const invocations = [{}, request({ event })];
  const answers: [string, unknown][] = [];
  const server = createServer(async (incoming, response) => {
    if (incoming.method === "POST") {
      answers.push([incoming.url ?? "", JSON.parse(await text(incoming))]);
      return response.writeHead(202).end();
    }
    const invocation = invocations.shift();
    if (invocation === undefined) return response.destroy();
    return response.writeHead(200, { "lambda-runtime-aws-request-id": "i-1" }).end(JSON.stringify(invocation));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const runtime = fileURLToPath(new URL("../src/runtime.js", import.meta.url));
  const options = {
    cwd: fileURLToPath(new URL("../examples", import.meta.url)),
    env: { ...process.env, AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}/key` },
    stdio: "ignore" as const,
  };
  const ended = await once(spawn(process.execPath, [runtime, "payments.lambdaHandler"], options), "exit");
  server.close();
  // The Runtime API has no third invocation, so the process ends with an error.
  assert.deepEqual(ended, [1, null]);
  const invocation = "/key/2018-06-01/runtime/invocation/i-1";
  const [failed, answered] = answers;
  assert.equal(failed?.[0], `${invocation}/error`);
  const error = { code: "INVOICE_UNREADABLE", retryable: false, at: "data" };
  assert.deepEqual(answered, [`${invocation}/response`, { request: "r-9", error }]);
});
