//! `hermes mcp resources` and `hermes mcp prompts`: what servers offer beside tools, and one of it.

use hermes_config::{ServerName, Settings};
use hermes_mcp::{HostRequest, RequestOutcome};
use serde_json::{Map, Value, json};

use super::{call, call::RequestRoute, probe};
use crate::{
    cli::{PromptsArgs, ResourcesArgs},
    commands::mcp::requests::running_process::RoutedRequest,
    context::Context,
    failure::{Failure, FailureKind},
    output::{Table, Tone},
};

pub(crate) fn resources(context: &Context, args: &ResourcesArgs) -> Result<(), Failure> {
    let settings = settings_for(context, args.name.as_deref())?;
    let by = RequestRoute::new(args.fresh);
    let (Some(name), Some(uri)) = (&args.name, &args.uri) else {
        let lists = request_lists(
            context,
            &settings,
            args.name.as_deref(),
            HostRequest::ListResources,
            by,
        )?;
        return show_resources(context, lists);
    };
    let server = &probe::find_entry(&settings, name)?.name;
    let request = HostRequest::ReadResource { uri: uri.clone() };
    let members = request_item(context, &settings, server, uri, request, by)?;
    for content in members["contents"].as_array().into_iter().flatten() {
        match content["text"].as_str() {
            Some(text) if !context.output.is_json() => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                context.output.raw(&format!("{text}{end}"));
            }
            Some(_) => {}
            None => {
                let kind = content["mimeType"].as_str().unwrap_or("unknown type");
                let size = content["blob"].as_str().unwrap_or_default().len() / 4 * 3;
                context.output.note(format!(
                    "`{uri}` is not text ({kind}, about {size} bytes); `--json` has it in base64"
                ));
            }
        }
    }
    context.output.json(members);
    Ok(())
}

pub(crate) fn prompts(context: &Context, args: &PromptsArgs) -> Result<(), Failure> {
    let settings = settings_for(context, args.name.as_deref())?;
    let by = RequestRoute::new(args.fresh);
    let (Some(name), Some(prompt)) = (&args.name, &args.prompt) else {
        let lists = request_lists(
            context,
            &settings,
            args.name.as_deref(),
            HostRequest::ListPrompts,
            by,
        )?;
        return show_prompts(context, lists);
    };
    let server = &probe::find_entry(&settings, name)?.name;
    let mut arguments = Map::new();
    call::insert_pairs(&mut arguments, args.arguments.iter().map(String::as_str))?;
    let request = HostRequest::GetPrompt {
        prompt: prompt.clone(),
        arguments,
    };
    let members = request_item(context, &settings, server, prompt, request, by)?;
    for message in members["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        let block = &message["content"];
        let text = block["text"].as_str();
        let text = text.or_else(|| block["resource"]["text"].as_str());
        let kind = block["type"].as_str().unwrap_or("content");
        let text = text.map_or_else(|| format!("[{kind}; `--json` has it]"), str::to_owned);
        let word = context.output.tint(Tone::Faint, &format!("{role}:"));
        context.output.line(format!("{word} {text}"));
    }
    context.output.json(members);
    Ok(())
}

/// The settings; with the built-in server, if one is named.
fn settings_for(context: &Context, name: Option<&str>) -> Result<Settings, Failure> {
    let mut settings = context.settings()?;
    if name.is_some() {
        context.add_built_in(&mut settings);
    }
    Ok(settings)
}

fn request_item(
    context: &Context,
    settings: &Settings,
    server: &ServerName,
    name: &str,
    request: HostRequest,
    by: RequestRoute,
) -> Result<Value, Failure> {
    let wanted = RoutedRequest {
        server,
        request,
        timeout: None,
    };
    match context.block_on(call::send_request(context, settings, wanted, by))? {
        RequestOutcome::Answered { members, .. } => Ok(members),
        RequestOutcome::UnknownName { offers, .. } => {
            let message = format!("server `{server}` has no prompt `{name}`");
            Err(Failure::new(FailureKind::NotFound, message)
                .about(server.clone())
                .suggest_name(name, "it has", &offers))
        }
        report => Err(call::printed_failure(context, server, name, report)),
    }
}

/// What servers list, each with its name.
type ServerLists = Vec<(ServerName, Result<Value, Failure>)>;

/// The lists of one server, or of all that are enabled.
fn request_lists(
    context: &Context,
    settings: &Settings,
    name: Option<&str>,
    request: HostRequest,
    by: RequestRoute,
) -> Result<ServerLists, Failure> {
    if let Some(name) = name {
        let server = probe::find_entry(settings, name)?.name.clone();
        let members = request_item(context, settings, &server, name, request, by)?;
        return Ok(vec![(server, Ok(members))]);
    }
    let enabled = settings
        .servers
        .iter()
        .filter(|entry| entry.server.as_ref().is_ok_and(|server| server.enabled));
    let names: Vec<ServerName> = enabled.map(|entry| entry.name.clone()).collect();
    if names.is_empty() {
        context.output.note(probe::NOTHING_CONFIGURED);
    }
    context.block_on(async {
        let requests = names.iter().map(async |server| {
            let wanted = RoutedRequest {
                server,
                request: request.clone(),
                timeout: None,
            };
            let outcome = call::send_request(context, settings, wanted, by).await;
            outcome.and_then(|report| match report {
                RequestOutcome::Answered { members, .. } => Ok(members),
                report => Err(Failure::failed(report.text()).about(server.clone())),
            })
        });
        let lists = futures::future::join_all(requests).await;
        Ok(std::iter::zip(names.clone(), lists).collect())
    })
}

fn show_resources(context: &Context, lists: ServerLists) -> Result<(), Failure> {
    let mut table = Table::new(&["SERVER", "URI", "NAME", "TYPE", "DESCRIPTION"]);
    print_lists(
        context,
        lists,
        &["resources", "resourceTemplates"],
        &mut table,
        |server, item| {
            let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            let uri = item["uri"]
                .as_str()
                .or_else(|| item["uriTemplate"].as_str());
            [
                (server.to_string(), Tone::Plain),
                (uri.unwrap_or_default().to_owned(), Tone::Strong),
                (text("name"), Tone::Plain),
                (text("mimeType"), Tone::Plain),
                (text("description"), Tone::Faint),
            ]
            .into()
        },
    )
}

fn show_prompts(context: &Context, lists: ServerLists) -> Result<(), Failure> {
    let mut table = Table::new(&["SERVER", "PROMPT", "ARGUMENTS", "DESCRIPTION"]);
    print_lists(context, lists, &["prompts"], &mut table, |server, item| {
        let arguments = item["arguments"].as_array().into_iter().flatten();
        let arguments: Vec<String> = arguments
            .map(|argument| {
                let name = argument["name"].as_str().unwrap_or_default();
                match argument["required"].as_bool() {
                    Some(true) => name.to_owned(),
                    _ => format!("[{name}]"),
                }
            })
            .collect();
        [
            (server.to_string(), Tone::Plain),
            (
                item["name"].as_str().unwrap_or_default().to_owned(),
                Tone::Strong,
            ),
            (arguments.join(" "), Tone::Plain),
            (
                item["description"].as_str().unwrap_or_default().to_owned(),
                Tone::Faint,
            ),
        ]
        .into()
    })
}

/// Shows lists of all servers together; in `--json` output each item says whose it is.
fn print_lists(
    context: &Context,
    lists: ServerLists,
    keys: &[&str],
    table: &mut Table,
    row: impl Fn(&ServerName, &Value) -> Vec<(String, Tone)>,
) -> Result<(), Failure> {
    let mut all: Vec<Vec<Value>> = keys.iter().map(|_| Vec::new()).collect();
    let mut failed = Vec::new();
    for (server, list) in lists {
        let members = match list {
            Ok(members) => members,
            Err(failure) if failure.kind == FailureKind::Interrupted => return Err(failure),
            Err(failure) => {
                context.output.warning(&failure.message);
                failed.push(server.to_string());
                continue;
            }
        };
        for (items, key) in std::iter::zip(&mut all, keys) {
            for item in members[*key].as_array().into_iter().flatten() {
                table.cells(row(&server, item));
                let mut item = item.clone();
                item["server"] = json!(server);
                items.push(item);
            }
        }
    }
    if all.iter().all(Vec::is_empty) && failed.is_empty() {
        context.output.note("There are none.");
    } else if all.iter().any(|items| !items.is_empty()) {
        context.output.table(table);
    }
    let members: Map<String, Value> = std::iter::zip(keys, all)
        .map(|(key, items)| ((*key).to_owned(), items.into()))
        .collect();
    if failed.is_empty() {
        context.output.json(Value::Object(members));
        return Ok(());
    }
    let mut failure = Failure::failed(format!("cannot list anything from {}", failed.join(", ")));
    failure.findings = ["resources", "resourceTemplates", "prompts"]
        .into_iter()
        .filter_map(|key| members.get(key).map(|items| (key, items.clone())))
        .collect();
    Err(failure)
}
