/**
 * Retry policy: whether a failed call is retried, and after what delay.
 *
 * After a lost connection, a call is retried if it is idempotent or never reached the server. 429 and 503 mean that the server
 * did nothing, so every call can be retried. A timeout that the caller set is final.
 */

import { APIError, CallTimeoutError, ConnectionFailedError } from "./errors.js";

const MIN_RETRY_DELAY_MS = 250;
const MAX_RETRY_DELAY_MS = 8_000;
/** If Retry-After is longer than this, the error is thrown and the caller decides. */
const MAX_RETRY_AFTER_S = 60;

/** Returns the delay before the next attempt in milliseconds, or undefined if `error` is final. `attempt` starts at 0. */
export function retryDelayMs(repeatable: boolean, error: unknown, attempt: number, retries: number): number | undefined {
  if (!(error instanceof APIError) || attempt >= retries || !isRetryable(repeatable, error)) return undefined;
  if (error.retryAfter !== undefined) {
    return error.retryAfter <= MAX_RETRY_AFTER_S ? error.retryAfter * 1000 : undefined;
  }
  const longest = Math.min(MIN_RETRY_DELAY_MS * 2 ** attempt, MAX_RETRY_DELAY_MS);
  // Jitter: clients that failed at the same time should not retry at the same time.
  return longest / 2 + (Math.random() * longest) / 2;
}

function isRetryable(repeatable: boolean, error: APIError): boolean {
  if (error instanceof ConnectionFailedError) {
    return !error.sent || (repeatable && !(error instanceof CallTimeoutError));
  }
  return error.status === 429 || error.status === 503;
}

/** Waits for `ms` milliseconds; rejects if `signal` aborts. */
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
