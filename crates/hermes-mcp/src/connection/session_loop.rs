//! The loop of a live session: watches for its end, refreshes its lists, keeps it alive, recycles it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use rmcp::{RoleClient, service::Peer};
use tokio::sync::oneshot;

use super::{
    Connection, ConnectionCommand, ConnectionContext, EndKind, SessionEnd,
    attempt_processes::collect_exit_report, connect::OpenedSession, keepalive::Keepalive,
    subscriptions,
};
use crate::{
    connection::{
        keepalive,
        link::LinkStatus,
        manifest,
        manifest::{Manifest, ManifestSummary},
        session::McpSession,
    },
    process::RunningProcess,
    tools::{
        catalog,
        catalog::{Catalog, ListError, ListedItems, ToolChanges},
    },
};

/// The most a refresh of the lists may take.
const REFRESH_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a new session defers work that can wait: at the start, other servers are still connecting.
pub(super) const REFRESH_DELAY: Duration = Duration::from_millis(500);
/// How long the end of a session may take before it is cut.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The same for a remote server that is gone and will hardly answer.
const LOST_CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

impl Connection {
    /// Serves a session until it ends. What is left of it is to be cleared once its end is published.
    pub(super) async fn serve_session(
        &mut self,
        live: OpenedSession,
    ) -> (SessionEnd, SessionCleanup) {
        let OpenedSession {
            service,
            session,
            mut process,
            catalog,
            manifest: remembered,
        } = live;
        let Self {
            shared, mailbox, ..
        } = self;
        let shared: &ConnectionContext = shared;
        let stop = &shared.host_context.stop;
        let mut unsettled = Some(shared.host_context.pins.expect());
        let mut known = SessionCatalog {
            catalog: shared.publish_session(&session, catalog, remembered),
            manifest: remembered,
        };
        let mut has_settled = false;
        let mut asking = CheckWaiters::default();
        let cancel = service.cancellation_token();
        let mut closed = service.waiting().map(|_| ()).boxed().fuse();
        let end = {
            let mut exited = std::pin::pin!(wait_for_exit(process.as_mut()));
            // Large futures that mostly wait are on the heap: a connected server should be small.
            let mut listening = Box::pin(subscriptions::follow_changes(
                &session,
                shared.resource_subscriptions.subscribe(),
            ));
            let mut keepalive = Keepalive::new(&shared.server.load(), &session);
            let mut renewals = session.activity.health.subscribe_renewals();
            let mut verdict = Box::pin(keepalive::check_when_suspect(&session));
            let mut settling = std::pin::pin!(tokio::time::sleep(REFRESH_DELAY));
            // One refresh at a time; what arrives meanwhile causes exactly one more.
            let mut refreshing = std::pin::pin!(Fuse::terminated());
            loop {
                let recycle_at = recycle_at(&shared.server.load(), &session);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break SessionEnd::Stopped(None),
                    command = mailbox.recv() => if let Some(end) = asking.handle_command(command, &session) {
                        break end;
                    },
                    () = &mut closed => break SessionEnd::Lost("the connection was closed".into()),
                    status = &mut exited => break SessionEnd::Lost(format!("the server's process ended ({status})")),
                    verdict_now = &mut verdict => match verdict_now {
                        Ok(()) => {
                            asking.0.clear();
                            // Calls wait for the link to change.
                            shared.link.send_modify(|_| ());
                            verdict = Box::pin(keepalive::check_when_suspect(&session));
                        }
                        Err(reason) => break SessionEnd::Lost(reason),
                    },
                    Ok(()) = renewals.changed() => session.activity.changes.mark_all(),
                    refreshed = &mut refreshing, if !refreshing.is_terminated() => {
                        if has_settled {
                            unsettled = None;
                        }
                        if let Some(refreshed) = refreshed {
                            known = refreshed;
                        }
                    }
                    () = session.activity.changes.wake.notified(), if refreshing.is_terminated() => {
                        refreshing.set(Box::pin(shared.refresh_catalog(&session, known.clone())).fuse());
                    }
                    () = &mut settling, if !has_settled => {
                        has_settled = true;
                        session.activity.changes.deferred_work.store(true, Ordering::Release);
                        session.activity.changes.wake.notify_one();
                    }
                    () = &mut listening => {}
                    failure = keepalive.ping_until_failure(&session) => break SessionEnd::Lost(failure),
                    () = sleep_until(recycle_at) => {
                        if session.activity.in_flight() == 0 && is_recycle_due(&shared.server.load(), &session) {
                            break SessionEnd::Recycled;
                        }
                    }
                }
            }
        };
        // First, so that the server ends while the rest is written down.
        session.ended.cancel();
        cancel.cancel();
        if process.is_some() && matches!(end, SessionEnd::Stopped(_)) {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut closed).await;
        }
        let catalog = known.catalog.clone();
        if !has_settled && known.manifest.is_some() {
            shared.store_manifest(&session, known).await;
        }
        if !has_settled {
            shared.pin_tools(&catalog).await;
        }
        drop(unsettled);
        let end = shared.describe_end(end, process.as_mut()).await;
        let remains = SessionCleanup {
            closed,
            process,
            _asking: asking,
        };
        (end, remains)
    }
}

/// How the server's process ended; a remote server has none, and never ends so.
async fn wait_for_exit(process: Option<&mut RunningProcess>) -> String {
    match process {
        Some(process) => process.exited().await.to_string(),
        None => std::future::pending().await,
    }
}

/// Those who wait to hear that the server was asked whether it is there.
#[derive(Default)]
struct CheckWaiters(Vec<oneshot::Sender<()>>);

impl CheckWaiters {
    /// Does what a session can do about a command, or ends it.
    fn handle_command(
        &mut self,
        command: Option<ConnectionCommand>,
        session: &McpSession,
    ) -> Option<SessionEnd> {
        match command {
            Some(ConnectionCommand::Stop(reply)) => return Some(SessionEnd::Stopped(Some(reply))),
            None => return Some(SessionEnd::Stopped(None)),
            Some(ConnectionCommand::AuthLost { challenge }) => {
                return Some(SessionEnd::AuthLost(challenge));
            }
            Some(ConnectionCommand::Check(done)) => {
                // A local server that works on a call may not answer anything else.
                if session.pid.is_none() || session.activity.in_flight() == 0 {
                    self.0.push(done);
                    session
                        .activity
                        .health
                        .report_suspicion(|| "somebody asked".into());
                }
            }
            Some(ConnectionCommand::Wake | ConnectionCommand::WakeForCall) => {}
        }
        None
    }
}

/// A session's lists, and what the file says about them.
#[derive(Clone)]
struct SessionCatalog {
    catalog: Arc<Catalog>,
    manifest: Option<ManifestSummary>,
}

/// What is left of a session that has ended: a connection to close and a process to stop.
pub(super) struct SessionCleanup {
    closed: Fuse<BoxFuture<'static, ()>>,
    process: Option<RunningProcess>,
    /// Dropped at the end, which tells those who wait.
    _asking: CheckWaiters,
}

impl SessionCleanup {
    /// Closing ends an HTTP session with a DELETE, and asks a local server to leave by closing its stdin.
    pub(super) async fn close(self, end: EndKind) {
        let limit = match (end, &self.process) {
            (EndKind::Lost, None) => LOST_CLOSE_TIMEOUT,
            _ => CLOSE_TIMEOUT,
        };
        if !self.closed.is_terminated() {
            let _ = tokio::time::timeout(limit, self.closed).await;
        }
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

impl ConnectionContext {
    /// Makes a new session known. Resources and prompts are listed now that the tools are in use.
    fn publish_session(
        &self,
        session: &Arc<McpSession>,
        mut catalog: Catalog,
        remembered: Option<ManifestSummary>,
    ) -> Arc<Catalog> {
        self.breaker.reset();
        self.withhold_changed_tools(&mut catalog);
        self.log_tool_changes(&catalog);
        let has_resources = catalog.capabilities.resources.is_some();
        let has_prompts = catalog.capabilities.prompts.is_some();
        catalog.is_complete = !has_resources && !has_prompts;
        let catalog = Arc::new(catalog);
        self.publish(|link| {
            link.restarts += u32::from(link.attempts_ended > 0);
            link.status = LinkStatus::Ready;
            link.session = Some(session.clone());
            link.catalog = Some(catalog.clone());
            link.error = None;
            link.next_attempt_at = None;
            link.attempts_ended += 1;
        });
        let changes = &session.activity.changes;
        changes.resources.store(has_resources, Ordering::Release);
        changes.prompts.store(has_prompts, Ordering::Release);
        // With nothing to list there may be something to write down. Whether what is written still holds is looked at
        // when the start is over.
        if !catalog.is_complete || remembered.is_none() {
            changes.wake.notify_one();
        }
        catalog
    }

    fn redact(&self, text: &str) -> String {
        self.redactor.load().redact(text).into_owned()
    }

    /// The end with a redacted reason, and with the exit of the process where there is one.
    async fn describe_end(
        &self,
        end: SessionEnd,
        process: Option<&mut RunningProcess>,
    ) -> SessionEnd {
        match (end, process) {
            (SessionEnd::Lost(reason), Some(process)) => {
                SessionEnd::Lost(self.with_exit_report(reason, process).await)
            }
            (SessionEnd::Lost(reason), None) => SessionEnd::Lost(self.redact(&reason)),
            (end, _) => end,
        }
    }

    async fn with_exit_report(&self, reason: String, process: &mut RunningProcess) -> String {
        let last = collect_exit_report(process).await;
        let mut text = match last.exit {
            Some(exit) => format!("the server's process ended ({exit})"),
            None => reason,
        };
        if !last.stderr.is_empty() {
            text.push_str("; its last stderr lines:\n");
            text.push_str(&last.stderr.join("\n"));
        }
        self.redact(&text)
    }

    /// Lists again what has changed, publishes it and writes it down. One at a time: the caller awaits it.
    async fn refresh_catalog(
        &self,
        session: &McpSession,
        old: SessionCatalog,
    ) -> Option<SessionCatalog> {
        let changes = &session.activity.changes;
        if changes.deferred_work.swap(false, Ordering::AcqRel) {
            self.pin_tools(&old.catalog).await;
        }
        let announced = changes.announced();
        let (tools, resources, prompts) = session.activity.take_changes();
        if !tools && !resources && !prompts {
            return Some(self.store_manifest(session, old).await);
        }
        let listing = list_changed(&session.peer, &old.catalog, tools, resources, prompts);
        let catalog = match tokio::time::timeout(REFRESH_TIMEOUT, listing).await {
            Ok(Ok(mut catalog)) => {
                for warning in &mut catalog.warnings {
                    *warning = self.redact(warning);
                }
                if tools {
                    self.withhold_changed_tools(&mut catalog);
                }
                Arc::new(catalog)
            }
            Ok(Err(error)) => {
                let error = self.redact(&error.to_string());
                tracing::warn!(server = %self.name, error, "failed to refresh the lists");
                return None;
            }
            Err(_) => {
                tracing::warn!(server = %self.name, "list refresh timed out");
                return None;
            }
        };
        if tools {
            self.log_tool_changes(&catalog);
        }
        self.publish(|link| link.catalog = Some(catalog.clone()));
        if tools {
            changes.mark_listed(announced);
            self.pin_tools(&catalog).await;
        }
        let new = SessionCatalog { catalog, ..old };
        Some(self.store_manifest(session, new).await)
    }

    fn log_tool_changes(&self, new: &Catalog) {
        let Some(old) = self.link.borrow().catalog.clone() else {
            return;
        };
        let changes = ToolChanges::between(&old.tools, &new.tools);
        if !changes.is_empty() {
            let ToolChanges {
                added,
                removed,
                changed,
            } = changes;
            tracing::info!(server = %self.name, ?added, ?removed, ?changed, "tools changed");
        }
    }

    /// Writes the manifest, unless the file is up to date.
    async fn store_manifest(
        &self,
        session: &McpSession,
        mut known: SessionCatalog,
    ) -> SessionCatalog {
        let mut manifest = Manifest::new(session.era, &session.info, &known.catalog);
        let Some(path) = self.manifest_path() else {
            return known;
        };
        if !manifest.matches_stored(known.manifest) {
            let writing = move || manifest::write_manifest(&path, &manifest);
            match tokio::task::spawn_blocking(writing).await {
                Ok(Ok(remembered)) => known.manifest = Some(remembered),
                Ok(Err(error)) => {
                    tracing::debug!(server = %self.name, %error, "failed to write the manifest");
                }
                Err(_) => {}
            }
        }
        known
    }
}

async fn list_changed(
    peer: &Peer<RoleClient>,
    old: &Catalog,
    tools: bool,
    resources: bool,
    prompts: bool,
) -> Result<Catalog, ListError> {
    let mut new = old.clone();
    let mut warnings = if tools {
        Vec::new()
    } else {
        old.warnings.clone()
    };
    let capabilities = &old.capabilities;
    if tools {
        let list = catalog::list_tools(peer, capabilities).await?;
        new.tools = list.items;
        warnings.extend(list.warnings);
    }
    // A server that fails to list resources or prompts keeps its tools.
    if resources {
        let (list, templates) = tokio::join!(
            catalog::list_resources(peer, capabilities),
            catalog::list_templates(peer, capabilities)
        );
        new.resources = items_or_warn(list, &mut warnings);
        new.templates = items_or_warn(templates, &mut warnings);
    }
    if prompts {
        new.prompts = items_or_warn(
            catalog::list_prompts(peer, capabilities).await,
            &mut warnings,
        );
    }
    warnings.dedup();
    new.warnings = warnings;
    new.is_complete |= (resources || capabilities.resources.is_none())
        && (prompts || capabilities.prompts.is_none());
    Ok(new)
}

fn items_or_warn<T>(list: Result<ListedItems<T>, ListError>, warnings: &mut Vec<String>) -> Vec<T> {
    match list {
        Ok(list) => {
            warnings.extend(list.warnings);
            list.items
        }
        Err(error) => {
            warnings.push(error.to_string());
            Vec::new()
        }
    }
}

/// When to look whether a local server is idle or old enough to be stopped.
fn recycle_at(server: &hermes_config::Server, session: &McpSession) -> Option<Instant> {
    session.pid?;
    let idle = server.idle_timeout.map(|limit| {
        // While a call runs the clock of idleness has not begun.
        let since = if session.activity.in_flight() > 0 {
            Instant::now()
        } else {
            session.activity.idle_since()
        };
        since + limit
    });
    let age = server.max_lifetime.map(|limit| session.since + limit);
    let at = match (idle, age) {
        (Some(idle), Some(age)) => idle.min(age),
        (Some(at), None) | (None, Some(at)) => at,
        (None, None) => return None,
    };
    // A call that outlives the age limit is looked after again soon.
    Some(at.max(Instant::now() + Duration::from_millis(50)))
}

fn is_recycle_due(server: &hermes_config::Server, session: &McpSession) -> bool {
    let idle = server
        .idle_timeout
        .is_some_and(|limit| session.activity.idle_since().elapsed() >= limit);
    let old = server
        .max_lifetime
        .is_some_and(|limit| session.since.elapsed() >= limit);
    idle || old
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
