//! `hermes mcp configure`: a checklist of a server's tools, and the filters it becomes.

use hermes_config::{ConfigFile, ServerEntry};
use hermes_mcp::tools::filter::ToolFilter;
use serde_json::{Map, Value, json};

use super::save;
use crate::{
    cli::ConfigureArgs,
    commands::mcp::requests::{call::RequestRoute, offer, offer::OfferedTool, probe, tools},
    context::Context,
    failure::{Failure, FailureKind},
    question::{ChecklistItem, Questions},
};

pub(crate) fn run(context: &Context, args: &ConfigureArgs) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let entry = probe::find_entry(&settings, &args.name)?;
    let offer = tools::server_offer(context, &settings, entry, RequestRoute::Running)?;
    let offers = [offer];
    let all = offer::offered_tools(&settings, &offers);
    let present: Vec<usize> = (0..all.len())
        .filter(|index| all[*index].is_included())
        .collect();
    let chosen = if args.select.is_empty() {
        let items: Vec<ChecklistItem> = all.iter().map(save::checklist_item).collect();
        let title = format!("Tools of `{}` to offer:", entry.name);
        let instead = "`--select TOOL` names the tools, `--yes` keeps the present choice";
        Questions::new(args.yes).select(&title, &items, &present, instead)?
    } else {
        find_named(&all, &args.select)?
    };
    if chosen == present {
        context.output.note("The choice is unchanged.");
        tools::print_tools(context, &settings, &offers);
        return Ok(());
    }
    let filter = if chosen.len() == all.len() {
        ToolFilter::All
    } else {
        let names = chosen.iter().map(|index| all[*index].tool.name.to_string());
        ToolFilter::Only(names.collect())
    };
    write_filter(context, entry, &filter)?;
    context.output.note(match &filter {
        ToolFilter::Only(names) => format!("Saved: {} of {} offered.", names.len(), all.len()),
        _ => "Saved: all tools are offered, those it may get later as well.".to_owned(),
    });
    tools::show_changed(context, &settings, entry)
}

/// The places of the named tools, in the server's order.
fn find_named(all: &[OfferedTool<'_>], names: &[String]) -> Result<Vec<usize>, Failure> {
    let mut chosen = Vec::new();
    for name in names {
        let position = all.iter().position(|tool| tool.tool.name.as_str() == name);
        chosen.push(position.ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|tool| tool.tool.name.as_str()).collect();
            Failure::new(FailureKind::NotFound, format!("it has no tool `{name}`"))
                .hint(format!("it has: {}", known.join(", ")))
        })?);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// Writes the filter into the configuration; `resources`, `prompts` and the like stay as they are.
pub(crate) fn write_filter(
    context: &Context,
    entry: &ServerEntry,
    filter: &ToolFilter,
) -> Result<(), Failure> {
    let mut file = ConfigFile::open(&context.home)?;
    let name = entry.name.as_str();
    let (set, unset): (Option<(&str, &Vec<String>)>, &[&str]) = match filter {
        ToolFilter::All => (None, &["include", "exclude"]),
        ToolFilter::Only(patterns) => (Some(("include", patterns)), &["exclude"]),
        // With `include` beside it, `exclude` would not be looked at.
        ToolFilter::AllBut(patterns) => (Some(("exclude", patterns)), &["include"]),
    };
    if let Some((key, patterns)) = set {
        file.set_server_key(name, &["tools", key], json!(patterns));
    }
    let tools = entry.template.get("tools").and_then(Value::as_object);
    let is_all_of_it = |tools: &Map<String, Value>| {
        !tools.is_empty() && tools.keys().all(|key| unset.contains(&key.as_str()))
    };
    if set.is_none() && tools.is_some_and(is_all_of_it) {
        file.unset_server_key(name, &["tools"]);
    } else {
        for key in unset {
            file.unset_server_key(name, &["tools", key]);
        }
    }
    save::save_file(context, &file)
}
