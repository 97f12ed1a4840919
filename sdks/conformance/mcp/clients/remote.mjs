/** A client of MCP under remote control, by the lines that remote.py explains. */

import { createInterface } from "node:readline";

const connections = new Map();
const doing = new Map();

/** `connect` opens a connection: an object with a function for each thing to do. */
export function serve(connect) {
  createInterface({ input: process.stdin }).on("line", (line) => void carryOut(connect, JSON.parse(line)));
}

async function carryOut(connect, { id, do: what, with: given = {} }) {
  try {
    say({ id, result: (await perform(connect, id, what, given)) ?? null });
  } catch (error) {
    say({ id, error: told(error) });
  }
}

async function perform(connect, id, what, { connection, progress, ...given }) {
  if (what === "connect") {
    const opened = await connect(given);
    connections.set(id, opened);
    return opened.about();
  }
  if (what === "cancel") return doing.get(given.id).abort("enough");
  const controller = new AbortController();
  doing.set(id, controller);
  return connections.get(connection)[what](given, {
    signal: controller.signal,
    ...(progress && { onprogress: (news) => say({ id, progress: news }) }),
  });
}

function say(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

function told(error) {
  const { code } = error;
  // The first generation gives HTTP's status as its code, the second among its data.
  const status = code >= 400 && code < 600 ? code : error.data?.status;
  return { kind: error.constructor.name, message: `${error.message ?? error}`, code, status };
}
