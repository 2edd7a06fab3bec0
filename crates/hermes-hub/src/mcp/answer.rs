//! The result of a tool call, for both ways of sending it.

use std::sync::Arc;

use hermes_mcp::era::Era;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Problem, call::Body, operations::Operation};

const UNTRUSTED: &str = "hermes.hub/untrusted";
/// The contract requires exactly this spelling.
const NOTHING_TO_SAY: &str = r#"{"ok": true}"#;

pub(super) struct Answer {
    said: Said,
    is_untrusted: bool,
}

enum Said {
    Document(Arc<RawValue>),
    Nothing,
    /// The problem's document. It is not sent as structured content, which would have to match the tool's output
    /// schema.
    Problem(String),
}

impl Answer {
    pub(super) fn success(operation: &Operation, body: Body) -> Self {
        let said = match body {
            Body::Json(document) => Said::Document(document),
            Body::Empty | Body::Events(_) | Body::Bytes(..) => Said::Nothing,
        };
        Self {
            said,
            is_untrusted: operation.is_untrusted,
        }
    }

    pub(super) fn failure(problem: &Problem, id: &str) -> Self {
        Self {
            said: Said::Problem(problem.document(id).to_string()),
            is_untrusted: false,
        }
    }

    fn text(&self) -> &str {
        match &self.said {
            Said::Document(document) => document.get(),
            Said::Nothing => NOTHING_TO_SAY,
            Said::Problem(problem) => problem,
        }
    }

    /// Approximate size when sent: once as text with escaped quotes, once as structured content.
    pub(super) fn size(&self) -> usize {
        const AROUND: usize = 256;
        let text = self.text().len();
        AROUND + text + text + text / 4
    }

    fn is_error(&self) -> bool {
        matches!(self.said, Said::Problem(_))
    }

    /// As rmcp's type.
    pub(super) fn to_result(&self) -> CallToolResult {
        let content = vec![ContentBlock::text(self.text())];
        if self.is_error() {
            return CallToolResult::error(content);
        }
        let mut result = CallToolResult::success(content);
        result.structured_content = serde_json::from_str(self.text()).ok();
        if self.is_untrusted {
            let mut meta = MetaObject::default();
            meta.insert(UNTRUSTED.to_owned(), true.into());
            result.meta = Some(meta);
        }
        result
    }

    /// As the JSON that is sent.
    pub(super) fn to_document(&self, era: Era) -> Document<'_> {
        Document {
            result_type: (era == Era::Stateless).then_some("complete"),
            content: [Text {
                kind: "text",
                text: self.text(),
            }],
            structured_content: match &self.said {
                Said::Document(document) => Some(document),
                Said::Nothing => serde_json::from_str(NOTHING_TO_SAY).ok(),
                Said::Problem(_) => None,
            },
            is_error: self.is_error(),
            meta: self.is_untrusted.then_some(Mark { is_untrusted: true }),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Mark>,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Mark {
    #[serde(rename = "hermes.hub/untrusted")]
    is_untrusted: bool,
}
