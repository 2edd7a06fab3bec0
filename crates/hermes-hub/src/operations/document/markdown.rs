//! The reference as Markdown.

use std::fmt::Write;

use crate::operations::{
    ArgumentLocation, Effect, Idempotency, Operation, Output, RequiredAccess, Toolset, table,
};

pub fn reference() -> String {
    let mut text = String::from("# Operations of the Hub\n");
    for operation in table().rows() {
        write_operation(&mut text, operation);
    }
    text
}

fn write_operation(text: &mut String, operation: &Operation) {
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{arguments}");
    };
    line(format_args!(
        "\n## `{}`\n\n{}\n",
        operation.name, operation.description
    ));
    let verbs: Vec<_> = operation.methods.iter().map(|verb| verb.as_str()).collect();
    line(format_args!(
        "- REST: `{} {}`",
        verbs.join("`, `"),
        operation.path.replace("{*", "{")
    ));
    match operation.toolset {
        Toolset::Standard => line(format_args!("- MCP tool: yes")),
        Toolset::Extended => line(format_args!("- MCP tool: with `mcp.tools: extended`")),
        Toolset::None => {}
    }
    if let Some(command) = operation.command {
        line(format_args!("- Command: `hermes {command}`"));
    }
    line(format_args!("- Scope: {}", scope_text(operation)));
    line(format_args!("- Effect: {}", effect_text(operation)));
    let success: Vec<_> = operation.success.iter().map(ToString::to_string).collect();
    let errors: Vec<_> = operation.errors.iter().map(ToString::to_string).collect();
    let errors = if errors.is_empty() {
        String::new()
    } else {
        format!("; errors besides the usual: {}", errors.join(", "))
    };
    line(format_args!("- Status: {}{errors}", success.join(", ")));
    let reply = match &operation.output {
        Output::Empty => "nothing (`{\"ok\": true}` over MCP)".to_owned(),
        Output::Json(_) => "JSON".to_owned(),
        Output::Events => "server-sent events".to_owned(),
        Output::Bytes(media) => media.join(" or "),
    };
    line(format_args!("- Reply: {reply}"));
    if operation.input.arguments.is_empty() {
        return;
    }
    line(format_args!("\n| argument | over REST | |\n|---|---|---|"));
    for member in &operation.input.arguments {
        let location = match member.location {
            ArgumentLocation::Path => "in the route".to_owned(),
            ArgumentLocation::Query => format!("query `{}`", member.rest_name),
            ArgumentLocation::Body if operation.input.whole_body == Some(member.name.as_str()) => {
                "the body".to_owned()
            }
            ArgumentLocation::Body => format!("body `{}`", member.rest_name),
        };
        let need = if member.is_required { "Required. " } else { "" };
        let only = if member.is_for_tools {
            ""
        } else {
            "REST only. "
        };
        let description = member
            .schema
            .get("description")
            .and_then(|text| text.as_str())
            .unwrap_or_default();
        let description = description.replace('\n', " ").replace('|', "\\|");
        line(format_args!(
            "| `{}` | {location} | {need}{only}{description} |",
            member.name
        ));
    }
}

pub(super) fn scope_text(operation: &Operation) -> String {
    match operation.access {
        RequiredAccess::Public => "none; no token needed".into(),
        RequiredAccess::AnyToken => "any token".into(),
        RequiredAccess::Scope(scope) => format!("`{scope}`"),
    }
}

pub(super) fn effect_text(operation: &Operation) -> &'static str {
    match (operation.effect, operation.idempotency) {
        (Effect::Read, _) => "reads only",
        (Effect::Change, Idempotency::NotIdempotent) => "changes",
        (Effect::Change, Idempotency::Idempotent) => "changes; may be repeated",
        (Effect::Destroy, Idempotency::NotIdempotent) => "may replace or remove",
        (Effect::Destroy, Idempotency::Idempotent) => "may replace or remove; may be repeated",
    }
}
