// A BullMQ client for Node: node peer.js PACKAGE add|work OPTIONS, where OPTIONS are JSON.
//
// add   puts `jobs` ([{name, data, opts}]) into the queue; prints one line each: its id, or why not.
// work  processes `count` jobs, or lets them fail with `fail`; prints one line each.

const [library, action, given] = process.argv.slice(2);
const { Queue, Worker } = require(library);
const IORedis = require("ioredis");

const { url, queue: name, prefix, jobs = [], count = 0, fail } = JSON.parse(given);
const connection = new IORedis(url, { maxRetriesPerRequest: null });
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

async function add() {
  const queue = new Queue(name, { connection, prefix });
  for (const job of jobs) {
    try {
      say({ id: (await queue.add(job.name, job.data, job.opts)).id });
    } catch (error) {
      say({ error: error.message });
    }
  }
  await queue.close();
}

async function work() {
  let left = count;
  let done;
  const all = new Promise((resolve) => (done = resolve));
  const process = async (job) => {
    say({ id: job.id, name: job.name, data: job.data, attempts: job.attemptsMade });
    if (fail) throw new Error(fail);
  };
  const worker = new Worker(name, process, { connection, prefix });
  const settled = () => --left || done();
  worker.on("completed", settled);
  worker.on("failed", settled);
  await all;
  await worker.close();
}

(action === "add" ? add() : work()).then(() => connection.quit());
