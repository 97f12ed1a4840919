/**
 * Errors of this package. A run that fails, times out or is refused is not a failed call: see `status` of its result.
 */

/** Base class of all errors of this package. An aborted call throws the reason of its signal instead. */
export class SkillboxError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A downloaded archive cannot be unpacked. */
export class ArchiveError extends SkillboxError {}

/** A downloaded archive contains a link, or a name that leads outside of the target directory. */
export class UnsafePathError extends ArchiveError {}

/** A webhook is not signed with this secret, or was signed too long ago. */
export class WebhookError extends SkillboxError {}

export interface Circumstances {
  /** The HTTP status; 0 if there was no response. */
  status: number;
  /** The slug of the API, such as `not_found`. */
  code?: string;
  /** Identifies the call in the server's log, even if there was no response. */
  requestId: string;
  details?: unknown;
  /** Seconds to wait before a retry, from `Retry-After`. */
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** The call failed. */
export class APIError extends SkillboxError {
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly details: unknown;
  readonly retryAfter: number | undefined;

  constructor(message: string, { status, code = "", requestId, details, retryAfter, cause }: Circumstances) {
    super(`${message} (request ${requestId})`, { cause });
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

/** 400: the request, or the skill in it, is malformed. */
export class BadRequestError extends APIError {}
/** 401: the key is missing, unknown, expired or revoked. */
export class AuthenticationError extends APIError {}
/** 403: the key does not permit this call. */
export class PermissionDeniedError extends APIError {}
/** 404: the object does not exist, or belongs to another tenant. */
export class NotFoundError extends APIError {}
/** 409: the state of the object does not allow this, such as a finished run or an existing version. */
export class ConflictError extends APIError {}
/** 413: the request is larger than the server allows. */
export class TooLargeError extends APIError {}
/** 422: well-formed but rejected, such as a hostile archive or an idempotency key used with a different request. */
export class UnprocessableError extends APIError {}
/** 429: too many requests. `retryAfter` is the number of seconds to wait before a retry. */
export class RateLimitError extends APIError {}
/** 5xx: the server failed. */
export class ServerError extends APIError {}

/** The server is unreachable, or the connection was lost before the response was complete. */
export class ConnectionFailedError extends APIError {
  /** Whether the server may have received the request. */
  readonly sent: boolean;

  constructor(message: string, circumstances: Omit<Circumstances, "status">, sent = true) {
    super(message, { ...circumstances, status: 0 });
    this.sent = sent;
  }
}

/** The response did not arrive in time. The server may still carry out the request. */
export class CallTimeoutError extends ConnectionFailedError {}

/** The response does not come from a Skillbox server. */
export class InvalidResponseError extends APIError {}

const BY_STATUS: Record<number, typeof APIError> = {
  400: BadRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  413: TooLargeError,
  422: UnprocessableError,
  429: RateLimitError,
};

/** Returns the error class for an HTTP status. */
export function errorFor(status: number): typeof APIError {
  return status >= 500 ? ServerError : (BY_STATUS[status] ?? APIError);
}
