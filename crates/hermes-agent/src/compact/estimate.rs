//! Token estimates: four characters each, corrected by what a provider counted.

use crate::{
    message::{Content, KnownPart, Message, Part},
    model::ToolDefinition,
};

const FRAME: usize = 16;
/// The cost of an image in characters, however large its data.
const IMAGE: usize = 6_000;

/// The estimated tokens of a request.
pub fn tokens(messages: &[Message], tools: &[ToolDefinition]) -> u64 {
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
    FRAME
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
        .map(|call| FRAME + call.name.chars().count() + call.arguments.chars().count())
        .sum();
    FRAME + content + calls
}

fn part_characters(part: &Part) -> usize {
    match part {
        Part::Known(KnownPart::Text { text }) => text.chars().count(),
        Part::Known(KnownPart::ImageUrl { .. }) => IMAGE,
        Part::Other(value) => value.to_string().len(),
    }
}

/// Scales estimates to what a provider counted before.
pub(super) struct Scale {
    /// The size of the conversation it was calibrated with.
    pub(super) before: u64,
    estimated: u64,
}

impl Scale {
    pub(super) fn new(messages: &[Message], tools: &[ToolDefinition], known: Option<u64>) -> Self {
        let estimated = tokens(messages, tools).max(1);
        Self {
            before: known.unwrap_or(estimated),
            estimated,
        }
    }

    pub(super) fn of(&self, messages: &[Message], tools: &[ToolDefinition]) -> u64 {
        self.scaled(tokens(messages, tools))
    }

    /// Converts an estimate into tokens of this provider.
    pub(super) fn scaled(&self, estimate: u64) -> u64 {
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
            description: "x".repeat(4_000),
            parameters: json!({}),
        };
        assert!(tokens(&[], &[tool]) >= 1_000);
        let image = Message::user(vec![Part::from_image_bytes("image/png", &[0; 90_000])]);
        assert!(tokens(&[image], &[]) < 2_000);
    }

    #[test]
    fn estimates_follow_what_the_provider_counted() {
        let long = [Message::user("x".repeat(4_000))];
        let short = [Message::user("x".repeat(2_000))];
        let scale = Scale::new(&long, &[], Some(2_008));
        assert_eq!(scale.of(&long, &[]), 2_008);
        assert_eq!(scale.of(&short, &[]), 1_008);
    }
}
