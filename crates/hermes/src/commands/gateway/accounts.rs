//! The bot accounts of a home: which are configured, and how the running gateway says they are.

use hermes_config::{GatewaySettings, Home, Platform};
use hermes_gateway::{
    instance::{self, PlatformState, PlatformStatus, StateFile},
    platform::Account,
    send::webhook_unreachable_fix,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    commands::state::format_span,
    output::{Tone, printable},
};

/// One account in a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct AccountLine {
    /// `telegram`, `telegram@work`, or `api_server`.
    pub(in crate::commands) label: String,
    /// A word of the state file, or `not_running` if no gateway runs.
    pub(in crate::commands) state: String,
    /// When something was heard last, in UTC.
    pub(in crate::commands) last_ok_at: Option<String>,
    pub(in crate::commands) error_code: Option<String>,
    pub(in crate::commands) problem: Option<String>,
    pub(in crate::commands) fix: Option<String>,
}

/// The state of an account that has a token while no gateway runs.
pub(in crate::commands) const NOT_RUNNING: &str = "not_running";

impl AccountLine {
    fn from_state(label: &str, state: &PlatformState) -> Self {
        // What it says although it works is shown where nothing worse is.
        let warning = state
            .warnings
            .first()
            .filter(|_| state.error_message.is_none());
        let code = state.error_code.clone();
        let code = code.or_else(|| warning.map(|warning| warning.code.clone()));
        let message = state.error_message.clone();
        Self {
            label: label.to_owned(),
            state: state.state.clone(),
            last_ok_at: state.last_ok_at.clone(),
            problem: message.or_else(|| warning.map(|warning| warning.message.clone())),
            fix: code.as_deref().and_then(|code| fix_for(label, code)),
            error_code: code,
        }
    }

    fn not_running(label: String) -> Self {
        Self {
            label,
            state: NOT_RUNNING.into(),
            last_ok_at: None,
            error_code: None,
            problem: Some("it has a token, but no gateway is running: nothing is received".into()),
            fix: Some("`hermes gateway start` or `hermes up` starts one".into()),
        }
    }

    pub(in crate::commands) fn tone(&self) -> Tone {
        match PlatformStatus::from_word(&self.state) {
            Some(PlatformStatus::Connected) => Tone::Good,
            Some(PlatformStatus::Fatal | PlatformStatus::Deaf | PlatformStatus::Degraded) => {
                Tone::Bad
            }
            Some(PlatformStatus::Stopped | PlatformStatus::NotConfigured) => Tone::Faint,
            Some(PlatformStatus::Connecting | PlatformStatus::Reconnecting) | None => Tone::Warning,
        }
    }

    /// Whether somebody should look at it.
    pub(in crate::commands) fn is_problem(&self) -> bool {
        self.state == NOT_RUNNING
            || self.problem.is_some()
            || PlatformStatus::from_word(&self.state).is_none_or(PlatformStatus::is_problem)
    }

    /// `12 s ago`; empty if nothing was heard yet.
    pub(in crate::commands) fn last_heard(&self, now: u64) -> String {
        let heard = self.last_ok_at.as_deref();
        let heard = heard.and_then(|time| time.parse::<Timestamp>().ok());
        let Some(heard) = heard.and_then(|time| u64::try_from(time.as_second()).ok()) else {
            return String::new();
        };
        format!("{} ago", format_span(now.saturating_sub(heard)))
    }

    /// `telegram: connected, last heard 12 s ago`.
    pub(in crate::commands) fn summary(&self, now: u64) -> String {
        let mut text = format!("{}: {}", self.label, self.state.replace('_', " "));
        let heard = self.last_heard(now);
        if !heard.is_empty() {
            text = format!("{text}, last heard {heard}");
        }
        if let Some(problem) = &self.problem {
            let problem = printable(problem);
            text = format!("{text}; {}", problem.lines().next().unwrap_or_default());
        }
        text
    }
}

/// The labels of all accounts with a token.
pub(in crate::commands) fn configured_labels(gateway: &GatewaySettings) -> Vec<String> {
    let accounts = Platform::ALL.into_iter().flat_map(|platform| {
        let names = gateway.accounts(platform);
        names.map(move |(name, _)| Account {
            platform,
            name: name.to_owned(),
        })
    });
    accounts.map(|account| account.label()).collect()
}

/// The accounts of a home, as its running gateway tells of them.
pub(in crate::commands) fn list_accounts(
    home: &Home,
    gateway: &GatewaySettings,
) -> Vec<AccountLine> {
    let running = instance::find_running(home).ok().flatten();
    let state = running.and_then(|process| {
        // What another process left behind says nothing about this one.
        instance::read_last_state(home).filter(|state| state.process == process)
    });
    account_lines(gateway, state.as_ref())
}

/// The accounts that are configured, and those that the state file knows.
pub(in crate::commands) fn account_lines(
    gateway: &GatewaySettings,
    running: Option<&StateFile>,
) -> Vec<AccountLine> {
    let labels = configured_labels(gateway);
    let Some(state) = running else {
        return labels.into_iter().map(AccountLine::not_running).collect();
    };
    let mut lines: Vec<AccountLine> = state
        .platforms
        .iter()
        .map(|(label, platform)| AccountLine::from_state(label, platform))
        .collect();
    for label in labels {
        if !state.platforms.contains_key(&label) {
            lines.push(AccountLine {
                problem: Some("the running gateway has not started it".into()),
                fix: Some("`hermes gateway restart` reads the configuration again".into()),
                state: PlatformStatus::NotConfigured.as_str().into(),
                ..AccountLine::not_running(label)
            });
        }
    }
    lines.sort_by(|one, other| one.label.cmp(&other.label));
    lines
}

/// What to do about a problem that has a code.
fn fix_for(label: &str, code: &str) -> Option<String> {
    // Not an account: the local API.
    let Some(account) = Account::from_label(label) else {
        let is_port = code == "port_in_use";
        let fix = "`hermes config set api_server.port PORT` takes another port";
        return is_port.then(|| fix.into());
    };
    let setup = account.setup_command();
    Some(match code {
        "bad_token" | "unauthorized" | "token_revoked" => {
            format!("`{setup}` takes a new token")
        }
        "missing_intent" | "disallowed_intents" => {
            "https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents: turn on \
             `Message Content Intent`; then `hermes gateway restart`"
                .into()
        }
        "missing_scope" => {
            "https://api.slack.com/apps, your app, OAuth & Permissions: add the scopes, reinstall the app; then \
             `hermes gateway restart`"
                .into()
        }
        "missing_app_token" | "bad_app_token" => {
            format!("`{setup}` takes the app token (xapp-…)")
        }
        "webhook" | "webhook_set" => {
            "the gateway removes it; if it comes back, another program uses this bot: give that one a bot of its own"
                .into()
        }
        "interactions_endpoint" => {
            "https://discord.com/developers/applications, your application, General Information: empty `Interactions \
             Endpoint URL`"
                .into()
        }
        "conflict" | "second_poller" => {
            "stop the other program that uses this bot (another machine, Python Hermes), or give it a bot of its own"
                .into()
        }
        "shared_app_token" => {
            "stop the other program that uses this Slack app token, or give it an app of its own".into()
        }
        "messaging_off" | "egress_denied" => {
            "the operator of the Hub can allow it: `hermes policy get` shows the policy".into()
        }
        "token_in_use" => {
            format!("`hermes gateway stop` where the other one runs, or `{setup}` with another bot")
        }
        "webhook_invalid" => format!(
            "correct `{}`; without it updates are polled",
            account.variable("WEBHOOK_URL")
        ),
        "webhook_port_in_use" => format!(
            "stop the other program, or set `{}` to another port and lead the reverse proxy there",
            account.variable("WEBHOOK_PORT")
        ),
        "webhook_unreachable" => webhook_unreachable_fix(&account),
        "commands_not_registered" => {
            "chats work without the list of commands; it is tried again, and `hermes logs hermes` shows why it fails"
                .into()
        }
        "deaf" => "`hermes gateway restart` connects anew; `hermes logs hermes` shows what happened".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use hermes_config::{Settings, Variables};
    use serde_json::json;

    use super::*;

    fn settings(yaml: &str) -> Settings {
        Settings::parse(yaml, Variables::default()).unwrap()
    }

    fn state_with(platforms: &serde_json::Value) -> StateFile {
        serde_json::from_value(json!({"pid": 1, "platforms": platforms})).unwrap()
    }

    #[test]
    fn tokens_without_a_gateway_are_told() {
        let settings = settings("telegram: {token: t}\nslack: {token: s}\n");
        let lines = account_lines(&settings.gateway, None);
        let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["telegram", "slack"]);
        assert!(lines[0].is_problem());
        assert!(lines[0].summary(0).contains("no gateway is running"));
    }

    #[test]
    fn an_account_says_when_it_was_heard_and_what_to_do() {
        let settings = settings("telegram: {token: t}\ndiscord: {token: d}\n");
        let state = state_with(&json!({
            "telegram": {"state": "connected", "last_ok_at": "1970-01-01T00:01:00.5Z"},
            "telegram@work": {"state": "fatal", "error_code": "bad_token", "error_message": "Unauthorized"},
            "slack": {"state": "connected", "warnings": [{"code": "shared_app_token", "message": "two programs"}]},
        }));
        let lines = account_lines(&settings.gateway, Some(&state));
        let shown: Vec<String> = lines.iter().map(|line| line.summary(72)).collect();
        assert_eq!(
            shown,
            [
                "discord: not configured; the running gateway has not started it",
                "slack: connected; two programs",
                "telegram: connected, last heard 12 s ago",
                "telegram@work: fatal; Unauthorized",
            ]
        );
        let problems: Vec<bool> = lines.iter().map(AccountLine::is_problem).collect();
        assert_eq!(problems, [true, true, false, true]);
        assert!(
            lines[1]
                .fix
                .as_deref()
                .is_some_and(|fix| fix.contains("app token"))
        );
        assert_eq!(
            lines[3].fix.as_deref(),
            Some("`hermes gateway setup --platform telegram --account work` takes a new token")
        );
    }

    #[test]
    fn a_fix_names_the_variables_and_the_command_of_its_account() {
        let cases = [
            (
                "telegram@work",
                "webhook_port_in_use",
                "TELEGRAM_WEBHOOK_PORT_WORK",
            ),
            (
                "telegram@work",
                "webhook_unreachable",
                "TELEGRAM_WEBHOOK_URL_WORK",
            ),
            ("telegram", "webhook_invalid", "`TELEGRAM_WEBHOOK_URL`"),
            (
                "slack@team-2",
                "missing_app_token",
                "--platform slack --account team-2",
            ),
            (
                "discord",
                "bad_token",
                "`hermes gateway setup --platform discord`",
            ),
            ("api_server", "port_in_use", "api_server.port"),
        ];
        for (label, code, named) in cases {
            let fix = fix_for(label, code).unwrap();
            assert!(fix.contains(named), "{label} {code}: {fix}");
        }
    }

    #[test]
    fn a_bot_that_hears_nothing_is_deaf_and_not_connected() {
        let settings = settings("telegram: {token: t}\n");
        let state = state_with(&json!({"telegram": {
            "state": "deaf", "last_ok_at": "1970-01-01T00:00:00Z", "error_code": "deaf",
            "error_message": "nothing has been heard for three periods",
        }}));
        let line = account_lines(&settings.gateway, Some(&state)).remove(0);
        assert_eq!(
            line.summary(11 * 3600),
            "telegram: deaf, last heard 11 h ago; nothing has been heard for three periods"
        );
        assert!(line.is_problem() && line.tone() == Tone::Bad);
        assert!(line.fix.is_some_and(|fix| fix.contains("restart")));
    }
}
