//! Brings the running servers in line with a configuration, touching only what differs.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{
    Fingerprint, ResolvedServer, Server, ServerEntry, Settings, TransportSettings, Variables,
};
use serde::{Deserialize, Serialize};

use super::{Host, HostedServer, naming};
use crate::{connection, connection::link::LinkStatus, oauth::TokenFiles};

/// What a reload did, by server name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Started.
    pub added: Vec<String>,
    /// Stopped.
    pub removed: Vec<String>,
    /// Stopped and started again, because their connection changed.
    pub restarted: Vec<String>,
    /// Left running; filters and limits may have been replaced.
    pub unchanged: Vec<String>,
    /// Tried again because they had failed.
    pub retried: Vec<String>,
}

impl ReloadReport {
    /// Whether nothing was started or stopped.
    pub fn is_noop(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.restarted.is_empty()
            && self.retried.is_empty()
    }
}

/// What a reload does to a server that is to be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadAction {
    Added,
    Restarted,
    Retried,
    Unchanged,
}

impl ReloadAction {
    fn for_server(before: Option<&HostedServer>, fingerprint: Option<&Fingerprint>) -> Self {
        let Some(handle) = before.and_then(HostedServer::handle) else {
            return Self::Added;
        };
        if !handle.is_same_connection(fingerprint) {
            return Self::Restarted;
        }
        match handle.link.borrow().status {
            LinkStatus::Parked
            | LinkStatus::NeedsAuth
            | LinkStatus::Reconnecting
            | LinkStatus::Invalid => Self::Retried,
            _ => Self::Unchanged,
        }
    }
}

impl ReloadReport {
    fn record(&mut self, fate: ReloadAction, name: String) {
        match fate {
            ReloadAction::Added => self.added.push(name),
            ReloadAction::Restarted => self.restarted.push(name),
            ReloadAction::Retried => self.retried.push(name),
            ReloadAction::Unchanged => self.unchanged.push(name),
        }
    }
}

impl Host {
    /// What a reload would do, without doing it.
    pub fn plan_reload<'a>(&'a self, settings: &'a Settings) -> BoxFuture<'a, ReloadReport> {
        Box::pin(async move {
            self.check_ready().await;
            let variables = Arc::new(settings.variables.clone());
            let entries = settings.servers.iter();
            let wanted = entries.map(|entry| self.resolve_entry(entry, variables.clone()));
            let wanted = futures::future::join_all(wanted).await;
            let members = self.state.servers.load_full();
            let find = |name: &str| members.iter().find(|member| member.name().as_str() == name);
            let mut report = ReloadReport::default();
            let gone = members
                .iter()
                .filter(|member| settings.server(member.name().as_str()).is_none());
            report.removed = gone.map(|member| member.name().to_string()).collect();
            for (entry, wanted) in settings.servers.iter().zip(wanted) {
                let before = find(entry.name.as_str());
                match wanted {
                    Some((_, resolved)) => {
                        let fingerprint = resolved.as_ref().map(|known| &known.fingerprint);
                        let fate = ReloadAction::for_server(before, fingerprint);
                        report.record(fate, entry.name.to_string());
                    }
                    None if before.and_then(HostedServer::handle).is_some() => {
                        report.removed.push(entry.name.to_string());
                    }
                    None => {}
                }
            }
            report
        })
    }

    /// Compares the running servers with a configuration and applies the difference.
    pub fn reload<'a>(&'a self, settings: &'a Settings) -> BoxFuture<'a, ReloadReport> {
        Box::pin(async move {
            let inner = &self.state;
            let _one_at_a_time = inner.reload_lock.lock().await;
            // A server that is gone counts as failed, whatever its state was until now.
            self.check_ready().await;
            inner
                .context
                .variables
                .store(Arc::new(settings.variables.clone()));
            inner.naming.store(Arc::new(naming(settings)));
            if settings.servers.iter().any(needs_process) {
                inner.context.processes.start_guard();
            }
            let variables = inner.context.variables.load_full();
            let entries = settings.servers.iter();
            let wanted = entries.map(|entry| self.resolve_entry(entry, variables.clone()));
            let wanted = futures::future::join_all(wanted).await;

            let old = inner.servers.load_full();
            let mut report = ReloadReport::default();
            let mut stopping = Vec::new();
            for member in old
                .iter()
                .filter(|member| settings.server(member.name().as_str()).is_none())
            {
                report.removed.push(member.name().to_string());
                stopping.extend(member.handle().cloned());
            }
            let mut members = Vec::with_capacity(wanted.len());
            let mut starting = Vec::new();
            let names = settings.server_names();
            for (entry, wanted) in settings.servers.iter().zip(wanted) {
                let before = old.iter().find(|member| *member.name() == entry.name);
                let name = entry.name.to_string();
                let Some((server, resolved)) = wanted else {
                    if let Some(handle) = before.and_then(HostedServer::handle) {
                        report.removed.push(name);
                        stopping.push(handle.clone());
                    }
                    members.push(HostedServer::inactive(entry));
                    continue;
                };
                let fingerprint = resolved.as_ref().map(|known| &known.fingerprint);
                let fate = ReloadAction::for_server(before, fingerprint);
                report.record(fate, name);
                if let Some(handle) = before.and_then(HostedServer::handle) {
                    if matches!(fate, ReloadAction::Retried | ReloadAction::Unchanged) {
                        let is_pinned_alike = handle.settings().pin_tools == server.pin_tools;
                        handle.server.store(server);
                        if !is_pinned_alike || handle.has_withheld_tools() {
                            handle.relist_tools();
                        }
                        if fate == ReloadAction::Retried {
                            handle.wake();
                        }
                        members.push(HostedServer::Managed(handle.clone()));
                        continue;
                    }
                    stopping.push(handle.clone());
                }
                let files = TokenFiles::new(&inner.context.home, &names, &entry.name);
                let (handle, connection) =
                    HostedServer::new_connection(server, resolved, &inner.context, files);
                members.push(HostedServer::Managed(handle));
                starting.push(connection);
            }
            // Old processes go before new ones come: never two for one server.
            futures::future::join_all(stopping.iter().map(|handle| handle.stop())).await;
            inner.servers.store(Arc::new(members));
            (inner.context.changed)();
            for connection in starting {
                inner.tasks.spawn(connection.run());
            }
            report
        })
    }

    /// The server an entry asks for, or `None` if it is not to be connected.
    async fn resolve_entry(
        &self,
        entry: &ServerEntry,
        variables: Arc<Variables>,
    ) -> Option<(Arc<Server>, Option<ResolvedServer>)> {
        let server = entry.server.as_ref().ok().filter(|server| server.enabled)?;
        let server = Arc::new(server.clone());
        let host_context = &self.state.context;
        let resolved = connection::resolve_references(&server, host_context, variables).await;
        Some((server, resolved.ok()))
    }
}

/// Whether an entry needs a process at once.
fn needs_process(entry: &ServerEntry) -> bool {
    entry.server.as_ref().is_ok_and(|server| {
        server.enabled && !server.lazy && matches!(server.transport, TransportSettings::Stdio(_))
    })
}
