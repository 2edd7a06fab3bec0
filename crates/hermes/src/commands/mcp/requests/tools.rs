//! `hermes mcp tools`: lists the tools of servers, or chooses which are offered.

use hermes_config::{ServerEntry, ServerName, Settings};
use hermes_mcp::tools::filter::ToolFilter;
use serde_json::{Value, json};

use super::{
    call,
    call::RequestRoute,
    offer,
    offer::{OfferSource, OfferedTool, ServerOffer},
    probe, signature,
};
use crate::{
    cli::ToolsArgs,
    commands::mcp::config::{configure, pins},
    context::Context,
    failure::{Failure, FailureKind},
    output::{Table, Tone},
};

pub(crate) fn run(context: &Context, args: &ToolsArgs) -> Result<(), Failure> {
    let mut settings = context.written_settings()?;
    let by = RequestRoute::new(args.fresh);
    let Some(name) = &args.name else {
        return list_all(context, &settings, by);
    };
    let filter = filter_from_args(args);
    // What is to be changed has to be written somewhere.
    if filter.is_none() && args.approve.is_none() {
        context.add_built_in(&mut settings);
    }
    if settings.server(name).is_none()
        && let Some((server, tool)) = call::split_server_and_tool(&settings, name)
    {
        return show_one(
            context,
            &settings,
            probe::find_entry(&settings, server.as_str())?,
            tool,
            by,
        );
    }
    let entry = probe::find_entry(&settings, name)?;
    if let Some(filter) = filter {
        return write_filter(context, &settings, entry, &filter);
    }
    if let Some(tool) = &args.approve {
        return pins::approve_tools(context, &settings, entry, tool.as_deref());
    }
    if args.diff {
        return pins::show_changes(context, &settings, entry);
    }
    let offer = server_offer(context, &settings, entry, by)?;
    print_tools(context, &settings, &[offer]);
    Ok(())
}

/// What one tool takes, as people read it.
fn show_one(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
    name: &str,
    by: RequestRoute,
) -> Result<(), Failure> {
    let offer = server_offer(context, settings, entry, by)?;
    let offers = [offer];
    let tools = offer::pinned_tools(context, settings, &offers);
    let Some(tool) = tools.iter().find(|tool| tool.tool.name.as_str() == name) else {
        let names: Vec<String> = tools
            .iter()
            .map(|tool| tool.tool.name.to_string())
            .collect();
        let message = format!("server `{}` offers no tool `{name}`", entry.name);
        return Err(Failure::new(FailureKind::NotFound, message)
            .about(entry.name.clone())
            .suggest_name(name, "it offers", &names));
    };
    let output = context.output;
    let definition = serde_json::to_value(&tool.tool.definition).unwrap_or_default();
    let title = format!("{}.{name}", entry.name);
    let shown = signature::render_signature(output, &title, &definition);
    output.line(shown.trim_end());
    output.line(match tool.registered_name() {
        Some(registered) => format!("\nThe model calls it `{registered}`."),
        None if tool.is_changed() => "\nIt is withheld from the model: it has changed.".to_owned(),
        None => "\nIt is not offered to the model.".to_owned(),
    });
    output.json(json!({"tools": [tool.with_schema()]}));
    Ok(())
}

/// The filter the flags ask for, if they ask for any.
fn filter_from_args(args: &ToolsArgs) -> Option<ToolFilter> {
    if args.all {
        Some(ToolFilter::All)
    } else if !args.include.is_empty() {
        Some(ToolFilter::Only(args.include.clone()))
    } else if !args.exclude.is_empty() {
        Some(ToolFilter::AllBut(args.exclude.clone()))
    } else {
        None
    }
}

fn write_filter(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
    filter: &ToolFilter,
) -> Result<(), Failure> {
    configure::write_filter(context, entry, filter)?;
    context
        .output
        .note(format!("Saved the tools of `{}`.", entry.name));
    show_changed(context, settings, entry)
}

/// Shows a server after its filter was written. Failing to reach it is not an error any more.
pub(crate) fn show_changed(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
) -> Result<(), Failure> {
    let changed = hermes_config::Settings::load(&context.home)?;
    let entry = probe::find_entry(&changed, entry.name.as_str())?;
    let known = entry.server.as_ref().ok();
    let known = known.and_then(|server| offer::cached_offer(context, settings, server));
    let offer = match known {
        Some(offer) => Ok(offer),
        None => server_offer(context, &changed, entry, RequestRoute::Running),
    };
    match offer {
        Ok(offer) => {
            let names = offer.catalog.tools.iter().map(|tool| &tool.name);
            for pattern in ToolFilter::new(&offer.server.tools).unmatched_patterns(names) {
                context
                    .output
                    .warning(format!("`{pattern}` matches none of its tools"));
            }
            print_tools(context, &changed, &[offer]);
        }
        Err(failure) => {
            context.output.warning(failure.message);
            context.output.json(json!({"tools": []}));
        }
    }
    Ok(())
}

/// What one server offers. One that is not to be started now is known from last time.
pub(crate) fn server_offer(
    context: &Context,
    settings: &Settings,
    entry: &ServerEntry,
    by: RequestRoute,
) -> Result<ServerOffer, Failure> {
    let server = entry.server.as_ref().map_err(|problem| {
        Failure::usage(format!("server `{}` cannot be used: {problem}", entry.name))
            .about(entry.name.clone())
    })?;
    if (!server.enabled || server.lazy || context.is_safe_mode())
        && let Some(offer) = offer::cached_offer(context, settings, server)
    {
        let why = match (server.enabled, server.lazy) {
            (false, _) => "it is disabled",
            (true, true) => "it is lazy",
            (true, false) => "safe mode",
        };
        context.output.note(format!(
            "`{}` was not connected ({why}); these are its tools from last time.",
            entry.name
        ));
        return Ok(offer);
    }
    if !server.enabled || context.is_safe_mode() {
        return Err(Failure::failed(format!(
            "the tools of `{}` are unknown: it is not connected now and was never connected",
            entry.name
        ))
        .about(entry.name.clone())
        .hint(format!("enable it with `hermes mcp enable {}`", entry.name)));
    }
    let offers = context.block_on(offer::ask_by(context, settings, &[&entry.name], by))?;
    match offers.into_iter().next() {
        Some(offer) => offer.map_err(Failure::from),
        None => Err(Failure::failed("the server did not answer")),
    }
}

fn list_all(context: &Context, settings: &Settings, by: RequestRoute) -> Result<(), Failure> {
    if settings.servers.is_empty() {
        context.output.note(probe::NOTHING_CONFIGURED);
    }
    let (offers, failures) = gather_offers(context, settings, by)?;
    let tools = offer::pinned_tools(context, settings, &offers);
    print_table(context, &tools);
    let tools: Vec<Value> = tools.iter().map(OfferedTool::with_schema).collect();
    if failures.is_empty() {
        context.output.json(json!({"tools": tools}));
        return Ok(());
    }
    for (_, failure) in &failures {
        context.output.warning(&failure.message);
    }
    let names: Vec<&str> = failures.iter().map(|(name, _)| name.as_str()).collect();
    let message = format!("cannot list the tools of {}", names.join(", "));
    Err(Failure::failed(message).finding("tools", json!(tools)))
}

type ServerFailures = Vec<(ServerName, Failure)>;

/// The offers of all servers, in order; those that are to be asked are so at once.
fn gather_offers(
    context: &Context,
    settings: &Settings,
    by: RequestRoute,
) -> Result<(Vec<ServerOffer>, ServerFailures), Failure> {
    let is_queried = |entry: &ServerEntry| {
        let server = entry.server.as_ref();
        server.is_ok_and(|server| server.enabled && !server.lazy && !context.is_safe_mode())
    };
    let (queried, others): (Vec<&ServerEntry>, Vec<&ServerEntry>) =
        settings.servers.iter().partition(|entry| is_queried(entry));
    let names: Vec<&ServerName> = queried.iter().map(|entry| &entry.name).collect();
    let answers = context.block_on(offer::ask_by(context, settings, &names, by))?;
    let mut outcomes: Vec<(&ServerName, Result<ServerOffer, Failure>)> =
        std::iter::zip(names, answers)
            .map(|(name, answer)| (name, answer.map_err(Failure::from)))
            .collect();
    for entry in others {
        let is_disabled = entry.server.as_ref().is_ok_and(|server| !server.enabled);
        match server_offer(context, settings, entry, by) {
            Err(failure) if failure.kind == FailureKind::Interrupted => return Err(failure),
            // Nobody expects the tools of a disabled server.
            Err(failure) if is_disabled => context.output.note(&failure.message),
            outcome => outcomes.push((&entry.name, outcome)),
        }
    }
    let position = |name: &ServerName| settings.servers.iter().position(|e| e.name == *name);
    outcomes.sort_by_key(|(name, _)| position(name));
    let mut offers = Vec::new();
    let mut failures = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Ok(offer) => offers.push(offer),
            Err(failure) => failures.push((name.clone(), failure)),
        }
    }
    Ok((offers, failures))
}

/// The tools as a table, or as `tools` in `--json` output.
pub(crate) fn print_tools(context: &Context, settings: &Settings, offers: &[ServerOffer]) {
    let tools = offer::pinned_tools(context, settings, offers);
    print_table(context, &tools);
    for offer in offers {
        for warning in &offer.warnings {
            context.output.warning(warning);
        }
        if let OfferSource::Live(_) = offer.source {
            let of_it = tools.iter().filter(|t| *t.server == offer.server.name);
            let included = of_it.clone().filter(|tool| tool.is_included()).count();
            let own = of_it.count();
            let counted = offer::describe_tool_count(included, offer.count_utilities(settings));
            context.output.note(if included == own {
                format!("{counted} offered")
            } else {
                format!("{counted} offered; {} left out", own - included)
            });
        }
    }
    let tools: Vec<Value> = tools.iter().map(OfferedTool::with_schema).collect();
    context.output.json(json!({"tools": tools}));
}

fn print_table(context: &Context, tools: &[OfferedTool<'_>]) {
    if tools.is_empty() {
        return;
    }
    let mut table = Table::new(&["SERVER", "TOOL", "REGISTERED AS", "DESCRIPTION"]);
    for tool in tools {
        let (name, tone) = match tool.registered_name() {
            Some(name) => (name, Tone::Plain),
            None if tool.is_changed() => ("(withheld: it has changed)", Tone::Warning),
            None => ("(filtered out)", Tone::Faint),
        };
        table.row([
            (tool.server.to_string(), Tone::Plain),
            (tool.tool.name.to_string(), Tone::Strong),
            (name.to_owned(), tone),
            (tool.description().to_owned(), Tone::Faint),
        ]);
    }
    context.output.table(&table);
}
