/** What needs a file system: publishing a directory, saving files. For Node, Deno and Bun. */

import { constants, createReadStream, createWriteStream, openAsBlob } from "node:fs";
import { lstat, mkdir, mkdtemp, open, readdir, realpath, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, sep } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { readArchive } from "./archive.js";
import type { Client } from "./client.js";
import { UnsafePathError } from "./errors.js";
import type { CallOptions } from "./transport.js";
import type { RunResult } from "./types.js";
import type { SkillFileInput } from "./zip.js";

const JUNK = new Set([".DS_Store", "Thumbs.db", "thumbs.db"]);
// Deno lets only those programs into /proc that may do everything.
const HAS_DESCRIPTOR_PATHS = process.platform === "linux" && !("Deno" in globalThis);
// Windows has neither.
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
const NO_WAIT = constants.O_NONBLOCK ?? 0;

/** The files of a skill's directory, for `registerSkill`. Links are refused, so that nothing from outside is picked up. */
export async function readSkillDirectory(directory: string): Promise<SkillFileInput[]> {
  const files: SkillFileInput[] = [];
  await inDirectory(directory, 0, (place) => readFiles(place, "", files));
  return files;
}

async function readFiles(place: string, prefix: string, files: SkillFileInput[]): Promise<void> {
  for (const entry of await readdir(place, { withFileTypes: true })) {
    const path = prefix + entry.name;
    const here = join(place, entry.name);
    if (entry.isDirectory()) {
      await inDirectory(here, NO_FOLLOW, (below) => readFiles(below, `${path}/`, files)).catch(refuseLinks(path));
    } else if (!JUNK.has(entry.name)) {
      if (!entry.isFile()) throw notAFile(path);
      files.push(await readOne(here, path).catch(refuseLinks(path)));
    }
  }
}

/**
 * Does something with a directory. Where the system names open directories (Linux), it is opened first and reached by its
 * descriptor, so that another process cannot put a link in its place meanwhile.
 */
async function inDirectory(path: string, flags: number, use: (place: string) => Promise<void>): Promise<void> {
  if (!HAS_DESCRIPTOR_PATHS) return use(path);
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | flags);
  try {
    await use(`/proc/self/fd/${directory.fd}`);
  } finally {
    await directory.close();
  }
}

/** What was opened is what is looked at, not what the path leads to a moment later. */
async function readOne(place: string, path: string): Promise<SkillFileInput> {
  const file = await open(place, constants.O_RDONLY | NO_FOLLOW | NO_WAIT);
  try {
    const about = await file.stat();
    if (!about.isFile()) throw notAFile(path);
    return { path, data: await file.readFile(), executable: (about.mode & 0o111) !== 0 };
  } finally {
    await file.close();
  }
}

function refuseLinks(path: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    throw error.code === "ELOOP" || error.code === "ENOTDIR" ? notAFile(path) : error;
  };
}

function notAFile(path: string): TypeError {
  return new TypeError(`${path} is a link or a special file; a skill holds files and directories only`);
}

/** A file on disk as a `Blob`, for `uploadFile`; read as it is sent. */
export function fileBlob(path: string): Promise<Blob> {
  return openAsBlob(path);
}

/** Writes a stream to a file, which appears under its name only when it is whole. */
export async function saveStream(stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const part = join(dirname(path), `.${crypto.randomUUID()}.part`);
  try {
    await pipeline(Readable.from(stream as AsyncIterable<Uint8Array>), createWriteStream(part, { flags: "wx" }));
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/**
 * Saves all files of a run below `directory` and returns where they are. Nothing is written outside of it, and nothing at all
 * when the archive is torn or unsafe anywhere.
 */
export async function downloadFiles(client: Client, result: RunResult, directory: string, options: CallOptions = {}): Promise<string[]> {
  if (!result.files_url) return [];
  const spool = await mkdtemp(join(tmpdir(), "skillbox-"));
  try {
    const archive = join(spool, "archive");
    await saveStream(await client.downloadArchive(result, options), archive);
    await mkdir(directory, { recursive: true });
    const root = await realpath(directory);
    for await (const file of opened(archive)) refuseOnWindows(file.name);
    const written: string[] = [];
    for await (const file of opened(archive)) {
      const target = join(root, ...file.name.split("/"));
      await checkParent(root, target);
      await saveStream(file.chunks, target);
      written.push(target);
    }
    return written;
  } finally {
    await rm(spool, { recursive: true, force: true });
  }
}

function opened(archive: string) {
  return readArchive(Readable.toWeb(createReadStream(archive)) as unknown as ReadableStream<Uint8Array>);
}

function refuseOnWindows(name: string): void {
  if (sep === "\\" && /[\\:]/.test(name)) throw new UnsafePathError(`${JSON.stringify(name)} is not a safe path here`);
}

/** A link that was there before must not lead a file elsewhere. */
async function checkParent(root: string, target: string): Promise<void> {
  let parent = dirname(target);
  while (parent !== root) {
    const found = await lstat(parent).catch(() => undefined);
    if (found && !found.isDirectory()) throw new UnsafePathError(`${target} would be written outside of ${root}`);
    parent = dirname(parent);
  }
}
