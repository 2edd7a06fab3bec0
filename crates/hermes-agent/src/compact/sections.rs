//! The sections of a conversation: a head and a tail that stay, and the middle between them. A call and its results
//! are always in the same section.

use hermes_config::CompressionSettings;

use super::{
    CompactionReason,
    estimate::{TokenScale, message_tokens},
};
use crate::message::{Content, Message};

/// Longer results in the middle are shortened.
const MAX_RESULT_CHARS: usize = 600;
const SHORTENED_CHARS: usize = 400;
/// Replaces a result that was removed.
const DROPPED_RESULT: &str = "[this result was removed to save space]";

/// A conversation with the original index of each message.
pub(super) struct Sections {
    messages: Vec<Message>,
    origins: Vec<Option<usize>>,
    head: usize,
    tail: usize,
}

impl Sections {
    /// Splits a conversation. The tail has at most `room` tokens, but always the last message.
    pub(super) fn split(
        messages: &[Message],
        settings: &CompressionSettings,
        reason: CompactionReason,
        room: u64,
        scale: &TokenScale,
    ) -> Self {
        let is_system = |message: &&Message| matches!(message, Message::System { .. });
        let prompt = messages.iter().take_while(is_system).count();
        let head = (prompt + to_usize(settings.protect_first_n)).min(messages.len());
        let head = end_of_results(messages, head);
        let most = match reason {
            // On request something should happen even in a short conversation.
            CompactionReason::Requested => {
                to_usize(settings.protect_last_n).min((messages.len() - head) / 2)
            }
            _ => to_usize(settings.protect_last_n),
        };
        let mut tail = messages.len();
        let mut used = 0;
        while tail > head && messages.len() - tail < most.max(1) {
            used += scale.scale(message_tokens(&messages[tail - 1]));
            if used > room && tail < messages.len() {
                break;
            }
            tail -= 1;
        }
        let tail = start_of_calls(messages, tail).max(head);
        Self {
            messages: messages.to_vec(),
            origins: (0..messages.len()).map(Some).collect(),
            head,
            tail,
        }
    }

    pub(super) fn middle(&self) -> &[Message] {
        &self.messages[self.head..self.tail]
    }

    pub(super) fn head(&self) -> &[Message] {
        &self.messages[..self.head]
    }

    pub(super) fn tail(&self) -> &[Message] {
        &self.messages[self.tail..]
    }

    /// The current conversation.
    pub(super) fn all(&self) -> &[Message] {
        &self.messages
    }

    /// Shortens the results of the middle. Returns whether any was shortened.
    pub(super) fn shorten_results(&mut self) -> bool {
        let mut has_cut = false;
        for message in &mut self.messages[self.head..self.tail] {
            let Message::Tool(result) = message else {
                continue;
            };
            let text = result.content.text();
            let length = text.chars().count();
            if length > MAX_RESULT_CHARS {
                let beginning: String = text.chars().take(SHORTENED_CHARS).collect();
                let left_out = length - SHORTENED_CHARS;
                result.content =
                    format!("{beginning}\n[shortened: {left_out} characters more]").into();
                has_cut = true;
            }
        }
        has_cut
    }

    /// Replaces the middle by one message.
    pub(super) fn replace_middle(&mut self, summary: Message) {
        self.messages.splice(self.head..self.tail, [summary]);
        self.origins.splice(self.head..self.tail, [None]);
        self.tail = self.head + 1;
    }

    /// Drops results, oldest first, until it is enough. Those of the tail only after an overflow, and
    /// never the last ones. Returns whether any was dropped.
    pub(super) fn drop_results(
        &mut self,
        reason: CompactionReason,
        is_enough: impl Fn(&[Message]) -> bool,
    ) -> bool {
        let end = match reason {
            CompactionReason::Overflow { .. } => {
                start_of_calls(&self.messages, self.messages.len().saturating_sub(1))
            }
            CompactionReason::Full | CompactionReason::Requested => self.tail,
        };
        let mut has_dropped = false;
        for at in self.head..end.max(self.head) {
            if is_enough(&self.messages) {
                break;
            }
            if let Message::Tool(result) = &mut self.messages[at]
                && result.content.text().len() > DROPPED_RESULT.len()
            {
                result.content = Content::from(DROPPED_RESULT);
                has_dropped = true;
            }
        }
        has_dropped
    }

    pub(super) fn into_parts(self) -> (Vec<Message>, Vec<Option<usize>>) {
        (self.messages, self.origins)
    }
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn is_result(message: Option<&Message>) -> bool {
    matches!(message, Some(Message::Tool(_)))
}

/// The first index from here on that does not separate a result from its call.
fn end_of_results(messages: &[Message], from: usize) -> usize {
    let mut at = from;
    while is_result(messages.get(at)) {
        at += 1;
    }
    at
}

/// The last index up to here that does not separate a result from its call.
fn start_of_calls(messages: &[Message], from: usize) -> usize {
    let mut at = from;
    while at > 0 && is_result(messages.get(at)) {
        at -= 1;
    }
    at
}
