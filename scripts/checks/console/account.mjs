// An account with one stack, `inbox`: the tables and queues of the stack that runs in a folder, and the services of AWS
// that a laptop has not. `hookonce console --stack inbox` shows it.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";

const xml = (operation, result) => `<${operation}Response><${operation}Result>${result}</${operation}Result></${operation}Response>`;

export const startAccount = async (hookonce, folder) => {
  const read = (...names) => readFileSync(join(folder, ".hookonce", ...names), "utf8");
  const own = Object.fromEntries(read("functions.env").trim().split("\n").map((line) => [line.split("=")[0], line.slice(line.indexOf("=") + 1)]));
  // Each output of the template; a name of its own where nothing here is behind it.
  const [, section] = readFileSync("template.yaml", "utf8").split(/^Outputs:$/m);
  const names = [...section.matchAll(/^ {2}(\w+):$/gm)].map(([, name]) => name);
  const [, version] = readFileSync("Cargo.toml", "utf8").match(/^version = "(.+)"$/m);
  const outputs = {
    ...Object.fromEntries(names.map((name) => [name, `inbox-${name}`])),
    Version: version, InboxTable: own.HOOKONCE_INBOX_TABLE, DomainTable: own.HOOKONCE_DOMAIN_TABLE, DocumentsTable: "documents",
    QueueUrl: own.HOOKONCE_QUEUE_URL, SlowQueueUrl: own.HOOKONCE_SLOW_QUEUE_URL, EffectsQueueUrl: own.HOOKONCE_EFFECTS_QUEUE_URL,
    WebhookUrl: "https://inbox.example/webhooks/", WebhookLogs: "/aws/lambda/inbox-webhook",
  };
  const document = (kind, id, text) => ({ kind: { S: kind }, id: { S: id }, changed_at: { N: String(Date.now()) }, document: { S: text } });
  const endpoints = readdirSync(join(folder, ".hookonce", "endpoints")).filter((name) => name.endsWith(".json"))
    .map((name) => document("endpoint", name.slice(0, -".json".length), read("endpoints", name)));
  const row = (fields) => Object.entries(fields).map(([field, value]) => ({ field, value: String(value) }));
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000).toISOString().replace("T", " ").replace("Z", "");
  const found = (answer, more) => row({ endpoint: "stripe", answer, "bin(1h)": hour, accepted: 0, duplicates: 0, last: Date.now(), ...more });
  const results = [found("none", { requests: 400, accepted: 400, last_accepted: Date.now() }), found("signature_mismatch", { requests: 3 })];

  const documents = (operation, { ExpressionAttributeValues: values, Key: key }) => operation === "Query"
    ? { Items: values[":kind"].S === "endpoint" ? endpoints : [] }
    : { Item: endpoints.find((it) => it.kind.S === key.kind.S && it.id.S === key.id.S) };
  const seconds = () => Math.floor(Date.now() / 1_000);
  const alarm = { AlarmName: "hookonce/inbox/page/RecordsDied", AlarmDescription: "See docs/run/runbook.md#records-died", StateValue: "OK" };
  const points = [...Array(100).keys()];
  const result = (start, { Id, MetricStat: { Metric: { MetricName: name }, Period: period } }) => ({
    Id, Timestamps: points.map((at) => start + at * period), Values: points.map((at) => (/accepted|applied|_ms/.test(name) ? (at * 7) % 40 : 0)),
  });
  const series = ({ StartTime: start, MetricDataQueries: queries }) => ({ MetricDataResults: queries.map((query) => result(start, query)) });
  const answers = {
    DescribeAlarms: { MetricAlarms: [{ ...alarm, ActionsEnabled: true, AlarmActions: ["arn:aws:sns:us-east-1:123456789012:alarms"] }] },
    StartQuery: { queryId: "1" }, GetQueryResults: { status: "Complete", statistics: { bytesScanned: 40_000 }, results },
  };
  const answer = async (request, text) => {
    const operation = request.headers["x-amz-target"]?.split(".").at(-1) ?? new URLSearchParams(text).get("Action");
    if (operation === "GetCallerIdentity") return xml(operation, "<Arn>arn:aws:sts::123456789012:assumed-role/Operator/ada</Arn>");
    if (operation === "DescribeStacks") {
      const members = Object.entries(outputs).map(([name, value]) => `<member><OutputKey>${name}</OutputKey><OutputValue>${value}</OutputValue></member>`);
      return xml(operation, `<Stacks><member><Outputs>${members.join("")}</Outputs></member></Stacks>`);
    }
    if (answers[operation]) return JSON.stringify(answers[operation]);
    if (request.url.includes("event-source-mappings")) return JSON.stringify({ EventSourceMappings: [{ UUID: "1", State: "Enabled" }] });
    if (!operation) return JSON.stringify({ LastModified: "2026-11-22T14:00:00.000+0000", CodeSha256: "x", Environment: { Variables: {} } });
    const body = JSON.parse(text);
    if (operation === "GetMetricStatistics") {
      return JSON.stringify({ Datapoints: body.MetricName === "relay_ran" ? [{ Timestamp: seconds(), SampleCount: 1 }] : [] });
    }
    if (operation === "GetMetricData") return JSON.stringify(series(body));
    if (body.TableName === "documents") return JSON.stringify(documents(operation, body));
    const { "x-amz-target": target, authorization } = request.headers;
    const headers = { "x-amz-target": target, authorization, "content-type": "application/x-amz-json-1.0" };
    return (await fetch(own.AWS_ENDPOINT_URL_DYNAMODB, { method: "POST", headers, body: text })).text();
  };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    response.end(await answer(request, text));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const here = `http://127.0.0.1:${server.address().port}`;
  const services = ["CLOUDFORMATION", "CLOUDWATCH", "CLOUDWATCH_LOGS", "DYNAMODB", "LAMBDA", "STS"];
  const env = { ...process.env, ...own, RUST_LOG: "off", AWS_EC2_METADATA_DISABLED: "true", AWS_REGION: "us-east-1", AWS_CONFIG_FILE: "none", AWS_SHARED_CREDENTIALS_FILE: "none" };
  for (const service of services) env[`AWS_ENDPOINT_URL_${service}`] = here;
  const console = spawn(hookonce, ["console", "--stack", "inbox", "--port", "0"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const entrance = await new Promise((resolve, reject) => {
    createInterface(console.stdout).once("line", resolve);
    console.once("exit", (code) => reject(new Error(`the console ended with ${code}`)));
  });
  return {
    entrance,
    base: entrance.split("/?")[0],
    stop: async () => {
      const ended = new Promise((resolve) => console.once("exit", resolve));
      console.kill("SIGINT");
      await ended;
      server.closeAllConnections();
      server.close();
    },
  };
};
