//! Compaction during a turn or on request: the shorter list is stored and shown before it is used.

use tokio_util::sync::CancellationToken;

use super::{PersistError, Surface, TurnEvent};
use crate::{
    compact::{CompactionOutcome, CompactionReason, Compactor},
    message::Message,
    model::ToolDefinition,
};

/// Compacts a conversation, stores and shows the result.
pub async fn compact_and_store(
    compactor: &Compactor,
    messages: &mut Vec<Message>,
    tools: &[ToolDefinition],
    (reason, known): (CompactionReason, Option<u64>),
    surface: &mut dyn Surface,
    cancel: &CancellationToken,
) -> Result<CompactionOutcome, PersistError> {
    if !surface.begin_replacement().await? {
        return Ok(CompactionOutcome::Nothing);
    }
    surface.show(TurnEvent::Compacting(reason));
    let attempt = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            surface.end_replacement().await?;
            return Ok(CompactionOutcome::Interrupted);
        }
        attempt = compactor.compact(messages, tools, reason, known) => attempt,
    };
    if let Some(failure) = &attempt.failure {
        surface.record_summary_failure(failure).await?;
        surface.show(TurnEvent::SummaryFailed(failure.clone()));
    }
    let ran = match attempt.compacted {
        Some(compacted) => {
            surface.replace_messages(messages, &compacted).await?;
            surface.show(TurnEvent::Compacted {
                means: compacted.means,
                tokens_before: compacted.tokens_before,
                tokens_after: compacted.tokens_after,
            });
            *messages = compacted.messages;
            CompactionOutcome::Compacted
        }
        None => CompactionOutcome::Nothing,
    };
    surface.end_replacement().await?;
    Ok(ran)
}
