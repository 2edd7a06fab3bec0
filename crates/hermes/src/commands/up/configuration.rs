//! The configuration of a running `hermes up`: the built-in server where there is none, and what happens when the
//! file changes.

use std::{path::PathBuf, sync::Arc};

use hermes_config::{Home, ServerEntry, Settings};
use hermes_gateway::gateway::Gateway;
use hermes_mcp::{Host, ReloadReport, watch::ConfigWatch};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{answers::Answers, context::Context, failure::Failure};

/// The name of the built-in server.
const DEMO: &str = "demo";

/// Who else works with the settings, besides the servers.
pub(super) struct Users {
    pub(super) answers: Arc<Answers>,
    /// The gateway of the home, if it is in this process.
    pub(super) gateway: Option<Gateway>,
}

/// Where the configuration comes from.
pub(super) struct Configuration {
    home: Home,
    /// This program, which is the built-in server too.
    program: Option<PathBuf>,
    is_safe_mode: bool,
}

impl Configuration {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            home: context.home.clone(),
            program: std::env::current_exe().ok(),
            is_safe_mode: context.is_safe_mode(),
        }
    }

    pub(super) fn is_safe_mode(&self) -> bool {
        self.is_safe_mode
    }

    /// What to start with; tells about warnings and about the built-in server.
    pub(super) fn at_start(&self, context: &Context) -> Result<Settings, Failure> {
        let mut settings = context.settings()?;
        if self.add_demo(&mut settings) {
            context.output.note(
                "No server is configured, so the built-in one is started: try `hermes mcp add --help` next.",
            );
        }
        Ok(settings)
    }

    /// With no server configured the built-in one runs, in memory only. Returns whether it was added.
    fn add_demo(&self, settings: &mut Settings) -> bool {
        let Some(program) = self.program.as_ref().filter(|_| !self.is_safe_mode) else {
            return false;
        };
        if !settings.servers.is_empty() {
            return false;
        }
        let entry = json!({"command": program, "args": ["mcp", "demo"]});
        let (entry, _) = ServerEntry::parse(DEMO, entry, &settings.variables);
        settings.servers.push(entry);
        true
    }

    /// Applies changes of the file for as long as the tasks live, and says so.
    pub(super) fn follow(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        host: &Host,
        users: Users,
        settings: &Settings,
        say: mpsc::Sender<String>,
    ) {
        if self.is_safe_mode {
            return;
        }
        let (this, host, settings) = (self.clone(), host.clone(), settings.clone());
        let gateway = users.gateway.clone();
        tasks.spawn({
            let (this, host) = (this.clone(), host.clone());
            async move { this.apply_edits(&host, &users, settings, &say).await }
        });
        tasks.spawn(async move { this.keep_something_running(&host, gateway.as_ref()).await });
    }

    async fn apply_edits(
        &self,
        host: &Host,
        users: &Users,
        mut current: Settings,
        say: &mpsc::Sender<String>,
    ) {
        let mut watch = ConfigWatch::new(&self.home);
        loop {
            watch.changed().await;
            for message in self.apply_edit(host, users, &mut current).await {
                tracing::info!("{message}");
                let _ = say.send(message).await;
            }
        }
    }

    async fn apply_edit(&self, host: &Host, users: &Users, current: &mut Settings) -> Vec<String> {
        let mut settings = match Settings::load(&self.home) {
            Ok(settings) => settings,
            Err(error) => {
                return vec![format!(
                    "The configuration is broken, everything goes on as before: {error}"
                )];
            }
        };
        if !current.mcp.auto_reload {
            return vec![
                "The configuration has changed; `hermes mcp reload` applies it.".to_owned(),
            ];
        }
        self.add_demo(&mut settings);
        let mut messages: Vec<String> = settings
            .warnings
            .iter()
            .filter(|warning| !current.warnings.contains(warning))
            .map(|warning| format!("warning: {warning}"))
            .collect();
        users.answers.use_settings(&settings);
        let report = reload(host, users.gateway.as_ref(), settings.clone()).await;
        messages.push(describe(&report));
        *current = settings;
        messages
    }

    /// A reload that another command asked for knows nothing of the built-in server.
    async fn keep_something_running(&self, host: &Host, gateway: Option<&Gateway>) {
        let mut changes = host.changes();
        while changes.changed().await.is_ok() {
            if !host.status().is_empty() {
                continue;
            }
            if let Ok(mut settings) = Settings::load(&self.home)
                && self.add_demo(&mut settings)
            {
                reload(host, gateway, settings).await;
            }
        }
    }
}

/// A gateway leaves out what the Hub's policy forbids.
async fn reload(host: &Host, gateway: Option<&Gateway>, settings: Settings) -> ReloadReport {
    match gateway {
        Some(gateway) => gateway.reload(settings).await.unwrap_or_default(),
        None => host.reload(&settings).await,
    }
}

/// `Reloaded: added a, b; restarted c; 3 unchanged.`
fn describe(report: &ReloadReport) -> String {
    if report.is_quiet() {
        return "Reloaded: nothing to start or stop.".to_owned();
    }
    let named = [
        ("added", &report.added),
        ("removed", &report.removed),
        ("restarted", &report.restarted),
        ("tried again", &report.retried),
    ];
    let mut parts: Vec<String> = named
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verb, names)| format!("{verb} {}", names.join(", ")))
        .collect();
    if !report.unchanged.is_empty() {
        parts.push(format!("{} unchanged", report.unchanged.len()));
    }
    format!("Reloaded: {}.", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_is_told_by_what_it_did() {
        let report = ReloadReport {
            added: vec!["a".into(), "b".into()],
            restarted: vec!["c".into()],
            unchanged: vec!["d".into()],
            ..ReloadReport::default()
        };
        assert_eq!(
            describe(&report),
            "Reloaded: added a, b; restarted c; 1 unchanged."
        );
        let quiet = ReloadReport {
            unchanged: vec!["d".into()],
            ..ReloadReport::default()
        };
        assert_eq!(describe(&quiet), "Reloaded: nothing to start or stop.");
    }
}
