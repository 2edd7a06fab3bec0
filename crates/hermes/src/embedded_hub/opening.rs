//! From settings to a Hub that is ready to start: directory, lock, ports, database, key, first token, and the limit of open
//! files.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use hermes_hub::{
    auth::create_first_token,
    settings::Settings,
    storage::{data_dir::DataDir, encryption::SecretKey, state::OpenedState},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use super::{PreparedHub, backups::BackupSchedule};
use crate::failure::Failure;

/// Whether a metrics port that is in use is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsPort {
    /// The start fails.
    Required,
    /// The Hub starts without metrics.
    Optional,
}

impl PreparedHub {
    /// Opens everything. What can be refused without a trace is refused first.
    pub(crate) async fn open(
        mut settings: Settings,
        figures: MetricsPort,
    ) -> Result<Self, Failure> {
        check_supported(&settings)?;
        let backups = BackupSchedule::from_settings(&settings)?;
        let directory = open_data_dir(&settings)?;
        let lock = directory.lock()?;
        let listener = bind_listener(settings.listen).await?;
        let metrics = match settings.metrics.listen {
            None => None,
            Some(address) => match bind_listener(address).await {
                Ok(listener) => Some(listener),
                Err(_) if figures == MetricsPort::Optional => None,
                Err(failure) => {
                    return Err(
                        failure.hint("`metrics.listen` moves the metrics, `off` turns them off")
                    );
                }
            },
        };
        set_actual_port(&mut settings, listener.local_addr()?);
        let node = match &settings.node_id {
            Some(node) => node.clone(),
            None => directory.node_id()?,
        };
        let state = OpenedState::open(&settings.database, &node)
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        let shared = state.shared();
        let key = SecretKey::load(&settings.secret_key_file, &*shared)
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        let is_new = create_first_token(&*shared, &settings.admin_token_file)
            .await
            .map_err(|error| Failure::failed(error.to_string()))?;
        let running = super::start_tenant_backend(&settings)?;
        let (private, private_path) = running.private.unzip();
        Ok(Self {
            new_token: is_new.then(|| settings.admin_token_file.clone()),
            tenants: running.tenants,
            isolation: running.isolation,
            private,
            private_path,
            backups,
            settings,
            state,
            key,
            node,
            listener,
            metrics,
            lock,
        })
    }
}

/// The Hub's directory, made if it is not there.
pub(crate) fn open_data_dir(settings: &Settings) -> Result<DataDir, Failure> {
    Ok(DataDir::create(&settings.data_dir)?)
}

/// Refuses what does not go together: with a database of its own, a Hub has shares as directories; with one that
/// nodes share, they are in object storage that all of them reach.
fn check_supported(settings: &Settings) -> Result<(), Failure> {
    let usual = settings.data_dir.join("shares");
    let named = settings.objects.url.strip_prefix("file:");
    let named = named.map(|path| Path::new(path.strip_prefix("//").unwrap_or(path)));
    let is_usual = named == Some(&usual);
    match (settings.database.sqlite_path(), is_usual) {
        (Some(_), true) | (None, false) => Ok(()),
        (Some(_), false) => Err(Failure::usage(format!(
            "`objects.url`: with SQLite, shares lie in `{}` and nowhere else",
            usual.display()
        ))
        .hint("leave it out; to have them elsewhere, set `data_dir`, mount a disk there, or use PostgreSQL")),
        (None, true) => Err(Failure::usage(
            "`objects.url` is missing: with PostgreSQL, files are where all nodes reach them",
        )
        .hint("set it to `s3://bucket/prefix`, or to `file:///directory` that all nodes share")),
    }
}

/// The file of the database, if it is one.
pub(crate) fn database_path(settings: &Settings) -> Result<PathBuf, Failure> {
    settings.database.sqlite_path().ok_or_else(|| {
        Failure::usage("`database.url` names PostgreSQL, and this command works on an SQLite file")
            .hint("back up PostgreSQL with its own programs, such as `pg_dump`; `hermes hub backup --metadata` writes down where it is")
    })
}

async fn bind_listener(address: SocketAddr) -> Result<TcpListener, Failure> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Failure::failed(format!(
            "port {} of {} is taken by {}",
            address.port(),
            address.ip(),
            describe_port_holder(address).await
        ))),
        Err(error) => Err(Failure::failed(format!(
            "`{address}` cannot be used: {error}"
        ))),
    }
}

/// Who listens there, as far as it says so.
async fn describe_port_holder(address: SocketAddr) -> String {
    const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(TIMEOUT)
        .build();
    let Ok(client) = client else {
        return "another program".into();
    };
    let asked = client
        .get(format!("http://{address}/v1/healthz"))
        .send()
        .await;
    let version = asked.ok().and_then(|answer| {
        let version = answer.headers().get("hub-version")?.to_str().ok()?;
        Some(version.to_owned())
    });
    version.map_or_else(
        || "another program".into(),
        |version| format!("another Hub (version {version})"),
    )
}

/// Where the settings leave the port to the system, they learn which it is.
fn set_actual_port(settings: &mut Settings, address: SocketAddr) {
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    if settings.public_url == format!("{scheme}://{}", settings.listen) {
        settings.public_url = format!("{scheme}://{address}");
    }
    settings.listen = address;
}

/// Enough for every connection that a Hub takes. Programs that look through all numbers up to the limit take a moment
/// for so many, and minutes for the largest that systems have.
const MAX_OPEN_FILES: u64 = 1_048_576;

/// Raises the limit as far as the system lets this process.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MAX_OPEN_FILES).min(MAX_OPEN_FILES);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(files = wanted, "raised the open file limit"),
        Err(error) => tracing::warn!(%error, "cannot raise the open file limit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_the_system_chose_is_in_the_public_address() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::for_directory(directory.path()).unwrap();
        set_actual_port(&mut settings, "127.0.0.1:4000".parse().unwrap());
        assert_eq!(settings.public_url, "http://127.0.0.1:4000");

        settings.public_url = "https://hub.example.com".into();
        set_actual_port(&mut settings, "127.0.0.1:4001".parse().unwrap());
        assert_eq!(settings.public_url, "https://hub.example.com");
        assert_eq!(settings.listen.port(), 4001);
    }
}
