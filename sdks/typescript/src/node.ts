/** Functions that need a file system: publishing a directory, saving files. For Node, Deno and Bun. */

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
// Deno allows access to /proc only to programs with all permissions.
const HAS_DESCRIPTOR_PATHS = process.platform === "linux" && !("Deno" in globalThis);
// Windows has neither flag.
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
const NO_WAIT = constants.O_NONBLOCK ?? 0;

/** Reads a skill's directory for `registerSkill`. Links are rejected, so files outside the directory are never included. */
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
 * Calls `use` with a path to a directory. On Linux, the directory is opened first and the path goes through its descriptor, so
 * that another process cannot replace the directory with a link in between.
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

/** Reads a file. The type is checked on the open file, because another process can replace the path in between. */
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

/** Opens a file on disk as a `Blob`, for `uploadFile`. It is read while it is sent. */
export function fileBlob(path: string): Promise<Blob> {
  return openAsBlob(path);
}

/** Writes a stream to a file, which appears under its name only once it is complete. */
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
 * Downloads all files of a run into `directory` and returns their paths. Nothing is written outside of it, and nothing at all
 * if the archive is truncated or unsafe.
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

/** Checks that an existing link does not redirect a file to a place outside of `root`. */
async function checkParent(root: string, target: string): Promise<void> {
  let parent = dirname(target);
  while (parent !== root) {
    const found = await lstat(parent).catch(() => undefined);
    if (found && !found.isDirectory()) throw new UnsafePathError(`${target} would be written outside of ${root}`);
    parent = dirname(parent);
  }
}
