//! A Hub in this process: its data, the runtime of its tenants, its listeners. `hermes hub serve` is this alone,
//! `hermes up` adds the user's own home as a tenant.

mod backups;
#[cfg(unix)]
pub(crate) mod bots;
#[cfg(unix)]
pub(crate) mod chat_runs;
mod isolation;
mod opening;
#[cfg(unix)]
#[cfg(unix)]
pub mod runtime;
#[cfg(unix)]
pub(crate) mod teams;

use std::{
    net::SocketAddr, os::unix::net::UnixListener as StdUnixListener, path::PathBuf, sync::Arc,
    time::Duration,
};

use hermes_hub::{
    Hub, HubParts, ServeError,
    settings::{RuntimeKind, Settings, SettingsSources},
    storage::{data_dir::DataDirLock, encryption::SecretKey, state::OpenedState},
    tenants::runtime::{Runtime, mock::MockRuntime},
};
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::backups::BackupSchedule;
use crate::{
    embedded_hub::runtime::{IsolationSupport, ProcessRuntime, listen_private_routes},
    failure::Failure,
};

pub(crate) use self::{
    isolation::{describe_isolation, selftest_setup},
    opening::{MetricsPort, database_path, open_data_dir},
};

/// How long agents may take to stop after their runs were drained.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// What runs the tenants that have homes of their own.
#[derive(Clone)]
pub(crate) enum TenantBackend {
    /// Nothing does; runs end with a fixed text.
    Mock(Arc<MockRuntime>),
    /// A process each.
    Processes(Arc<ProcessRuntime>),
}

impl TenantBackend {
    pub(crate) fn runtime(&self) -> Arc<dyn Runtime> {
        match self {
            Self::Mock(runtime) => Arc::clone(runtime) as Arc<dyn Runtime>,
            Self::Processes(runtime) => Arc::clone(runtime) as Arc<dyn Runtime>,
        }
    }
}

/// A Hub whose data is open and whose port is bound, not serving yet.
pub(crate) struct PreparedHub {
    pub(crate) settings: Settings,
    pub(crate) state: OpenedState,
    pub(crate) key: SecretKey,
    pub(crate) node: String,
    pub(crate) tenants: TenantBackend,
    /// How tenants are kept apart, in words.
    pub(crate) isolation: String,
    /// Where the first token is, if it was made just now.
    pub(crate) new_token: Option<PathBuf>,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    /// Where agents ask the Hub for the files of their groups.
    pub(crate) private_path: Option<PathBuf>,
    /// What they ask comes here.
    private: Option<StdUnixListener>,
    backups: Option<BackupSchedule>,
    lock: DataDirLock,
}

/// A Hub that serves.
pub(crate) struct RunningHub {
    pub(crate) hub: Hub,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Option<SocketAddr>,
    state: OpenedState,
    tenants: TenantBackend,
    listeners: JoinSet<Result<(), ServeError>>,
    stop: CancellationToken,
    _lock: DataDirLock,
}

impl PreparedHub {
    /// Starts the listeners.
    pub(crate) async fn start(self, runtime: Arc<dyn Runtime>) -> Result<RunningHub, Failure> {
        opening::raise_limit();
        let address = self.listener.local_addr()?;
        let data_dir = self.settings.data_dir.clone();
        let metrics = self
            .metrics
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()?;
        let hub = Hub::start(HubParts {
            state: self.state.shared(),
            key: self.key,
            runtime,
            settings: self.settings,
            node: self.node,
        })
        .await
        .map_err(|error| Failure::failed(format!("cannot start the Hub: {error}")))?;
        let stop = CancellationToken::new();
        let mut doors = JoinSet::new();
        doors.spawn({
            let (hub, stop, listener) = (hub.clone(), stop.clone(), self.listener);
            async move { hub.serve(listener, stop).await }
        });
        doors.spawn({
            let (hub, stop) = (hub.clone(), stop.clone());
            async move {
                tokio::select! {
                    () = hub.wait_until_replaced() => Err(ServeError::NodeReplaced),
                    () = stop.cancelled() => Ok(()),
                }
            }
        });
        if let Some(listener) = self.metrics {
            let (hub, stop) = (hub.clone(), stop.clone());
            doors.spawn(async move { hub.serve_metrics(listener, stop).await });
        }
        if let Some(listener) = self.private {
            let (hub, stop) = (hub.clone(), stop.clone());
            let listener = UnixListener::from_std(listener)?;
            doors.spawn(async move { hub.serve_private(listener, stop).await });
        }
        // Of an SQLite file only: PostgreSQL has its own programs.
        if let Some((backups, state)) = self.backups.zip(self.state.sqlite()) {
            let (state, stop) = (Arc::clone(state), stop.clone());
            doors.spawn(async move {
                backups.run(data_dir, state, stop).await;
                Ok(())
            });
        }
        Ok(RunningHub {
            hub,
            address,
            metrics,
            state: self.state,
            tenants: self.tenants,
            listeners: doors,
            stop,
            _lock: self.lock,
        })
    }
}

impl RunningHub {
    /// Where it is for those on this machine.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.hub.settings().tls {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Waits until a listener fails.
    pub(crate) async fn wait_for_failure(&mut self) -> Failure {
        loop {
            match self.listeners.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => return Failure::failed(error.to_string()),
                Some(Err(error)) => {
                    return Failure::failed(format!("a listener of the Hub failed: {error}"));
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Lets requests and runs end, stops the agents, and closes everything.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        self.hub.close().await;
        while let Some(ended) = self.listeners.join_next().await {
            if let Ok(Err(error)) = ended {
                tracing::warn!(%error, "Hub listener failed during shutdown");
            }
        }
        if let TenantBackend::Processes(runtime) = &self.tenants {
            runtime.close(SHUTDOWN_GRACE).await;
        }
        self.state.shared().close().await;
    }
}

/// What runs tenants by these settings.
struct TenantRuntime {
    tenants: TenantBackend,
    /// In words, how they are kept apart.
    isolation: String,
    /// Where they ask the Hub.
    private: Option<(StdUnixListener, PathBuf)>,
}

/// Makes what runs tenants. Call it inside a tokio runtime.
fn start_tenant_backend(settings: &Settings) -> Result<TenantRuntime, Failure> {
    match settings.runtime {
        RuntimeKind::Mock => Ok(TenantRuntime {
            tenants: TenantBackend::Mock(Arc::default()),
            isolation: describe_isolation(settings, &IsolationSupport::detect_without_cgroups()),
            private: None,
        }),
        RuntimeKind::Process => {
            let mut setup = isolation::runtime_setup(settings)?;
            let (listener, path) = listen_private_routes(&setup.data_dir, setup.callers())?;
            setup.hub_socket = Some(path.clone());
            Ok(TenantRuntime {
                isolation: describe_isolation(settings, &setup.support),
                tenants: TenantBackend::Processes(Arc::new(ProcessRuntime::new(setup)?)),
                private: Some((listener, path)),
            })
        }
    }
}

/// The settings, from all sources.
pub(crate) fn load_settings(sources: &SettingsSources) -> Result<Settings, Failure> {
    Settings::load(sources).map_err(|error| {
        Failure::usage(error.to_string()).hint("`hermes hub doctor` checks everything else as well")
    })
}
