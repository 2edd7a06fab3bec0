//! What object storage answers when it refuses or fails, for operators and for clients. Replies of servers quote what
//! was signed, so only their code is kept.

use std::{error::Error as _, io};

use object_store::client::{HttpError, HttpErrorKind};

use crate::{Problem, ProblemCode};

#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("`{key}`: {reason}")]
    Setting { key: &'static str, reason: String },
    #[error("there is no object `{name}`")]
    Missing { name: String },
    /// With other content.
    #[error("there is an object `{name}` with other content")]
    Exists { name: String },
    #[error(
        "object storage refuses the keys ({reply}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `objects.access_key_id` and `objects.secret_access_key`, and the rights they have on the bucket"
    )]
    Denied { reply: String },
    #[error("object storage has no such bucket: create it, or correct `objects.url`")]
    MissingBucket,
    #[error("object storage does not answer in time ({storage})")]
    Slow { storage: String },
    #[error("the object `{name}` is damaged: it is not what its name says")]
    Damaged { name: String },
    #[error("object storage is full: {reply}")]
    Full { reply: String },
    #[error("object storage fails: {reply}")]
    Failing { reply: String },
}

impl ObjectError {
    /// Whether the same request may succeed soon.
    pub(crate) fn is_worth_a_retry(&self) -> bool {
        matches!(
            self,
            Self::Exists { .. } | Self::Slow { .. } | Self::Failing { .. }
        )
    }
}

impl From<ObjectError> for Problem {
    fn from(error: ObjectError) -> Self {
        match &error {
            ObjectError::Full { .. } => {
                tracing::warn!(%error, "object storage is full");
                Problem::new(
                    ProblemCode::OutOfSpace,
                    "the Hub's object storage is full: nothing was written; tell its operator",
                )
                .with_reason("disk_full")
            }
            ObjectError::Damaged { .. } | ObjectError::Missing { .. } => Problem::internal(&error),
            _ => {
                tracing::warn!(%error, "object storage unavailable");
                Problem::new(
                    ProblemCode::Unavailable,
                    "the Hub's object storage does not answer; try again",
                )
                .with_reason("objects")
                .with_retry_after(1000)
            }
        }
    }
}

pub(super) fn classify(name: &str, error: &object_store::Error) -> ObjectError {
    use object_store::Error as StoreError;
    let name = || name.to_owned();
    let text = full_text(error);
    if text.contains("NoSuchBucket") {
        return ObjectError::MissingBucket;
    }
    match error {
        StoreError::NotFound { .. } => ObjectError::Missing { name: name() },
        StoreError::AlreadyExists { .. } => ObjectError::Exists { name: name() },
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            ObjectError::Denied {
                reply: shown(error, &text),
            }
        }
        _ if is_full(error, &text) => ObjectError::Full {
            reply: shown(error, &text),
        },
        _ if http_kind(error) == Some(HttpErrorKind::Timeout) => ObjectError::Slow {
            storage: shown(error, &text),
        },
        _ => ObjectError::Failing {
            reply: shown(error, &text),
        },
    }
}

/// The sources of an error, outermost first.
fn sources<'e>(
    error: &'e object_store::Error,
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), source_of)
}

pub(super) fn source_of<'e>(
    cause: &&'e (dyn std::error::Error + 'static),
) -> Option<&'e (dyn std::error::Error + 'static)> {
    (*cause).source()
}

fn full_text(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    for cause in sources(error) {
        text.push_str(&cause.to_string());
    }
    text
}

fn http_kind(error: &object_store::Error) -> Option<HttpErrorKind> {
    sources(error)
        .find_map(|cause| cause.downcast_ref::<HttpError>())
        .map(HttpError::kind)
}

fn is_full(error: &object_store::Error, text: &str) -> bool {
    let is_disk_full = sources(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| {
            matches!(
                cause.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        });
    is_disk_full
        || ["507 Insufficient Storage", "StorageFull", "QuotaExceeded"]
            .iter()
            .any(|sign| text.contains(sign))
}

/// The server's code, or what went wrong on the way. Nothing of the request or of the keys.
fn shown(error: &object_store::Error, text: &str) -> String {
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map(|(code, _)| code);
    if let Some(code) = code {
        return code
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(60)
            .collect();
    }
    let status = text.split_once("status code: ").map(|(_, rest)| {
        rest.chars()
            .take_while(|char| *char != ':')
            .take(60)
            .collect()
    });
    if let Some(status) = status {
        return status;
    }
    let innermost = sources(error).last();
    let reason = innermost.map_or_else(|| error.to_string(), ToString::to_string);
    reason.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn a_reply_that_quotes_what_was_signed_is_cut_to_its_code() {
        let text = "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIAHUNTER2</AWSAccessKeyId></Error>";
        let error = object_store::Error::PermissionDenied {
            path: "a".into(),
            source: text.to_owned().into(),
        };
        let shown = classify("a", &error).to_string();
        assert!(shown.contains("SignatureDoesNotMatch"), "{shown}");
        assert!(!shown.contains("HUNTER2"), "{shown}");
    }

    #[test]
    fn a_full_disk_is_told_apart_from_a_failing_one() {
        let full = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: io::Error::from(io::ErrorKind::StorageFull).into(),
        };
        assert!(matches!(classify("a", &full), ObjectError::Full { .. }));
        let full = generic("Server returned non-2xx status code: 507 Insufficient Storage: ");
        assert!(matches!(classify("a", &full), ObjectError::Full { .. }));
        let failing = generic("Server returned non-2xx status code: 500 Internal Server Error: ");
        let error = classify("a", &failing);
        assert!(
            error.to_string().ends_with("500 Internal Server Error"),
            "{error}"
        );
        assert_eq!(Problem::from(error).code.status(), 503);
    }
}
