//! `hermes doctor`: every part of a home, one line each, with what to do about it. `hermes status` tells the same without
//! judging. `hermes mcp doctor` looks closer at the servers.

mod checks;
mod platforms;

use std::borrow::Cow;

use hermes_config::{Settings, Variables};
use serde::Serialize;
use serde_json::json;

use crate::{
    cli::HomeDoctorArgs,
    commands::state::pluralize,
    context::Context,
    failure::{Failure, FailureKind},
    output::{Output, Tone, printable},
};

/// One part of a home, as it was found.
#[derive(Debug, Serialize)]
pub(super) struct HomeCheck {
    id: Cow<'static, str>,
    level: HomeCheckLevel,
    message: String,
    fix: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HomeCheckLevel {
    Ok,
    Warn,
    Fail,
}

impl HomeCheck {
    fn new(
        id: impl Into<Cow<'static, str>>,
        level: HomeCheckLevel,
        message: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            level,
            message: message.into(),
            fix: None,
        }
    }

    fn ok(id: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(id, HomeCheckLevel::Ok, message)
    }

    fn warn(id: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(id, HomeCheckLevel::Warn, message)
    }

    fn fail(id: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(id, HomeCheckLevel::Fail, message)
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// What is printed: one line, without what could steer a terminal.
    fn line(&self) -> String {
        let message = printable(&self.message);
        message.lines().next().unwrap_or_default().to_owned()
    }
}

/// Looks at every part.
fn run_checks(context: &Context, probe: bool) -> Result<Vec<HomeCheck>, Failure> {
    let (settings, config) = match Settings::load(&context.home) {
        Ok(settings) => {
            let part = crate::commands::doctor::checks::config(&context.home, &settings);
            (settings, part)
        }
        // The rest can be looked at without it.
        Err(error) => {
            let part = crate::commands::doctor::checks::unreadable(&error);
            let (variables, _) = Variables::load(&context.home, None);
            (Settings::parse("", variables)?, part)
        }
    };
    let is_readable = config.level != HomeCheckLevel::Fail;
    let mut parts = vec![
        config,
        crate::commands::doctor::checks::secrets(&context.home, &settings),
    ];
    if is_readable {
        parts.push(crate::commands::doctor::checks::model(context, &settings)?);
        parts.push(crate::commands::doctor::checks::servers(
            context, &settings, probe,
        )?);
        parts.push(crate::commands::doctor::checks::commands(&settings));
    }
    parts.extend(crate::commands::doctor::platforms::check_platforms(
        context, &settings, probe,
    )?);
    parts.push(crate::commands::doctor::checks::store(context)?);
    parts.push(crate::commands::doctor::checks::gateway(context, &settings));
    parts.push(crate::commands::doctor::checks::hub(context));
    Ok(parts)
}

pub(super) fn run(context: &Context, args: &HomeDoctorArgs) -> Result<(), Failure> {
    let parts = run_checks(context, args.probe)?;
    let output = context.output;
    for part in &parts {
        let (word, tone) = match part.level {
            HomeCheckLevel::Ok => ("ok  ", Tone::Good),
            HomeCheckLevel::Warn => ("warn", Tone::Warning),
            HomeCheckLevel::Fail => ("fail", Tone::Bad),
        };
        print_check(output, part, &output.tint(tone, word));
        if let Some(fix) = &part.fix {
            let fix = format!("{:17}{fix}", "");
            output.line(output.tint(Tone::Faint, &fix));
        }
    }
    let number = |level| parts.iter().filter(|part| part.level == level).count();
    let (warned, failed) = (number(HomeCheckLevel::Warn), number(HomeCheckLevel::Fail));
    let summary = match (warned, failed) {
        (0, 0) => "No problems found.".to_owned(),
        _ => format!(
            "{} of {} ok, {}, {failed} failed",
            parts.len() - warned - failed,
            parts.len(),
            pluralize(warned, "warning")
        ),
    };
    output.line(format!("\n{summary}"));
    let report = json!({"home": context.home.path().to_string_lossy(), "checks": parts});
    if failed == 0 {
        output.json(report);
        return Ok(());
    }
    output.json_failure(&summary, report);
    Err(Failure::new(FailureKind::AlreadyPrinted, summary))
}

/// `hermes status`.
pub(super) fn status(context: &Context) -> Result<(), Failure> {
    let parts = run_checks(context, false)?;
    let output = context.output;
    output.line(format!(
        "hermes {}, home {}",
        env!("CARGO_PKG_VERSION"),
        context.home.path().display()
    ));
    for part in &parts {
        let sign = match part.level {
            HomeCheckLevel::Ok => output.tint(Tone::Good, "-"),
            HomeCheckLevel::Warn | HomeCheckLevel::Fail => output.tint(Tone::Warning, "!"),
        };
        print_check(output, part, &sign);
    }
    if parts.iter().any(|part| part.level != HomeCheckLevel::Ok) {
        output.line("\n`hermes doctor` says how to fix what is marked.");
    }
    let members = parts.iter().map(|part| {
        (
            part.id.to_string(),
            json!({"ok": part.level == HomeCheckLevel::Ok, "state": part.message}),
        )
    });
    output.json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "home": context.home.path().to_string_lossy(),
        "parts": members.collect::<serde_json::Map<_, _>>(),
    }));
    Ok(())
}

fn print_check(output: Output, part: &HomeCheck, sign: &str) {
    output.line(format!("{sign} {:<11} {}", part.id, part.line()));
}
