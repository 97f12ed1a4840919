/**
 * Reads the gzip tar of a run's files. File names are untrusted: each is checked before it is returned.
 */

import { APIError, ArchiveError, UnsafePathError } from "./errors.js";

export interface ArchiveFile {
  /** A relative path without `.`, `..` or empty parts. */
  name: string;
  size: number;
  /** The content. Anything that is not read before the next file is requested is skipped. */
  chunks: AsyncIterable<Uint8Array>;
}

const BLOCK = 512;

/**
 * Yields the files of a gzip tar. Throws `UnsafePathError` for links and names that lead outside, and `ArchiveError` if the
 * archive is truncated.
 */
export async function* readArchive(stream: ReadableStream<Uint8Array>): AsyncGenerator<ArchiveFile, void, undefined> {
  const bytes = new ByteReader(stream.pipeThrough(new DecompressionStream("gzip") as unknown as ReadableWritablePair<Uint8Array, Uint8Array>));
  let longName: string | undefined;
  try {
    for (let header; (header = await bytes.take(BLOCK)) && header.some((byte) => byte !== 0); ) {
      const size = octal(header, 124, 12);
      const kind = String.fromCharCode(header[156] ?? 0);
      if (kind === "x" || kind === "L") {
        const text = new TextDecoder().decode(await bytes.exactly(size));
        await bytes.exactly(padding(size));
        longName = kind === "L" ? text.replace(/\0.*$/s, "") : (paxPath(text) ?? longName);
        continue;
      }
      const name = longName ?? plainName(header);
      longName = undefined;
      if (kind === "g" || kind === "5") {
        await bytes.exactly(size + padding(size));
        continue;
      }
      if (kind !== "0" && kind !== "\0") throw new UnsafePathError(`${JSON.stringify(name)} in the archive is not a regular file`);
      checkName(name);
      const content = bytes.part(size);
      yield { name, size, chunks: content };
      for await (const _ of content);
      await bytes.exactly(padding(size));
    }
    // Read to the end, so that the checksum is verified.
    await bytes.drain();
  } catch (cause) {
    if (cause instanceof ArchiveError || cause instanceof APIError) throw cause;
    throw new ArchiveError("the archive cannot be read", { cause });
  } finally {
    await bytes.close();
  }
}

function checkName(name: string): void {
  const parts = name.split("/");
  // Rejects empty and dot segments, control characters, and separators of other systems.
  if (parts.some((part) => part === "" || part === "." || part === ".." || /[\x00-\x1f\x7f]/.test(part))) {
    throw new UnsafePathError(`${JSON.stringify(name)} in the archive is not a safe relative path`);
  }
}

function plainName(header: Uint8Array): string {
  const name = text(header, 0, 100);
  const prefix = text(header, 257, 5) === "ustar" && header[263] === 0x30 ? text(header, 345, 155) : "";
  return prefix ? `${prefix}/${name}` : name;
}

/** Returns the `path` from the records `<length> <key>=<value>\n` of a pax header; lengths are in bytes. */
function paxPath(records: string): string | undefined {
  return /(?:^|\n)\d+ path=([^\n]*)\n/.exec(records)?.[1];
}

function text(header: Uint8Array, at: number, length: number): string {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}

function octal(header: Uint8Array, at: number, length: number): number {
  const value = text(header, at, length).trim();
  if (!/^[0-7]{1,11}$/.test(value)) throw new ArchiveError("the archive has a size that cannot be read");
  return parseInt(value, 8);
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

/** Reads a stream in chunks of requested sizes. */
class ByteReader {
  #held: Uint8Array = new Uint8Array();
  #ended = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** Returns the next bytes, at most `most`, or undefined at the end. */
  async #some(most: number): Promise<Uint8Array | undefined> {
    while (this.#held.length === 0 && !this.#ended) {
      const { done, value } = await this.#reader.read();
      this.#ended = done;
      this.#held = value ?? this.#held;
    }
    if (this.#held.length === 0) return undefined;
    const part = this.#held.subarray(0, most);
    this.#held = this.#held.subarray(most);
    return part;
  }

  /** Returns exactly `size` bytes, or undefined at the end. */
  async take(size: number): Promise<Uint8Array | undefined> {
    const whole = new Uint8Array(size);
    let at = 0;
    for (let part; at < size && (part = await this.#some(size - at)); at += part.length) whole.set(part, at);
    if (at === 0 && size > 0) return undefined;
    if (at < size) throw new ArchiveError("the archive ends too early");
    return whole;
  }

  async exactly(size: number): Promise<Uint8Array> {
    const whole = await this.take(size);
    if (!whole) throw new ArchiveError("the archive ends too early");
    return whole;
  }

  /** Iterates over the next `size` bytes as they arrive. A second iteration continues where the first one stopped. */
  part(size: number): AsyncIterable<Uint8Array> {
    let left = size;
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      if (left === 0) return { done: true, value: undefined };
      const value = await this.#some(left);
      if (!value) throw new ArchiveError("the archive ends too early");
      left -= value.length;
      return { done: false, value };
    };
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  async drain(): Promise<void> {
    while (await this.#some(1 << 20));
  }

  async close(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }
}
