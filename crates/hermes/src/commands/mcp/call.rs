//! `hermes mcp call`: one call of one tool.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hermes_config::{PinTools, Redactor, Server, ServerName, Settings};
use hermes_mcp::{
    CallError, CallOptions, Host, Outcome,
    catalog::Catalog,
    inquiry::{Conversation, NobodyToAsk},
    pins::Pins,
    session::Progress,
};
use serde_json::{Map, Value, json};

use super::{
    offer,
    probe::{self, Need},
};
use crate::{
    answers::Answers,
    cli::CallArgs,
    context::Context,
    failure::{Failure, Kind},
    question::{Questions, TerminalPerson},
};

pub(super) fn run(context: &Context, args: &CallArgs) -> Result<(), Failure> {
    let settings = context.settings()?;
    let (server, tool, text) = target(&settings, args)?;
    let arguments = arguments(args, text)?;
    context.block_on(call(context, &settings, args, &server, &tool, arguments))
}

async fn call(
    context: &Context,
    settings: &Settings,
    args: &CallArgs,
    server: &ServerName,
    tool: &str,
    arguments: Map<String, Value>,
) -> Result<(), Failure> {
    let is_asking = Arc::new(AtomicBool::new(false));
    let answers = Questions::new(false)
        .can_ask()
        .then(|| answers(context, settings, is_asking.clone()));
    let inquiries = match &answers {
        Some(answers) => answers.inquiries(),
        None => Arc::new(NobodyToAsk),
    };
    let _present = answers
        .as_ref()
        .and_then(|answers| answers.present(CONVERSATION));
    let entry = probe::entry(settings, server.as_str())?;
    let pinned = entry.server.as_ref().ok();
    let pinned = pinned.filter(|server| server.pin_tools == PinTools::Warn);
    let unpinned = pinned.map(|_| offer::without_pins(settings));
    let settings = unpinned.as_ref().unwrap_or(settings);
    let host = probe::host_answering(context, settings, &[server], inquiries).await?;
    let call = Call {
        args,
        server,
        tool,
        pinned,
        is_asking,
    };
    let outcome = call_on(context, &host, call, arguments).await;
    host.shutdown().await;
    outcome
}

/// A call about to be made.
struct Call<'a> {
    args: &'a CallArgs,
    server: &'a ServerName,
    tool: &'a str,
    /// The server, if its tools are to be warned of when they change. A host would write that to its log.
    pinned: Option<&'a Server>,
    /// Whether the server has a question on the screen.
    is_asking: Arc<AtomicBool>,
}

/// The conversation that a call by hand belongs to.
const CONVERSATION: &str = "call";

/// Somebody is at the terminal, so the server may ask.
fn answers(context: &Context, settings: &Settings, is_asking: Arc<AtomicBool>) -> Answers {
    let output = context.output;
    let person = TerminalPerson::new(Box::new(move || {
        output.end_progress();
        is_asking.store(true, Ordering::Relaxed);
        Box::new(Asked(is_asking.clone()))
    }));
    Answers::with_person(context, settings, Arc::new(person))
}

/// A question on the screen.
struct Asked(Arc<AtomicBool>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

async fn call_on(
    context: &Context,
    host: &Host,
    call: Call<'_>,
    arguments: Map<String, Value>,
) -> Result<(), Failure> {
    let Call {
        args,
        server,
        tool,
        pinned,
        is_asking,
    } = call;
    let answered = probe::answer(context, host, server, Need::Tools).await?;
    if let Some(server) = pinned {
        tell_changes(context, server, &answered.catalog);
    }
    let registry = host.registry();
    let registered = registry
        .find_original(server, tool)
        .or_else(|| registry.find(tool))
        .ok_or_else(|| {
            let mut servers = host.status().into_iter();
            let status = servers.find(|status| status.name == server.as_str());
            if status.is_some_and(|status| status.withheld_tools.iter().any(|name| name == tool)) {
                return withheld(server, tool);
            }
            let names: Vec<&str> = registry
                .tools()
                .filter(|tool| tool.server == *server)
                .map(|tool| tool.original())
                .collect();
            Failure::new(
                Kind::NotFound,
                format!("server `{server}` offers no tool `{tool}`"),
            )
            .about(server.clone())
            .hint(format!("it offers: {}", names.join(", ")))
        })?;
    let output = context.output;
    let options = CallOptions {
        timeout: args
            .timeout
            .map(|seconds| seconds_of(seconds, "--timeout"))
            .transpose()?,
        conversation: Some(Conversation(CONVERSATION.into())),
        on_progress: Some(Arc::new(move |progress: &Progress| {
            if !is_asking.load(Ordering::Relaxed) {
                output.progress(&describe(progress));
            }
        })),
        ..CallOptions::default()
    };
    if args.raw {
        let result = host.call_raw(registered, arguments, &options).await;
        output.end_progress();
        let result = result.map_err(|error| failure(server, &error))?;
        let text = serde_json::to_string_pretty(&result)
            .map_err(|error| Failure::failed(error.to_string()))?;
        output.raw(&format!("{text}\n"));
        return if result.is_error == Some(true) {
            Err(told())
        } else {
            Ok(())
        };
    }
    let outcome = host.call_tool(registered, arguments, &options).await;
    output.end_progress();
    print(context, server, &outcome)
}

/// Tells of tools that are not what they were, and pins them anew.
fn tell_changes(context: &Context, server: &Server, catalog: &Catalog) {
    let pinned = offer::compare(context, server, catalog).and_then(|comparison| {
        for tool in &comparison.changed {
            let difference = tool.difference.to_string();
            let difference = Redactor::default().redact(&difference).into_owned();
            context.output.warning(format!(
                "`{}` has changed since it was last used:\n{difference}",
                tool.name
            ));
        }
        if !comparison.changed.is_empty() || !comparison.new.is_empty() {
            Pins::of(&context.home).accept(&server.name, &catalog.tools)?;
        }
        Ok(())
    });
    if let Err(failure) = pinned {
        context.output.warning(failure.message);
    }
}

fn print(context: &Context, server: &ServerName, outcome: &Outcome) -> Result<(), Failure> {
    let members: Value = serde_json::from_str(&outcome.to_json()).unwrap_or_default();
    if members.get("needs_reauth").is_some() {
        let message = members["error"].as_str().unwrap_or_default();
        return Err(Failure::new(Kind::NeedsLogin, message).about(server.clone()));
    }
    if outcome.is_error() {
        if context.output.is_json() {
            let mut object = json!({"ok": false});
            if let (Some(object), Value::Object(members)) = (object.as_object_mut(), members) {
                object.extend(members);
            }
            context.output.raw(&format!("{object}\n"));
            return Err(told());
        }
        return Err(Failure::failed(outcome.text().into_owned()).about(server.clone()));
    }
    if context.output.is_json() {
        context.output.json(members);
        return Ok(());
    }
    let text = outcome.text();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    context.output.raw(&format!("{text}{end}"));
    Ok(())
}

/// A failure that has been printed in full already.
fn told() -> Failure {
    Failure::new(Kind::Told, "")
}

fn failure(server: &ServerName, error: &CallError) -> Failure {
    let kind = match error {
        CallError::NeedsAuth { .. } => Kind::NeedsLogin,
        CallError::Interrupted => Kind::Interrupted,
        _ => Kind::Failed,
    };
    let text = Redactor::default().redact(&error.to_string()).into_owned();
    Failure::new(kind, text).about(server.clone())
}

/// Server, tool and perhaps the arguments from the words given.
fn target(
    settings: &Settings,
    args: &CallArgs,
) -> Result<(ServerName, String, Option<String>), Failure> {
    let mut rest = args.rest.iter();
    if settings.server(&args.target).is_some() && !args.rest.is_empty() {
        let tool = rest.next().cloned().unwrap_or_default();
        return Ok((ServerName::new(&args.target), tool, rest.next().cloned()));
    }
    // Server names may hold dots: the longest configured name that fits counts.
    let fitting = settings.servers.iter().filter(|entry| {
        args.target
            .strip_prefix(entry.name.as_str())
            .is_some_and(|rest| rest.starts_with('.') && rest.len() > 1)
    });
    let Some(entry) = fitting.max_by_key(|entry| entry.name.as_str().len()) else {
        let server = args.target.split('.').next().unwrap_or(&args.target);
        if settings.server(server).is_some() {
            return Err(Failure::usage(format!("which tool of `{server}`?"))
                .hint(format!("`hermes mcp tools {server}` lists them")));
        }
        return Err(Failure::no_such_server(
            server,
            settings.servers.iter().map(|entry| entry.name.to_string()),
        ));
    };
    if args.rest.len() > 1 {
        return Err(Failure::usage(
            "too many words after SERVER.TOOL: only the arguments as JSON may follow",
        ));
    }
    let tool = args.target[entry.name.as_str().len() + 1..].to_owned();
    Ok((entry.name.clone(), tool, rest.next().cloned()))
}

fn arguments(args: &CallArgs, text: Option<String>) -> Result<Map<String, Value>, Failure> {
    let text = match (&args.args_json, text) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "give the arguments once: as JSON or with `--args-json`",
            ));
        }
        (Some(source), None) => Some(read(source)?),
        (None, text) => text,
    };
    let mut arguments = match text {
        None => Map::new(),
        Some(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => map,
            Ok(_) => {
                return Err(Failure::usage(
                    "the arguments must be a JSON object, like '{\"path\": \"/tmp\"}'",
                ));
            }
            Err(error) => {
                return Err(
                    Failure::usage(format!("the arguments are no JSON: {error}"))
                        .hint("single arguments are easier with `--arg name=value`"),
                );
            }
        },
    };
    for pair in &args.arg {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`--arg {pair}`: it must have the form name=value"))
        })?;
        // The tool's own schema turns text into numbers and lists where it wants them.
        arguments.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    Ok(arguments)
}

fn read(source: &str) -> Result<String, Failure> {
    if source == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    match source.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("the file `{path}` can not be read: {error}"))),
        None => Ok(source.to_owned()),
    }
}

fn seconds_of(seconds: f64, flag: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| Failure::usage(format!("`{flag}` takes a number of seconds above 0")))
}

fn describe(progress: &Progress) -> String {
    let count = match progress.total {
        Some(total) => format!("{}/{total}", progress.progress),
        None => format!("{}", progress.progress),
    };
    match &progress.message {
        Some(message) => format!("{count} {message}"),
        None => count,
    }
}
/// Under `pin_tools: block`.
fn withheld(server: &ServerName, tool: &str) -> Failure {
    let message = format!("`{tool}` is withheld, as it is not what was accepted");
    Failure::failed(message).about(server.clone()).hint(format!(
        "`hermes mcp tools {server} --diff` shows the difference, `--approve {tool}` accepts it"
    ))
}
