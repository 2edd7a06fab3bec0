//! `hermes mcp tools NAME --diff` and `--approve`: tools that are not what they were when they were accepted.

use std::sync::Arc;

use hermes_config::{PinTools, ServerEntry, Settings};
use hermes_mcp::tools::{
    catalog::NativeTool,
    pins::{ChangedTool, Pins},
};
use serde_json::{Value, json};

use super::save;
use crate::{
    commands::mcp::requests::{call::RequestRoute, offer, offer::ServerOffer, tools},
    context::Context,
    failure::{Failure, FailureKind},
    output::Tone,
};

/// Shows what has changed.
pub(crate) fn show_changes(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
) -> Result<(), Failure> {
    let offer = tools::server_offer(context, settings, entry, RequestRoute::Running)?;
    let changed = offer::compare_pins(context, &offer.server, &offer.catalog)?.changed;
    print_changes(context, &changed);
    if changed.is_empty() {
        context.output.note(format!(
            "No tool of `{}` has changed since it was accepted.",
            entry.name
        ));
    } else if offer.server.pin_tools == PinTools::Block {
        context.output.note(format!(
            "`hermes mcp tools {} --approve` accepts them.",
            entry.name
        ));
    }
    let described: Vec<Value> = changed
        .iter()
        .map(|tool| json!({"name": tool.name, "difference": tool.difference}))
        .collect();
    context
        .output
        .json(json!({"changed": described, "tools": tools_json(context, settings, &[offer])}));
    Ok(())
}

/// Accepts one tool, or all, as they are now; shows once more what that means.
pub(crate) fn approve_tools(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
    tool: Option<&str>,
) -> Result<(), Failure> {
    let offer = tools::server_offer(context, settings, entry, RequestRoute::Running)?;
    let is_meant = |name: &str| tool.is_none_or(|tool| tool == name);
    let meant: Vec<&Arc<NativeTool>> = offer
        .catalog
        .tools
        .iter()
        .filter(|tool| is_meant(tool.name.as_str()))
        .collect();
    if let (Some(tool), true) = (tool, meant.is_empty()) {
        let message = format!("`{}` has no tool `{tool}`", entry.name);
        return Err(Failure::new(FailureKind::NotFound, message).about(entry.name.clone()));
    }
    let comparison = offer::compare_pins(context, &offer.server, &offer.catalog)?;
    let changed: Vec<ChangedTool> = comparison
        .changed
        .into_iter()
        .filter(|tool| is_meant(tool.name.as_str()))
        .collect();
    print_changes(context, &changed);
    Pins::for_home(&context.home).accept(&entry.name, meant)?;
    let names: Vec<&str> = changed.iter().map(|tool| tool.name.as_str()).collect();
    context.output.note(match names.as_slice() {
        [] => format!(
            "No tool of `{}` has changed since it was accepted.",
            entry.name
        ),
        names => format!("Approved {} of `{}`.", names.join(", "), entry.name),
    });
    save::reload_running(context);
    context
        .output
        .json(json!({"approved": names, "tools": tools_json(context, settings, &[offer])}));
    Ok(())
}

fn print_changes(context: &Context, changed: &[ChangedTool]) {
    for tool in changed {
        let name = context.output.tint(Tone::Strong, tool.name.as_str());
        context.output.line(name);
        for line in tool.difference.to_string().lines() {
            let tone = match line.trim_start().chars().next() {
                Some('-') => Tone::Bad,
                Some('+') => Tone::Good,
                _ => Tone::Plain,
            };
            context
                .output
                .line(format!("  {}", context.output.tint(tone, line)));
        }
    }
}

fn tools_json(context: &Context, settings: &Settings, offers: &[ServerOffer]) -> Vec<Value> {
    let tools = offer::pinned_tools(context, settings, offers);
    tools.iter().map(offer::OfferedTool::with_schema).collect()
}
