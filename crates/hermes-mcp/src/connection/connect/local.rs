//! Opens a session with a local server: starts its process, a second one if need be, and finds out what it speaks.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use hermes_config::{
    ResolvedServer,
    server::{ProtocolChoice, StdioSettings},
};
use rmcp::{RoleClient, service::RunningService};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::Connector;
use crate::{
    connection::{
        attempt_processes::AttemptProcesses,
        era::{Era, HandshakeMode},
        failure::AttemptFailure,
        handshake::{self, ProbeTimeout},
        session::SessionHandler,
        stdio_probe::{self, ProbeSchedule, Winner},
    },
    packages::package::is_package_runner,
    transport::{boxed::BoxedTransport, stdio::LineTransport},
};

/// How long a server may leave `server/discover` without an answer before `initialize` follows.
const INITIALIZE_AFTER: Duration = Duration::from_secs(3);

impl Connector {
    /// Opens a session with a process. No process is ended for being slow before the timeout of the whole attempt.
    pub(super) async fn open_local(
        &self,
        handler: &SessionHandler,
        opening: HandshakeMode,
        settings: &StdioSettings,
        resolved: &ResolvedServer,
        processes: &mut AttemptProcesses,
    ) -> Result<(RunningService<RoleClient, SessionHandler>, Era), AttemptFailure> {
        let started = Instant::now();
        let transport = self.start_process(settings, resolved, processes).await?;
        let Some(times) = self.probe_schedule(opening, settings) else {
            let transport = BoxedTransport::new(transport);
            let opened =
                handshake::open_session(handler.clone(), transport, opening, ProbeTimeout::Never);
            return Ok(Box::pin(opened).await?);
        };
        let start_second = async || {
            let seconds = started.elapsed().as_secs();
            tracing::info!(server = %self.name, seconds, "server did not answer; starting a second process");
            self.start_process(settings, resolved, processes)
                .await
                .inspect_err(
                    |error| tracing::debug!(server = %self.name, %error, "failed to start a second process"),
                )
                .ok()
        };
        let first_ended = || self.ended_at_discover.store(true, Ordering::Relaxed);
        let probed = Box::pin(stdio_probe::probe(
            transport,
            &handler.config,
            times,
            start_second,
            first_ended,
        ))
        .await?;
        let kept = match probed.winner {
            Winner::First => 0,
            Winner::Second => 1,
        };
        processes.keep_only(kept, &self.host_context.processes);
        let (transport, opening) = (BoxedTransport::new(probed.transport), probed.opening);
        let opened =
            handshake::open_session(handler.clone(), transport, opening, ProbeTimeout::Never);
        Ok(Box::pin(opened).await?)
    }

    async fn start_process(
        &self,
        settings: &StdioSettings,
        resolved: &ResolvedServer,
        processes: &mut AttemptProcesses,
    ) -> Result<LineTransport<Receiver, Sender>, AttemptFailure> {
        let _starting = self.spawn_lock.lock().await;
        let host_context = &self.host_context;
        let starting = host_context.processes.start(
            &self.name,
            settings,
            &resolved.sandbox,
            &host_context.home,
            self.redactor.load_full(),
        );
        let (running, (reader, writer)) = starting.await?;
        self.fetch.record_start(&settings.command, running.pid());
        processes.add(running);
        Ok(LineTransport::new(reader, writer))
    }

    /// When a silent process is asked in another way; `None` where there is one way only.
    fn probe_schedule(
        &self,
        opening: HandshakeMode,
        settings: &StdioSettings,
    ) -> Option<ProbeSchedule> {
        let limit = self.server.connect_timeout;
        // It is at work before it can speak: a second one would fetch the same beside it, into the same cache, and
        // `npx` breaks that, `docker run --name` refuses.
        let second = (!is_package_runner(&settings.command)).then_some(limit / 2);
        match (self.server.protocol, opening) {
            (ProtocolChoice::Auto, HandshakeMode::Probe) => Some(ProbeSchedule {
                initialize: Some(INITIALIZE_AFTER.min(limit / 4)),
                second,
            }),
            // A remembered era is given more time: it fitted before.
            (ProtocolChoice::Auto, HandshakeMode::Discover) => Some(ProbeSchedule {
                initialize: second.is_none().then_some(limit / 2),
                second,
            }),
            _ => None,
        }
    }
}
