/** Verifies that a webhook was sent by your Skillbox server. */

import { WebhookError } from "./errors.js";

/** A verified webhook. `id` is the same for every delivery attempt, so receivers can use it to drop duplicates. */
export interface Webhook {
  id: string;
  type: string;
  timestamp: string;
  data: any;
}

export interface VerifyOptions {
  /** Maximum age of a webhook; five minutes by default. */
  toleranceSeconds?: number;
  /** The current time in seconds since 1970; defaults to the clock. */
  now?: number;
}

/**
 * Verifies signature and age of a webhook and decodes it. `secret` is the result of `getWebhookSecret`; `body` must be the
 * received text, unchanged. Throws `WebhookError` if verification fails: respond with 400 and ignore the webhook.
 */
export async function verifyWebhook(
  secret: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string | Uint8Array,
  { toleranceSeconds = 300, now = Date.now() / 1000 }: VerifyOptions = {},
): Promise<Webhook> {
  const given = headers instanceof Headers ? headers : new Headers(Object.entries(headers).map(([name, value]): [string, string] => [name, String(value ?? "")]));
  const [id, sentAt] = [given.get("webhook-id") ?? "", given.get("webhook-timestamp") ?? ""];
  const content = typeof body === "string" ? body : new TextDecoder().decode(body);
  const key = await crypto.subtle.importKey("raw", base64(secret.replace(/^whsec_/, "")), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signed = new TextEncoder().encode(`${id}.${sentAt}.${content}`);
  for (const part of (given.get("webhook-signature") ?? "").split(" ")) {
    const [version, signature = ""] = part.split(",");
    if (version !== "v1" || !(await matches(key, signature, signed))) continue;
    if (Math.abs(now - Number(sentAt)) > toleranceSeconds) throw new WebhookError("the webhook was signed too long ago");
    const { type, timestamp, data } = JSON.parse(content);
    return { id, type, timestamp, data };
  }
  throw new WebhookError("the webhook is not signed with this secret");
}

async function matches(key: CryptoKey, signature: string, signed: Uint8Array<ArrayBuffer>): Promise<boolean> {
  try {
    return await crypto.subtle.verify("HMAC", key, base64(signature), signed);
  } catch {
    // Not base64.
    return false;
  }
}

function base64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
