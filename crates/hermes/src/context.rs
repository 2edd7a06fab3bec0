//! What every command gets: the home, the way to print, and a runtime where one is needed.

use std::{fs::File, io::Read, path::Path, sync::Arc, time::Duration};

use futures::future::LocalBoxFuture;
use hermes_config::{Home, ProfileName, Settings, sync::Mutex};
use hermes_mcp::{
    Host, HostOptions,
    process::{GuardHandle, GuardProgram},
};
use tokio::runtime::Builder;

use crate::{
    GUARD_ARGUMENT, catalog::built_in::BuiltIn, cli::Cli, failure::Failure, output::Output,
};

/// As much of a configuration is searched for local servers before it is read.
const MAX_SEARCHED_BYTES: u64 = 1024 * 1024;
/// How long blocking work may take at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(200);

/// What every command gets.
pub(crate) struct Context {
    pub(crate) home: Home,
    pub(crate) output: Output,
    is_safe_mode: bool,
    ignores_config: bool,
    /// The servers that were started for this command.
    hosts: Mutex<Vec<Host>>,
}

impl Context {
    pub(crate) fn new(cli: &Cli, output: Output) -> Result<Self, Failure> {
        let profile = cli.profile.as_deref().map(ProfileName::parse).transpose()?;
        let home = Home::locate(profile.as_ref())?;
        Ok(Self {
            home,
            output,
            is_safe_mode: cli.safe_mode || hermes_config::home::is_safe_mode(),
            ignores_config: false,
            hosts: Mutex::default(),
        })
    }

    /// For a shell that completes a line: nothing is printed but names.
    pub(crate) fn for_completion(home: Home) -> Self {
        Self {
            home,
            output: Output::new(false),
            is_safe_mode: true,
            ignores_config: false,
            hosts: Mutex::default(),
        }
    }

    /// The same for a command that does not read config.yaml.
    pub(crate) fn without_config(&self) -> Self {
        Self {
            home: self.home.clone(),
            output: self.output,
            is_safe_mode: self.is_safe_mode,
            ignores_config: true,
            hosts: Mutex::default(),
        }
    }

    /// Whether config.yaml is not to be read: by wish, or in safe mode.
    pub(crate) fn ignores_config(&self) -> bool {
        self.ignores_config || self.is_safe_mode
    }

    /// Whether no server is to be started.
    pub(crate) fn is_safe_mode(&self) -> bool {
        self.is_safe_mode
    }

    /// The configuration as it is written, with its warnings printed: for commands that change it.
    pub(crate) fn written_settings(&self) -> Result<Settings, Failure> {
        let settings = Settings::load(&self.home)?;
        for warning in &settings.warnings {
            self.output.warning(warning.to_string());
        }
        Ok(settings)
    }

    /// The configuration as it is to be used: in safe mode it has no servers.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = self.written_settings()?;
        if self.is_safe_mode && !settings.servers.is_empty() {
            self.output.note("safe mode: no MCP server is started");
            settings.servers.clear();
        }
        Ok(settings)
    }

    /// Adds the built-in server for commands that name a server, as `hermes up` runs it where none is configured.
    pub(crate) fn add_built_in(&self, settings: &mut Settings) {
        if let Some(built_in) = BuiltIn::of_this_program().filter(|_| !self.is_safe_mode) {
            built_in.add_to(settings);
        }
    }

    /// The program that guards local servers' processes: this one.
    pub(crate) fn guard_program(&self) -> Result<GuardProgram, Failure> {
        let path = std::env::current_exe().map_err(|error| {
            Failure::failed(format!("the path of this program is unknown: {error}"))
        })?;
        Ok(GuardProgram {
            path,
            args: vec![GUARD_ARGUMENT.into()],
        })
    }

    /// Starts the guard before the configuration is read, if that seems to have a local server. Needs a runtime.
    pub(crate) fn start_guard_early(&self) -> Result<Option<Arc<GuardHandle>>, Failure> {
        if self.ignores_config() || !names_command(&self.home.config_file()) {
            return Ok(None);
        }
        let guard = Arc::new(GuardHandle::new(self.guard_program()?));
        guard.start();
        Ok(Some(guard))
    }

    /// Starts servers for a part that [`Self::block_on`] runs: when it is interrupted, their end is waited for.
    pub(crate) async fn start_host(&self, options: HostOptions, settings: &Settings) -> Host {
        let host = Host::start(options, settings).await;
        self.hosts.lock().push(host.clone());
        host
    }

    async fn stop_hosts(&self) {
        let hosts = std::mem::take(&mut *self.hosts.lock());
        futures::future::join_all(hosts.iter().map(Host::shutdown)).await;
    }

    /// Runs a command's asynchronous part, which Ctrl-C ends. It leaves no server behind; who presses Ctrl-C again does
    /// not want to wait for that, and the guard ends them.
    pub(crate) fn block_on<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let work: LocalBoxFuture<'_, Result<T, Failure>> = Box::pin(work);
        self.run_to_end(async {
            tokio::select! {
                done = work => return done,
                _ = tokio::signal::ctrl_c() => {}
            }
            tokio::select! {
                () = self.stop_hosts() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            Err(Failure::interrupted())
        })
    }

    /// Runs an asynchronous part that deals with signals itself. One thread: its work is waiting.
    pub(crate) fn run_to_end<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut outcome = None;
        run_future(
            RuntimeThreads::Current,
            // A read from stdin that nobody waits for any more would hold the end up.
            SHUTDOWN_GRACE,
            Box::pin(async {
                outcome = Some(work.await?);
                Ok(())
            }),
        )?;
        outcome.ok_or_else(|| Failure::failed("the command ended without an outcome"))
    }
}

/// Whether a line of a configuration, comments aside, names a command, as the entry of a local server does. If that is
/// wrong, the guard is started in vain, or a moment later.
fn names_command(config: &Path) -> bool {
    // What is not a file may be readable only once.
    if !std::fs::metadata(config).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let Ok(file) = File::open(config) else {
        return false;
    };
    let mut text = Vec::new();
    let read = file.take(MAX_SEARCHED_BYTES).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim_start);
    read.is_ok() && lines.any(|line| !line.starts_with('#') && line.contains("command"))
}

/// The threads that a command's asynchronous part gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RuntimeThreads {
    /// The one it is called on.
    Current,
    Two,
    /// One for each processor.
    Processors,
}

/// Runs a command's future. All commands come through here, boxed, so that the runtime is compiled once and not for each.
pub(crate) fn run_future(
    threads: RuntimeThreads,
    shutdown_grace: Duration,
    work: LocalBoxFuture<'_, Result<(), Failure>>,
) -> Result<(), Failure> {
    let mut builder = match threads {
        RuntimeThreads::Current => Builder::new_current_thread(),
        RuntimeThreads::Two | RuntimeThreads::Processors => Builder::new_multi_thread(),
    };
    if matches!(threads, RuntimeThreads::Two) {
        builder.worker_threads(2);
    }
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the async runtime: {error}")))?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(shutdown_grace);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_servers_are_seen_before_a_configuration_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.yaml");
        assert!(!names_command(&config));
        for (text, is_named) in [
            ("mcp_servers:\n  a:\n    command: x\n", true),
            (r#"{"mcp_servers": {"a": {"command": "x"}}}"#, true),
            ("mcp_servers:\n  a: {url: 'https://x'}\n", false),
            ("mcp_servers:\n  # a:\n  #   command: x\n", false),
        ] {
            std::fs::write(&config, text).unwrap();
            assert_eq!(names_command(&config), is_named, "{text}");
        }
        assert!(!names_command(directory.path()));
    }
}
