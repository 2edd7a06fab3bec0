//! Opens a session with a local server: starts its process, a second one if need be, and finds out what it speaks.

use std::time::{Duration, Instant};

use hermes_config::{
    Resolved,
    server::{ProtocolChoice, StdioSettings},
};
use rmcp::{RoleClient, service::RunningService};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::Connector;
use crate::{
    connection::{
        attempt_processes::AttemptProcesses,
        failure::Cause,
        handshake::{self, Silence},
        stdio_probe::{self, ProbeTimes, Winner},
    },
    era::{Era, Opening},
    package_runner::is_package_runner,
    session::Handler,
    transport::stdio::LineTransport,
};

/// How long a server may leave `server/discover` without an answer before `initialize` follows.
const INITIALIZE_AFTER: Duration = Duration::from_secs(3);

impl Connector {
    /// Opens a session with a process. No process is ended for being slow before the timeout of the whole attempt.
    pub(super) async fn open_local(
        &self,
        handler: &Handler,
        opening: Opening,
        settings: &StdioSettings,
        resolved: &Resolved,
        processes: &mut AttemptProcesses,
    ) -> Result<(RunningService<RoleClient, Handler>, Era), Cause> {
        let started = Instant::now();
        let transport = self.start(settings, resolved, processes).await?;
        let Some(times) = self.probe_times(opening, settings) else {
            let opened = handshake::open(handler.clone(), transport, opening, Silence::IsWaitedOut);
            return Ok(Box::pin(opened).await?);
        };
        let start_second = async || {
            let seconds = started.elapsed().as_secs();
            tracing::info!(server = %self.name, seconds, "server did not answer; starting a second process");
            self.start(settings, resolved, processes)
                .await
                .inspect_err(
                    |error| tracing::debug!(server = %self.name, %error, "starting a second process failed"),
                )
                .ok()
        };
        let probed = Box::pin(stdio_probe::probe(
            transport,
            &handler.config,
            times,
            start_second,
        ))
        .await?;
        let kept = match probed.winner {
            Winner::First => 0,
            Winner::Second => 1,
        };
        processes.keep(kept, &self.surroundings.processes);
        let (transport, opening) = (probed.transport, probed.opening);
        let opened = handshake::open(handler.clone(), transport, opening, Silence::IsWaitedOut);
        Ok(Box::pin(opened).await?)
    }

    /// Starts a process of the server.
    async fn start(
        &self,
        settings: &StdioSettings,
        resolved: &Resolved,
        processes: &mut AttemptProcesses,
    ) -> Result<LineTransport<Receiver, Sender>, Cause> {
        let _starting = self.handling_process.lock().await;
        let surroundings = &self.surroundings;
        let starting = surroundings.processes.start(
            &self.name,
            settings,
            &resolved.sandbox,
            &surroundings.home,
            self.redactor.load_full(),
        );
        let (running, (reader, writer)) = starting.await?;
        self.fetch.begin(&settings.command, running.pid());
        processes.add(running);
        Ok(LineTransport::new(reader, writer))
    }

    /// When a silent process is asked in another way; `None` where there is one way only.
    fn probe_times(&self, opening: Opening, settings: &StdioSettings) -> Option<ProbeTimes> {
        let limit = self.server.connect_timeout;
        // It is at work before it can speak: a second one would fetch the same beside it, into the same cache, and
        // `npx` breaks that, `docker run --name` refuses.
        let second = (!is_package_runner(&settings.command)).then_some(limit / 2);
        match (self.server.protocol, opening) {
            (ProtocolChoice::Auto, Opening::Probe) => Some(ProbeTimes {
                initialize: Some(INITIALIZE_AFTER.min(limit / 4)),
                second,
            }),
            // A remembered era is given more time: it fitted before.
            (ProtocolChoice::Auto, Opening::Discover) => Some(ProbeTimes {
                initialize: second.is_none().then_some(limit / 2),
                second,
            }),
            _ => None,
        }
    }
}
