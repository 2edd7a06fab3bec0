//! API errors: one format, a stable code, and a message for people.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use hermes_store::{StoreError, cron::CronError};
use serde_json::{Value, json};

use crate::runs::{DecideError, StartError, StopError};

/// `Retry-After` of temporary errors, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    message: String,
    param: Option<&'static str>,
}

impl ApiError {
    pub(super) fn new(
        status: StatusCode,
        kind: &'static str,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            kind,
            code,
            message: message.into(),
            param: None,
        }
    }

    pub(super) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            code,
            message,
        )
    }

    /// A member of the request is invalid.
    pub(super) fn invalid_member(param: &'static str, message: impl Into<String>) -> Self {
        Self {
            param: Some(param),
            ..Self::invalid("invalid_value", message)
        }
    }

    pub(super) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            code,
            message,
        )
    }

    pub(super) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict_error", code, message)
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "authentication_error",
            "invalid_api_key",
            message,
        )
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "internal",
            message,
        )
    }

    pub(super) fn body(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from_static(RETRY_AFTER_SECONDS),
            );
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSuchSession { .. } => {
                Self::not_found("session_not_found", error.to_string())
            }
            StoreError::BadSessionId { .. } => {
                Self::invalid_member("session_id", error.to_string())
            }
            error => {
                tracing::error!(%error, "API request failed: store error");
                Self::internal("the store cannot be used; see the gateway's log")
            }
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        let message = error.to_string();
        match error {
            StartError::TooMany { .. } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_error",
                "too_many_runs",
                message,
            ),
            StartError::KeyReused => Self::conflict("idempotency_key_reused", message),
            StartError::Stopping => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "stopping",
                message,
            ),
            StartError::Meter(_) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "run_not_counted",
                message,
            ),
            StartError::Store(error) => error.into(),
        }
    }
}

impl From<StopError> for ApiError {
    fn from(error: StopError) -> Self {
        let message = error.to_string();
        match error {
            StopError::NotFound => Self::not_found("run_not_found", message),
            StopError::AlreadyEnded => Self::conflict("run_not_active", message),
            StopError::Store(error) => error.into(),
        }
    }
}

impl From<DecideError> for ApiError {
    fn from(error: DecideError) -> Self {
        let message = error.to_string();
        match error {
            DecideError::NotFound => Self::not_found("run_not_found", message),
            DecideError::NotActive => Self::conflict("approval_not_active", message),
            DecideError::NotPending => Self::conflict("approval_not_pending", message),
            DecideError::NotPermanent | DecideError::NeedsAnswers => {
                Self::invalid("invalid_approval_choice", message)
            }
            DecideError::NotForm | DecideError::WrongAnswer(_) | DecideError::Conflict(_) => {
                Self::invalid("invalid_approval_content", message)
            }
            DecideError::Store(error) => error.into(),
        }
    }
}

impl From<CronError> for ApiError {
    fn from(error: CronError) -> Self {
        let message = error.to_string();
        match error {
            CronError::NoSuchJob { .. } => Self::not_found("job_not_found", message),
            CronError::Ambiguous { .. } => Self::conflict("ambiguous_job", message),
            CronError::BadId { .. } => Self::invalid_member("id", message),
            CronError::TooMany { .. } => Self::invalid("max_jobs", message),
            CronError::Schedule(_) | CronError::NoNextRun { .. } | CronError::TooOften { .. } => {
                Self::invalid_member("schedule", message)
            }
            CronError::NoScript => Self::invalid_member("script", message),
            CronError::Io { .. } | CronError::Damaged { .. } => {
                tracing::error!(%error, "API request failed: job file error");
                Self::internal(message)
            }
        }
    }
}
