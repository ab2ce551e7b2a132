/** What troubled.py does, for the samples in TypeScript. */
import { appendFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

const SLOW_PERCENT = 3;
// The worker waits for five seconds.
const SLOW_MS = 6_000;

const sample = await import(`../../../clients/typescript/dist/examples/${process.env.HANDLER}.js`);

export async function lambdaHandler(request) {
  const answer = await sample.lambdaHandler(request);
  const { tenant } = request.event;
  const call = request.request;
  const slow = Math.random() * 100 < SLOW_PERCENT;
  if (answer.writes !== undefined) {
    const fact = `${tenant}#${answer.fact}`;
    const item = { answered_fact: { S: fact }, answered_by: { S: call } };
    answer.writes.push({ key: `${tenant}#call#${call}`, action: { put: item }, condition: [] });
    appendFileSync(process.env.ANSWERS, `${JSON.stringify({ fact, call, slow })}\n`);
  }
  if (slow) await setTimeout(SLOW_MS);
  return answer;
}
