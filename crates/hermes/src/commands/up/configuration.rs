//! The configuration of `hermes up`: the `config.yaml` of a fresh home, the built-in server where there is none, and
//! what happens when the file changes.

use std::{io::ErrorKind, sync::Arc};

use hermes_config::{
    Home, ServerName, Settings, SettingsError, Variables,
    private_file::{ExistingFile, WriteOptions, write_file},
};
use hermes_gateway::gateway::Gateway;
use hermes_mcp::{ConfigWatch, Host, ReloadReport};
use hermes_protocol::Feature;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    catalog::built_in::{self, BuiltIn},
    context::Context,
    failure::Failure,
    server_requests::ServerRequests,
};

const FIRST_CONFIG: &str = "\
# The configuration of hermes. A running `hermes up` watches this file and applies changes.
#
# Each entry under `mcp_servers` is one MCP server, under a name you choose. It has either a `command`, a program
# that is started and called over stdin and stdout, or a `url`.
#
# Commands that write entries for you:
#   hermes mcp add time --command uvx --args mcp-server-time
#   hermes mcp import      # imports the servers of Claude, Cursor, VS Code, Codex and others
#   hermes mcp catalog     # servers to choose from
#
# Do not write secrets here. Put `DOCS_TOKEN=...` into the file `.env` beside this one and write ${DOCS_TOKEN}.
# A local server inherits only a few variables, such as PATH and HOME; list others under `env`.

mcp_servers:
  # A local server. `npx` comes with Node.js.
  # filesystem:
  #   command: npx
  #   args: [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/tmp\"]
  #   tools:
  #     exclude: [write_file, edit_file]

  # A remote server.
  # docs:
  #   url: https://docs.example.com/mcp
  #   headers:
  #     Authorization: Bearer ${DOCS_TOKEN}
";

/// Who works with the settings.
#[derive(Clone)]
pub(super) struct SettingsConsumers {
    pub(super) host: Host,
    pub(super) server_requests: Arc<ServerRequests>,
    /// The gateway of the home, if it is in this process.
    pub(super) gateway: Option<Gateway>,
}

/// Where the configuration comes from.
pub(super) struct UpConfiguration {
    home: Home,
    /// As the program was at the start: its file may be replaced meanwhile.
    built_in: Option<BuiltIn>,
    is_safe_mode: bool,
}

impl UpConfiguration {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            home: context.home.clone(),
            built_in: BuiltIn::of_this_program(),
            is_safe_mode: context.is_safe_mode(),
        }
    }

    pub(super) fn is_safe_mode(&self) -> bool {
        self.is_safe_mode
    }

    /// What to start with; tells about warnings and about the built-in server.
    pub(super) fn load_at_start(&self, context: &Context) -> Result<Settings, Failure> {
        let mut settings = context.settings()?;
        if self.add_built_in(&mut settings) {
            context
                .output
                .note("No server is configured, so the built-in one is started.");
        }
        Ok(settings)
    }

    /// With no server configured the built-in one runs, in memory only. Returns whether it was added.
    fn add_built_in(&self, settings: &mut Settings) -> bool {
        let built_in = self.built_in.as_ref().filter(|_| !self.is_safe_mode);
        built_in.is_some_and(|built_in| built_in.add_to(settings))
    }

    /// Applies changes of the file for as long as the tasks live, and says so.
    pub(super) fn follow_file(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        users: SettingsConsumers,
        settings: &Settings,
        watch: ConfigWatch,
        message_sender: mpsc::Sender<String>,
    ) {
        if self.is_safe_mode {
            return;
        }
        let (this, settings) = (self.clone(), settings.clone());
        tasks.spawn({
            let (this, users) = (this.clone(), users.clone());
            async move { Box::pin(this.apply_edits(&users, settings, watch, &message_sender)).await }
        });
        tasks.spawn(async move { Box::pin(this.ensure_demo_server(&users)).await });
    }

    /// Reads everything again and lets all who work with it take it up.
    pub(super) async fn reload(
        &self,
        users: &SettingsConsumers,
    ) -> Result<ReloadReport, SettingsError> {
        let settings = self.load(users)?;
        Ok(apply_settings(users, settings).await)
    }

    /// Works with the variables that the Hub has for the home, from now on.
    pub(super) async fn apply_variables(&self, users: &SettingsConsumers, variables: Variables) {
        let agent = users.gateway.as_ref().map(Gateway::agent);
        if !agent.is_some_and(|agent| agent.set_operator_variables(variables)) {
            return;
        }
        if let Err(error) = self.reload(users).await {
            tracing::warn!(%error, "failed to read the configuration");
        }
    }

    /// The settings as they are to be used.
    fn load(&self, users: &SettingsConsumers) -> Result<Settings, SettingsError> {
        let mut settings = self.load_written(users)?;
        if self.is_safe_mode {
            settings.servers.clear();
        }
        self.add_built_in(&mut settings);
        Ok(settings)
    }

    /// The settings as they are written, with the variables that hold here.
    fn load_written(&self, users: &SettingsConsumers) -> Result<Settings, SettingsError> {
        match &users.gateway {
            Some(gateway) => gateway.load_settings(),
            None => Settings::load(&self.home),
        }
    }

    async fn apply_edits(
        &self,
        users: &SettingsConsumers,
        mut current: Settings,
        mut watch: ConfigWatch,
        message_sender: &mpsc::Sender<String>,
    ) {
        loop {
            watch.wait_for_change().await;
            for message in self.apply_edit(users, &mut current).await {
                tracing::info!("{message}");
                let _ = message_sender.send(message).await;
            }
        }
    }

    async fn apply_edit(&self, users: &SettingsConsumers, current: &mut Settings) -> Vec<String> {
        let settings = match self.load(users) {
            Ok(settings) => settings,
            Err(error) => {
                return vec![format!(
                    "The configuration is invalid, keeping the previous one: {error}"
                )];
            }
        };
        if !current.mcp.auto_reload {
            // Platforms follow the file in any case.
            if let Some(gateway) = &users.gateway {
                gateway.apply_settings(settings);
            }
            return vec![
                "The configuration has changed; `hermes mcp reload` applies it.".to_owned(),
            ];
        }
        let mut messages: Vec<String> = settings
            .warnings
            .iter()
            .filter(|warning| !current.warnings.contains(warning))
            .map(|warning| format!("warning: {warning}"))
            .collect();
        let report = apply_settings(users, settings.clone()).await;
        messages.push(describe_reload(
            &report,
            &users.host.servers_without_tools(),
        ));
        // Whoever asked for a reload may have been faster, and then the report says nothing of it.
        if built_in::is_alone(current) && !built_in::is_alone(&settings) {
            messages.push(format!(
                "The built-in server `{}` was stopped: it runs only while no server is configured.",
                built_in::NAME
            ));
        }
        *current = settings;
        messages
    }

    /// A gateway that takes up a policy knows nothing of the built-in server.
    async fn ensure_demo_server(&self, users: &SettingsConsumers) {
        let mut changes = users.host.subscribe_changes();
        while changes.changed().await.is_ok() {
            let agent = users.gateway.as_ref().map(Gateway::agent);
            let is_forbidden = agent.is_some_and(|agent| !agent.policy().has_feature(Feature::Mcp));
            if is_forbidden || !users.host.status().is_empty() {
                continue;
            }
            if let Ok(mut settings) = self.load_written(users)
                && self.add_built_in(&mut settings)
            {
                apply_settings(users, settings).await;
            }
        }
    }
}

/// Lets everybody work with other settings. A gateway leaves out what the Hub's policy forbids.
async fn apply_settings(users: &SettingsConsumers, settings: Settings) -> ReloadReport {
    if let Some(gateway) = &users.gateway {
        return gateway.reload(settings).await.unwrap_or_default();
    }
    users.server_requests.apply_settings(&settings);
    users.host.reload(&settings).await
}

/// `Reloaded: added a, b; restarted c; 3 unchanged.`
fn describe_reload(report: &ReloadReport, awaited: &[ServerName]) -> String {
    let is_new = |name: &&ServerName| {
        let started = report.added.iter().chain(&report.restarted);
        !started
            .chain(&report.retried)
            .any(|new| new == name.as_str())
    };
    let on_their_way: Vec<&str> = awaited
        .iter()
        .filter(is_new)
        .map(ServerName::as_str)
        .collect();
    if report.is_noop() && on_their_way.is_empty() {
        return "Reloaded: nothing to start or stop.".to_owned();
    }
    let named = [
        ("added", &report.added),
        ("removed", &report.removed),
        ("restarted", &report.restarted),
        ("retried", &report.retried),
    ];
    let mut parts: Vec<String> = named
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verb, names)| format!("{verb} {}", names.join(", ")))
        .collect();
    if !on_their_way.is_empty() {
        parts.push(format!("still connecting: {}", on_their_way.join(", ")));
    }
    let unchanged = report.unchanged.len().saturating_sub(on_their_way.len());
    if unchanged > 0 {
        parts.push(format!("{unchanged} unchanged"));
    }
    format!("Reloaded: {}.", parts.join("; "))
}

/// Writes the file for its owner only, unless there is one.
pub(in crate::commands) fn write_first_config(context: &Context) -> Result<(), Failure> {
    let path = context.home.config_file();
    let refused = |error: std::io::Error| {
        Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
            .hint("set `HERMES_HOME` to a directory that hermes may use")
    };
    context.home.create().map_err(refused)?;
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        ..WriteOptions::default()
    };
    match write_file(&path, FIRST_CONFIG.as_bytes(), options) {
        Ok(()) => {
            context.output.note(format!(
                "Wrote `{}`: a configuration without servers, with examples.",
                path.display()
            ));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused(error)),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::{Settings, Variables};

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
            describe_reload(&report, &[ServerName::new("a")]),
            "Reloaded: added a, b; restarted c; 1 unchanged."
        );
        let quiet = ReloadReport {
            unchanged: vec!["d".into()],
            ..ReloadReport::default()
        };
        assert_eq!(
            describe_reload(&quiet, &[]),
            "Reloaded: nothing to start or stop."
        );
        assert_eq!(
            describe_reload(&quiet, &[ServerName::new("d")]),
            "Reloaded: still connecting: d."
        );
    }

    fn load(text: &str) -> Settings {
        Settings::parse(text, Variables::default()).unwrap()
    }

    #[test]
    fn it_loads_without_a_warning_and_has_no_server() {
        let settings = load(FIRST_CONFIG);
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        assert!(settings.servers.is_empty());
    }

    #[test]
    fn its_examples_are_servers_once_the_signs_before_them_are_gone() {
        let (head, examples) = FIRST_CONFIG.split_once("mcp_servers:\n").unwrap();
        let examples = examples
            .lines()
            .filter(|line| !line.ends_with('.'))
            .map(|line| line.replacen("# ", "", 1))
            .collect::<Vec<_>>()
            .join("\n");
        let settings = load(&format!("{head}mcp_servers:\n{examples}"));
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        let kinds: Vec<_> = settings
            .servers
            .iter()
            .map(|entry| entry.server.as_ref().unwrap().transport.kind())
            .collect();
        assert_eq!(kinds, ["stdio", "http"]);
    }
}
