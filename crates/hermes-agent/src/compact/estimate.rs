//! Token estimates: four characters each, corrected by what a provider counted.

use crate::{
    message::{Content, KnownPart, Message, Part},
    model::ToolDefinition,
};

const MESSAGE_OVERHEAD: usize = 16;
/// The cost of an image in characters, however large its data.
const IMAGE_COST: usize = 6_000;

/// The estimated tokens of a request.
pub fn estimate_tokens(messages: &[Message], tools: &[ToolDefinition]) -> u64 {
    let messages: usize = messages.iter().map(characters).sum();
    let tools: usize = tools.iter().map(tool_characters).sum();
    to_u64((messages + tools) / 4)
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) fn message_tokens(message: &Message) -> u64 {
    to_u64(characters(message) / 4)
}

fn tool_characters(tool: &ToolDefinition) -> usize {
    let parameters = tool.parameters.to_string();
    MESSAGE_OVERHEAD
        + tool.name.chars().count()
        + tool.description.chars().count()
        + parameters.chars().count()
}

fn characters(message: &Message) -> usize {
    let content = match message.content() {
        Content::Text(text) => text.chars().count(),
        Content::Parts(parts) => parts.iter().map(part_characters).sum(),
    };
    let calls: usize = message
        .tool_calls()
        .iter()
        .map(|call| MESSAGE_OVERHEAD + call.name.chars().count() + call.arguments.chars().count())
        .sum();
    MESSAGE_OVERHEAD + content + calls
}

fn part_characters(part: &Part) -> usize {
    match part {
        Part::Known(KnownPart::Text { text }) => text.chars().count(),
        Part::Known(KnownPart::ImageUrl { .. }) => IMAGE_COST,
        Part::Other(value) => value.to_string().len(),
    }
}

/// Scales estimates to what a provider counted before.
pub(super) struct TokenScale {
    /// The size of the conversation it was calibrated with.
    pub(super) before: u64,
    estimated: u64,
}

impl TokenScale {
    pub(super) fn new(messages: &[Message], tools: &[ToolDefinition], known: Option<u64>) -> Self {
        let estimated = estimate_tokens(messages, tools).max(1);
        Self {
            before: known.unwrap_or(estimated),
            estimated,
        }
    }

    pub(super) fn measure(&self, messages: &[Message], tools: &[ToolDefinition]) -> u64 {
        self.scale(estimate_tokens(messages, tools))
    }

    /// Converts an estimate into tokens of this provider.
    pub(super) fn scale(&self, estimate: u64) -> u64 {
        let product = u128::from(estimate) * u128::from(self.before) / u128::from(self.estimated);
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_schemas_count_and_image_data_does_not() {
        let tool = ToolDefinition {
            name: "t".into(),
            description: "x".repeat(4_000).into(),
            parameters: json!({}).into(),
        };
        assert!(estimate_tokens(&[], &[tool]) >= 1_000);
        let image = Message::user(vec![Part::from_image_bytes("image/png", &[0; 90_000])]);
        assert!(estimate_tokens(&[image], &[]) < 2_000);
    }

    #[test]
    fn estimates_follow_what_the_provider_counted() {
        let long = [Message::user("x".repeat(4_000))];
        let short = [Message::user("x".repeat(2_000))];
        let scale = TokenScale::new(&long, &[], Some(2_008));
        assert_eq!(scale.measure(&long, &[]), 2_008);
        assert_eq!(scale.measure(&short, &[]), 1_008);
    }
}
