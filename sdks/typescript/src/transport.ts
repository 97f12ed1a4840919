/**
 * HTTP transport on `fetch`: address, key, retries and timeouts. It is independent of the routes.
 */

import { APIError, CallTimeoutError, ConnectionFailedError, errorFor, InvalidResponseError } from "./errors.js";
import { retryDelayMs, sleep } from "./retry.js";

/** For short calls, which only read or write a row. Runs, uploads and downloads have no default timeout. */
const CALL_TIMEOUT_MS = 60_000;
/** The body of an error response is short; a longer one does not come from Skillbox. */
const MAX_ERROR_BODY_BYTES = 64 * 1024;

export interface ClientOptions {
  /** The tenant to act for; only for service keys. */
  tenant?: string;
  /** Maximum time without progress, for every call, in milliseconds. */
  timeoutMs?: number;
  /** Maximum number of retries after a lost connection, 429 or 503, where a retry is safe; 3 by default. */
  retries?: number;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

/** Options of a single call. */
export interface CallOptions {
  /** Aborts the call; it then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

export interface Call extends CallOptions {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Segments of the path, or a presigned URL, to which no key is sent. */
  to: readonly string[] | string;
  query?: Record<string, string | number | undefined>;
  headers?: Record<string, string>;
  body?: BodyInit;
  /** Idempotent, so the call is retried after a lost connection. */
  repeatable?: boolean;
  /** The call has no default timeout. */
  longRunning?: boolean;
  /** Statuses besides 2xx that are not errors. */
  answers?: readonly number[];
  /** Time without data after which the connection counts as dead, in milliseconds. */
  silenceMs?: number;
}

/** A response whose body is still being received. */
export interface Exchange {
  status: number;
  headers: Headers;
  requestId: string;
  chunks: AsyncGenerator<Uint8Array, void, undefined>;
}

export class Transport {
  readonly base: string;
  readonly #headers: Record<string, string> = {};
  readonly #timeoutMs: number | undefined;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor(baseUrl: string, apiKey: string, options: ClientOptions) {
    this.base = parseBase(baseUrl);
    if (apiKey) this.#headers["Authorization"] = `Bearer ${sendable("apiKey", apiKey)}`;
    if (options.tenant) this.#headers["X-Tenant-ID"] = sendable("tenant", options.tenant);
    this.#timeoutMs = options.timeoutMs;
    this.#retries = options.retries ?? 3;
    const given = options.fetch ?? globalThis.fetch;
    // In browsers, `fetch` must not be called as a method of another object.
    this.#fetch = (...request) => given(...request);
  }

  /** Sends a call and decodes its JSON response. */
  json<T>(call: Call): Promise<T> {
    return this.read(call, (exchange, body) => {
      try {
        return JSON.parse(new TextDecoder().decode(body)) as T;
      } catch (cause) {
        throw new InvalidResponseError("The answer is not one of a Skillbox server.", {
          status: exchange.status,
          requestId: exchange.requestId,
          cause,
        });
      }
    });
  }

  /** Sends a call and reads the complete response body, with retries where that is safe. */
  read<T>(call: Call, use: (exchange: Exchange, body: Uint8Array<ArrayBuffer>) => T): Promise<T> {
    return this.insist(call, async (requestId) => {
      const exchange = await this.open(call, requestId);
      return use(exchange, await collect(exchange.chunks));
    });
  }

  /** Sends a call and returns the response body as a stream. There are no retries once the response has started. */
  async stream(call: Call): Promise<ReadableStream<Uint8Array>> {
    const { chunks } = await this.insist(call, (requestId) => this.open(call, requestId));
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return();
      },
    });
  }

  async insist<T>(call: Call, attempt: (requestId: string) => Promise<T>): Promise<T> {
    const requestId = crypto.randomUUID();
    for (let count = 0; ; count++) {
      try {
        return await attempt(requestId);
      } catch (error) {
        const pauseMs = retryDelayMs(call.repeatable ?? false, error, count, this.#retries);
        if (pauseMs === undefined) throw error;
        await sleep(pauseMs, call.signal);
      }
    }
  }

  /** Sends a call once and returns the successful response; every failure is thrown. */
  async open(call: Call, requestId: string): Promise<Exchange> {
    const { url, shown, headers } = this.#address(call, requestId);
    const watch = new Watch(call, this.#idleMs(call), () => new CallTimeoutError(`${shown} did not answer in time`, { requestId }));
    let response: Response;
    try {
      const body = call.body ?? null;
      // A redirected POST would silently become a GET, and the key must not be sent to another server.
      response = await this.#fetch(url, { method: call.method, headers, body, signal: watch.signal, redirect: "error" });
    } catch (cause) {
      throw watch.failure(cause, (why) => unanswered(shown, requestId, why));
    }
    watch.rest();
    const exchange: Exchange = {
      status: response.status,
      headers: response.headers,
      requestId: response.headers.get("x-request-id") ?? requestId,
      chunks: chunksOf(response, watch, shown, requestId),
    };
    if (response.ok || call.answers?.includes(response.status)) return exchange;
    throw await errorFromResponse(exchange);
  }

  #idleMs(call: Call): number | undefined {
    return call.silenceMs ?? this.#timeoutMs ?? (call.longRunning ? undefined : CALL_TIMEOUT_MS);
  }

  #address(call: Call, requestId: string) {
    const headers = { "X-Request-ID": requestId, ...call.headers };
    if (typeof call.to === "string") {
      const url = new URL(call.to, `${this.base}/`);
      // A presigned URL is itself a secret, so messages show only its origin.
      return { url, shown: url.origin, headers };
    }
    const path = call.to.map(segment).join("/");
    const url = new URL(`${this.base}/${path}`);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
    }
    return { url, shown: `${this.base}/${path}`, headers: { ...this.#headers, ...headers } };
  }
}

/** Aborts a request that makes no progress, or whose caller aborts it. */
class Watch {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #abort = () => this.#controller.abort();
  #late: APIError | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(call: Call, private readonly idleMs: number | undefined, private readonly timeout: () => APIError) {
    this.#caller = call.signal;
    if (this.#caller?.aborted) this.#abort();
    this.#caller?.addEventListener("abort", this.#abort, { once: true });
    this.moved();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  moved(): void {
    clearTimeout(this.#timer);
    if (this.idleMs === undefined) return;
    this.#timer = setTimeout(() => {
      this.#late = this.timeout();
      this.#abort();
    }, this.idleMs);
  }

  /** Pauses the timeout until the next progress, because a slow reader is not a stalled request. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
  }

  /** Returns the error to throw for a request that ended early. */
  failure(cause: unknown, otherwise: (cause: unknown) => APIError): unknown {
    this.stop();
    if (this.#caller?.aborted) return this.#caller.reason;
    return this.#late ?? otherwise(cause);
  }

  /** Releases the connection. */
  close(): void {
    this.stop();
    this.#abort();
  }
}

async function* chunksOf(response: Response, watch: Watch, shown: string, requestId: string): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = response.body?.getReader();
  let ended = false;
  try {
    while (reader) {
      watch.moved();
      const { done, value } = await reader.read();
      if (done) break;
      watch.rest();
      yield value;
    }
    ended = true;
  } catch (cause) {
    throw watch.failure(cause, (why) => new ConnectionFailedError(`the connection to ${shown} broke: ${reason(why)}`, { requestId, cause: why }));
  } finally {
    if (ended) watch.stop();
    else watch.close();
  }
}

export async function collect(chunks: AsyncIterable<Uint8Array>, mostBytes = Infinity): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    size += chunk.length;
    if (size > mostBytes) break;
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Decodes an error response. A foreign body, such as the page of a proxy, still gives a readable message. */
async function errorFromResponse({ status, headers, requestId, chunks }: Exchange): Promise<APIError> {
  let body: { error?: unknown; message?: unknown; details?: unknown } = {};
  try {
    body = JSON.parse(new TextDecoder().decode(await collect(chunks, MAX_ERROR_BODY_BYTES)));
  } catch {
    // The status alone is enough for an error.
  }
  const after = headers.get("retry-after");
  const message = body?.error ? String(body.message ?? "") : `the server answered with HTTP ${status} and no Skillbox error`;
  return new (errorFor(status))(message, {
    status,
    code: body?.error ? String(body.error) : "",
    requestId,
    details: body?.details,
    retryAfter: after && /^\d+$/.test(after) ? Number(after) : undefined,
  });
}

const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused"]);

function unanswered(shown: string, requestId: string, cause: unknown): APIError {
  const { code, cause: inner } = (cause ?? {}) as { code?: string; cause?: { code?: string } };
  const sent = !NEVER_SENT.has(inner?.code ?? code ?? "");
  const what = sent ? `the connection to ${shown} broke` : `cannot connect to ${shown}`;
  return new ConnectionFailedError(`${what}: ${reason(cause)}`, { requestId, cause }, sent);
}

function reason(cause: unknown): string {
  const { message = "", cause: inner } = (cause ?? {}) as { message?: string; cause?: { message?: string; code?: string } };
  return inner?.message || inner?.code || message || "no reason given";
}

/** Encodes a path segment, so that a name cannot reach another route. */
function segment(text: string): string {
  if (text === "" || text === "." || text === "..") throw new TypeError(`${JSON.stringify(text)} cannot be part of a URL`);
  return encodeURIComponent(text);
}

/** Normalizes the server address. A missing scheme means http, so that `localhost:8080` works. */
function parseBase(text: string): string {
  const trimmed = text.trim();
  try {
    const url = new URL(trimmed.includes("://") ? trimmed : `http://${trimmed}`);
    if (url.protocol === "http:" || url.protocol === "https:") return (url.origin + url.pathname).replace(/\/+$/, "");
  } catch {
    // Reported below.
  }
  throw new TypeError(`${JSON.stringify(text)} is not a server address; use one like http://localhost:8080`);
}

function sendable(name: string, value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new TypeError(`${name} contains characters that cannot be sent in a header`);
  return value;
}
