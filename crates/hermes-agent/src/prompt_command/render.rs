//! Renders the messages of a prompt as a user message.

use hermes_config::ServerName;
use hermes_mcp::{
    Host, UtilityTool,
    protocol::{ContentBlock, PromptMessage, ResourceContents, Role},
};

use crate::{
    mention::format_attachment,
    message::{Content, Part},
};

const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The largest inline image, in base64: more than any provider accepts.
const MAX_IMAGE_BYTES: usize = 28 * 1024 * 1024;

/// The messages as one user message. If the prompt has both roles, they are named.
pub(super) async fn render_content(
    host: &Host,
    server: &ServerName,
    messages: Vec<PromptMessage>,
) -> Option<Content> {
    let is_dialogue = messages.iter().any(|message| message.role != Role::User);
    let mut parts = Vec::new();
    let mut speaker = None;
    for message in messages {
        if is_dialogue && speaker.as_ref() != Some(&message.role) {
            parts.push(Part::from_text(match message.role {
                Role::Assistant => "Assistant:",
                Role::User => "User:",
            }));
            speaker = Some(message.role);
        }
        parts.push(render_part(host, server, message.content).await);
    }
    if parts.is_empty() {
        return None;
    }
    let texts: Option<Vec<&str>> = parts.iter().map(Part::text).collect();
    Some(match texts {
        Some(texts) => Content::Text(texts.join("\n\n")),
        None => Content::Parts(parts),
    })
}

async fn render_part(host: &Host, server: &ServerName, block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::from_text(text.text),
        ContentBlock::Image(image)
            if IMAGE_TYPES.contains(&image.mime_type.as_str())
                && image.data.len() <= MAX_IMAGE_BYTES =>
        {
            Part::from_image_url(format!("data:{};base64,{}", image.mime_type, image.data))
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            // The user chose the prompt, but not the content of embedded documents.
            ResourceContents::TextResourceContents { uri, text, .. } => {
                Part::from_text(format_attachment(server, &uri, text))
            }
            other => {
                let blocks = vec![other];
                Part::from_text(host.media().render_resource(blocks).await)
            }
        },
        other => {
            let registry = host.registry();
            let link_tool = registry
                .find_original(server, UtilityTool::ReadResource.as_str())
                .map(|tool| &tool.name);
            Part::from_text(host.media().render(&[other], link_tool).await)
        }
    }
}
