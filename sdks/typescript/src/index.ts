/** Client for Skillbox, the self-hosted runtime for agent skills, for Node, Deno, Bun and browsers. */

export { type ArchiveFile, readArchive } from "./archive.js";
export { Client, type PageOptions, type RunOptions, type SkillSource } from "./client.js";
export {
  APIError,
  ArchiveError,
  AuthenticationError,
  BadRequestError,
  CallTimeoutError,
  ConflictError,
  ConnectionFailedError,
  InvalidResponseError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  ServerError,
  SkillboxError,
  TooLargeError,
  UnprocessableError,
  UnsafePathError,
  WebhookError,
} from "./errors.js";
export type { FollowOptions } from "./events.js";
export type { CallOptions, ClientOptions } from "./transport.js";
export type * from "./types.js";
export { verifyWebhook, type VerifyOptions, type Webhook } from "./webhooks.js";
export { packSkill, type SkillFileInput } from "./zip.js";
