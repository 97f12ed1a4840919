/**
 * Packs the files of a skill into a zip, without compression: the server builds its own canonical archive anyway.
 */

export interface SkillFileInput {
  /** Relative path with `/` as separator. */
  path: string;
  data: Uint8Array | string;
  executable?: boolean;
}

/** The earliest time that zip can represent. A fixed time makes archives of the same files identical. */
const FIXED_DATE = (1 << 5) | 1;
const UTF8_NAMES = 1 << 11;
const MADE_BY_UNIX = (3 << 8) | 20;

/** Packs these files into a zip, sorted by name. */
export function packSkill(files: Iterable<SkillFileInput>): Uint8Array<ArrayBuffer> {
  const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : 1));
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const file of sorted) {
    const name = new TextEncoder().encode(file.path);
    const data = typeof file.data === "string" ? new TextEncoder().encode(file.data) : file.data;
    const common = [20, UTF8_NAMES, 0, 0, FIXED_DATE] as const;
    const sizes = [crc32(data), data.length, data.length] as const;
    const local = record(0x04034b50, [...common], [...sizes], [name.length, 0]);
    const mode = file.executable ? 0o100755 : 0o100644;
    directory.push(record(0x02014b50, [MADE_BY_UNIX, ...common], [...sizes], [name.length, 0, 0, 0, 0], [(mode << 16) >>> 0, offset]), name);
    parts.push(local, name, data);
    offset += local.length + name.length + data.length;
  }
  const directorySize = directory.reduce((size, part) => size + part.length, 0);
  const end = record(0x06054b50, [0, 0, sorted.length, sorted.length], [directorySize, offset], [0]);
  return joined([...parts, ...directory, end]);
}

/** Encodes a header of the format: a signature, then alternating groups of two-byte and four-byte numbers. */
function record(signature: number, ...groups: number[][]): Uint8Array {
  const size = 4 + groups.reduce((sum, group, at) => sum + group.length * (at % 2 === 0 ? 2 : 4), 0);
  const view = new DataView(new ArrayBuffer(size));
  view.setUint32(0, signature, true);
  let at = 4;
  groups.forEach((group, index) => {
    for (const value of group) {
      if (index % 2 === 0) view.setUint16(at, value, true);
      else view.setUint32(at, value, true);
      at += index % 2 === 0 ? 2 : 4;
    }
  });
  return new Uint8Array(view.buffer);
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

export function crc32(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = (TABLE[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
