// A receiver in Express, right or with one bug: node receiver.mjs PROVIDER KIND PORT DATABASE
// The work beside the charge takes as long as a look-up and a call to a mail service do.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";

const [provider, kind, port, file] = process.argv.slice(2);
const SECRET = process.env.SECRET;
const TOLERANCE_SECONDS = 300;

const db = new DatabaseSync(file);
db.exec("pragma journal_mode = wal; pragma synchronous = normal; pragma busy_timeout = 5000");
const unique = kind === "select" ? "" : "primary key";
db.exec(`create table if not exists seen (id text ${unique}, state text); create table if not exists charges (event text, amount text)`);

const lookUpCustomer = () => sleep(4);
const sendReceipt = () => sleep(60);
const isSeen = (id) => db.prepare("select 1 from seen where id = ?").get(id) !== undefined;
const mark = (id) => db.prepare("insert into seen values (?, 'done')").run(id);
const charge = (event) => db.prepare("insert into charges values (?, ?)").run(event.id, event.amount);

// All of it or nothing. False if the marker is there already.
const transaction = (work) => {
  db.exec("begin immediate");
  try {
    work();
    db.exec("commit");
    return true;
  } catch (error) {
    db.exec("rollback");
    if (error.errcode === 1555) return false;
    throw error;
  }
};

// Right: the marker has a unique key, and stands in the transaction of the work.
const right = async (event) => {
  await lookUpCustomer();
  if (transaction(() => { mark(event.id); charge(event); })) await sendReceipt();
};

// One at a time for each event: whoever comes meanwhile, or a moment later, gets the same outcome.
const atWork = new Map();
const together = (id, work) => {
  if (!atWork.has(id)) atWork.set(id, work().finally(() => setTimeout(() => atWork.delete(id), 300)));
  return atWork.get(id);
};

const inMemory = new Set();

const kinds = {
  right,
  printed: right,
  unsigned: right,
  stale: right,
  weaker: right,

  // Between the question and the marker, a copy sees nothing either.
  select: async (event) => {
    if (isSeen(event.id)) return;
    await lookUpCustomer();
    transaction(() => { mark(event.id); charge(event); });
    await sendReceipt();
  },

  // The marker is written after the work: a process that dies between them works again.
  after: (event) => together(event.id, async () => {
    if (isSeen(event.id)) return;
    await lookUpCustomer();
    charge(event);
    await sendReceipt();
    mark(event.id);
  }),

  // The marker comes first. Where the work fails, it is cleared in the transaction that is rolled back, so it stays.
  cleared: async (event, isGone) => {
    const attempt = async () => {
      await lookUpCustomer();
      await sendReceipt();
      db.exec("begin immediate");
      charge(event);
      if (isGone()) {
        db.prepare("delete from seen where id = ?").run(event.id);
        db.exec("rollback");
        return false;
      }
      db.prepare("update seen set state = 'done' where id = ?").run(event.id);
      db.exec("commit");
      return true;
    };
    const other = atWork.get(event.id);
    if (other) return (await other) || attempt();
    const claimed = db.prepare("insert or ignore into seen values (?, 'running')").run(event.id);
    if (claimed.changes > 0) await together(event.id, attempt);
  },

  // Forgets an event at work as soon as its sender has gone.
  forgotten: (event, isGone, response) => {
    response.on("close", () => atWork.delete(event.id));
    return together(event.id, async () => {
      if (isSeen(event.id)) return;
      await lookUpCustomer();
      await sendReceipt();
      transaction(() => { db.prepare("insert or ignore into seen values (?, 'done')").run(event.id); charge(event); });
    });
  },

  // Remembers until it is restarted.
  memory: async (event) => {
    if (inMemory.has(event.id)) return;
    inMemory.add(event.id);
    charge(event);
    await sendReceipt();
  },

  // Knows an event by the hash of its body, which another rendering changes.
  hash: async (event) => {
    await lookUpCustomer();
    if (transaction(() => { mark(createHash("sha256").update(event.raw).digest("hex")); charge(event); })) await sendReceipt();
  },

  // Knows a delivery by its hash, and not each event in it.
  delivery: async (event) => {
    await lookUpCustomer();
    const of = createHash("sha256").update(event.raw).update(event.id).digest("hex");
    if (transaction(() => { mark(of); charge(event); })) await sendReceipt();
  },

  // Knows the latest events only.
  recent: async (event) => {
    await lookUpCustomer();
    const trim = () => db.exec("delete from seen where rowid <= (select max(rowid) - 100 from seen)");
    if (transaction(() => { mark(event.id); charge(event); trim(); })) await sendReceipt();
  },
};

if (kind === "cleared") db.exec("delete from seen where state = 'running'");

const isSignature = (expected, hex) => {
  const given = Buffer.from(hex ?? "", "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
};

const hash = (name, ...parts) => parts.reduce((made, part) => made.update(part), createHmac(name, SECRET)).digest();

const isOfPaddle = (raw, request) => {
  const header = request.get("paddle-signature");
  if (header === undefined) return kind === "unsigned";
  const parts = new Map(header.split(";").map((part) => part.split("=")));
  const age = Math.abs(Date.now() / 1000 - Number(parts.get("ts")));
  if (!(age <= TOLERANCE_SECONDS) && kind !== "stale") return false;
  return isSignature(hash("sha256", `${parts.get("ts")}:`, raw), parts.get("h1"));
};

const isOfHub = (raw, request) => {
  const [header, older] = [request.get("x-hub-signature-256"), request.get("x-hub-signature")];
  if (header === undefined && older !== undefined && kind === "weaker") return isSignature(hash("sha1", raw), older.slice(5));
  return isSignature(hash("sha256", raw), header?.slice(7));
};

// Whether a request is genuine, and the events in its body.
const providers = {
  paddle_billing: { isGenuine: isOfPaddle, events: (body) => [{ id: body.event_id, amount: body.event_type }] },
  github: { isGenuine: isOfHub, events: (body, request) => [{ id: request.get("x-github-delivery"), amount: "1" }] },
  meta_whatsapp: {
    isGenuine: isOfHub,
    events: (body) => body.entry.flatMap((entry) => entry.changes)
      .flatMap((change) => change.value.messages ?? [])
      .map((message) => ({ id: message.id, amount: message.type })),
  },
};

const app = express();
app.use(express.raw({ type: "*/*", limit: "1mb" }));
app.post("/webhooks", async (request, response) => {
  if (kind === "nothing") return response.sendStatus(200);
  let body;
  try {
    body = JSON.parse(request.body);
  } catch {
    return response.sendStatus(400);
  }
  const raw = kind === "printed" ? Buffer.from(JSON.stringify(body)) : request.body;
  if (!providers[provider].isGenuine(raw, request)) return response.sendStatus(401);
  for (const event of providers[provider].events(body, request)) {
    await kinds[kind]({ ...event, raw }, () => response.destroyed || request.socket.destroyed, response);
  }
  response.sendStatus(200);
});
app.listen(Number(port), "127.0.0.1");
