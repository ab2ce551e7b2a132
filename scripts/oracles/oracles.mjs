// The verdicts of the providers' own Node SDKs on captured requests: one JSON request per line in, one verdict per line out.
//
// A verdict is {"verdict": "valid" | "invalid" | null, "package": ..., "version": ..., "function": ...}; null where the
// SDK has no opinion on such a request. The SDKs' clocks are frozen at the request's own `now_unix`.

import { createRequire } from "node:module";
import { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import https from "node:https";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const modules = process.env.CONFORMANCE_MODULES ?? process.cwd();
const require = createRequire(path.join(modules, "x.js"));
const versions = new Map();
const version = (name) => {
  if (!versions.has(name)) versions.set(name, JSON.parse(readFileSync(path.join(modules, "node_modules", name, "package.json"))).version);
  return versions.get(name);
};
/** A package that can only be imported. */
const imported = (file) => import(pathToFileURL(path.join(modules, "node_modules", file)));

const RealDate = Date;
let now = 0;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length ? args : [now * 1000]));
  }
  static now() {
    return now * 1000;
  }
};

// sns-validator fetches its certificate itself.
let certificate = "";
https.get = (_url, done) => {
  const answer = new EventEmitter();
  answer.statusCode = 200;
  process.nextTick(() => {
    done(answer);
    answer.emit("data", certificate);
    answer.emit("end");
  });
  return new EventEmitter();
};

/** What an SDK sees of a header that came more than once: Node joins the values. */
const header = (request, name) => {
  const found = Object.entries(request.headers).find(([key]) => key.toLowerCase() === name);
  return found && [found[1]].flat().join(", ");
};
const allHeaders = (request) =>
  Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), [value].flat().join(", ")]));
const form = (text) => {
  const values = {};
  for (const [name, value] of new URLSearchParams(text)) {
    values[name] = name in values ? [values[name], value].flat() : value;
  }
  return values;
};
/** True when it returns anything but false, and false when it throws. */
const accepts = async (check) => {
  try {
    return (await check()) !== false;
  } catch {
    return false;
  }
};

const standardWebhooks = (request, secret) => {
  const { Webhook } = require("standardwebhooks");
  return new Webhook(secret).verify(request.text, allHeaders(request));
};
const svix = (request, secret) => new (require("svix").Webhook)(secret).verify(request.text, allHeaders(request));

// provider: [package, function, check(request, secret), applies(request)]
const always = () => true;
const oracles = {
  stripe: ["stripe", "webhooks.constructEvent", (r, secret) => {
    const Stripe = require("stripe");
    return new (Stripe.default ?? Stripe)("sk").webhooks.constructEvent(r.body, header(r, "stripe-signature"), secret, 300, undefined, now * 1000);
  }],
  github: ["@octokit/webhooks-methods", "verify", async (r, secret) =>
    (await imported("@octokit/webhooks-methods/dist-node/index.js")).verify(secret, r.text, header(r, "x-hub-signature-256")),
    (r) => header(r, "x-hub-signature-256") !== undefined || header(r, "x-hub-signature") === undefined],
  shopify: ["@shopify/shopify-api", "shopify.webhooks.validate", async (r, secret) => {
    require("@shopify/shopify-api/adapters/node");
    const { shopifyApi } = require("@shopify/shopify-api");
    const shopify = shopifyApi({ apiKey: "k", apiSecretKey: secret, scopes: [], hostName: "example.com", apiVersion: "2026-01", isEmbeddedApp: false, logger: { log: () => {} } });
    const result = await shopify.webhooks.validate({ rawBody: r.text, rawRequest: { headers: allHeaders(r), method: r.method, url: "/" }, rawResponse: {} });
    return result.valid;
  }],
  slack: ["@slack/bolt", "verifySlackRequest", (r, secret) => {
    require("@slack/bolt").verifySlackRequest({
      signingSecret: secret, body: r.text, nowMilliseconds: now * 1000, logger: undefined,
      headers: { "x-slack-signature": header(r, "x-slack-signature"), "x-slack-request-timestamp": Number(header(r, "x-slack-request-timestamp")) },
    });
    return header(r, "x-slack-signature") !== undefined;
  }],
  twilio: ["twilio", "validateRequest", (r, secret) => {
    const twilio = require("twilio");
    const signature = header(r, "x-twilio-signature");
    if (r.url.includes("bodySHA256")) return twilio.validateRequestWithBody(secret, signature, r.url, r.text);
    return twilio.validateRequest(secret, signature, r.url, form(r.text));
  }, (r) => header(r, "x-twilio-webhooks-signature-settings") === undefined],
  sendgrid: ["@sendgrid/eventwebhook", "EventWebhook.verifySignature", (r, secret) => {
    const { EventWebhook } = require("@sendgrid/eventwebhook");
    const webhook = new EventWebhook();
    return webhook.verifySignature(webhook.convertPublicKeyToECDSA(secret), r.body, header(r, "x-twilio-email-event-webhook-signature"), header(r, "x-twilio-email-event-webhook-timestamp"));
  }],
  square: ["square", "WebhooksHelper.verifySignature", (r, secret) =>
    require("square").WebhooksHelper.verifySignature({ requestBody: r.text, signatureHeader: header(r, "x-square-hmacsha256-signature"), signatureKey: secret, notificationUrl: r.url })],
  adyen: ["@adyen/api-library", "HmacValidator.validateHMAC / validateHMACSignature", (r, secret) => {
    const Validator = require("@adyen/api-library").hmacValidator;
    const validator = new Validator();
    const platform = header(r, "hmacsignature");
    if (platform !== undefined) return validator.validateHMACSignature(secret, platform, r.text);
    const items = JSON.parse(r.text).notificationItems;
    return items.length > 0 && items.every((item) => validator.validateHMAC(item.NotificationRequestItem, secret));
  }],
  braintree: ["braintree", "webhookNotification.validateSignature", (r, secret) => {
    const braintree = require("braintree");
    const gateway = new braintree.BraintreeGateway({ environment: braintree.Environment.Sandbox, merchantId: "m", publicKey: r.settings?.public_key ?? "integration_public_key", privateKey: secret });
    const fields = form(r.text);
    if (/[^A-Za-z0-9+=/\n]/.test(fields.bt_payload)) return false; // as `parse` does first
    return gateway.webhookNotification.validateSignature(fields.bt_signature, fields.bt_payload) === null;
  }],
  paddle_billing: ["@paddle/paddle-node-sdk", "paddle.webhooks.isSignatureValid", (r, secret) => {
    const { Paddle } = require("@paddle/paddle-node-sdk");
    return new Paddle("k", { logLevel: "none" }).webhooks.isSignatureValid(r.text, secret, header(r, "paddle-signature"));
  }],
  razorpay: ["razorpay", "validateWebhookSignature", (r, secret) =>
    require("razorpay").validateWebhookSignature(r.text, header(r, "x-razorpay-signature"), secret)],
  coinbase_commerce: ["coinbase-commerce-node", "Webhook.verifySigHeader", (r, secret) =>
    require("coinbase-commerce-node").Webhook.verifySigHeader(r.text, header(r, "x-cc-webhook-signature"), secret)],
  linear: ["@linear/sdk", "LinearWebhookClient.verify", async (r, secret) => {
    const { LinearWebhookClient } = await imported("@linear/sdk/dist/webhooks/index.mjs");
    return new LinearWebhookClient(secret).verify(r.body, header(r, "linear-signature") ?? "", JSON.parse(r.text).webhookTimestamp);
  }],
  hubspot: ["@hubspot/api-client", "Signature.isValid", (r, secret) => {
    const { Signature } = require("@hubspot/api-client");
    const third = header(r, "x-hubspot-signature-v3");
    const timestamp = header(r, "x-hubspot-request-timestamp");
    return Signature.isValid({
      method: r.method, signatureVersion: third === undefined ? header(r, "x-hubspot-signature-version") : "v3", url: r.url, clientSecret: secret,
      requestBody: r.text, signature: third ?? header(r, "x-hubspot-signature"), timestamp: timestamp === undefined ? undefined : Number(timestamp),
    });
  }],
  discord: ["discord-interactions", "verifyKey", (r, secret) =>
    require("discord-interactions").verifyKey(r.body, header(r, "x-signature-ed25519"), header(r, "x-signature-timestamp"), secret)],
  telnyx: ["telnyx", "client.webhooks.unwrap", (r, secret) => {
    const Telnyx = require("telnyx");
    return new (Telnyx.default ?? Telnyx)({ apiKey: "k", publicKey: secret }).webhooks.unwrap(r.text, { headers: allHeaders(r) });
  }],
  vonage: ["@vonage/jwt", "verifySignature", (r, secret) => require("@vonage/jwt").verifySignature((header(r, "authorization") ?? "").replace(/^Bearer /, ""), secret)],
  line: ["@line/bot-sdk", "validateSignature", (r, secret) => require("@line/bot-sdk").validateSignature(r.body, secret, header(r, "x-line-signature"))],
  standard_webhooks: ["standardwebhooks", "Webhook.verify", standardWebhooks],
  brex: ["standardwebhooks", "Webhook.verify", standardWebhooks],
  bigcommerce: ["standardwebhooks", "Webhook.verify", (r, secret) => standardWebhooks(r, Buffer.from(secret).toString("base64"))],
  anthropic: ["@anthropic-ai/sdk", "client.beta.webhooks.unwrap", (r, secret) => {
    const Anthropic = require("@anthropic-ai/sdk");
    return new (Anthropic.default ?? Anthropic)({ apiKey: "k" }).beta.webhooks.unwrap(r.text, { headers: allHeaders(r), key: secret });
  }],
  replicate: ["replicate", "validateWebhook", (r, secret) => require("replicate").validateWebhook({ headers: allHeaders(r), body: r.text }, secret)],
  gitlab: ["standardwebhooks", "Webhook.verify", standardWebhooks, (r) => header(r, "webhook-signature") !== undefined],
  svix: ["svix", "Webhook.verify", svix],
  clerk: ["svix", "Webhook.verify", svix],
  recall: ["svix", "Webhook.verify", svix],
  resend: ["resend", "webhooks.verify", (r, secret) => {
    const { Resend } = require("resend");
    const headers = { id: header(r, "svix-id"), timestamp: header(r, "svix-timestamp"), signature: header(r, "svix-signature") };
    return new Resend("re_x").webhooks.verify({ payload: r.text, headers, webhookSecret: secret });
  }],
  openai: ["openai", "client.webhooks.verifySignature", (r, secret) => {
    const OpenAI = require("openai");
    return new (OpenAI.default ?? OpenAI)({ apiKey: "k" }).webhooks.verifySignature(r.text, allHeaders(r), secret);
  }],
  elevenlabs: ["@elevenlabs/elevenlabs-js", "client.webhooks.constructEvent", (r, secret) => {
    const { ElevenLabsClient } = require("@elevenlabs/elevenlabs-js");
    return new ElevenLabsClient({ apiKey: "k" }).webhooks.constructEvent(r.text, header(r, "elevenlabs-signature"), secret);
  }],
  retell: ["retell-sdk", "Retell.verify", (r, secret) => {
    const Retell = require("retell-sdk");
    return (Retell.default ?? Retell).verify(r.text, secret, header(r, "x-retell-signature"));
  }],
  notion: ["@notionhq/client", "verifyWebhookSignature", (r, secret) =>
    require("@notionhq/client").verifyWebhookSignature({ body: r.text, signature: header(r, "x-notion-signature"), verificationToken: secret })],
  aws_sns: ["sns-validator", "MessageValidator.validate", (r, secret) => {
    certificate = secret;
    // A fresh copy of the module, because it caches certificates by URL.
    delete require.cache[require.resolve("sns-validator")];
    return new Promise((resolve, reject) => new (require("sns-validator"))().validate(r.text, (error) => (error ? reject(error) : resolve(true))));
  }],
  mux: ["@mux/mux-node", "webhooks.verifySignature", (r, secret) => {
    const Mux = require("@mux/mux-node");
    return new (Mux.default ?? Mux)({ tokenId: "t", tokenSecret: "s" }).webhooks.verifySignature(r.text, allHeaders(r), secret);
  }],
  workos: ["@workos-inc/node", "webhooks.verifyHeader", (r, secret) => {
    const { WorkOS } = require("@workos-inc/node");
    return new WorkOS("sk").webhooks.verifyHeader({ payload: JSON.parse(r.text), sigHeader: header(r, "workos-signature"), secret });
  }],
  gocardless: ["gocardless-nodejs", "webhooks.parse", (r, secret) => require("gocardless-nodejs/webhooks").parse(r.text, secret, header(r, "webhook-signature"))],
  sanity: ["@sanity/webhook", "isValidSignature", (r, secret) => require("@sanity/webhook").isValidSignature(r.text, header(r, "sanity-webhook-signature"), secret)],
  contentful: ["@contentful/node-apps-toolkit", "verifyRequest", (r, secret) => {
    const url = new URL(r.url);
    return require("@contentful/node-apps-toolkit").verifyRequest(secret, { method: r.method, path: url.pathname + url.search, headers: allHeaders(r), body: r.text });
  }],
  livekit: ["livekit-server-sdk", "WebhookReceiver.receive", async (r, secret) => {
    const { WebhookReceiver } = await imported("livekit-server-sdk/dist/index.js");
    return new WebhookReceiver(r.settings?.api_key ?? "", secret).receive(r.text, header(r, "authorization"));
  }],
};

const lines = readline.createInterface({ input: process.stdin });
for await (const line of lines) {
  const request = JSON.parse(line);
  const oracle = oracles[request.provider];
  if (!oracle || request.method !== "POST" || !(oracle[3] ?? always)(request)) {
    console.log(JSON.stringify({ verdict: null }));
    continue;
  }
  now = request.now_unix;
  request.body = Buffer.from(request.body_base64, "base64");
  request.text = request.body.toString("utf8");
  let valid = false;
  for (const secret of request.secrets) valid ||= await accepts(() => oracle[2](request, secret));
  console.log(JSON.stringify({ verdict: valid ? "valid" : "invalid", ecosystem: "npm", package: oracle[0], version: version(oracle[0]), function: oracle[1] }));
}
