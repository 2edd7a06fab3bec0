//! How many files this process may have open: each connection takes one, and the usual limit is meant for programs that
//! serve nobody.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for every connection that a Hub takes. Programs that look through all numbers up to the limit take a moment
/// for so many, and minutes for the largest that systems have.
const MAX_OPEN_FILES: u64 = 1_048_576;

/// Raises the limit as far as the system lets this process.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MAX_OPEN_FILES).min(MAX_OPEN_FILES);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(files = wanted, "raised the open file limit"),
        Err(error) => tracing::warn!(%error, "cannot raise the open file limit"),
    }
}
