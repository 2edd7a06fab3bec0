//! The loop of a live session: watches for its end, refreshes its lists, keeps it alive, recycles it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use rmcp::{RoleClient, service::Peer};
use tokio::sync::oneshot;

use super::{
    Command, Connection, End, Ended, Shared, attempt_processes::last_words, connect::Live,
    keepalive::Keepalive, liveness, subscriptions,
};
use crate::{
    catalog::{self, Catalog, ListError, Listed, ToolChanges},
    link::Status,
    manifest::{self, Manifest, Remembered},
    process::Running,
    session::Session,
};

/// The most a refresh of the lists may take.
const REFRESH_LIMIT: Duration = Duration::from_mins(1);
/// How long a new session defers work that can wait: at the start, other servers are still connecting.
pub(super) const SETTLING: Duration = Duration::from_millis(500);
/// How long the end of a session may take before it is cut.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);
/// The same for a remote server that is gone and will hardly answer.
const LOST_LIMIT: Duration = Duration::from_millis(200);

impl Connection {
    /// Serves a session until it ends. What is left of it is to be cleared once its end is published.
    pub(super) async fn serve(&mut self, live: Live) -> (End, Remains) {
        let Live {
            service,
            session,
            mut process,
            catalog,
            remembered,
        } = live;
        let Self {
            shared, mailbox, ..
        } = self;
        let shared: &Shared = shared;
        let stop = &shared.surroundings.stop;
        let mut unsettled = Some(shared.surroundings.pins.expect());
        let mut known = Known {
            catalog: shared.announce(&session, catalog, remembered),
            remembered,
        };
        let mut has_settled = false;
        let mut asking = CheckWaiters::default();
        let cancel = service.cancellation_token();
        let mut closed = service.waiting().map(|_| ()).boxed().fuse();
        let end = {
            let mut exited = std::pin::pin!(wait_for_exit(process.as_mut()));
            // Large futures that mostly wait are on the heap: a connected server should be small.
            let mut listening = Box::pin(subscriptions::follow(
                &session,
                shared.wanted_resources.subscribe(),
            ));
            let mut keepalive = Keepalive::new(&shared.server.load(), &session);
            let mut renewals = session.traffic.doubt.renewals();
            let mut verdict = Box::pin(liveness::next_verdict(&session));
            let mut settling = std::pin::pin!(tokio::time::sleep(SETTLING));
            // One refresh at a time; what arrives meanwhile causes exactly one more.
            let mut refreshing = std::pin::pin!(Fuse::terminated());
            loop {
                let recycle_at = recycle_at(&shared.server.load(), &session);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break End::Stopped(None),
                    command = mailbox.recv() => if let Some(end) = asking.obey(command, &session) {
                        break end;
                    },
                    () = &mut closed => break End::Lost("the connection was closed".into()),
                    status = &mut exited => break End::Lost(format!("the server's process ended ({status})")),
                    verdict_now = &mut verdict => match verdict_now {
                        Ok(()) => {
                            asking.0.clear();
                            // Calls wait for the link to change.
                            shared.link.send_modify(|_| ());
                            verdict = Box::pin(liveness::next_verdict(&session));
                        }
                        Err(reason) => break End::Lost(reason),
                    },
                    Ok(()) = renewals.changed() => session.traffic.changes.mark_all(),
                    refreshed = &mut refreshing, if !refreshing.is_terminated() => {
                        if has_settled {
                            unsettled = None;
                        }
                        if let Some(refreshed) = refreshed {
                            known = refreshed;
                        }
                    }
                    () = session.traffic.changes.wake.notified(), if refreshing.is_terminated() => {
                        refreshing.set(Box::pin(shared.refresh(&session, known.clone())).fuse());
                    }
                    () = &mut settling, if !has_settled => {
                        has_settled = true;
                        session.traffic.changes.settle.store(true, Ordering::Release);
                        session.traffic.changes.wake.notify_one();
                    }
                    () = &mut listening => {}
                    failure = keepalive.beat(&session) => break End::Lost(failure),
                    () = sleep_until(recycle_at) => {
                        if session.traffic.in_flight() == 0 && is_due(&shared.server.load(), &session) {
                            break End::Recycled;
                        }
                    }
                }
            }
        };
        let catalog = known.catalog.clone();
        if !has_settled && known.remembered.is_some() {
            shared.remember(&session, known).await;
        }
        session.ended.cancel();
        cancel.cancel();
        if !has_settled {
            shared.settle(&catalog).await;
        }
        drop(unsettled);
        let end = shared.in_words(end, process.as_mut()).await;
        let remains = Remains {
            closed,
            process,
            _asking: asking,
        };
        (end, remains)
    }
}

/// How the server's process ended; a remote server has none, and never ends so.
async fn wait_for_exit(process: Option<&mut Running>) -> String {
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
    fn obey(&mut self, command: Option<Command>, session: &Session) -> Option<End> {
        match command {
            Some(Command::Stop(reply)) => return Some(End::Stopped(Some(reply))),
            None => return Some(End::Stopped(None)),
            Some(Command::AuthLost { challenge }) => return Some(End::AuthLost(challenge)),
            Some(Command::Check(done)) => {
                // A local server that works on a call may not answer anything else.
                if session.pid.is_none() || session.traffic.in_flight() == 0 {
                    self.0.push(done);
                    session.traffic.doubt.raise(|| "somebody asked".into());
                }
            }
            Some(Command::Wake | Command::CallWaits) => {}
        }
        None
    }
}

/// A session's lists, and what the file says about them.
#[derive(Clone)]
struct Known {
    catalog: Arc<Catalog>,
    remembered: Option<Remembered>,
}

/// What is left of a session that has ended: a connection to close and a process to stop.
pub(super) struct Remains {
    closed: Fuse<BoxFuture<'static, ()>>,
    process: Option<Running>,
    /// Dropped at the end, which tells those who wait.
    _asking: CheckWaiters,
}

impl Remains {
    /// Closing ends an HTTP session with a DELETE, and asks a local server to leave by closing its stdin.
    pub(super) async fn clear(self, end: Ended) {
        let limit = match (end, &self.process) {
            (Ended::Lost, None) => LOST_LIMIT,
            _ => CLOSE_LIMIT,
        };
        if !self.closed.is_terminated() {
            let _ = tokio::time::timeout(limit, self.closed).await;
        }
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

impl Shared {
    /// Makes a new session known. Resources and prompts are listed now that the tools are in use.
    fn announce(
        &self,
        session: &Arc<Session>,
        mut catalog: Catalog,
        remembered: Option<Remembered>,
    ) -> Arc<Catalog> {
        self.breaker.reset();
        self.withhold(&mut catalog);
        self.log_changes(&catalog);
        let has_resources = catalog.capabilities.resources.is_some();
        let has_prompts = catalog.capabilities.prompts.is_some();
        catalog.is_complete = !has_resources && !has_prompts;
        let catalog = Arc::new(catalog);
        self.publish(|link| {
            link.restarts += u32::from(link.attempts_ended > 0);
            link.status = Status::Ready;
            link.session = Some(session.clone());
            link.catalog = Some(catalog.clone());
            link.error = None;
            link.next_attempt_at = None;
            link.attempts_ended += 1;
        });
        let changes = &session.traffic.changes;
        changes.resources.store(has_resources, Ordering::Release);
        changes.prompts.store(has_prompts, Ordering::Release);
        // With nothing to list there may be something to write down. Whether what is written still holds is looked at
        // when the start is over.
        if !catalog.is_complete || remembered.is_none() {
            changes.wake.notify_one();
        }
        catalog
    }

    fn redacted(&self, text: &str) -> String {
        self.redactor.load().redact(text).into_owned()
    }

    /// The end with a redacted reason, and with the exit of the process where there is one.
    async fn in_words(&self, end: End, process: Option<&mut Running>) -> End {
        match (end, process) {
            (End::Lost(reason), Some(process)) => {
                End::Lost(self.with_last_words(reason, process).await)
            }
            (End::Lost(reason), None) => End::Lost(self.redacted(&reason)),
            (end, _) => end,
        }
    }

    async fn with_last_words(&self, reason: String, process: &mut Running) -> String {
        let last = last_words(process).await;
        let mut text = match last.exit {
            Some(exit) => format!("the server's process ended ({exit})"),
            None => reason,
        };
        if !last.stderr.is_empty() {
            text.push_str("; its last stderr lines:\n");
            text.push_str(&last.stderr.join("\n"));
        }
        self.redacted(&text)
    }

    /// Lists again what has changed, publishes it and writes it down. One at a time: the caller awaits it.
    async fn refresh(&self, session: &Session, old: Known) -> Option<Known> {
        let changes = &session.traffic.changes;
        if changes.settle.swap(false, Ordering::AcqRel) {
            self.settle(&old.catalog).await;
        }
        let announced = changes.announced();
        let (tools, resources, prompts) = session.traffic.take_changes();
        if !tools && !resources && !prompts {
            return Some(self.remember(session, old).await);
        }
        let listing = relist(&session.peer, &old.catalog, tools, resources, prompts);
        let catalog = match tokio::time::timeout(REFRESH_LIMIT, listing).await {
            Ok(Ok(mut catalog)) => {
                for warning in &mut catalog.warnings {
                    *warning = self.redacted(warning);
                }
                if tools {
                    self.withhold(&mut catalog);
                }
                Arc::new(catalog)
            }
            Ok(Err(error)) => {
                let error = self.redacted(&error.to_string());
                tracing::warn!(server = %self.name, error, "refreshing the lists failed");
                return None;
            }
            Err(_) => {
                tracing::warn!(server = %self.name, "refreshing the lists timed out");
                return None;
            }
        };
        if tools {
            self.log_changes(&catalog);
        }
        self.publish(|link| link.catalog = Some(catalog.clone()));
        if tools {
            changes.listed(announced);
            self.settle(&catalog).await;
        }
        let new = Known { catalog, ..old };
        Some(self.remember(session, new).await)
    }

    fn log_changes(&self, new: &Catalog) {
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
    async fn remember(&self, session: &Session, mut known: Known) -> Known {
        let mut manifest = Manifest::new(session.era, &session.info, &known.catalog);
        let Some(path) = self.manifest_path() else {
            return known;
        };
        if !manifest.is_remembered(known.remembered) {
            let writing = move || manifest::write(&path, &manifest);
            match tokio::task::spawn_blocking(writing).await {
                Ok(Ok(remembered)) => known.remembered = Some(remembered),
                Ok(Err(error)) => {
                    tracing::debug!(server = %self.name, %error, "writing the manifest failed");
                }
                Err(_) => {}
            }
        }
        known
    }
}

async fn relist(
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
        new.resources = items(list, &mut warnings);
        new.templates = items(templates, &mut warnings);
    }
    if prompts {
        new.prompts = items(
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

fn items<T>(list: Result<Listed<T>, ListError>, warnings: &mut Vec<String>) -> Vec<T> {
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
fn recycle_at(server: &hermes_config::Server, session: &Session) -> Option<Instant> {
    session.pid?;
    let idle = server.idle_timeout.map(|limit| {
        // While a call runs the clock of idleness has not begun.
        let since = if session.traffic.in_flight() > 0 {
            Instant::now()
        } else {
            session.traffic.idle_since()
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

fn is_due(server: &hermes_config::Server, session: &Session) -> bool {
    let idle = server
        .idle_timeout
        .is_some_and(|limit| session.traffic.idle_since().elapsed() >= limit);
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
