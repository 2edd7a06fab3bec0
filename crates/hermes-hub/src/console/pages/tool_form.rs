//! A tool of an MCP server: what it is, a form that calls it, and what came of the call.

use std::collections::BTreeMap;

use askama::Template;
use hermes_protocol::{ResultMedia, ServerTool, ServerToolList, ToolCallReport};
use serde_json::Value;

use super::{
    mcp_server::{call_for_form, message_or_problem, named_server},
    render,
};
use crate::{
    Problem,
    console::{
        diff::{DiffLine, diff_lines, plain_text},
        form_fields::Fields,
        frame::Frame,
        request::PageRequest,
        schema_form::{
            FieldControl, FormItem, SchemaForm, TypedArguments, read_arguments, show_items,
        },
    },
};

/// A longer description is folded.
const LONG_DESCRIPTION: usize = 1500;

#[derive(Template)]
#[template(path = "pages/tool_form.html")]
struct ToolPage {
    page: Frame,
    tenant: String,
    server: String,
    tool: ServerTool,
    changes: Vec<ChangeView>,
    items: Vec<FormItem>,
    is_json: bool,
    /// The same with the other kind of form, where the schema allows both.
    other_form: Option<String>,
    outcome: Option<CallOutcome>,
    /// Why the call was not made.
    problem: Option<String>,
    may_call: bool,
    may_accept: bool,
}

/// A part of the definition that is not what was accepted.
struct ChangeView {
    place: String,
    lines: Vec<DiffLine>,
}

/// The result of a call, as it is shown.
struct CallOutcome {
    is_error: bool,
    text: String,
    structured: Option<String>,
    images: Vec<ResultMedia>,
    sounds: Vec<ResultMedia>,
    is_cut: bool,
    elapsed_ms: u64,
}

impl CallOutcome {
    /// A tool that declares the form of its results often gives them as text alone.
    fn new(report: ToolCallReport, is_structured: bool) -> Self {
        let (images, others): (Vec<_>, Vec<_>) = report
            .media
            .into_iter()
            .filter(|media| is_base64(&media.data))
            .partition(|media| is_picture(&media.mime_type));
        let sounds = others
            .into_iter()
            .filter(|media| is_sound(&media.mime_type));
        let sounds: Vec<_> = sounds.collect();
        let has_media = !images.is_empty() || !sounds.is_empty();
        // What is shown needs no path of its file.
        let lines = report.text.lines();
        let lines = lines.filter(|line| !(has_media && line.starts_with("MEDIA:")));
        let mut text = lines.collect::<Vec<_>>().join("\n");
        let mut structured = report.structured_content;
        if structured.is_none()
            && is_structured
            && let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(&text)
        {
            structured = Some(value);
            text.clear();
        }
        let structured = structured.and_then(|value| serde_json::to_string_pretty(&value).ok());
        Self {
            is_error: report.is_error,
            text,
            structured,
            images,
            sounds,
            is_cut: report.truncated,
            elapsed_ms: report.elapsed_ms,
        }
    }
}

/// Types that browsers show as a picture and run nothing of.
fn is_picture(mime_type: &str) -> bool {
    // Models do not know bitmaps.
    hermes_config::is_image_type(mime_type) || mime_type == "image/bmp"
}

fn is_sound(mime_type: &str) -> bool {
    matches!(
        mime_type,
        "audio/wav"
            | "audio/mpeg"
            | "audio/ogg"
            | "audio/flac"
            | "audio/mp4"
            | "audio/aac"
            | "audio/webm"
    )
}

fn is_base64(data: &str) -> bool {
    data.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}

/// The tool that the address names; `sent` has the fields of its form, if that was sent.
pub(super) async fn show(request: &PageRequest, sent: Option<&Fields>) -> Result<String, Problem> {
    let wanted = request.query("tool").unwrap_or_default();
    let list: ServerToolList = request
        .read("list_mcp_tools", named_server(request))
        .await?;
    let mut tools = list.tools.into_iter();
    let tool = tools
        .find(|tool| tool.name == wanted)
        .ok_or_else(|| Problem::not_found("the server has no such tool").with_reason("no_tool"))?;
    let wants_json = request.query("form") == Some("json");
    let by_schema = SchemaForm::new(&tool.input_schema);
    let can_both = !by_schema.is_json();
    let form = if wants_json {
        SchemaForm::as_json()
    } else {
        by_schema
    };
    let mut problems = BTreeMap::new();
    let (mut outcome, mut problem) = (None, None);
    if let Some(fields) = sent {
        let typed = read_arguments(&form, fields);
        problems.clone_from(&typed.problems);
        if problems.is_empty() {
            match call(request, &tool.name, typed, fields).await {
                Ok(report) => {
                    outcome = Some(CallOutcome::new(report, tool.output_schema.is_some()));
                }
                Err(failed) => problem = Some(message_or_problem(failed)?),
            }
        } else {
            problem = Some(request.texts.get("tool.check_fields").to_owned());
        }
    }
    let mut page = Frame::new(
        request,
        tool.title.clone().unwrap_or_else(|| tool.name.clone()),
    );
    // What is typed, and what came of it, stay until the reader leaves.
    page.live = None;
    render(&ToolPage {
        page,
        tenant: request.path_value("tenant_id").to_owned(),
        server: request.path_value("server").to_owned(),
        changes: show_changes(&tool),
        items: show_items(&form, sent, &problems),
        is_json: form.is_json(),
        other_form: can_both
            .then(|| request.address_with("form", if wants_json { "" } else { "json" })),
        outcome,
        problem,
        may_call: request.may("call_mcp_tool"),
        may_accept: tool.pin == "changed" && request.may("accept_mcp_tools"),
        tool,
    })
}

async fn call(
    request: &PageRequest,
    tool: &str,
    typed: TypedArguments,
    fields: &Fields,
) -> Result<ToolCallReport, Problem> {
    let mut arguments = named_server(request);
    arguments["tool"] = tool.into();
    arguments["arguments"] = Value::Object(typed.arguments);
    call_for_form(request, "call_mcp_tool", arguments, fields).await
}

fn show_changes(tool: &ServerTool) -> Vec<ChangeView> {
    let text = |value: &Option<Value>| value.as_ref().map(plain_text).unwrap_or_default();
    let changes = tool.changes.iter().map(|change| ChangeView {
        place: change.place.clone(),
        lines: diff_lines(&text(&change.before), &text(&change.after)),
    });
    changes.collect()
}

impl ToolPage {
    fn is_long(&self) -> bool {
        self.tool.description.len() > LONG_DESCRIPTION
    }

    fn input_schema(&self) -> String {
        plain_text(&self.tool.input_schema)
    }

    fn output_schema(&self) -> Option<String> {
        self.tool.output_schema.as_ref().map(plain_text)
    }

    /// What the server says about its effects, as keys of texts.
    fn hints(&self) -> Vec<&'static str> {
        let hint = |name: &str| {
            self.tool
                .annotations
                .as_ref()
                .and_then(|all| all[name].as_bool())
        };
        let mut hints = Vec::new();
        match (hint("readOnlyHint"), hint("destructiveHint")) {
            (Some(true), _) => hints.push("tool.reads"),
            (_, Some(true)) => hints.push("tool.destroys"),
            _ => {}
        }
        if hint("idempotentHint") == Some(true) {
            hints.push("tool.repeats");
        }
        if hint("openWorldHint") == Some(true) {
            hints.push("tool.open_world");
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(media: &[(&str, &str)], text: &str, is_structured: bool) -> CallOutcome {
        let media = media.iter().map(|(mime_type, data)| ResultMedia {
            mime_type: (*mime_type).to_owned(),
            data: (*data).to_owned(),
        });
        let report = ToolCallReport {
            server: "s".into(),
            tool: "t".into(),
            is_error: false,
            text: text.into(),
            structured_content: None,
            media: media.collect(),
            truncated: false,
            elapsed_ms: 1,
        };
        CallOutcome::new(report, is_structured)
    }

    #[test]
    fn a_structured_result_that_came_as_text_is_shown_as_what_it_is() {
        let shown = report(&[], "{\"degrees\":36}", true);
        assert_eq!(shown.structured.as_deref(), Some("{\n  \"degrees\": 36\n}"));
        assert_eq!(shown.text, "");
        assert_eq!(report(&[], "{\"degrees\":36}", false).structured, None);
        assert_eq!(report(&[], "It rains.", true).text, "It rains.");
    }

    #[test]
    fn only_checked_types_of_media_are_shown() {
        let shown = report(
            &[
                ("image/png", "aGk="),
                ("image/svg+xml", "aGk="),
                ("text/html", "aGk="),
                ("image/png\" onerror=", "aGk="),
                ("image/gif", "\"><script>"),
                ("audio/wav", "aGk="),
            ],
            "before\nMEDIA:/home/x/img.png\nafter",
            false,
        );
        assert_eq!(shown.images.len(), 1);
        assert_eq!(shown.sounds.len(), 1);
        assert_eq!(shown.text, "before\nafter");
        // Without a picture, the line is what the server said.
        assert_eq!(report(&[], "MEDIA:x", false).text, "MEDIA:x");
    }
}
