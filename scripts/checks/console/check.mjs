// Uses the console as people do, in a real browser: node check.mjs HOOKONCE FOLDER_FOR_PICTURES
import { AxeBuilder } from "@axe-core/playwright";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { chromium } from "playwright-core";
import { startAccount } from "./account.mjs";
import { startStack, until } from "./stack.mjs";

const [hookonce, pictures] = process.argv.slice(2);
mkdirSync(pictures, { recursive: true });
const stack = await startStack(hookonce);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const strangers = [];
const dialogs = [];

const open = async (options = {}, entrance = stack.entrance) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.on("request", (request) => {
    if (!request.url().startsWith(new URL(entrance).origin) && !request.url().startsWith(`file://${stack.folder}/story.html`)) strangers.push(request.url());
  });
  const page = await context.newPage();
  page.on("dialog", (dialog) => { dialogs.push(dialog.message()); dialog.dismiss(); });
  page.on("pageerror", (error) => dialogs.push(error.message));
  page.setDefaultTimeout(20_000);
  await page.goto(entrance);
  return page;
};

const CANARY = `"><img src="http://127.0.0.1:9/x" onerror="alert(1)"><script>alert(2)</script>`;
const event = (id, more = {}) => JSON.stringify({
  id, object: "event", type: "invoice.paid", created: 1767225600, data: { object: { id: `in_${id}`, note: "poison", ...more } },
});
const send = (id, more, ...words) => stack.run("send", "--provider", "stripe", "--file", stack.write("event.json", event(id, more)), "--json", ...words);
const state = (id) => stack.list("--since", "1h").find((record) => record.key === id)?.state;
const outcome = (id) => stack.list("--since", "1h").find((record) => record.key === id)?.outcome;
const effectOf = (id) => JSON.parse(stack.run("show", "stripe", id, "--json")).effects[0];
const path = (page) => page.url().slice(stack.base.length).split("?")[0];

// What the pages of docs/ show: `scripts/tools/picture console` copies it to docs/use/console.
const picture = (name) => page.screenshot({ path: join(pictures, `docs-${name}.png`) });

// Fills in who orders, and why.
const give = async (of, reason, name = "ada") => {
  await of.getByLabel("Reason").fill(reason);
  await of.getByLabel("Your name").fill(name);
};

// The page of an order that is running, to be looked at later.
let running = "";

// The addresses of a batch of strangers and of an event that came with it, for a tenant.
const batch = {};

let page = await open();
const go = (target) => page.goto(stack.base + target);
// Not by `reload`, which Chromium refuses while it puts one page in the place of another.
const again = () => page.goto(page.url());
const text = () => page.locator("main").innerText();

// Presses Tab until what has the focus fits, as a person does who has no mouse, and sees where the focus is.
const tabTo = async (wanted) => {
  const passed = [];
  for (let number = 0; number < 80; number += 1) {
    await page.keyboard.press("Tab");
    const { name, outline } = await page.evaluate(() => {
      const it = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(it);
      const name = it.labels?.length ? it.labels[0].querySelector("span").textContent : it.textContent.trim() || it.name;
      return { name: `${it.tagName.toLowerCase()} ${name}`, outline: outlineStyle === "none" ? 0 : parseFloat(outlineWidth) };
    });
    passed.push(name);
    if (wanted.test(name)) {
      assert.ok(outline >= 2, `the focus is seen: ${name}`);
      return passed;
    }
  }
  throw new Error(`Tab does not reach ${wanted}: ${passed.join(" | ")}`);
};
const press = async (wanted) => {
  const passed = await tabTo(wanted);
  await page.keyboard.press("Enter");
  return passed;
};
// Fills in a form of an order without a mouse, and gives the order.
const orderByKeyboard = async (button) => {
  await tabTo(/^input Reason/);
  await page.keyboard.type("mended");
  await tabTo(/^input Your name/);
  await page.keyboard.type("ada");
  await press(button);
};

const checks = {
  "an empty stack says what to do next": async () => {
    assert.match(await text(), /Nothing needs you[\s\S]*Nothing has arrived/);
    await page.getByRole("link", { name: "Send a sample event" }).click();
    assert.equal(path(page), "/send");
  },

  "a sample that is sent is seen as a record": async () => {
    await page.getByLabel("Event").selectOption("stripe/stripe.invoice.paid");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    assert.match(path(page), /^\/records\/stripe\/evt_/);
    await until("applied", async () => { await again(); return /✓\s*applied/.test(await text()); });
  },

  "an arrival appears and changes without a reload": async () => {
    await go("/");
    await page.evaluate(() => { window.mark = "still here"; });
    send("evt_live");
    const row = page.locator("#arrivals tr", { hasText: "evt_live" });
    await row.getByText("applied").waitFor();
    await page.locator("#endpoints tr", { hasText: "Stripe" }).getByRole("cell", { name: "2", exact: true }).waitFor();
    assert.equal(await page.evaluate(() => window.mark), "still here");
    assert.equal(await row.count(), 1, "one row for a record");
    await page.getByRole("button", { name: "pause" }).click();
    send("evt_unseen");
    await until("it is applied", () => outcome("evt_unseen") === "APPLIED");
    await page.waitForTimeout(1_500);
    assert.equal(await page.locator("#arrivals tr", { hasText: "evt_unseen" }).count(), 0, "paused");
    await page.getByRole("button", { name: "go on" }).click();
    await page.locator("#arrivals tr", { hasText: "evt_unseen" }).waitFor();
  },

  "a body of one's own is sent": async () => {
    await go("/send");
    await page.getByLabel("Event").selectOption("stripe/stripe.invoice.paid");
    await page.getByRole("button", { name: "Show its body" }).click();
    await page.getByRole("textbox", { name: "Body" }).fill(event("evt_own"));
    await page.getByRole("button", { name: "Send", exact: true }).click();
    assert.equal(path(page), "/records/stripe/evt_own");
    await until("it is applied", () => outcome("evt_own") === "APPLIED");
  },

  "copies at one moment are one event": async () => {
    await go("/send");
    await page.getByLabel("Copies, at the same moment").fill("5");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    assert.match(await page.locator("h1").innerText(), /Sent 5 copies: 1 accepted, 4 duplicate/);
  },

  "what is not signed as it must be is refused, and the page says why": async () => {
    for (const [signature, code] of [["none", "signature_missing"], ["tampered", "signature_mismatch"], ["stale", "timestamp_out_of_range"]]) {
      await go("/send");
      await page.getByLabel("Event").selectOption("stripe/stripe.invoice.paid");
      await page.getByLabel("Signature").selectOption(signature);
      await page.getByRole("button", { name: "Send", exact: true }).click();
      assert.ok((await page.locator("h1").innerText()).includes(code), `${signature}: ${await text()}`);
      assert.ok((await page.locator(".fault").count()) > 0, "it has a cause");
    }
    await go("/");
    assert.match(await page.locator("tr", { hasText: "stripe" }).first().innerText(), /3/, "three are counted as refused");
  },

  "a poisonous event dies, is dry run, replayed and applied": async () => {
    stack.handler.broken = true;
    send("evt_poison");
    await until("it dies", () => state("evt_poison") === "DEAD");
    await until("only it needs somebody", async () => { await go("/"); return /1 thing needs you[\s\S]*TAX_RATE_MISSING/.test(await text()); });
    await page.getByRole("link", { name: "Look" }).click();
    assert.match(await text(), /TAX_RATE_MISSING at stripe/);
    await page.getByRole("link", { name: "evt_poison" }).click();
    await page.getByRole("link", { name: "Dry run with today's handler" }).click();
    assert.match(await text(), /fails with TAX_RATE_MISSING[\s\S]*Today's routes[\s\S]*refunds\s*is not for the type invoice.paid[\s\S]*all\s*takes it/);
    stack.handler.broken = false;
    await again();
    assert.doesNotMatch(await text(), /fails with/);
    await go("/records?state=DEAD");
    const drill = (await page.locator("code", { hasText: "hookonce drill" }).innerText()).split(" ").slice(1);
    assert.match(await stack.ask(...drill), /would apply/);
    await go("/records/stripe/evt_poison");
    await page.getByRole("link", { name: "Replay…" }).click();
    assert.match(await page.locator("h1").innerText(), /Dry run: 1 record would be replayed/);
    assert.equal(state("evt_poison"), "DEAD", "a dry run writes nothing");
    await give(page, "the tax rates are complete");
    await page.getByRole("button", { name: "Replay: 1 record" }).click();
    await page.getByRole("heading", { name: "Replay: 1 record done" }).waitFor();
    await until("it is applied", () => outcome("evt_poison") === "APPLIED");
    await go("/records/stripe/evt_poison");
    assert.match(await text(), /the tax rates are complete/);
    await picture("record");
  },

  "a record has the command that sends it again and a test case": async () => {
    await go("/records/stripe/evt_live?plan=1");
    const [keep, again] = await page.locator("pre", { hasText: /event\.json/ }).filter({ hasText: /^hookonce/ }).allInnerTexts();
    const shell = `PATH=${dirname(hookonce)}:$PATH; ${keep} && ${again} --json`;
    const [sent] = JSON.parse(execFileSync("sh", ["-c", shell], { cwd: stack.folder, encoding: "utf8" }));
    assert.deepEqual([sent.status, sent.answer], [200, "duplicate"], JSON.stringify(sent));
    const shown = async (language, line) => {
      await page.getByText(language, { exact: true }).click();
      const test = await page.locator("details", { hasText: language }).locator("pre").innerText();
      assert.ok(test.includes(line), `${language}: ${test}`);
      await page.getByText(language, { exact: true }).click();
      return test;
    };
    // Each passes with its kit and a handler that names the fact so, and fails with one that names another fact.
    const python = await shown("Python", 'assert played.fact == "evt_live"');
    const inPython = (fact) => {
      const handler = ["import hookonce", "class MyHandler:", `    def fact(self, event): return hookonce.fact_of(${fact})`,
        "    def reads(self, event): return []", "    def plan(self, event, items): return hookonce.Plan()", "test_the_event()"];
      const env = { ...process.env, PYTHONPATH: join(process.cwd(), "clients/python/src") };
      execFileSync("python3", ["-c", [python, ...handler].join("\n")], { cwd: stack.folder, env, stdio: "pipe" });
    };
    mkdirSync(join(stack.folder, "node_modules"));
    symlinkSync(join(process.cwd(), "clients/typescript"), join(stack.folder, "node_modules/hookonce"));
    const typescript = await shown("TypeScript", 'assert.equal(played.fact, "evt_live");');
    const inTypescript = (fact) => {
      const handler = ['import { factOf, Plan } from "hookonce";', "class MyHandler {", `  fact(event) { return factOf(${fact}); }`,
        "  reads() { return []; }", "  plan() { return new Plan(); }", "}"];
      stack.write("case.test.mjs", [...handler, typescript].join("\n"));
      return execFileSync(process.execPath, ["--test-reporter=tap", "case.test.mjs"], { cwd: stack.folder, encoding: "utf8", stdio: "pipe" });
    };
    inPython("event.key");
    assert.match(inTypescript("event.key"), /^# pass 1$/m);
    for (const run of [inPython, inTypescript]) {
      assert.throws(() => run('"another"'), (error) => /assertion/i.test(error.stdout + error.stderr));
    }
  },

  "what is applied once more is so once, whoever asks twice": async () => {
    send("evt_mail", { mails: 1 });
    await until("its receipt is mailed", () => stack.callee.calls === 1);
    let calls = 1;
    for (const [reason, expected, more] of [["asked by finance", "Apply once more: 1 record done", 1],
      ["asked by finance", "Apply once more: nothing was changed", 0], ["asked by finance again", "Apply once more: 1 record done", 1]]) {
      await go("/orders/new?operation=force&endpoint=stripe&key=evt_mail");
      assert.match(await text(), /There is no way back/);
      await give(page, reason);
      await page.getByRole("button", { name: "Apply once more: 1 record" }).click();
      await page.getByRole("heading", { name: expected }).waitFor();
      await until("it is applied", () => outcome("evt_mail") === "APPLIED");
      calls += more;
      await until("its receipt is mailed", () => stack.callee.calls >= calls && effectOf("evt_mail").state === "DELIVERED");
      await page.waitForTimeout(500);
      assert.equal(stack.callee.calls, calls, `${reason}: ${expected}`);
    }
    assert.equal(stack.list("--since", "1h").find((record) => record.key === "evt_mail").generation, 2);
  },

  "a fact that a handler named finds its record, and its key": async () => {
    for (const text of ["receipt-evt_mail", "evt_mail"]) {
      await go("/");
      await page.getByRole("searchbox").fill(text);
      await page.getByRole("button", { name: "Find" }).click();
      assert.equal(path(page), "/records/stripe/evt_mail");
    }
  },

  "many are replayed, stopped in the middle and gone on with": async () => {
    stack.handler.broken = true;
    for (let number = 0; number < 25; number += 1) send(`evt_many_${number}`);
    await until("they die", () => stack.list("--state", "DEAD").length === 25);
    stack.handler.broken = false;
    await go("/");
    await picture("now");
    await go("/records?state=DEAD");
    await page.getByRole("link", { name: "Replay 25…" }).click();
    await picture("dry_run");
    await give(page, "mended");
    await page.getByRole("button", { name: "Replay: 25 records" }).click();
    await page.getByRole("progressbar").waitFor();
    running = await page.content();
    const stop = page.getByRole("button", { name: "Stop between two records" });
    await stop.focus();
    const focused = await stop.elementHandle();
    await until("some are done", () => stack.list("--state", "DEAD").length <= 20);
    await page.waitForFunction((button) => !button.isConnected, focused);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /Replay: stopped after \d+ records/ }).waitFor();
    const left = stack.list("--state", "DEAD").length;
    assert.ok(left > 0 && left < 25, `${left} are left`);
    await page.getByRole("link", { name: "Go on: dry run of the rest" }).click();
    await give(page, "mended");
    await page.getByRole("button", { name: `Replay: ${left} record` }).click();
    await page.getByRole("heading", { name: new RegExp(`Replay: ${left} records? done`) }).waitFor();
    await until("all are applied", () => stack.list("--state", "APPLIED", "--since", "1h").filter((it) => it.key.startsWith("evt_many")).length === 25);
  },

  "an order that no dry run showed is refused": async () => {
    stack.handler.broken = true;
    send("evt_kept");
    await until("it dies", () => state("evt_kept") === "DEAD");
    await go("/orders/new?operation=retry&endpoint=stripe&key=evt_kept");
    await give(page, "x");
    await page.evaluate(() => { document.querySelector("input[name=operation]").value = "discard"; });
    await page.getByRole("button", { name: "Replay: 1 record" }).click();
    assert.match(await text(), /This is not the order that a dry run showed/);
    assert.equal(state("evt_kept"), "DEAD");
  },

  "a fault in a filter is shown beside the form": async () => {
    await go("/records?since=yesterday");
    assert.match(await page.getByRole("alert").innerText(), /yesterday/);
    assert.equal(await page.getByLabel("Since").inputValue(), "yesterday");
    const offered = await page.locator("datalist option").evaluateAll((all) => all.map((it) => it.value));
    assert.ok(["github", "stripe", "whatsapp"].every((id) => offered.includes(id)), offered.join());
  },

  "what strangers write is only shown": async () => {
    const isOnlyShown = async (target, statuses = [200]) => {
      const answer = await go(target);
      assert.ok(statuses.includes(answer.status()), `${target}: ${answer.status()}`);
      const html = await answer.text();
      assert.ok(!html.includes("<img") && !html.includes("<script>"), target);
      assert.equal(await page.locator("img").count(), 0, target);
    };
    const body = JSON.stringify({ id: `evt_${CANARY}`, object: "event", type: CANARY, created: 1767225600, data: { object: { id: CANARY, note: `poison ${CANARY}` } } });
    stack.run("send", "--provider", "stripe", "--file", stack.write("event.json", body));
    const record = await until("it dies", () => stack.list("--state", "DEAD").find((it) => it.type === CANARY));
    const address = `/records/stripe/${encodeURIComponent(record.key)}`;
    const canary = encodeURIComponent(CANARY);
    for (const target of [`/records?since=${canary}`, `/find?key=${canary}`, `/records/${canary}/${canary}`, `/refused?endpoint=${canary}`, `/explain?name=${canary}`]) {
      await isOnlyShown(target, [400, 404]);
    }
    for (const target of ["/", "/records", "/records?state=DEAD", `/records?type=${canary}`, address, `${address}?body=1`, `${address}?plan=1`,
      `/orders/new?operation=retry&endpoint=stripe&key=${encodeURIComponent(record.key)}`]) {
      await isOnlyShown(target);
    }
    // Several events in one delivery, at an endpoint with a tenant.
    const message = (id) => ({ from: CANARY, id: `wamid.${id}${CANARY}`, timestamp: "1767225580", type: CANARY, text: { body: `poison ${CANARY}` } });
    const contacts = [{ profile: { name: CANARY }, wa_id: CANARY }];
    const value = { messaging_product: "whatsapp", metadata: { display_phone_number: CANARY, phone_number_id: CANARY }, contacts, messages: ["a", "b", "c"].map(message) };
    const whatsapp = JSON.stringify({ object: "whatsapp_business_account", entry: [{ id: CANARY, changes: [{ field: "messages", value }] }] });
    stack.run("send", "--provider", "meta_whatsapp", "--endpoint", "chat", "--file", stack.write("batch.json", whatsapp), "--header", `content-type: application/json; x=${CANARY}`);
    const came = await until("its events die", () => {
      const records = stack.list("--endpoint", "chat", "--since", "1h");
      return records.filter((it) => it.state === "DEAD").length === 3 && records.find((it) => it.outcome === "FANNED_OUT") && records;
    });
    const chat = (record) => `/records/chat/${encodeURIComponent(record.key)}`;
    batch.whole = chat(came.find((it) => it.outcome === "FANNED_OUT"));
    batch.event = chat(came.find((it) => it.state === "DEAD"));
    for (const target of ["/", "/records", "/records?endpoint=chat", "/records?state=DEAD&endpoint=chat", batch.whole, batch.event, `${batch.event}?body=1`,
      `${batch.event}?plan=1`, `/orders/new?operation=retry&endpoint=chat&state=DEAD`]) {
      await isOnlyShown(target);
    }
    await go(batch.whole);
    assert.equal(await page.getByRole("link", { name: "wamid." }).count(), 3, await text());
    await go(batch.event);
    assert.match(await text(), /Tenant\s*acme/);
    // What a handler gives as its code, and what it may not: the stack refuses the answer.
    [stack.handler.code, stack.handler.failed] = [CANARY, 0];
    send("evt_code");
    await until("the handler has answered", () => stack.handler.failed > 0);
    for (const target of ["/", "/records", "/records/stripe/evt_code", "/records/stripe/evt_code?plan=1"]) await isOnlyShown(target);
    stack.handler.code = "TAX_RATE_MISSING";
    // What an operator gives as reason and name, a sender as header, and a callee as its answer.
    [stack.callee.status, stack.callee.text] = [400, CANARY];
    send("evt_written", { mails: 1 }, "--header", `content-type: application/json; x=${CANARY}`);
    await until("it dies", () => state("evt_written") === "DEAD");
    await go("/orders/new?operation=retry&endpoint=stripe&key=evt_written");
    await give(page, CANARY, CANARY);
    stack.handler.broken = false;
    await page.getByRole("button", { name: "Replay: 1 record" }).click();
    await page.getByRole("heading", { name: "Replay: 1 record done" }).waitFor();
    await isOnlyShown(path(page));
    await until("its receipt is refused", () => outcome("evt_written") === "APPLIED" && effectOf("evt_written").state === "DEAD");
    const effect = `/records/stripe/${encodeURIComponent(effectOf("evt_written").key)}`;
    for (const target of ["/", "/records?kind=effect", "/records/stripe/evt_written", "/records/stripe/evt_written?body=1", effect, `${effect}?body=1`]) {
      await isOnlyShown(target);
    }
    await go("/records/stripe/evt_written");
    assert.ok((await text()).includes(CANARY), "the reason is shown");
    stack.run("discard", "--key", "stripe", effectOf("evt_written").key, "--yes", "--reason", "a test", "--by", "ada");
    [stack.callee.status, stack.callee.text, stack.handler.broken] = [200, "done", true];
    const raw = await page.request.get(`${stack.base}${address}/body`, { headers: { "sec-fetch-site": "same-origin" } });
    assert.deepEqual([raw.headers()["content-type"], raw.headers()["x-content-type-options"]], ["text/plain; charset=utf-8", "nosniff"]);
    assert.equal(await raw.text(), body);
  },

  "a story as a file needs nothing else and holds no body": async () => {
    const record = stack.list("--state", "DEAD").find((it) => it.type === CANARY);
    stack.run("show", "stripe", record.key, "--html", "story.html");
    await page.goto(`file://${join(stack.folder, "story.html")}`);
    assert.match(await text(), /Received[\s\S]*Attempt failed\s*TAX_RATE_MISSING/);
    const html = await page.content();
    assert.ok(!html.includes("<img") && !html.includes("<script") && !html.includes("created"), html);
  },

  "only the browser that was let in gets in": async () => {
    const context = await browser.newContext();
    const stranger = await context.newPage();
    for (const target of ["/", "/?token=00000000000000000000000000000000", "/records", "/console.css"]) {
      assert.equal((await stranger.goto(stack.base + target)).status(), 403, target);
    }
    await context.close();
  },

  "a page at another port can neither read nor order": async () => {
    const cookies = [];
    const other = createServer((request, response) => {
      cookies.push(request.headers.cookie ?? "");
      response.setHeader("content-type", "text/html");
      response.end(`<form method="post" action="${stack.base}/orders"><input name="operation" value="retry"><button>Go</button></form>`);
    });
    await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
    const foreign = await page.context().newPage();
    const other_port = other.address().port;
    await foreign.goto(`http://127.0.0.1:${other_port}/`);
    const read = await foreign.evaluate((url) => fetch(url, { credentials: "include" }).then((it) => it.text(), () => "refused"), `${stack.base}/records`);
    assert.equal(read, "refused");
    assert.ok(cookies.every((it) => !it.includes("hookonce")), "the cookie goes to no other port");
    const [answer] = await Promise.all([foreign.waitForResponse(`${stack.base}/orders`), foreign.getByRole("button").click()]);
    assert.equal(answer.status(), 403);
    await foreign.close();
    other.close();
    // Nothing that was shown before asked for anything. This page did, as it should.
    const asked = strangers.splice(0).filter((url) => !url.startsWith(`http://127.0.0.1:${other_port}/`));
    assert.deepEqual(asked, []);
  },

  "nine tabs load and keep up": async () => {
    const tabs = [];
    for (let number = 0; number < 9; number += 1) {
      const tab = await page.context().newPage();
      await tab.goto(`${stack.base}/`);
      tabs.push(tab);
    }
    stack.handler.broken = false;
    send("evt_tabs");
    for (const tab of tabs) await tab.locator("#arrivals tr", { hasText: "evt_tabs" }).waitFor();
    for (const tab of tabs) await tab.close();
  },

  "a tab that nobody sees asks for nothing": async () => {
    const tab = await page.context().newPage();
    let asked = 0;
    tab.on("request", (request) => { if (request.url().includes("/arrivals?")) asked += 1; });
    await tab.goto(`${stack.base}/`);
    const hide = (hidden) => tab.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await until("it asks while it is seen", () => asked > 1);
    await hide(true);
    await tab.waitForTimeout(1_500);
    asked = 0;
    await tab.waitForTimeout(3_000);
    assert.equal(asked, 0, "it asks while it is hidden");
    await hide(false);
    await until("it asks again", () => asked > 0);
    await tab.close();
  },

  "a tab says that the console does not answer, until it does": async () => {
    await go("/");
    const said = page.getByText("This page does not keep up.");
    await page.route("**/arrivals?*", (route) => route.abort());
    await said.waitFor();
    await page.unroute("**/arrivals?*");
    await said.waitFor({ state: "hidden" });
  },

  "without the script everything works but what moves by itself": async () => {
    const plain = await open({ javaScriptEnabled: false });
    await plain.goto(`${stack.base}/records?state=DEAD`);
    await plain.getByRole("link", { name: "evt_kept" }).click();
    await plain.getByRole("link", { name: "Discard…" }).click();
    await give(plain, "not needed");
    await plain.getByRole("button", { name: "Discard: 1 record" }).click();
    await until("it is discarded", () => state("evt_kept") === "DISCARDED");
    await plain.context().close();
  },

  "the keyboard alone is enough for what each page is for": async () => {
    stack.handler.broken = true;
    for (const id of ["evt_key_a", "evt_key_b"]) send(id);
    await until("they die", () => state("evt_key_a") === "DEAD" && state("evt_key_b") === "DEAD");
    stack.handler.broken = false;
    // Now: it leads to what needs a person.
    await go("/");
    const passed = await press(/^a Look$/);
    assert.deepEqual(passed.slice(0, 5), ["a hookonce", "a Now", "a Records", "a Send", "input key"]);
    await page.waitForURL("**/records?state=DEAD");
    // A record: one is replayed.
    await press(/^a evt_key_a$/);
    await page.waitForURL("**/records/stripe/evt_key_a");
    await press(/^a Replay…$/);
    await page.getByRole("heading", { name: "Dry run: 1 record would be replayed" }).waitFor();
    await orderByKeyboard(/^button Replay: 1 record$/);
    await page.getByRole("heading", { name: "Replay: 1 record done" }).waitFor();
    await until("it is applied", () => outcome("evt_key_a") === "APPLIED");
    // Records: a filter, and all that it finds.
    await go("/records?state=DEAD");
    await tabTo(/^input Endpoint$/);
    await page.keyboard.type("stripe");
    await tabTo(/^input Error$/);
    await page.keyboard.type("TAX_RATE_MISSING");
    await press(/^button Show$/);
    await page.waitForURL("**error=TAX_RATE_MISSING**");
    await press(/^a Replay( \d+)?…$/);
    await page.getByRole("heading", { name: /Dry run: \d+ records? would be replayed/ }).waitFor();
    await orderByKeyboard(/^button Replay: \d+ records?$/);
    await page.getByRole("heading", { name: /Replay: \d+ records? done/ }).waitFor();
    await until("it is applied", () => outcome("evt_key_b") === "APPLIED");
    // Send: an event is chosen and sent.
    await go("/send");
    await tabTo(/^select Event$/);
    await page.keyboard.type("stripe.invoice.paid");
    assert.equal(await page.getByLabel("Event").inputValue(), "stripe/stripe.invoice.paid");
    await press(/^button Send$/);
    await page.waitForURL("**/records/stripe/evt_*");
    // A need leads to its section of the runbook.
    stack.handler.broken = true;
    send("evt_key_c");
    await until("it dies", () => state("evt_key_c") === "DEAD");
    await go("/");
    await press(/^a hookonce explain records-died$/);
    await page.getByRole("heading", { name: "Records died" }).waitFor();
  },
};

// What every picture shows, with rows, needs, errors, open details and a dry run.
const scenes = {
  now: "/", records: "/records", dead: "/records?state=DEAD", fault: "/records?since=yesterday", record: "/records/stripe/evt_poison?body=1",
  test_case: "/records/stripe/evt_poison?plan=1", effect: () => `/records/stripe/${encodeURIComponent(effectOf("evt_mail").key)}`,
  running: "/orders/running", ended: "/orders/1", lost: "/orders/999", batch: () => batch.whole, event_of_batch: () => `${batch.event}?body=1`, runbook: "/explain?name=RecordsDied", unfound: "/find?key=evt_none", dry_run: "/orders/new?operation=retry&state=DEAD", send: "/send?event=stripe/stripe.invoice.paid", missing: "/nothing",
};
const looks = { light: {}, dark: { colorScheme: "dark" }, phone: { viewport: { width: 390, height: 844 } } };
// Takes a picture of a page, which has no fault that axe knows and does not scroll sideways.
const lookAt = async (seen, name, look) => {
  await seen.locator("details").evaluateAll((all) => all.forEach((it) => { it.open = true; }));
  await seen.screenshot({ path: join(pictures, `${name}-${look}.png`), fullPage: true });
  const { violations } = await new AxeBuilder({ page: seen }).analyze();
  assert.deepEqual(violations.map((it) => `${name}: ${it.id}: ${it.nodes[0].html}`), []);
  const width = await seen.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(width, 0, `${name} scrolls sideways`);
};
// Shows the order that was running then, as it was.
const show = async (seen) => {
  await seen.route("**/orders/running", (route) => route.fulfill({ contentType: "text/html", body: running }));
  await seen.route("**/part", (route) => route.abort());
};
for (const [look, options] of Object.entries(looks)) {
  checks[`axe finds nothing: ${look}`] = async () => {
    stack.handler.broken = true;
    for (const id of ["evt_a", "evt_b"]) send(`${id}_${look}`);
    await until("they die", () => stack.list("--state", "DEAD").filter((it) => it.key.endsWith(look)).length === 2);
    const seen = await open(options);
    await show(seen);
    for (const [name, target] of Object.entries(scenes)) {
      await seen.goto(stack.base + (typeof target === "string" ? target : target()));
      await lookAt(seen, name, look);
    }
    await seen.goto(`${stack.base}/send?event=stripe/stripe.invoice.paid`);
    await seen.getByLabel("Signature").selectOption("tampered");
    await seen.getByRole("button", { name: "Send", exact: true }).click();
    assert.ok((await seen.locator("h1").innerText()).includes("signature_mismatch"));
    await lookAt(seen, "refused", look);
    await seen.context().close();
  };
}
checks["a stack on AWS is shown and not changed"] = async () => {
  const account = await startAccount(hookonce, stack.folder);
  try {
    for (const [look, options] of Object.entries(looks)) {
      const seen = await open(options, account.entrance);
      for (const [name, target] of Object.entries({ now: "/", day: "/?day=1", dead: "/records?state=DEAD", record: "/records/stripe/evt_poison" })) {
        await seen.goto(account.base + target);
        await lookAt(seen, `aws_${name}`, look);
        const words = await seen.locator("body").innerText();
        assert.match(words, /inbox · read only/, `${name}: ${words}`);
        assert.doesNotMatch(words, /(Replay|Discard|Apply once more)( [\d,]+)?…|Dry run|Send/, `${name}: ${words}`);
      }
      assert.equal((await seen.goto(`${account.base}/orders/new?operation=retry&state=DEAD`)).status(), 403);
      await seen.context().close();
    }
  } finally {
    await account.stop();
  }
};
checks["the pages read well without a style"] = async () => {
  const plain = await open();
  await plain.route("**/console.css", (route) => route.abort());
  await show(plain);
  for (const [name, target] of Object.entries(scenes)) {
    await plain.goto(stack.base + (typeof target === "string" ? target : target()));
    await plain.screenshot({ path: join(pictures, `${name}-plain.png`), fullPage: true });
    const words = await plain.locator("body").innerText();
    assert.match(words, /hookonce\s+Now\s+Records\s+Send/, `${name}: ${words}`);
    const titles = await plain.locator("h1, h2").evaluateAll((all) => all.map((it) => it.tagName));
    assert.equal(titles[0], "H1", `${name} begins with its title`);
  }
  await plain.context().close();
};
checks["no page asked for anything elsewhere, and none opened a dialog"] = async () => {
  assert.deepEqual([strangers, dialogs], [[], []]);
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
    await page.screenshot({ path: join(pictures, `failure-${failed}.png`), fullPage: true }).catch(() => {});
  }
}
await browser.close();
await stack.stop();
console.log(`console: ${Object.keys(checks).length - failed} passed, ${failed} failed`);
// A check that failed may have left a server.
process.exit(failed ? 1 : 0);
