/** The parts without a network: zip, tar, events, webhooks. */

import { createHmac } from "node:crypto";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { type ExecutionEvent, packSkill, readArchive, UnsafePathError, verifyWebhook, WebhookError } from "skillbox";
import { readSkillDirectory, saveStream } from "skillbox/node";
import { describe, expect, test } from "vitest";

import { EventReader } from "../src/events.js";
import { live } from "./support.js";

test("a packed skill is one to the server, with its modes", async () => {
  const client = await live();
  const files = [
    { path: "SKILL.md", data: "---\nname: packed\ndescription: Packed by hand.\n---\n# Packed\n" },
    { path: "scripts/größe.py", data: "print('ü')\n", executable: true },
  ];
  expect((await client.registerSkill(files)).name).toBe("packed");
  expect(await client.listSkillFiles("packed")).toContainEqual({ path: "scripts/größe.py", size_bytes: 12, executable: true });
  expect(packSkill(files)).toEqual(packSkill([...files].reverse()));
});

test("a directory with a link is refused", async () => {
  const place = await mkdtemp(join(tmpdir(), "skillbox-"));
  await writeFile(join(place, "SKILL.md"), "x");
  await symlink("/etc/passwd", join(place, "link"));
  await expect(readSkillDirectory(place)).rejects.toThrow("link is a link");
  await rm(place, { recursive: true });
});

test("a file is whole or not there", async () => {
  const place = await mkdtemp(join(tmpdir(), "skillbox-"));
  async function* half() {
    yield new Uint8Array(3);
    throw new Error("cut");
  }
  await expect(saveStream(half(), join(place, "a"))).rejects.toThrow("cut");
  const { readdir } = await import("node:fs/promises");
  expect(await readdir(place)).toEqual([]);
  await rm(place, { recursive: true });
});

describe("archives", () => {
  function header(name: string, size: number, kind: string): Buffer {
    const block = Buffer.alloc(512);
    block.write(name, 0);
    block.write(size.toString(8).padStart(11, "0"), 124);
    block.write(kind, 156);
    block.write("ustar\0" + "00", 257);
    return block;
  }
  const content = (text: string) => Buffer.concat([Buffer.from(text), Buffer.alloc((512 - (Buffer.byteLength(text) % 512)) % 512)]);
  const archive = (...blocks: Buffer[]) => new Blob([gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))]).stream();
  async function names(stream: ReadableStream<Uint8Array>) {
    const found: string[] = [];
    for await (const file of readArchive(stream)) found.push(file.name);
    return found;
  }

  test("files are read whether their content is or not", async () => {
    const stream = () => archive(header("a", 2, "0"), content("hi"), header("d", 0, "5"), header("b/c", 3, "0"), content("you"));
    expect(await names(stream())).toEqual(["a", "b/c"]);
    const texts: string[] = [];
    for await (const file of readArchive(stream())) {
      let text = "";
      for await (const chunk of file.chunks) text += new TextDecoder().decode(chunk);
      texts.push(text);
    }
    expect(texts).toEqual(["hi", "you"]);
  });

  test("long names of both kinds are understood", async () => {
    const long = "é".repeat(150);
    const record = ` path=${long}\n`;
    const pax = `${Buffer.byteLength(record) + 3}${record}`;
    const stream = archive(
      header("x", Buffer.byteLength(pax), "x"), content(pax), header("cut", 0, "0"),
      header("././@LongLink", Buffer.byteLength(long) + 1, "L"), content(`${long}\0`), header("cut", 0, "0"),
    );
    expect(await names(stream)).toEqual([long, long]);
  });

  test.each(["../a", "a/../../b", "/etc/x", "a//b", "./a", "..", "a\n"])("the name %j is refused", async (name) => {
    await expect(names(archive(header(name, 0, "0")))).rejects.toThrow(UnsafePathError);
  });

  test.each(["1", "2", "3", "6"])("an entry of kind %s is refused", async (kind) => {
    await expect(names(archive(header("a", 0, kind)))).rejects.toThrow(UnsafePathError);
  });
});

test("events are found however the bytes are cut", () => {
  const text = 'retry: 20\n\n: still here\n\nevent: state\nid: 1\ndata: {"status":"running"}\n\nevent: log\nid: 2\ndata: {"text":\ndata: "ä"}\n\nevent: weather\nid: 3\ndata: sunny\n\nevent: lo';
  const bytes = new TextEncoder().encode(text);
  function read(pieces: Uint8Array[]): [ExecutionEvent[], EventReader] {
    const reader = new EventReader("");
    return [pieces.flatMap((piece) => [...reader.feed(piece, "r")]), reader];
  }
  const [whole, reader] = read([bytes]);
  expect(whole.map((event) => event.id)).toEqual(["1", "2"]);
  expect(whole[1]).toMatchObject({ type: "log", text: "ä" });
  expect([reader.lastId, reader.pauseMs]).toEqual(["3", 20]);
  expect(read([...bytes].map((byte) => Uint8Array.of(byte)))[0]).toEqual(whole);
});

describe("webhooks", () => {
  const key = Buffer.from("0123456789abcdef0123456789abcdef");
  const secret = `whsec_${key.toString("base64")}`;
  const body = JSON.stringify({ type: "execution.finished", timestamp: "2026-01-01T00:00:00Z", data: { execution_id: "x" } });
  const now = 1_767_225_600;
  function signed(with_ = key) {
    const signature = createHmac("sha256", with_).update(`msg_1.${now}.${body}`).digest("base64");
    return { "webhook-id": "msg_1", "webhook-timestamp": String(now), "webhook-signature": `v1,bm8= v1,${signature}` };
  }

  test("a genuine one is read", async () => {
    expect(await verifyWebhook(secret, signed(), body, { now: now + 10 })).toMatchObject({ id: "msg_1", data: { execution_id: "x" } });
  });

  test.each([
    ["another body", signed(), `${body} `, now],
    ["another key", signed(Buffer.from("other")), body, now],
    ["an old one", signed(), body, now + 301],
    ["no headers", {}, body, now],
    ["no base64", { ...signed(), "webhook-signature": "v1,%%%" }, body, now],
  ])("%s is refused", async (_, headers, text, at) => {
    await expect(verifyWebhook(secret, headers, text, { now: at })).rejects.toThrow(WebhookError);
  });
});
