//! What the Hub says when something is wrong, as a failure of a command.

use serde_json::Value;

use crate::{
    failure::{Failure, FailureKind},
    output::printable,
};

/// The kind of failure that a status is.
fn failure_kind(status: u16) -> FailureKind {
    match status {
        400 | 405 => FailureKind::Usage,
        401 | 403 => FailureKind::Denied,
        404 => FailureKind::NotFound,
        502..=504 => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    }
}

/// The failure that a problem document tells. `has_token` says whether a token was presented.
pub(super) fn problem_failure(status: u16, document: &Value, has_token: bool) -> Failure {
    let message = match document.get("message").and_then(Value::as_str) {
        Some(message) => printable(message).into_owned(),
        None => status_message(status, document),
    };
    let failure = Failure::new(failure_kind(status), message);
    let failure = match (status, has_token) {
        (401, false) => failure.hint(
            "set `HERMES_HUB_TOKEN`, or name a file with `--token-file`; a Hub of this machine keeps its first one in \
             `admin.token`",
        ),
        (401, true) => failure.hint("`hermes token whoami` tells whose token it is; it may have been revoked"),
        _ => failure,
    };
    match document.get("retryAfterMs").and_then(Value::as_u64) {
        Some(wait) => failure.hint(format!("try again in {} s", wait.div_ceil(1000).max(1))),
        None => failure,
    }
}

/// What an answer without a message tells: that of the route for readiness lists what is not.
fn status_message(status: u16, document: &Value) -> String {
    let lacks = document.as_object().into_iter().flatten();
    let lacks: Vec<&str> = lacks
        .filter(|(_, is_ready)| **is_ready == false)
        .map(|(name, _)| name.as_str())
        .collect();
    match lacks.as_slice() {
        [] => format!("the Hub answered with status {status}"),
        lacks => format!("the Hub is not ready: {}", lacks.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_decides_the_exit_code() {
        let codes = [400, 401, 403, 404, 409, 412, 422, 429, 500, 503, 504]
            .map(|status| problem_failure(status, &json!({"message": "x"}), true).exit_code());
        assert_eq!(codes, [2, 4, 4, 3, 1, 1, 1, 1, 1, 6, 6]);
    }

    #[test]
    fn what_is_not_a_document_is_told_by_its_status() {
        let failure = problem_failure(502, &Value::Null, true);
        assert_eq!(failure.message, "the Hub answered with status 502");
        assert_eq!(failure.exit_code(), 6);
        let document = json!({"status": "not ready", "database": false, "disk": true});
        let failure = super::problem_failure(503, &document, false);
        assert_eq!(failure.message, "the Hub is not ready: database");
    }
}
