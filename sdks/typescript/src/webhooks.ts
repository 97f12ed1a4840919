/** Webhooks: checking that a call at the end of a run came from your Skillbox. */

import { WebhookError } from "./errors.js";

/** A call that is genuine. `id` is the same on every attempt: a receiver that has seen it can stop here. */
export interface Webhook {
  id: string;
  type: string;
  timestamp: string;
  data: any;
}

export interface VerifyOptions {
  /** How old a call may be; five minutes by default. */
  toleranceSeconds?: number;
  /** Seconds since 1970, instead of the clock's. */
  now?: number;
}

/**
 * Checks signature and age of a webhook and reads it. `secret` is what `getWebhookSecret` gives, `body` the text exactly as it
 * arrived. Throws `WebhookError` when it is not genuine: answer with 400 and do nothing.
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
