//! Calls MCP tools: approval first, then the call, with progress lines.

use std::sync::Arc;

use hermes_config::ServerName;
use hermes_mcp::{
    CallOptions, Host, Outcome, Progress, RegisteredTool, ToolApproval, protocol::ContentBlock,
    server_request::ConversationId,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    approval::{ApprovalError, ApprovalKind, ApprovalRequest, Approvals},
    message::Image,
    model::ToolDefinition,
    tools::tool::{ToolContext, ToolOutput},
};

pub(super) fn definition(tool: &RegisteredTool) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.as_str().to_owned(),
        description: tool.description().into(),
        parameters: tool.parameters().into(),
    }
}

pub(super) async fn call(
    host: &Host,
    tool: &RegisteredTool,
    arguments: Map<String, Value>,
    context: &ToolContext,
) -> ToolOutput {
    match call_mcp(host, tool, arguments, context).await {
        Ok(outcome) => ToolOutput {
            is_error: outcome.is_error(),
            images: extract_images(&outcome),
            ..ToolOutput::from_untrusted(tool.name.as_str(), outcome.to_json())
        },
        Err(refusal) => ToolOutput::error(refusal.to_string()),
    }
}

/// Larger images are refused by providers.
const MAX_IMAGE_BYTES: usize = 5 << 20;
/// Images of one result that are passed on; the text names the others.
const MAX_IMAGES: usize = 8;

/// The images in a result that models support, in order.
fn extract_images(outcome: &Outcome) -> Vec<Image> {
    let blocks = outcome.raw().map(|result| result.content.as_slice());
    let data = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| match block {
            ContentBlock::Image(image) => Some(image.data.as_str()),
            _ => None,
        });
    data.filter(|data| data.len() <= MAX_IMAGE_BYTES)
        .filter_map(Image::from_base64)
        .take(MAX_IMAGES)
        .collect()
}

/// Calls a tool of a server, after approval if `tools.approve` requires it.
pub async fn call_mcp(
    host: &Host,
    tool: &RegisteredTool,
    arguments: Map<String, Value>,
    context: &ToolContext,
) -> Result<Outcome, ApprovalError> {
    if tool.approval == ToolApproval::Required {
        let call = McpCall {
            server: &tool.server,
            tool: tool.name.as_str(),
            original: tool.original_name(),
            arguments: &arguments,
        };
        call.request_approval(&context.approvals, &context.cancel)
            .await?;
    }
    let progress = context.progress.clone();
    let options = CallOptions {
        conversation: Some(ConversationId(context.session.clone())),
        cancel: context.cancel.clone(),
        on_progress: Some(Arc::new(move |update: &Progress| {
            progress(&format_progress(update));
        })),
        ..CallOptions::default()
    };
    Ok(host.call_tool(tool, arguments, &options).await)
}

/// A call of a server's tool.
#[derive(Debug, Clone, Copy)]
pub struct McpCall<'a> {
    pub server: &'a ServerName,
    /// By its registered name.
    pub tool: &'a str,
    /// By the server's own name for it.
    pub original: &'a str,
    pub arguments: &'a Map<String, Value>,
}

impl McpCall<'_> {
    /// Requests approval for a tool in `tools.approve`. "Session" and "always" answers apply to this tool alone.
    pub(crate) async fn request_approval(
        &self,
        approvals: &Approvals,
        cancel: &CancellationToken,
    ) -> Result<(), ApprovalError> {
        let what = format!("{}.{}", self.server, self.original);
        let arguments = serde_json::to_string(self.arguments).unwrap_or_default();
        let request = ApprovalRequest {
            kind: ApprovalKind::Mcp,
            tool: self.tool.to_owned(),
            subject: format!("{what} {arguments}"),
            reason: format!(
                "`tools.approve` of the MCP server `{}` requires approval",
                self.server
            ),
            rules: vec![format!("MCP tool {what}")],
            can_allow_always: true,
            ..ApprovalRequest::default()
        };
        approvals.check_action(request, cancel).await
    }
}

/// `3/10 message`, as far as the server sent it.
fn format_progress(progress: &Progress) -> String {
    let mut line = format_number(progress.progress);
    if let Some(total) = progress.total {
        line = format!("{line}/{}", format_number(total));
    }
    let message = progress.message.as_deref().unwrap_or_default();
    // Line breaks in the message are removed.
    for word in message.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if !word.is_empty() {
            line.push(' ');
            line.push_str(word);
        }
    }
    line
}

/// At most two decimals, without trailing zeros.
fn format_number(number: f64) -> String {
    let text = format!("{number:.2}");
    match text.strip_suffix(".00") {
        Some(whole) => whole.to_owned(),
        None => text.trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
        let message = message.map(str::to_owned);
        format_progress(&Progress {
            progress,
            total,
            message,
        })
    }

    #[test]
    fn progress_is_one_readable_line() {
        assert_eq!(
            told(3.0, Some(10.0), Some("reading\n  files\u{1b}")),
            "3/10 reading files"
        );
        assert_eq!(told(0.333, Some(1.0), None), "0.33/1");
        assert_eq!(told(100.5, None, Some("kB")), "100.5 kB");
        assert_eq!(told(0.0, None, None), "0");
    }
}
