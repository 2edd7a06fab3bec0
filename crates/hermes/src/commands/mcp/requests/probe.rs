//! Connects to servers for the time of one command.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::{ServerEntry, ServerName, Settings};
use hermes_mcp::{
    Host, HostOptions, Link, LinkStatus, LoginAdvice, McpSession, ServerRequestHandler,
    tools::catalog::Catalog,
};

use crate::{
    catalog::built_in,
    commands::mcp::login,
    context::Context,
    failure::{Failure, FailureKind},
};

/// For commands that look at all servers.
pub(crate) const NOTHING_CONFIGURED: &str = "No MCP server is configured; add one with `hermes mcp add`, or name the \
                                             built-in one, `demo`.";
/// How long a probe takes where nothing else is said.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for a package runner to fetch its server.
const FETCH_TIMEOUT: Duration = Duration::from_mins(5);
/// After this time a silent package runner is assumed to be fetching.
const FETCH_NOTICE_DELAY: Duration = Duration::from_secs(3);
/// Waits shorter than this show no progress line.
const PROGRESS_DELAY: Duration = Duration::from_millis(300);

/// A host with the wanted servers only, and nobody whom they could ask. Package runners may take their time.
pub(crate) async fn start_host(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
) -> Result<Host, Failure> {
    start_selected(context, settings, names, |options| HostOptions {
        fetch_limit: Some(FETCH_TIMEOUT),
        ..options
    })
    .await
}

/// The same with limits that hold for package runners, too.
pub(crate) async fn start_host_within_timeouts(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
) -> Result<Host, Failure> {
    start_selected(context, settings, names, |options| options).await
}

/// The same with somebody who answers their questions.
pub(crate) async fn start_host_with_handler(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
    handler: Arc<dyn ServerRequestHandler>,
) -> Result<Host, Failure> {
    start_selected(context, settings, names, |options| HostOptions {
        request_handler: handler,
        ..options
    })
    .await
}

async fn start_selected(
    context: &Context,
    settings: &Settings,
    names: &[&ServerName],
    change: impl FnOnce(HostOptions) -> HostOptions,
) -> Result<Host, Failure> {
    let mut settings = settings.clone();
    settings
        .servers
        .retain(|entry| names.contains(&&entry.name));
    for name in names {
        for warning in login::token_files(context, &settings, name).restrict_permissions() {
            context.output.warning(warning);
        }
    }
    if built_in::is_alone(&settings) {
        // In a new home there is no place yet for what is remembered of it.
        context.home.create()?;
        let name = built_in::NAME;
        context
            .output
            .note(format!("`{name}` is built in and runs for this command."));
    }
    let options = change(HostOptions::new(
        context.home.clone(),
        context.guard_program()?,
    ));
    Ok(context.start_host(options, &settings).await)
}

/// A server that answered.
pub(crate) struct ProbeResult {
    pub(crate) session: Arc<McpSession>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) elapsed: Duration,
}

/// Why a server did not answer, and apart from that what to do about it.
#[derive(Debug)]
pub(crate) struct ProbeFailure {
    /// In a box, so that results stay small.
    pub(crate) failure: Box<Failure>,
    pub(crate) advice: Option<LoginAdvice>,
}

impl From<Failure> for ProbeFailure {
    fn from(failure: Failure) -> Self {
        Self {
            failure: Box::new(failure),
            advice: None,
        }
    }
}

impl From<ProbeFailure> for Failure {
    fn from(unanswered: ProbeFailure) -> Self {
        let ProbeFailure { failure, advice } = unanswered;
        match advice {
            Some(advice) => Self {
                message: format!("{}; {advice}", failure.message),
                ..*failure
            },
            None => *failure,
        }
    }
}

/// What a command needs of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListNeed {
    Tools,
    Everything,
}

/// Waits until a server is ready or has failed.
pub(crate) async fn wait_for_server(
    context: &Context,
    host: &Host,
    server: &ServerName,
    need: ListNeed,
) -> Result<ProbeResult, ProbeFailure> {
    let began = Instant::now();
    let Some(mut link) = host.link(server) else {
        let failure = Failure::usage(idle_reason(host, server));
        return Err(failure.about(server.clone()).into());
    };
    let done = |link: &Link| match link.status {
        LinkStatus::Ready => {
            need == ListNeed::Tools
                || link
                    .catalog
                    .as_ref()
                    .is_some_and(|catalog| catalog.is_complete)
        }
        _ => link.attempts_ended > 0,
    };
    // A lazy server is to be started for this. Every other one is being tried, and another attempt would only hide how
    // that ended.
    if link.borrow().status == LinkStatus::Lazy {
        host.wake(server);
    }
    let fetch = host.describe_fetch(server);
    let mut is_told = false;
    let settled = {
        let wait = link.wait_for(done);
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                settled = &mut wait => break settled.map(|link| link.clone()),
                () = tokio::time::sleep(PROGRESS_DELAY) => {
                    let elapsed = began.elapsed();
                    let seconds = elapsed.as_secs_f32();
                    match fetch.as_ref().filter(|_| elapsed > FETCH_NOTICE_DELAY) {
                        Some(fetch) => {
                            let waiting = format!("{server}: waiting for {fetch}");
                            if !is_told && !context.output.shows_progress() {
                                context.output.note(format!("{waiting} and start it …"));
                            }
                            is_told = true;
                            context.output.progress(&format!("{waiting} and start it … {seconds:.0} s"));
                        }
                        None => context.output.progress(&format!("connecting to {server} … {seconds:.1} s")),
                    }
                }
            }
        }
    };
    context.output.end_progress();
    let link =
        settled.map_err(|_| Failure::failed("the connection ended").about(server.clone()))?;
    if let (Some(session), Some(catalog)) = (link.session, link.catalog) {
        let elapsed = began.elapsed();
        return Ok(ProbeResult {
            session,
            catalog,
            elapsed,
        });
    }
    let (text, advice) = match link.error {
        Some(error) => (error.text, error.advice),
        None => ("it did not answer".to_owned(), None),
    };
    let kind = match link.status {
        LinkStatus::NeedsAuth => FailureKind::NeedsLogin,
        LinkStatus::Invalid => FailureKind::Usage,
        _ => FailureKind::Failed,
    };
    let failure = Failure::new(kind, format!("server `{server}` cannot be used: {text}"));
    Err(ProbeFailure {
        failure: Box::new(failure.about(server.clone())),
        advice,
    })
}

fn idle_reason(host: &Host, server: &ServerName) -> String {
    let status = host
        .status()
        .into_iter()
        .find(|status| status.name == server.as_str());
    match status {
        Some(status) if status.status == LinkStatus::Disabled => {
            format!("server `{server}` is disabled; enable it with `hermes mcp enable {server}`")
        }
        Some(status) => format!(
            "server `{server}` is invalid: {}",
            status.error.unwrap_or_default()
        ),
        None => format!("server `{server}` is not connected"),
    }
}

/// References of an entry that have no value and stay as written; what `status` tells of a server that runs.
pub(crate) fn unset_variables(
    context: &Context,
    entry: &ServerEntry,
    settings: &Settings,
) -> Vec<String> {
    let server = entry.server.as_ref().ok();
    let unset = server.map(|server| server.unset_variables(&context.home, &settings.variables));
    unset
        .into_iter()
        .flatten()
        .map(|warning| warning.to_string())
        .collect()
}

/// The same as messages.
pub(crate) fn warn_of_unset_variables(context: &Context, entry: &ServerEntry, settings: &Settings) {
    for warning in unset_variables(context, entry, settings) {
        let name = &entry.name;
        context
            .output
            .warning(format!("server `{name}`, {warning}"));
    }
}

/// Finds an entry, or says which there are.
pub(crate) fn find_entry<'a>(
    settings: &'a Settings,
    name: &str,
) -> Result<&'a ServerEntry, Failure> {
    let entry = settings.server(name);
    entry.ok_or_else(|| no_such_server(settings, name))
}

/// The server is not in the configuration, and if nothing is, it may still be the built-in one.
pub(crate) fn no_such_server(settings: &Settings, name: &str) -> Failure {
    if settings.servers.is_empty() && name == built_in::NAME {
        let message = format!("server `{name}` is built in and has no entry in the configuration");
        return Failure::new(FailureKind::NotFound, message)
            .about(ServerName::new(name))
            .hint("it runs only while no server is configured; add one with `hermes mcp add`");
    }
    if built_in::is_alone(settings) {
        let failure = Failure::no_such_server(name, []);
        return failure.suggest_nearest(name, std::iter::once(built_in::NAME.to_owned()));
    }
    let known = settings.servers.iter().map(|entry| entry.name.to_string());
    Failure::no_such_server(name, known)
}

/// The settings with another limit for connecting to one server.
pub(crate) fn with_connect_timeout(
    settings: &Settings,
    name: &ServerName,
    seconds: Option<f64>,
) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    let given = seconds
        .map(|seconds| {
            Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|limit| !limit.is_zero())
        })
        .map(|limit| {
            limit.ok_or_else(|| Failure::usage("`--timeout` takes a number of seconds above 0"))
        })
        .transpose()?;
    for entry in &mut settings.servers {
        if entry.name == *name
            && let Ok(server) = &mut entry.server
        {
            match given {
                Some(limit) => server.connect_timeout = limit,
                None if !server.connect_timeout_is_set => server.connect_timeout = DEFAULT_TIMEOUT,
                None => {}
            }
        }
    }
    Ok(settings)
}
