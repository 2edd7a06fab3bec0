//! The configuration while a chat runs: changes of the file, and questions of other processes of the home.

use hermes_agent::conversation::Agent;
use hermes_config::{Home, Settings};
use hermes_mcp::{ConfigWatch, control::ControlSocket};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{commands::chat::screen::Screen, context::Context, server_requests::ServerRequests};

/// Follows the file, unless it is left aside.
pub(super) struct ChatConfigWatcher {
    home: Home,
    /// None if it is left aside.
    changes: Option<mpsc::Receiver<()>>,
    tasks: JoinSet<()>,
}

impl ChatConfigWatcher {
    pub(super) fn new(context: &Context, follows: bool) -> Self {
        let mut tasks = JoinSet::new();
        let changes = follows.then(|| {
            // One that waits says it all.
            let (tell, changes) = mpsc::channel(1);
            let mut watch = ConfigWatch::new(&context.home);
            tasks.spawn(async move {
                loop {
                    watch.wait_for_change().await;
                    let _ = tell.try_send(());
                }
            });
            changes
        });
        Self {
            home: context.home.clone(),
            changes,
            tasks,
        }
    }

    /// Answers `hermes mcp status` and `reload` of other processes.
    pub(super) fn serve_control_requests(&mut self, agent: &Agent, screen: &Screen) {
        let Some(host) = agent.host().filter(|_| self.changes.is_some()).cloned() else {
            return;
        };
        match ControlSocket::open(&self.home) {
            Ok(socket) => {
                self.tasks.spawn(async move { socket.serve(&host).await });
            }
            Err(error) => screen.note(&format!(
                "`hermes mcp status` and `reload` cannot reach this process: {error}"
            )),
        }
    }

    /// Returns when the file has changed.
    pub(super) async fn wait_for_change(&mut self) {
        let changed = match &mut self.changes {
            Some(changes) => changes.recv().await,
            None => None,
        };
        if changed.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// What is to be applied now. Settings that touch no server count at once, and nobody needs to know.
    pub(super) async fn read_settings(
        &self,
        agent: &Agent,
        answers: &ServerRequests,
        screen: &Screen,
    ) -> Option<Settings> {
        let settings = match Settings::load(&self.home) {
            Ok(settings) => settings,
            Err(error) => {
                screen.note(&format!(
                    "The configuration is invalid, keeping the previous one: {error}"
                ));
                return None;
            }
        };
        let plan = match agent.host() {
            Some(host) => host.plan_reload(&settings).await,
            None => return None,
        };
        if plan.is_noop() {
            answers.apply_settings(&settings);
            agent.reload(settings).await;
            return None;
        }
        if !settings.mcp.auto_reload {
            screen.note("The configuration has changed; `/reload-mcp` applies it.");
            return None;
        }
        Some(settings)
    }

    pub(super) async fn close(&mut self) {
        self.tasks.shutdown().await;
    }
}
