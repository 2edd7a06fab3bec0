//! `hermes mcp doctor`: looks for trouble and says what to do about it. Each subject has a module of its own.

use hermes_config::{ServerName, Settings};
use serde::Serialize;
use serde_json::json;

use crate::{
    cli::DoctorArgs,
    commands::{mcp::inspect::cached_servers::CachedServers, state::pluralize},
    context::Context,
    failure::{Failure, FailureKind},
    output::{Output, Tone},
};

mod configuration;
mod processes;
mod safety;
mod sandboxes;
mod sessions;
mod tools;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    id: &'static str,
    server: Option<ServerName>,
    level: CheckLevel,
    message: String,
    fix: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckLevel {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn new(id: &'static str, level: CheckLevel, message: impl Into<String>) -> Self {
        Self {
            id,
            server: None,
            level,
            message: message.into(),
            fix: None,
        }
    }

    fn ok(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(id, CheckLevel::Ok, message)
    }

    fn warn(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(id, CheckLevel::Warn, message)
    }

    fn fail(id: &'static str, message: impl Into<String>) -> Self {
        Self::new(id, CheckLevel::Fail, message)
    }

    /// Takes the advice out of a message of the form "what is wrong; what to do".
    fn split_advice(mut self) -> Self {
        if self.fix.is_none()
            && let Some((message, advice)) = self.message.split_once("; ")
        {
            self.fix = Some(advice.to_owned());
            self.message = message.to_owned();
        }
        self
    }

    fn about(mut self, server: &ServerName) -> Self {
        self.server = Some(server.clone());
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<(), Failure> {
    print_checks(context.output, &run_checks(context, args.probe)?)
}

/// The worst of what was found.
#[derive(Debug, Default)]
pub(in crate::commands) struct DoctorSummary {
    pub(in crate::commands) first_failure: Option<String>,
    pub(in crate::commands) first_warning: Option<String>,
}

/// What is wrong with the servers, in short.
pub(in crate::commands) fn summarize_checks(
    context: &Context,
    probe: bool,
) -> Result<DoctorSummary, Failure> {
    let checks = run_checks(context, probe)?;
    let first = |level| {
        let mut matching = checks
            .iter()
            .filter(|check| check.level == level && check.server.is_some());
        let first = matching.next()?;
        let server = first.server.as_ref()?;
        let others = match matching.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        Some(format!("`{server}`: {}{others}", first.message))
    };
    Ok(DoctorSummary {
        first_failure: first(CheckLevel::Fail),
        first_warning: first(CheckLevel::Warn),
    })
}

fn run_checks(context: &Context, probe: bool) -> Result<Vec<Check>, Failure> {
    let mut checks = Vec::new();
    // What was written before anybody asks for it: a question clears dead sockets away.
    checks.extend(processes::check(&context.home));
    checks.extend(configuration::check_permissions(&context.home));
    match Settings::load(&context.home) {
        Err(error) => checks.push(configuration::unreadable(&error)),
        Ok(settings) => {
            checks.extend(configuration::check(&context.home, &settings));
            checks.extend(safety::check_entries(&settings));
            checks.extend(processes::check_programs(&context.home, &settings));
            checks.extend(sandboxes::check(&context.home, &settings));
            checks.extend(sessions::check(&context.home, &settings));
            let remembered = CachedServers::new(&context.home, &settings);
            checks.extend(tools::check(&remembered));
            checks.extend(safety::check_tools(&context.home, &remembered));
            if probe {
                checks.extend(sessions::probe(context, &settings)?);
            }
        }
    }
    Ok(checks)
}

fn print_checks(output: Output, checks: &[Check]) -> Result<(), Failure> {
    let number = |level| checks.iter().filter(|check| check.level == level).count();
    let (warned, failed) = (number(CheckLevel::Warn), number(CheckLevel::Fail));
    for check in checks {
        let (word, tone) = match check.level {
            CheckLevel::Ok => ("ok  ", Tone::Good),
            CheckLevel::Warn => ("warn", Tone::Warning),
            CheckLevel::Fail => ("fail", Tone::Bad),
        };
        let server = check
            .server
            .as_ref()
            .map(|server| format!("{server}: "))
            .unwrap_or_default();
        output.line(format!(
            "{} {:<10} {server}{}",
            output.tint(tone, word),
            check.id,
            check.message.replace('\n', "\n                ")
        ));
        if let Some(fix) = &check.fix {
            output.line(format!("                {}", output.tint(Tone::Faint, fix)));
        }
    }
    let summary = format!(
        "{}: {} ok, {}, {failed} failed",
        pluralize(checks.len(), "check"),
        checks.len() - warned - failed,
        pluralize(warned, "warning")
    );
    output.line(format!("\n{summary}"));
    if failed == 0 {
        output.json(json!({"checks": checks}));
        return Ok(());
    }
    output.json_failure(&summary, json!({"checks": checks}));
    Err(Failure::new(FailureKind::AlreadyPrinted, summary))
}
