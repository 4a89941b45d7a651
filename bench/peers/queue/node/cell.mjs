// One cell of BullMQ: node cell.mjs EXPERIMENT HOST:PORT SECONDS CALLERS
// Prints its figures as JSON. The worker is in the process of the callers, who are
// told by its event that a job is complete. See the README for what else was tried.
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "bullmq";

const [experiment, address, seconds, count] = process.argv.slice(2);
const [host, port] = address.split(":");
const span = Number(seconds) * 1e9;
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const payload = "x".repeat(100 - '{"text":"00000000"}'.length);
const idleJobs = 500, idleWarm = 50, idlePeriod = 20;
const clock = () => Number(process.hrtime.bigint());

const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: { count: 10_000 } } });
await queue.waitUntilReady();

function quantiles(times) {
  times.sort((a, b) => a - b);
  const at = (q) => times[Math.min(times.length - 1, Math.floor(q * times.length))] / 1e6;
  return { p50_ms: at(0.5), p99_ms: at(0.99), most_ms: at(1), count: times.length };
}

// add enqueues a job of 100 bytes with a number.
const add = (n) => queue.add("noop", { text: String(n).padStart(8, "0") + payload });
const number = (job) => Number(job.data.text.slice(0, 8));

// closedLoop lets callers repeat one for the span, after a warm-up of a quarter.
async function closedLoop(callers, one) {
  const begin = clock() + span / 4, end = begin + span, times = [];
  const caller = async (_, n) => {
    for (let at = clock(); at < end; ) {
      await one(n);
      const now = clock();
      if (now >= begin && now < end) times.push(now - at);
      at = now;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return { ...quantiles(times), rate: times.length / (span / 1e9) };
}

async function work(handler, completed, measure) {
  const worker = new Worker("bench", handler, { connection, concurrency: 100 });
  worker.on("completed", completed);
  worker.on("error", (fault) => console.error(fault));
  await worker.waitUntilReady();
  const metrics = await measure();
  await worker.close();
  return metrics;
}

// finish enqueues jobs and waits for each; a caller has one under way.
function finish(callers) {
  const told = [];
  return work(async () => null, (job) => told[number(job)](), () =>
    closedLoop(callers, (n) => new Promise((ok, bad) => {
      told[n] = ok;
      add(n).catch(bad);
    })));
}

function singleJobs() {
  const begun = [], times = [];
  let all;
  const done = new Promise((ok) => { all = ok; });
  const handler = async (job) => {
    times[number(job)] = clock() - begun[number(job)];
    return null;
  };
  let left = idleWarm + idleJobs;
  return work(handler, () => { if (--left === 0) all(); }, async () => {
    let due = performance.now();
    for (let n = 0; n < idleWarm + idleJobs; n++) {
      due += idlePeriod;
      await sleep(Math.max(0, due - performance.now()));
      begun[n] = clock();
      await add(n);
    }
    await done;
    return quantiles(times.slice(idleWarm));
  });
}

async function measure() {
  if (experiment === "end2end64") return finish(Number(count));
  if (experiment === "idle") return singleJobs();
  return closedLoop(Number(count), add);
}

let answer;
try {
  answer = { metrics: await measure() };
} catch (fault) {
  answer = { error: String(fault?.stack ?? fault) };
}
console.log(JSON.stringify(answer));
await queue.close();
process.exit(0);
