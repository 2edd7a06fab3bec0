//! The bot accounts of messaging platforms: one line each, with what is to be changed where.

use std::time::Duration;

use futures::future;
use hermes_config::{Platform, PlatformSettings, Settings};
use hermes_gateway::{
    platform::Account,
    send::{AccountCheck, AccountProblem, CheckedAccount, SendError, missing_app_token},
};

use super::{HomeCheck, HomeCheckLevel};
use crate::{
    commands::{
        gateway::accounts::{AccountLine, list_accounts},
        state::unix_now,
    },
    context::Context,
    failure::Failure,
};

const ID: &str = "platforms";
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// What the platform said about an account.
type ProbeOutcome = Result<CheckedAccount, SendError>;

pub(super) fn check_platforms(
    context: &Context,
    settings: &Settings,
    probe: bool,
) -> Result<Vec<HomeCheck>, Failure> {
    let accounts = configured_accounts(settings);
    if accounts.is_empty() {
        return Ok(vec![HomeCheck::ok(
            ID,
            "none has a token; `hermes gateway setup` connects a bot",
        )]);
    }
    let mut names: Vec<String> = accounts
        .iter()
        .map(|(account, _)| account.platform.to_string())
        .collect();
    names.dedup();
    let mut checks = vec![HomeCheck::ok(
        ID,
        format!("messages can be sent to {}", names.join(", ")),
    )];
    let mut probed = if probe {
        probe_accounts(context, &accounts)?
    } else {
        accounts.iter().map(|_| None).collect()
    };
    let lines = list_accounts(&context.home, &settings.gateway);
    for ((account, settings), outcome) in accounts.into_iter().zip(probed.drain(..)) {
        let label = account.label();
        let line = lines.iter().find(|line| line.label == label);
        checks.push(check_account(&account, settings, line, outcome));
    }
    Ok(checks)
}

fn configured_accounts(settings: &Settings) -> Vec<(Account, &PlatformSettings)> {
    let accounts = Platform::ALL.into_iter().flat_map(|platform| {
        let accounts = settings.gateway.accounts(platform);
        accounts.map(move |(name, settings)| {
            let name = name.to_owned();
            (Account { platform, name }, settings)
        })
    });
    accounts.collect()
}

fn probe_accounts(
    context: &Context,
    accounts: &[(Account, &PlatformSettings)],
) -> Result<Vec<Option<ProbeOutcome>>, Failure> {
    context.block_on(async {
        let asked = accounts.iter().map(|(account, settings)| async move {
            let check = AccountCheck {
                account,
                settings,
                token: settings.token.as_ref()?,
                app_token: settings.app_token.as_ref(),
                timeout: PROBE_TIMEOUT,
            };
            Some(check.run().await)
        });
        Ok(future::join_all(asked).await)
    })
}

/// One line: the worst that is known, of the platform itself before the gateway.
fn check_account(
    account: &Account,
    settings: &PlatformSettings,
    line: Option<&AccountLine>,
    probed: Option<ProbeOutcome>,
) -> HomeCheck {
    let label = account.label();
    let checked = match probed {
        None => None,
        Some(Err(error)) => {
            let check = HomeCheck::fail(label, error.to_string());
            return if error.is_token_problem() {
                check.fix(format!("`{}` takes a new token", account.setup_command()))
            } else {
                check.fix("check the network, the proxy settings and the base URL")
            };
        }
        Some(Ok(checked)) => Some(checked),
    };
    let problems = checked.as_ref().map(|it| it.problems.as_slice());
    let problems = problems.unwrap_or_default();
    if let Some(worst) = problems.iter().find(|problem| problem.is_fatal) {
        return problem_check(label, HomeCheckLevel::Fail, worst, problems);
    }
    // What can be seen without the network.
    if account.platform == Platform::Slack && settings.app_token.is_none() {
        return HomeCheck::fail(label, missing_app_token(account))
            .fix(format!("`{}` takes it", account.setup_command()));
    }
    if let Some(line) = line.filter(|line| line.is_problem()) {
        let is_broken = matches!(line.state.as_str(), "fatal" | "deaf" | "degraded");
        let level = if is_broken {
            HomeCheckLevel::Fail
        } else {
            HomeCheckLevel::Warn
        };
        let summary = line.summary(unix_now());
        let message = summary
            .strip_prefix(&format!("{label}: "))
            .unwrap_or(&summary);
        let mut check = HomeCheck::new(label, level, message);
        check.fix.clone_from(&line.fix);
        return check;
    }
    if let Some(first) = problems.first() {
        return problem_check(label, HomeCheckLevel::Warn, first, problems);
    }
    let mut message = match line {
        Some(line) => {
            let summary = line.summary(unix_now());
            let state = summary.strip_prefix(&format!("{label}: "));
            state.unwrap_or(&summary).to_owned()
        }
        None => "it has a token".to_owned(),
    };
    if let Some(checked) = checked {
        message = format!("{}, {message}", checked.name);
    }
    HomeCheck::ok(label, message)
}

fn problem_check(
    label: String,
    level: HomeCheckLevel,
    worst: &AccountProblem,
    all: &[AccountProblem],
) -> HomeCheck {
    let others: Vec<&str> = all
        .iter()
        .filter(|problem| problem.code != worst.code)
        .map(|problem| problem.code)
        .collect();
    let more = if others.is_empty() {
        String::new()
    } else {
        format!(" (also: {})", others.join(", "))
    };
    HomeCheck::new(label, level, format!("{}{more}", worst.message)).fix(worst.fix.clone())
}
