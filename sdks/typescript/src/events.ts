/**
 * Follows the events of an execution across lost connections. The server stores the events, so none is lost or delivered twice.
 */

import { APIError, CallTimeoutError, ConnectionFailedError, InvalidResponseError } from "./errors.js";
import { sleep } from "./retry.js";
import type { Transport } from "./transport.js";
import type { ExecutionEvent } from "./types.js";

/** The server sends data at least every 15 seconds. After this time without data, the connection counts as dead. */
const SILENCE_MS = 45_000;
/** Maximum number of consecutive connections without an event. */
const MAX_FAILURES = 10;
/** Maximum size of one event. The largest is the result with its output and logs. */
const MAX_EVENT_CHARS = 64 << 20;

export interface FollowOptions {
  /** The id of the event after which to start. */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Maximum time to follow the events, in milliseconds. */
  timeoutMs?: number | undefined;
}

/** Iterates over the events of an execution, up to and including its result. */
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

/** Returns the delay before reconnecting, in milliseconds; throws `error` if a retry is pointless. */
function pauseMs(reader: EventReader, error: unknown): number {
  reader.failures += 1;
  const passing = error instanceof ConnectionFailedError || (error instanceof APIError && (error.status === 429 || error.status >= 500));
  if (!passing || reader.failures >= MAX_FAILURES) throw error;
  return error.retryAfter === undefined ? reader.pauseMs : error.retryAfter * 1000;
}

/** Position in an event stream. It outlives connections, so that a new one resumes after the last event. */
export class EventReader {
  pauseMs = 1000;
  failures = 0;
  ended = false;
  #decoder = new TextDecoder();
  #held = "";

  constructor(public lastId: string) {}

  /** Discards an incomplete event; the server sends it again. */
  reconnect(): void {
    this.#decoder = new TextDecoder();
    this.#held = "";
  }

  /** Adds received data to the buffer and yields the complete events. */
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
    // Set after decoding: an event that could not be decoded must be sent again after a reconnect.
    this.lastId = id ?? this.lastId;
    return event;
  }
}

function parse(kind: string, data: string, id: string, requestId: string): ExecutionEvent | undefined {
  // Everything else is a comment, or an event type of a newer server.
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
