//! From the opening of a Hub's directory to its end: lock, database, secret key and first token; how the Hub before
//! ended, work that must be completed, and the shutdown.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Hub, HubParts, StartError};
use crate::{
    api_types::Time,
    auth::{FirstTokenError, create_first_token},
    settings::Settings,
    storage::{
        data_dir::{DataDir, DataDirError, DataDirLock},
        encryption::{EncryptionError, SecretKey},
        state::{OpenedState, State, StateError, StateOpenError},
    },
    tenants::{runs::PreviousEnd, runtime::Runtime},
};

/// Time between attempts. Each attempt also waits for the database itself.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

const RUNNING: &[u8] = b"running";
const STOPPED: &[u8] = b"stopped";

/// What runs in the background, and whether the Hub is stopping.
pub(super) struct Lifecycle {
    /// Changes in progress, and other work that must finish before the Hub stops.
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: CancellationToken,
    /// Another process has this node's id.
    pub(super) replaced: CancellationToken,
    is_draining: AtomicBool,
    started_at: Time,
}

impl Lifecycle {
    pub(super) fn start() -> Self {
        Self {
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            replaced: CancellationToken::new(),
            is_draining: AtomicBool::new(false),
            started_at: Time::now(),
        }
    }
}

impl Hub {
    /// Does something now, or as soon as the database is available. If the Hub is killed before that, the next start
    /// completes it.
    pub(crate) async fn retry_until_stored<W, F>(&self, what: &'static str, work: W)
    where
        W: Fn(Self) -> F + Send + 'static,
        F: Future<Output = Result<(), StateError>> + Send,
    {
        if is_finished(what, work(self.clone()).await) {
            return;
        }
        let hub = self.clone();
        self.tasks().spawn(async move {
            loop {
                let is_last = tokio::select! {
                    () = hub.shutdown().cancelled() => true,
                    () = tokio::time::sleep(RETRY_INTERVAL) => false,
                };
                if is_finished(what, work(hub.clone()).await) || is_last {
                    return;
                }
            }
        });
    }

    pub(crate) fn started_at(&self) -> Time {
        self.0.lifecycle.started_at
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.lifecycle.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn start_draining(&self) {
        self.0.lifecycle.is_draining.store(true, Ordering::Relaxed);
        self.0.lifecycle.shutdown.cancel();
    }

    /// Cancelled when the Hub shuts down.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.lifecycle.shutdown
    }

    /// Tracks work that must finish before the Hub stops.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.lifecycle.tasks
    }
}

/// Whether the work is done or can never succeed.
fn is_finished(what: &str, done: Result<(), StateError>) -> bool {
    match done {
        Ok(()) => true,
        Err(error @ (StateError::Unavailable(_) | StateError::DiskFull(_))) => {
            tracing::warn!(%error, "{what} failed; retrying");
            false
        }
        Err(error) => {
            tracing::error!(%error, "{what} failed; giving up");
            true
        }
    }
}

fn lifecycle_key(node: &str) -> String {
    format!("life:{node}")
}

/// How the Hub before ended, on this node. From now on, this one runs.
pub(super) async fn record_start(state: &dyn State, node: &str) -> Result<PreviousEnd, StateError> {
    let name = lifecycle_key(node);
    let before = state.meta(&name).await?;
    if before.as_deref() == Some(RUNNING) {
        tracing::warn!(node, "previous Hub process was killed or crashed");
        return Ok(PreviousEnd::Crashed);
    }
    state.set_meta(&name, RUNNING).await?;
    Ok(PreviousEnd::Stopped)
}

/// Whether a Hub on this node has begun and was not stopped.
pub(super) async fn is_running(state: &dyn State, node: &str) -> Result<bool, StateError> {
    let before = state.meta(&lifecycle_key(node)).await?;
    Ok(before.as_deref() == Some(RUNNING))
}

/// Writes down that this one is being stopped.
pub(super) async fn record_stop(state: &dyn State, node: &str) {
    if let Err(error) = state.set_meta(&lifecycle_key(node), STOPPED).await {
        tracing::warn!(%error, "failed to record the shutdown; the next start treats it as a crash");
    }
}

pub struct OpenedHub {
    pub hub: Hub,
    /// Where the first token was written, at the first start.
    pub first_token: Option<PathBuf>,
    /// Holds the lock on the directory.
    pub lock: DataDirLock,
}

/// Why a Hub does not open.
#[derive(Debug, thiserror::Error)]
pub enum HubOpenError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Database(#[from] StateOpenError),
    #[error(transparent)]
    Key(#[from] EncryptionError),
    #[error(transparent)]
    FirstToken(#[from] FirstTokenError),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Hub {
    /// Opens the directory that the settings name and starts a Hub on it.
    pub async fn open(
        mut settings: Settings,
        runtime: Arc<dyn Runtime>,
    ) -> Result<OpenedHub, HubOpenError> {
        let directory = DataDir::create(&settings.data_dir)?;
        directory.path().clone_into(&mut settings.data_dir);
        let lock = directory.lock()?;
        let node = match &settings.node_id {
            Some(id) => id.clone(),
            None => directory.node_id()?,
        };
        let state = OpenedState::open(&settings.database, &node).await?.shared();
        let key = SecretKey::load(&settings.secret_key_file, &*state).await?;
        let token_file = settings.admin_token_file.clone();
        let is_first = create_first_token(&*state, &token_file).await?;
        let hub = Self::start(HubParts {
            state,
            key,
            runtime,
            settings,
            node,
        })
        .await?;
        Ok(OpenedHub {
            hub,
            first_token: is_first.then_some(token_file),
            lock,
        })
    }
}
