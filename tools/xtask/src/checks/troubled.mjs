/** What troubled.py does, for the samples in TypeScript. */
import { appendFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

const SLOW_PERCENT = 3;
// The worker waits for five seconds.
const SLOW_MS = 6_000;
// In either round.
const KILL_PERCENT = 2;

const sample = await import(`../../../../clients/typescript/dist/examples/${process.env.HANDLER}.js`);

export async function lambdaHandler(request) {
  const answer = await sample.lambdaHandler(request);
  const { tenant } = request.event;
  const call = request.request;
  if ((answer.reads !== undefined || answer.writes !== undefined) && Math.random() * 100 < KILL_PERCENT) {
    note({ killed_in: answer.reads !== undefined ? "reads" : "plan" });
    process.kill(process.pid, "SIGKILL");
  }
  const slow = Math.random() * 100 < SLOW_PERCENT;
  if (answer.writes !== undefined) {
    const fact = `${tenant}#${answer.fact}`;
    const item = { answered_fact: { S: fact }, answered_by: { S: call } };
    answer.writes.push({ key: `${tenant}#call#${call}`, action: { put: item }, condition: [] });
    note({ fact, call, slow });
  }
  if (slow) await setTimeout(SLOW_MS);
  return answer;
}

function note(line) {
  appendFileSync(process.env.ANSWERS, `${JSON.stringify(line)}\n`);
}
