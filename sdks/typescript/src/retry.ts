/**
 * Whether a failed call is sent again, and after how long.
 *
 * A call that is harmless to repeat, or that never reached the server, is sent again when the connection is lost. 429 and 503
 * mean that nothing was done, so every call may come back. A timeout of the caller's own making is final.
 */

import { APIError, CallTimeoutError, ConnectionFailedError } from "./errors.js";

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 8_000;
/** If Retry-After asks for more than this, the error is thrown and the caller decides. */
const LONGEST_RETRY_AFTER_S = 60;

/** Milliseconds to wait before the next attempt; undefined when `error` is final. `attempt` counts from zero. */
export function pauseBeforeRetry(repeatable: boolean, error: unknown, attempt: number, retries: number): number | undefined {
  if (!(error instanceof APIError) || attempt >= retries || !isWorthIt(repeatable, error)) return undefined;
  if (error.retryAfter !== undefined) {
    return error.retryAfter <= LONGEST_RETRY_AFTER_S ? error.retryAfter * 1000 : undefined;
  }
  const longest = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
  // Clients that failed together should not come back together.
  return longest / 2 + (Math.random() * longest) / 2;
}

function isWorthIt(repeatable: boolean, error: APIError): boolean {
  if (error instanceof ConnectionFailedError) {
    return !error.sent || (repeatable && !(error instanceof CallTimeoutError));
  }
  return error.status === 429 || error.status === 503;
}

/** Waits, unless the caller has had enough. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
