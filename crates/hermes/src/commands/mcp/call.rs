//! `hermes mcp call`: one call of one tool, by a running process of this home if one has the server.

use std::{sync::Arc, time::Duration};

use hermes_config::{PinTools, Redactor, Server, ServerName, Settings};
use hermes_mcp::{
    CallOptions, Host, RequestReport, ServerRequest,
    catalog::Catalog,
    inquiry::{Conversation, NobodyToAsk},
    pins::Pins,
};
use serde_json::{Value, json};

use super::{
    offer,
    probe::{self, Need},
    running::{self, CONVERSATION, CallScreen, Wanted},
    signature,
};
use crate::{
    cli::CallArgs,
    context::Context,
    failure::{Failure, Kind},
};

mod words;

pub(super) use words::split;
pub(in crate::commands) use words::{insert_pairs, named};

pub(super) fn run(context: &Context, args: &CallArgs) -> Result<(), Failure> {
    let mut settings = context.settings()?;
    context.add_built_in(&mut settings);
    let (target, rest) = words::target(&settings, args)?;
    let arguments = words::arguments(args, rest)?;
    let timeout = args.timeout.map(|seconds| seconds_of(seconds, "--timeout"));
    let timeout = timeout.transpose()?;
    let request = ServerRequest::CallTool {
        tool: target.tool.clone(),
        arguments,
        is_raw: args.raw,
    };
    let by = By::new(args.fresh);
    let mut servers = target.servers.iter().peekable();
    while let Some(server) = servers.next() {
        probe::warn_of_unset_variables(
            context,
            probe::entry(&settings, server.as_str())?,
            &settings,
        );
        let wanted = Wanted {
            server,
            request: request.clone(),
            timeout,
        };
        let report = match context.block_on(ask(context, &settings, wanted, by)) {
            Ok(report) => report,
            Err(failure) => return Err(without_connection(context, failure)),
        };
        // Two servers may have names that begin alike, and then only one of them has the tool.
        if matches!(report, RequestReport::UnknownName { .. }) && servers.peek().is_some() {
            continue;
        }
        return print(context, server, &target.tool, args.raw, report);
    }
    Ok(())
}

/// Who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// A process that has the server, and if there is none, this one.
    Running,
    /// This process, with a connection of its own.
    Own,
}

impl By {
    pub(super) fn new(is_fresh: bool) -> Self {
        if is_fresh { Self::Own } else { Self::Running }
    }
}

/// Has a request made.
pub(super) async fn ask(
    context: &Context,
    settings: &Settings,
    wanted: Wanted<'_>,
    by: By,
) -> Result<RequestReport, Failure> {
    if by == By::Running {
        let same = Wanted {
            request: wanted.request.clone(),
            ..wanted
        };
        if let Some(report) = running::request(context, settings, same).await? {
            return Ok(report);
        }
    }
    by_own_connection(context, settings, wanted).await
}

async fn by_own_connection(
    context: &Context,
    settings: &Settings,
    wanted: Wanted<'_>,
) -> Result<RequestReport, Failure> {
    let server = wanted.server;
    let screen = CallScreen::new(context.output);
    let answers = screen.answers(context, settings);
    let inquiries = match &answers {
        Some(answers) => answers.inquiries(),
        None => Arc::new(NobodyToAsk),
    };
    let _present = answers
        .as_ref()
        .and_then(|answers| answers.present(CONVERSATION));
    let entry = probe::entry(settings, server.as_str())?;
    // A host would write to its log that a tool has changed; here somebody is there to be told.
    let pinned = entry.server.as_ref().ok();
    let pinned = pinned.filter(|server| server.pin_tools == PinTools::Warn);
    let unpinned = pinned.map(|_| offer::without_pins(settings));
    let settings = unpinned.as_ref().unwrap_or(settings);
    let host = probe::host_answering(context, settings, &[server], inquiries).await?;
    let options = CallOptions {
        timeout: wanted.timeout,
        conversation: Some(Conversation(CONVERSATION.into())),
        on_progress: Some(screen.progress()),
        ..CallOptions::default()
    };
    let report = request_on(context, &host, pinned, wanted, &options).await;
    context.output.end_progress();
    host.shutdown().await;
    report
}

async fn request_on(
    context: &Context,
    host: &Host,
    pinned: Option<&Server>,
    wanted: Wanted<'_>,
    options: &CallOptions,
) -> Result<RequestReport, Failure> {
    let answered = probe::answer(context, host, wanted.server, Need::Tools).await?;
    if let Some(server) = pinned {
        tell_changes(context, server, &answered.catalog);
    }
    Ok(host.carry_out(wanted.server, wanted.request, options).await)
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

/// A server that could not be reached: programs get the members they get of a call that failed.
fn without_connection(context: &Context, failure: Failure) -> Failure {
    let is_about_server = failure.server.is_some()
        && matches!(failure.kind, Kind::Failed | Kind::NeedsLogin | Kind::Usage);
    if !context.output.is_json() || !is_about_server {
        return failure;
    }
    let mut members = json!({"error": Redactor::default().redact(&failure.message)});
    if failure.kind == Kind::NeedsLogin {
        members["needs_reauth"] = true.into();
        members["server"] = json!(failure.server);
    }
    print_failed(context, members);
    failure.told()
}

fn print(
    context: &Context,
    server: &ServerName,
    tool: &str,
    is_raw: bool,
    report: RequestReport,
) -> Result<(), Failure> {
    let output = context.output;
    if let RequestReport::Answered {
        members, is_error, ..
    } = &report
    {
        if is_raw {
            output.raw(&format!("{members:#}\n"));
            return if *is_error { Err(told()) } else { Ok(()) };
        }
        if *is_error && !output.is_json() {
            return Err(Failure::failed(report.text()).about(server.clone()));
        }
        if *is_error {
            print_failed(context, members.clone());
            return Err(told());
        }
        if output.is_json() {
            output.json(members.clone());
            return Ok(());
        }
        let text = report.text();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        output.raw(&format!("{text}{end}"));
        return Ok(());
    }
    Err(told_failure(context, server, tool, report))
}

/// What a request came to that has no answer, with what programs get of a call that failed printed already.
pub(super) fn told_failure(
    context: &Context,
    server: &ServerName,
    name: &str,
    report: RequestReport,
) -> Failure {
    let members = match &report {
        RequestReport::Failed { members, .. } if context.output.is_json() => Some(members.clone()),
        _ => None,
    };
    let failure = failure(context, server, name, report);
    match members {
        Some(members) => {
            print_failed(context, members);
            failure.told()
        }
        None => failure,
    }
}

/// What a request came to that has no answer.
pub(in crate::commands) fn failure(
    context: &Context,
    server: &ServerName,
    name: &str,
    report: RequestReport,
) -> Failure {
    let text = report.text().to_owned();
    let title = format!("{server}.{name}");
    match report {
        RequestReport::UnknownName {
            is_withheld: true, ..
        } => withheld(server, name),
        RequestReport::UnknownName { offers, .. } => {
            let message = format!("server `{server}` offers no tool `{name}`");
            Failure::new(Kind::NotFound, message)
                .about(server.clone())
                .near(name, "it offers", &offers)
        }
        RequestReport::WrongArguments { definition, .. } => {
            let shown = signature::render(context.output, &title, &definition);
            Failure::usage(format!("wrong arguments for `{title}`: {text}"))
                .about(server.clone())
                .finding("signature", definition)
                .hint(shown.trim_end())
        }
        RequestReport::Failed {
            members,
            definition,
        } => {
            let needs_login = members["needs_reauth"] == true;
            let kind = if needs_login {
                Kind::NeedsLogin
            } else {
                Kind::Failed
            };
            let mut failure = Failure::new(kind, text).about(server.clone());
            if let Some(definition) = definition {
                let shown = signature::render(context.output, &title, &definition);
                failure = failure.hint(shown.trim_end());
            }
            failure
        }
        RequestReport::Answered { .. } => Failure::failed(text).about(server.clone()),
    }
}

/// `ok` and the members of a call that failed.
fn print_failed(context: &Context, members: Value) {
    let mut object = json!({"ok": false});
    if let (Some(object), Value::Object(members)) = (object.as_object_mut(), members) {
        object.extend(members);
    }
    context.output.object(&object);
}

/// A failure that has been printed in full already.
fn told() -> Failure {
    Failure::new(Kind::Told, "")
}

pub(super) fn seconds_of(seconds: f64, flag: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| Failure::usage(format!("`{flag}` takes a number of seconds above 0")))
}

/// Under `pin_tools: block`.
fn withheld(server: &ServerName, tool: &str) -> Failure {
    let message = format!("`{tool}` is withheld, as it is not what was accepted");
    Failure::failed(message).about(server.clone()).hint(format!(
        "`hermes mcp tools {server} --diff` shows the difference, `--approve {tool}` accepts it"
    ))
}
