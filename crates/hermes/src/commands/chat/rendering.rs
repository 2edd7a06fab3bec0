//! How text, calls and notices look on a terminal.

pub(crate) mod calls;
pub(crate) mod markdown;
pub(crate) mod style;
pub(crate) mod wrap;
use hermes_agent::{compact::CompactionMethod, turn::TurnEvent};

/// The line for an event; none for those about something else.
pub(crate) fn compaction_line(event: &TurnEvent) -> Option<String> {
    Some(match event {
        TurnEvent::Compacting(_) => "The conversation is being shortened.".to_owned(),
        TurnEvent::Compacted {
            means,
            tokens_before,
            tokens_after,
        } => {
            let means = match means {
                CompactionMethod::Shortened => "old results of tools were shortened",
                CompactionMethod::Summary => "its middle was summarized",
                CompactionMethod::DroppedResults => "the oldest results of tools were left out",
            };
            format!(
                "The conversation was shortened: {means}, about {tokens_before} tokens became {tokens_after}."
            )
        }
        TurnEvent::SummaryFailed(failure) => {
            let error = wrap::first_line(&failure.error, 300);
            format!("There is no summary of the conversation: {error}.")
        }
        _ => return None,
    })
}
