//! The exported span of a commit: how long a write waited for the disk, and how many writes shared that.

use hermes_config::traced_span;
use tracing::{Instrument as _, field::Empty};

/// Commits, in a span of its own if spans are exported. `commit` returns how many writes it was for.
pub(super) async fn trace_commit<E>(
    system: &'static str,
    commit: impl Future<Output = Result<u32, E>>,
) -> Result<(), E> {
    let span = traced_span!(
        "commit",
        otel.status_code = Empty,
        db.system.name = system,
        db.operation.batch.size = Empty
    );
    let committed = commit.instrument(span.clone()).await;
    match &committed {
        Ok(writes) => span.record("db.operation.batch.size", i64::from(*writes)),
        Err(_) => span.record("otel.status_code", "ERROR"),
    };
    committed.map(drop)
}
