// Runs one task in one engine of npm; reads {engine, task, log} on stdin and
// prints the result as JSON.
import { readFileSync } from "node:fs";

const { engine, task, log } = JSON.parse(readFileSync(0, "utf8"));

async function make() {
  if (engine === "just-bash") {
    const { Bash } = await import("just-bash");
    const limits = {
      maxCommandCount: 1e9, maxLoopIterations: 1e9, maxCallDepth: 10000, maxStringLength: 1e9, maxAwkIterations: 1e9, maxSedIterations: 1e9,
      maxArrayElements: 1e9, maxWorkUnits: 1e12, maxLiveBytes: 4e9, maxInputBytes: 1e9, maxFileSystemBytes: 1e9, maxOutputSize: 1e9,
      maxExecutionTimeMs: 240000, maxSubstitutionDepth: 10000, maxGlobOperations: 1e9,
    };
    const bash = new Bash({ files: { "/tmp/bench/log": log }, executionLimits: limits });
    return async (script) => (await bash.exec(script));
  }
  const { Bash } = await import("@everruns/bashkit");
  const bash = new Bash({ maxCommands: 1e9, maxLoopIterations: 1e9, maxTotalLoopIterations: 1e9, maxMemory: 1e9, timeoutMs: 240000, files: { "/tmp/bench/log": log } });
  return async (script) => bash.execute(script);
}

function median(list) {
  list.sort((a, b) => a - b);
  return list[list.length >> 1];
}

async function main() {
  const result = { engine, task: task.name, ms: 0 };
  if (task.name === "create + echo hi") {
    const times = [];
    for (let i = 0; i < task.runs; i++) {
      const start = performance.now();
      const run = await make();
      await run("echo hi");
      times.push(performance.now() - start);
    }
    return { ...result, ms: median(times) };
  }
  if (task.name.startsWith("1,000 idle")) {
    const live = [];
    const warm = await make();
    await warm("echo hi");
    globalThis.gc();
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 1000; i++) {
      const run = await make();
      await run("echo hi");
      live.push(run);
    }
    globalThis.gc();
    return { ...result, ms: (process.memoryUsage().rss - before) / live.length / 1000, unit: "kB" };
  }
  const run = await make();
  const times = [];
  let out;
  const begin = performance.now();
  for (let i = 0; i < task.runs && (i === 0 || performance.now() - begin < 10000); i++) { // slow ones run once
    const start = performance.now();
    out = await run(task.script);
    times.push(performance.now() - start);
  }
  result.ms = median(times);
  result.output = (out.stdout ?? "") + (out.stderr ?? "");
  return result;
}

try {
  console.log(JSON.stringify(await main()));
} catch (e) {
  console.log(JSON.stringify({ engine, task: task.name, ms: 0, failed: String(e) }));
}
