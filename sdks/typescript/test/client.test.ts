/** What the conformance cases cannot say: aborting, addresses, and what a browser would do. */

import { createServer } from "node:net";

import { APIError, Client, NotFoundError } from "skillbox";
import { expect, test, vi } from "vitest";

import { nextCursor } from "../src/client.js";
import { live, required } from "./support.js";

test("aborting a call throws the signal's reason and closes the connection", async () => {
  let closed: Promise<void> | undefined;
  let asked = () => {};
  const arrived = new Promise<void>((resolve) => (asked = resolve));
  const server = createServer((socket) => {
    closed = new Promise((resolve) => socket.once("close", () => resolve()));
    socket.on("error", () => undefined).once("data", asked);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const controller = new AbortController();
  const call = new Client(`http://127.0.0.1:${port}`, "k").run({ skill: "s" }, { signal: controller.signal });
  await arrived;
  const reason = new Error("enough");
  controller.abort(reason);
  await expect(call).rejects.toBe(reason);
  await closed;
  server.close();
});

test("a call that is aborted before it begins is not sent", async () => {
  const client = new Client("http://127.0.0.1:1", "k");
  await expect(client.health({ signal: AbortSignal.abort(new Error("no")) })).rejects.toThrow("no");
});

test("a pause between attempts ends with the signal", async () => {
  const client = new Client(`${required("SKILLBOX_TEST_STANDIN")}/drop`, "k", { retries: 1000 });
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error("enough")), 50);
  await expect(client.listSkills({ signal: controller.signal })).rejects.toThrow("enough");
});

test("a reader may take its time", async () => {
  vi.useFakeTimers();
  try {
    let signal: AbortSignal | undefined;
    const pieces = [1, 2, 3].map((byte) => Uint8Array.of(byte));
    const answers = async (_: unknown, init?: RequestInit) => {
      signal = init?.signal ?? undefined;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => signal?.addEventListener("abort", () => controller.error(new Error("aborted"))),
        pull: (controller) => {
          const piece = pieces.shift();
          if (piece) controller.enqueue(piece);
          else controller.close();
        },
      }, { highWaterMark: 0 });
      return new Response(body);
    };
    const client = new Client("http://h", "k", { fetch: answers as typeof fetch, timeoutMs: 100 });
    const stream = await client.downloadFile("x");
    const read: number[] = [];
    for await (const piece of stream as unknown as AsyncIterable<Uint8Array>) {
      read.push(...piece);
      await vi.advanceTimersByTimeAsync(60_000);
      expect(signal?.aborted).toBe(false);
    }
    expect(read).toEqual([1, 2, 3]);
  } finally {
    vi.useRealTimers();
  }
});

test("addresses people type are understood", () => {
  expect(new Client("localhost:8080", "").baseUrl).toBe("http://localhost:8080");
  expect(new Client(" https://box.example.com/skillbox/ ", "").baseUrl).toBe("https://box.example.com/skillbox");
  for (const address of ["", "ftp://host", "http://"]) expect(() => new Client(address, "")).toThrow(TypeError);
  expect(() => new Client("http://h", "sk-\n")).toThrow("apiKey");
});

test("the next cursor is found", () => {
  expect(nextCursor('<http://h/v1/skills?limit=2&cursor=a%2Bb>; rel="next"')).toBe("a+b");
  expect(nextCursor('</v1?cursor=zz>; rel="prev", </v1?cursor=a%2Bb>; rel="next"')).toBe("a+b");
  expect(nextCursor('</v1?cursor=x>; rel="prev"')).toBeUndefined();
});

test("an error is an Error with everything in it", async () => {
  const client = await live();
  const error = await client.getSkill("no-such-skill").catch((error: unknown) => error);
  expect(error).toBeInstanceOf(NotFoundError);
  expect(error).toBeInstanceOf(APIError);
  expect(error).toMatchObject({ name: "NotFoundError", status: 404, code: "not_found" });
  expect(String(error)).toContain((error as APIError).requestId);
});

test("the key from the environment is used", async () => {
  const before = process.env["SKILLBOX_API_KEY"];
  process.env["SKILLBOX_API_KEY"] = required("SKILLBOX_TEST_KEY");
  try {
    await new Client(required("SKILLBOX_TEST_URL")).listSkills();
  } finally {
    if (before === undefined) delete process.env["SKILLBOX_API_KEY"];
    else process.env["SKILLBOX_API_KEY"] = before;
  }
});

test("nothing but the entry for Node needs Node", async () => {
  const { readdirSync, readFileSync } = await import("node:fs");
  const source = new URL("../src/", import.meta.url);
  const users = readdirSync(source).filter((name) => /from "node:|require\(/.test(readFileSync(new URL(name, source), "utf8")));
  expect(users).toEqual(["node.ts"]);
});
