/** What the package does inside a browser. Runs in a page; test/browser.mjs opens it and reads what `check` gives. */

import * as skillbox from "./skillbox/index.js";

const CHECKS = {
  async "a skill is packed and published"(client, { files }) {
    const published = await client.registerSkill(files);
    expect(published.name, "conformance");
  },
  async "a run gives its output, with every letter"(client) {
    const input = { text: "Grüße, 世界, 🦀", n: [1, 2.5, null, true] };
    const result = await client.run({ skill: "conformance", input });
    expect(JSON.stringify(result.output.input), JSON.stringify(input));
  },
  async "a run is followed while it runs, and cancelled"(client) {
    const { execution_id: id } = await client.start({ skill: "conformance", script: "scripts/sleep.py" });
    for await (const event of client.events(id)) {
      if (event.type === "log" && event.text.includes("sleeping")) await client.cancel(id);
      if (event.type === "result") return expect(event.result.status, "cancelled");
    }
    throw new Error("the stream had no end");
  },
  async "a file goes up and comes down"(client) {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, at) => at % 251);
    const file = await client.uploadFile(new Blob([bytes]), { filename: "Größe 世界.bin" });
    expect(file.name, "Größe 世界.bin");
    const back = new Uint8Array(await new Response(await client.downloadFile(file.id)).arrayBuffer());
    expect(await digest(back), await digest(bytes));
  },
  async "the files of a run are unpacked"(client) {
    const result = await client.run({ skill: "conformance", script: "scripts/files.py", env: { SIZE: "100000" } });
    const sizes = {};
    for await (const { name, size } of client.files(result)) sizes[name] = size;
    expect(sizes["large.bin"], 100_000);
    expect(sizes["deep/er/a%20b?.txt"], 5);
  },
  async "a wrong key is its own error, with the id of the request"() {
    const error = await new skillbox.Client(location.origin, "sk-wrong-0123456789abcdef").listSkills().catch((error) => error);
    expect(error.constructor.name, "AuthenticationError");
    expect(Boolean(error.requestId), true);
  },
  async "a call is aborted"(client) {
    const controller = new AbortController();
    const running = client.run({ skill: "conformance", script: "scripts/sleep.py" }, { signal: controller.signal });
    controller.abort(new Error("enough"));
    expect((await running.catch((error) => error)).message, "enough");
  },
};

export async function check(given) {
  const client = new skillbox.Client(location.origin, given.key);
  const failed = [];
  for (const [name, run] of Object.entries(CHECKS)) await run(client, given).catch((error) => failed.push(`${name}: ${error.stack}`));
  return { count: Object.keys(CHECKS).length, failed };
}

async function digest(bytes) {
  return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].join();
}

function expect(got, wanted) {
  if (got !== wanted) throw new Error(`expected ${wanted}, got ${got}`);
}
