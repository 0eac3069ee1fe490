// Submits a problem, then polls its status until the answer is there.
//   npm install kafkajs redis && node submit_and_poll.js
"use strict";
const { randomUUID } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");
const { Kafka } = require("kafkajs");
const { createClient } = require("redis");

const ENDED = ["done", "failed", "expired", "cancelled"];
const STATUS_TTL_S = 691200;

async function main() {
  const producer = new Kafka({ brokers: ["127.0.0.1:9092"] }).producer();
  const store = createClient({ url: "redis://127.0.0.1:6379" });
  await Promise.all([producer.connect(), store.connect()]);

  const requestId = `job-${randomUUID()}`;
  const key = `solfleet:job:{${requestId}}`;
  // Optional: lets a poller see the job at once.
  if (await store.hSetNX(key, "state", "queued")) {
    await store.expire(key, STATUS_TTL_S);
  }
  const job = {
    request_id: requestId,
    problem: { title: "Two Sum", statement: "Return the indices of two numbers with a given sum." },
    params: { max_tokens: 100, seed: 7 },
  };
  await producer.send({
    topic: "solfleet.jobs",
    messages: [{ key: requestId, value: JSON.stringify(job) }],
  });

  let status = await store.hGetAll(key);
  while (!ENDED.includes(status.state)) {
    await sleep(200);
    status = await store.hGetAll(key);
  }
  console.log(requestId, status.state, status.error_message ?? "");
  if (status.result) { // one too large for the status is on the results topic only
    console.log(JSON.parse(status.result).text);
  }
  await Promise.all([producer.disconnect(), store.close()]);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
