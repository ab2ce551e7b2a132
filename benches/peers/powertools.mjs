// The webhook function's job with Powertools for TypeScript, as its documentation says: verify, then send behind
// `makeIdempotent`.
import { createHmac, timingSafeEqual } from "node:crypto";
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { DynamoDBPersistenceLayer } from "@aws-lambda-powertools/idempotency/dynamodb";
import { Logger } from "@aws-lambda-powertools/logger";
import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";

const toleranceSeconds = 300;
const logger = new Logger({ serviceName: "peer" });
const sqs = new SQSClient({});
const config = new IdempotencyConfig({ eventKeyJmesPath: "id", expiresAfterSeconds: 35 * 86_400 });
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.HOOKONCE_INBOX_TABLE });

async function sendRecord(record) {
  await sqs.send(new SendMessageCommand({ QueueUrl: process.env.HOOKONCE_QUEUE_URL, MessageBody: record.body }));
  return { status: "accepted" };
}
const send = makeIdempotent(sendRecord, { persistenceStore, config });

export const handler = async (event, context) => {
  config.registerLambdaContext(context);
  const signed = Object.fromEntries(event.headers["stripe-signature"].split(",").map((part) => part.split("=")));
  const expected = createHmac("sha256", process.env.PEER_SECRET).update(`${signed.t}.${event.body}`).digest("hex");
  const fresh = Math.abs(Date.now() / 1000 - Number(signed.t)) <= toleranceSeconds;
  if (!fresh || !timingSafeEqual(Buffer.from(expected), Buffer.from(signed.v1))) return { statusCode: 401 };
  const answer = await send({ id: JSON.parse(event.body).id, body: event.body });
  logger.info("accepted", { request: context.awsRequestId });
  return { statusCode: 200, body: JSON.stringify(answer) };
};
