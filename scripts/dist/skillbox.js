#!/usr/bin/env node
// Starts the program `skillbox` of the package for this platform, with the same arguments and streams.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const name = `skillbox-${process.platform}-${process.arch}`;

function findProgram() {
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/skillbox`);
  } catch {
    console.error(
      `skillbox: there is no program for ${process.platform} on ${process.arch} (package ${name}). ` +
        "The library works with a server; the container image runs the program.",
    );
    process.exit(1);
  }
}

const child = spawn(findProgram(), process.argv.slice(2), { stdio: "inherit" });
// A terminal signals both processes, a supervisor only this one: the child decides when to end, and this process follows.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`skillbox: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code ?? 1);
  }
});
