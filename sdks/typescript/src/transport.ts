/**
 * Sending calls with `fetch`: address, key, retries and timeouts. It knows no single route.
 */

import { APIError, CallTimeoutError, ConnectionFailedError, errorFor, InvalidResponseError } from "./errors.js";
import { pauseBeforeRetry, sleep } from "./retry.js";

/** For calls that only read or write a row. Runs, uploads and downloads take as long as they take. */
const CALL_TIMEOUT_MS = 60_000;
/** A refusal's body is a sentence; whatever is longer is not ours. */
const MAX_REFUSAL_BYTES = 64 * 1024;

export interface ClientOptions {
  /** Only for service keys: the tenant to act for. */
  tenant?: string;
  /** Milliseconds that any call may stand still. */
  timeoutMs?: number;
  /** How often a call is sent again after a lost connection, 429 or 503, where that is harmless. Three times by default. */
  retries?: number;
  /** Instead of the global one. */
  fetch?: typeof fetch;
}

/** For any single call. */
export interface CallOptions {
  /** Aborts the call; it then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

export interface Call extends CallOptions {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Segments of the path, or a whole URL that carries its own permission: no key is sent there. */
  to: readonly string[] | string;
  query?: Record<string, string | number | undefined>;
  headers?: Record<string, string>;
  body?: BodyInit;
  /** Sent again after a lost connection: doing it twice is like doing it once. */
  repeatable?: boolean;
  /** May take as long as it takes. */
  patient?: boolean;
  /** Statuses that are answers rather than errors, beside 2xx. */
  answers?: readonly number[];
  /** Milliseconds of silence that mean a dead connection. */
  silenceMs?: number;
}

/** An answer whose body is still arriving. */
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
    // Browsers insist on being called as a function of the window.
    this.#fetch = (...request) => given(...request);
  }

  /** Sends a call and reads its JSON. */
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

  /** Sends a call and reads its whole body, again where that is harmless. */
  read<T>(call: Call, use: (exchange: Exchange, body: Uint8Array<ArrayBuffer>) => T): Promise<T> {
    return this.insist(call, async (requestId) => {
      const exchange = await this.open(call, requestId);
      return use(exchange, await collect(exchange.chunks));
    });
  }

  /** Sends a call and gives its body as it arrives. Only the way to its beginning is tried again. */
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
        const pauseMs = pauseBeforeRetry(call.repeatable ?? false, error, count, this.#retries);
        if (pauseMs === undefined) throw error;
        await sleep(pauseMs, call.signal);
      }
    }
  }

  /** Sends a call once. What comes back is a success; everything else is thrown. */
  async open(call: Call, requestId: string): Promise<Exchange> {
    const { url, shown, headers } = this.#address(call, requestId);
    const watch = new Watch(call, this.#idleMs(call), () => new CallTimeoutError(`${shown} did not answer in time`, { requestId }));
    let response: Response;
    try {
      const body = call.body ?? null;
      // A redirected POST would silently become a GET, and a key should only go where it was meant to.
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
    throw await refusal(exchange);
  }

  #idleMs(call: Call): number | undefined {
    return call.silenceMs ?? this.#timeoutMs ?? (call.patient ? undefined : CALL_TIMEOUT_MS);
  }

  #address(call: Call, requestId: string) {
    const headers = { "X-Request-ID": requestId, ...call.headers };
    if (typeof call.to === "string") {
      const url = new URL(call.to, `${this.base}/`);
      // Such a URL is itself a secret, so no message shows it.
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

/** Aborts a request that stands still, or whose caller has had enough. */
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

  /** Until it moves again, it does not stand still: its reader takes its time. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
  }

  /** What to throw when a request ended early. */
  failure(cause: unknown, otherwise: (cause: unknown) => APIError): unknown {
    this.stop();
    if (this.#caller?.aborted) return this.#caller.reason;
    return this.#late ?? otherwise(cause);
  }

  /** Lets go of the connection. */
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

/** Reads a refusal; a body that is not ours (a proxy's page) still gives a sentence. */
async function refusal({ status, headers, requestId, chunks }: Exchange): Promise<APIError> {
  let body: { error?: unknown; message?: unknown; details?: unknown } = {};
  try {
    body = JSON.parse(new TextDecoder().decode(await collect(chunks, MAX_REFUSAL_BYTES)));
  } catch {
    // The status alone says enough.
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

/** A segment of a path, encoded so that a name cannot reach another route. */
function segment(text: string): string {
  if (text === "" || text === "." || text === "..") throw new TypeError(`${JSON.stringify(text)} cannot be part of a URL`);
  return encodeURIComponent(text);
}

/** `localhost:8080` is what people type, so a missing scheme means http. */
function parseBase(text: string): string {
  const trimmed = text.trim();
  try {
    const url = new URL(trimmed.includes("://") ? trimmed : `http://${trimmed}`);
    if (url.protocol === "http:" || url.protocol === "https:") return (url.origin + url.pathname).replace(/\/+$/, "");
  } catch {
    // Said below.
  }
  throw new TypeError(`${JSON.stringify(text)} is not a server address; use one like http://localhost:8080`);
}

function sendable(name: string, value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new TypeError(`${name} contains characters that cannot be sent in a header`);
  return value;
}
