/**
 * Following an execution across broken connections. The server keeps its events, so none is lost or seen twice.
 */

import { APIError, CallTimeoutError, ConnectionFailedError, InvalidResponseError } from "./errors.js";
import { sleep } from "./retry.js";
import type { Transport } from "./transport.js";
import type { ExecutionEvent } from "./types.js";

/** The server says something at least every 15 seconds; a silence of this length is a dead connection. */
const SILENCE_MS = 45_000;
/** Connections in a row that brought nothing before we give up. */
const MAX_FAILURES = 10;
/** What one event may hold: the result with its output and logs. */
const MAX_EVENT_CHARS = 64 << 20;

export interface FollowOptions {
  /** The id of an event to go on behind. */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Milliseconds to follow at most. */
  timeoutMs?: number | undefined;
}

/** The events of an execution, up to and with its result. */
export async function* follow(transport: Transport, id: string, options: FollowOptions): AsyncGenerator<ExecutionEvent, void, undefined> {
  const reader = new EventReader(options.after ?? "");
  const requestId = crypto.randomUUID();
  const deadline = options.timeoutMs === undefined ? Infinity : Date.now() + options.timeoutMs;
  const late = () => new CallTimeoutError(`execution ${id} has not ended in the time given to wait for it`, { requestId });
  while (!reader.ended) {
    try {
      const left = deadline - Date.now();
      if (left <= 0) throw late();
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (reader.lastId) headers["Last-Event-ID"] = reader.lastId;
      const to = ["v1", "executions", id, "events"];
      const { chunks } = await transport.open({ method: "GET", to, headers, signal: options.signal, silenceMs: Math.min(left, SILENCE_MS) }, requestId);
      reader.reconnect();
      for await (const chunk of chunks) {
        yield* reader.feed(chunk, requestId);
        if (reader.ended) return;
        if (Date.now() >= deadline) throw late();
      }
      throw new ConnectionFailedError("the stream of events ended without a result", { requestId });
    } catch (error) {
      if (Date.now() >= deadline) throw late();
      await sleep(Math.min(pauseMs(reader, error), deadline - Date.now()), options.signal);
    }
  }
}

/** Milliseconds to wait before connecting again, when that can change anything. */
function pauseMs(reader: EventReader, error: unknown): number {
  reader.failures += 1;
  const passing = error instanceof ConnectionFailedError || (error instanceof APIError && (error.status === 429 || error.status >= 500));
  if (!passing || reader.failures >= MAX_FAILURES) throw error;
  return error.retryAfter === undefined ? reader.pauseMs : error.retryAfter * 1000;
}

/** Where the reader of a stream is. It outlives connections, so that a broken one is taken up where it broke. */
export class EventReader {
  pauseMs = 1000;
  failures = 0;
  ended = false;
  #decoder = new TextDecoder();
  #held = "";

  constructor(public lastId: string) {}

  /** Forgets half an event; the server sends it again. */
  reconnect(): void {
    this.#decoder = new TextDecoder();
    this.#held = "";
  }

  /** Takes what arrived and gives the events that are whole. */
  *feed(chunk: Uint8Array, requestId: string): Generator<ExecutionEvent, void, undefined> {
    const text = this.#decoder.decode(chunk, { stream: true });
    let from = Math.max(this.#held.length - 1, 0);
    this.#held += text;
    for (let end; (end = this.#held.indexOf("\n\n", from)) >= 0; from = 0) {
      const block = this.#held.slice(0, end);
      this.#held = this.#held.slice(end + 2);
      const event = this.#read(block, requestId);
      if (!event) continue;
      this.failures = 0;
      this.ended = event.type === "result";
      yield event;
    }
    if (this.#held.length > MAX_EVENT_CHARS) throw unreadable(requestId, "it is too long");
  }

  #read(block: string, requestId: string): ExecutionEvent | undefined {
    let kind = "";
    let id: string | undefined;
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") kind = value;
      else if (name === "data") data.push(value);
      else if (name === "id") id = value;
      else if (name === "retry" && /^\d+$/.test(value)) this.pauseMs = Number(value);
    }
    const event = parse(kind, data.join("\n"), id ?? "", requestId);
    // Only now: an event that cannot be read has not been seen.
    this.lastId = id ?? this.lastId;
    return event;
  }
}

function parse(kind: string, data: string, id: string, requestId: string): ExecutionEvent | undefined {
  // Others are comments, or kinds that a newer server has.
  if (kind !== "state" && kind !== "log" && kind !== "result") return undefined;
  try {
    const document = JSON.parse(data);
    return kind === "result" ? { type: kind, id, result: document } : { ...document, type: kind, id };
  } catch (cause) {
    throw unreadable(requestId, cause);
  }
}

function unreadable(requestId: string, cause: unknown): InvalidResponseError {
  return new InvalidResponseError("an event of the stream cannot be read", { status: 200, requestId, cause });
}
