//! `hermes mcp call`: one call of one tool, by a running process of this home if one has the server.

mod parse;

use std::{sync::Arc, time::Duration};

use hermes_config::{PinTools, Redactor, Server, ServerName, Settings};
use hermes_mcp::{
    ApprovalCheck, CallOptions, Host, HostRequest, RequestOutcome,
    server_request::{ConversationId, NoHandler},
    tools::{catalog::Catalog, pins::Pins},
};
use serde_json::{Value, json};

use super::{offer, probe, probe::ListNeed, signature};
use crate::{
    cli::CallArgs,
    commands::mcp::requests::{
        running_process,
        running_process::{CONVERSATION, CallScreen, RoutedRequest},
    },
    context::Context,
    failure::{Failure, FailureKind},
};

pub(super) use crate::commands::mcp::requests::call::parse::split_server_and_tool;
pub(in crate::commands) use crate::commands::mcp::requests::call::parse::{
    insert_pairs, parse_tool_name,
};

pub(crate) fn run(context: &Context, args: &CallArgs) -> Result<(), Failure> {
    let mut settings = context.settings()?;
    context.add_built_in(&mut settings);
    let (target, rest) = parse::parse_target(&settings, args)?;
    let arguments = parse::parse_arguments(args, rest)?;
    let timeout = args
        .timeout
        .map(|seconds| parse_seconds(seconds, "--timeout"));
    let timeout = timeout.transpose()?;
    let request = HostRequest::CallTool {
        tool: target.tool.clone(),
        arguments,
        is_raw: args.raw,
        approval: ApprovalCheck::Passed,
    };
    let by = RequestRoute::new(args.fresh);
    let mut servers = target.servers.iter().peekable();
    while let Some(server) = servers.next() {
        probe::warn_of_unset_variables(
            context,
            probe::find_entry(&settings, server.as_str())?,
            &settings,
        );
        let wanted = RoutedRequest {
            server,
            request: request.clone(),
            timeout,
        };
        let report = match context.block_on(send_request(context, &settings, wanted, by)) {
            Ok(report) => report,
            Err(failure) => return Err(unreachable_failure(context, failure)),
        };
        // Two servers may have names that begin alike, and then only one of them has the tool.
        if matches!(report, RequestOutcome::UnknownName { .. }) && servers.peek().is_some() {
            continue;
        }
        return print_result(context, server, &target.tool, args.raw, report);
    }
    Ok(())
}

/// Who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestRoute {
    /// A process that has the server, and if there is none, this one.
    Running,
    /// This process, with a connection of its own.
    OwnConnection,
}

impl RequestRoute {
    pub(crate) fn new(is_fresh: bool) -> Self {
        if is_fresh {
            Self::OwnConnection
        } else {
            Self::Running
        }
    }
}

/// Has a request made.
pub(crate) async fn send_request(
    context: &Context,
    settings: &Settings,
    request: RoutedRequest<'_>,
    by: RequestRoute,
) -> Result<RequestOutcome, Failure> {
    if by == RequestRoute::Running {
        let same = RoutedRequest {
            request: request.request.clone(),
            ..request
        };
        if let Some(report) =
            running_process::request_running_process(context, settings, same).await?
        {
            return Ok(report);
        }
    }
    send_by_own_connection(context, settings, request).await
}

async fn send_by_own_connection(
    context: &Context,
    settings: &Settings,
    request: RoutedRequest<'_>,
) -> Result<RequestOutcome, Failure> {
    let server = request.server;
    let screen = CallScreen::new(context.output);
    let answers = screen.server_requests(context, settings);
    let handler = match &answers {
        Some(answers) => answers.handler(),
        None => Arc::new(NoHandler),
    };
    let _present = answers
        .as_ref()
        .and_then(|answers| answers.register_presence(CONVERSATION));
    let entry = probe::find_entry(settings, server.as_str())?;
    // A host would write to its log that a tool has changed; here somebody is there to be told.
    let pinned = entry.server.as_ref().ok();
    let pinned = pinned.filter(|server| server.pin_tools == PinTools::Warn);
    let unpinned = pinned.map(|_| offer::without_pins(settings));
    let settings = unpinned.as_ref().unwrap_or(settings);
    let host = probe::start_host_with_handler(context, settings, &[server], handler).await?;
    let options = CallOptions {
        timeout: request.timeout,
        conversation: Some(ConversationId(CONVERSATION.into())),
        on_progress: Some(screen.progress()),
        ..CallOptions::default()
    };
    let report = send_on_host(context, &host, pinned, request, &options).await;
    context.output.end_progress();
    host.shutdown().await;
    report
}

async fn send_on_host(
    context: &Context,
    host: &Host,
    pinned: Option<&Server>,
    request: RoutedRequest<'_>,
    options: &CallOptions,
) -> Result<RequestOutcome, Failure> {
    let answered = probe::wait_for_server(context, host, request.server, ListNeed::Tools).await?;
    if let Some(server) = pinned {
        report_changed_tools(context, server, &answered.catalog);
    }
    Ok(host
        .execute_request(request.server, request.request, options)
        .await)
}

/// Reports tools that have changed, and pins them again.
fn report_changed_tools(context: &Context, server: &Server, catalog: &Catalog) {
    let pinned = offer::compare_pins(context, server, catalog).and_then(|comparison| {
        for tool in &comparison.changed {
            let difference = tool.difference.to_string();
            let difference = Redactor::default().redact(&difference).into_owned();
            context.output.warning(format!(
                "`{}` has changed since it was last used:\n{difference}",
                tool.name
            ));
        }
        if !comparison.changed.is_empty() || !comparison.new.is_empty() {
            Pins::for_home(&context.home).accept(&server.name, &catalog.tools)?;
        }
        Ok(())
    });
    if let Err(failure) = pinned {
        context.output.warning(failure.message);
    }
}

/// A server that could not be reached: programs get the members they get of a call that failed.
fn unreachable_failure(context: &Context, failure: Failure) -> Failure {
    let is_about_server = failure.server.is_some()
        && matches!(
            failure.kind,
            FailureKind::Failed | FailureKind::NeedsLogin | FailureKind::Usage
        );
    if !context.output.is_json() || !is_about_server {
        return failure;
    }
    let mut members = json!({"error": Redactor::default().redact(&failure.message)});
    if failure.kind == FailureKind::NeedsLogin {
        members["needs_reauth"] = true.into();
        members["server"] = json!(failure.server);
    }
    print_failed(context, members);
    failure.mark_printed()
}

fn print_result(
    context: &Context,
    server: &ServerName,
    tool: &str,
    is_raw: bool,
    report: RequestOutcome,
) -> Result<(), Failure> {
    let output = context.output;
    if let RequestOutcome::Answered {
        members, is_error, ..
    } = &report
    {
        if is_raw {
            output.raw(&format!("{members:#}\n"));
            return if *is_error {
                Err(already_printed())
            } else {
                Ok(())
            };
        }
        if *is_error && !output.is_json() {
            return Err(Failure::failed(report.text()).about(server.clone()));
        }
        if *is_error {
            print_failed(context, members.clone());
            return Err(already_printed());
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
    Err(printed_failure(context, server, tool, report))
}

/// What a request came to that has no answer, with what programs get of a call that failed printed already.
pub(crate) fn printed_failure(
    context: &Context,
    server: &ServerName,
    name: &str,
    report: RequestOutcome,
) -> Failure {
    let members = match &report {
        RequestOutcome::Failed { members, .. } if context.output.is_json() => Some(members.clone()),
        _ => None,
    };
    let failure = request_failure(context, server, name, report);
    match members {
        Some(members) => {
            print_failed(context, members);
            failure.mark_printed()
        }
        None => failure,
    }
}

/// What a request came to that has no answer.
pub(in crate::commands) fn request_failure(
    context: &Context,
    server: &ServerName,
    name: &str,
    report: RequestOutcome,
) -> Failure {
    let text = report.text().to_owned();
    let title = format!("{server}.{name}");
    match report {
        RequestOutcome::UnknownName {
            is_withheld: true, ..
        } => withheld_failure(server, name),
        RequestOutcome::UnknownName { offers, .. } => {
            let message = format!("server `{server}` offers no tool `{name}`");
            Failure::new(FailureKind::NotFound, message)
                .about(server.clone())
                .suggest_name(name, "it offers", &offers)
        }
        RequestOutcome::WrongArguments { definition, .. } => {
            let shown = signature::render_signature(context.output, &title, &definition);
            Failure::usage(format!("wrong arguments for `{title}`: {text}"))
                .about(server.clone())
                .finding("signature", definition)
                .hint(shown.trim_end())
        }
        RequestOutcome::Failed {
            members,
            definition,
        } => {
            let needs_login = members["needs_reauth"] == true;
            let kind = if needs_login {
                FailureKind::NeedsLogin
            } else {
                FailureKind::Failed
            };
            let mut failure = Failure::new(kind, text).about(server.clone());
            if let Some(definition) = definition {
                let shown = signature::render_signature(context.output, &title, &definition);
                failure = failure.hint(shown.trim_end());
            }
            failure
        }
        RequestOutcome::NeedsApproval { .. } => {
            Failure::failed(format!("`{title}` needs approval")).about(server.clone())
        }
        RequestOutcome::Answered { .. } => Failure::failed(text).about(server.clone()),
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
fn already_printed() -> Failure {
    Failure::new(FailureKind::AlreadyPrinted, "")
}

pub(crate) fn parse_seconds(seconds: f64, flag: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| Failure::usage(format!("`{flag}` takes a number of seconds above 0")))
}

/// Under `pin_tools: block`.
fn withheld_failure(server: &ServerName, tool: &str) -> Failure {
    let message = format!("`{tool}` is withheld, because it has changed since it was accepted");
    Failure::failed(message).about(server.clone()).hint(format!(
        "`hermes mcp tools {server} --diff` shows the difference, `--approve {tool}` accepts it"
    ))
}
