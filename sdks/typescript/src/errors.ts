/**
 * Why a call failed. A run that fails, times out or is refused is not an error of the call: that is `status` of its result.
 */

/** Anything this package throws on purpose, except that a call you abort throws your signal's reason. */
export class SkillboxError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A downloaded archive cannot be unpacked. */
export class ArchiveError extends SkillboxError {}

/** A downloaded archive holds a link, or a name that would leave the directory it is unpacked into. */
export class UnsafePathError extends ArchiveError {}

/** A webhook that was not signed with this secret, or was signed too long ago. */
export class WebhookError extends SkillboxError {}

export interface Circumstances {
  /** The HTTP status; 0 when no answer came. */
  status: number;
  /** The slug of the API, such as `not_found`. */
  code?: string;
  /** Finds the call in the server's log, also when no answer came. */
  requestId: string;
  details?: unknown;
  /** Seconds. */
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

/** 400: the request, or the skill in it, cannot be understood. */
export class BadRequestError extends APIError {}
/** 401: no key, or one that is unknown, expired or revoked. */
export class AuthenticationError extends APIError {}
/** 403: the key may not do this. */
export class PermissionDeniedError extends APIError {}
/** 404: there is no such thing, or it belongs to another tenant. */
export class NotFoundError extends APIError {}
/** 409: the state of the thing does not allow this; the run has ended, the version exists. */
export class ConflictError extends APIError {}
/** 413: larger than the server takes. */
export class TooLargeError extends APIError {}
/** 422: understood and refused: a hostile archive, or an idempotency key that was used with another request. */
export class UnprocessableError extends APIError {}
/** 429: too much at once. `retryAfter` says in how many seconds to come back. */
export class RateLimitError extends APIError {}
/** 5xx: the server's failure. */
export class ServerError extends APIError {}

/** Nothing answers at that address, or the connection broke before the answer was whole. */
export class ConnectionFailedError extends APIError {
  /** Whether the server may have seen the request. */
  readonly sent: boolean;

  constructor(message: string, circumstances: Omit<Circumstances, "status">, sent = true) {
    super(message, { ...circumstances, status: 0 });
    this.sent = sent;
  }
}

/** The answer did not come in time. What was asked for may still happen. */
export class CallTimeoutError extends ConnectionFailedError {}

/** Something answers there, but it does not speak our API. */
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

/** The class of an error with this HTTP status. */
export function errorFor(status: number): typeof APIError {
  return status >= 500 ? ServerError : (BY_STATUS[status] ?? APIError);
}
