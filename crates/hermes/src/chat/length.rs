//! The messages about compaction of a conversation.

use hermes_agent::{compact::Means, turn::TurnEvent};

use super::strip;

/// The line for an event; none for those about something else.
pub(crate) fn line(event: &TurnEvent) -> Option<String> {
    Some(match event {
        TurnEvent::Compacting(_) => "The conversation is being made shorter.".to_owned(),
        TurnEvent::Compacted {
            means,
            tokens_before,
            tokens_after,
        } => {
            let means = match means {
                Means::Shortened => "old results of tools were shortened",
                Means::Summary => "its middle was summed up",
                Means::DroppedResults => "the oldest results of tools were left out",
            };
            format!(
                "The conversation is shorter: {means}, about {tokens_before} tokens became {tokens_after}."
            )
        }
        TurnEvent::SummaryFailed(failure) => {
            let error = strip::one_line(&failure.error, 300);
            format!("There is no summary of the conversation: {error}.")
        }
        _ => return None,
    })
}
