//! The Hub's own settings: `hub.yaml`, `HERMES_HUB_*` variables, flags and defaults.
//!
//! What a client may change while the Hub runs (policy, tenant-impact configuration) is state, not settings.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

mod build;
mod keys;
mod sizes;
#[cfg(test)]
mod tests;
mod values;

use values::Values;

/// Why the Hub does not start with these settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file can not be read.
    #[error("`{path}` can not be read: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file is no YAML.
    #[error("`{path}` is no usable YAML: {reason}", path = path.display())]
    NoYaml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// Nobody knows that key.
    #[error("unknown setting `{key}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// As written.
        key: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// A value that can not be used.
    #[error("setting `{key}`: {reason}")]
    Unusable {
        /// The key.
        key: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// Where settings come from, besides the file.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`; otherwise `hub.yaml` in the data directory, which need not exist.
    pub file: Option<PathBuf>,
    /// Keys and values from the command line; they win.
    pub flags: BTreeMap<String, String>,
    /// The process's variables.
    pub environment: BTreeMap<String, String>,
}

/// All settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// How clients call the Hub, without a slash at the end.
    pub public_url: String,
    /// Where everything lies.
    pub data_dir: PathBuf,
    /// Certificate and key, as PEM files.
    pub tls: Option<Tls>,
    /// Networks of proxies that may tell the client's address.
    pub trust_proxy: Vec<String>,
    /// Plain HTTP off this machine.
    pub insecure_http: bool,
    /// Names the Hub may be called by, besides those of this machine and of `public_url`.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call it, besides its own.
    pub allowed_origins: Vec<String>,
    /// `sqlite:` or `postgres:`.
    pub database_url: String,
    /// `file:` or `s3:`.
    pub objects_url: String,
    /// The key that seals secrets.
    pub secret_key_file: PathBuf,
    /// Where the first token is written.
    pub admin_token_file: PathBuf,
    /// What runs tenants.
    pub runtime: RuntimeKind,
    /// How tenants are kept apart.
    pub isolation: Isolation,
    /// An agent without work is stopped after so long.
    pub idle_stop_seconds: u64,
    /// Runs of each tenant.
    pub runs: Runs,
    /// What one request may ask for.
    pub limits: Limits,
    /// The MCP endpoint.
    pub mcp: Mcp,
    /// Copying contexts.
    pub sync: Sync,
    /// Deleted tenants.
    pub tenants: Tenants,
    /// The audit log.
    pub audit: Audit,
    /// Figures for Prometheus.
    pub metrics: Metrics,
    /// This node's name; made once if absent.
    pub node_id: Option<String>,
    /// How long a lease lasts.
    pub lease_seconds: u64,
    /// How long requests and runs may take at the end.
    pub drain_seconds: u64,
    /// Backups by the clock.
    pub backup: Backup,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// What runs tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A process for each.
    Process,
    /// Nothing: runs complete with a fixed text.
    Mock,
}

/// Whether tenants are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationMode {
    /// As far as the system allows.
    Auto,
    /// Not at all without a sandbox.
    Strict,
    /// Never.
    Off,
}

/// How tenants are kept apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Isolation {
    /// Whether.
    pub mode: IsolationMode,
    /// Resident bytes of a tenant's processes.
    pub memory_bytes: u64,
    /// Processes of a tenant.
    pub pids: u64,
    /// Processors.
    pub cpu: f64,
    /// Users for tenants when the Hub is root: first and last.
    pub uid_range: (u32, u32),
    /// Directories tenants may read besides the system's.
    pub read_paths: Vec<PathBuf>,
}

/// Runs of each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// At once.
    pub max_concurrent: u64,
    /// Waiting.
    pub queue_depth: u64,
    /// Of one run.
    pub max_minutes: u64,
    /// How long ended ones are kept.
    pub retention_days: u64,
}

/// What one request may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of a request.
    pub body_bytes: usize,
    /// Of a file that is read.
    pub read_bytes: u64,
    /// Of a file that is written.
    pub write_bytes: u64,
    /// Of a listing.
    pub list_entries: usize,
    /// Requests of a token.
    pub rps_per_token: u32,
    /// Requests of a token at once.
    pub burst: u32,
    /// Wrong tokens from one address.
    pub auth_failures_per_minute: u32,
}

/// Which tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// The 34.
    Standard,
    /// More.
    Extended,
}

/// The MCP endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mcp {
    /// Whether there is one.
    pub enabled: bool,
    /// Which tools.
    pub tools: ToolChoice,
    /// Without those that change something.
    pub read_only: bool,
    /// MCP sessions without a message end after so long.
    pub session_idle_seconds: u64,
    /// MCP sessions of one token.
    pub sessions_per_token: usize,
}

/// Copying contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sync {
    /// Directories beneath which destinations may lie.
    pub allowed_roots: Vec<PathBuf>,
    /// What is copied of a home.
    pub sources: Vec<String>,
}

/// Deleted tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenants {
    /// How long they can be had back.
    pub restore_days: u64,
    /// How long removed files are kept.
    pub trash_days: u64,
}

/// The audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// Whether reads over REST are written down too.
    pub rest_reads: bool,
    /// How long entries are kept.
    pub retention_days: u64,
}

/// Figures for Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// Where; nowhere if absent.
    pub listen: Option<SocketAddr>,
    /// Whether figures name tenants.
    pub per_tenant: bool,
}

/// Backups by the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// As cron jobs have them; never if absent.
    pub schedule: Option<String>,
    /// How many are kept.
    pub keep: u64,
    /// Where.
    pub path: Option<PathBuf>,
}

impl Settings {
    /// Reads everything: flags win over variables, those over the file, that over the defaults.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut outer = Values::default();
        outer.take_environment(&sources.environment)?;
        outer.take_flags(&sources.flags)?;
        let data_dir = outer
            .path("data_dir")?
            .unwrap_or_else(|| default_data_dir(&sources.environment));
        let file = sources
            .file
            .clone()
            .unwrap_or_else(|| data_dir.join("hub.yaml"));
        let mut values = Values::default();
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let document =
                    hermes_config::read_yaml(&text).map_err(|error| SettingsError::NoYaml {
                        path: file.clone(),
                        reason: error.to_string(),
                    })?;
                values.take_document(&document)?;
            }
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && sources.file.is_none() => {}
            Err(error) => {
                return Err(SettingsError::Unreadable {
                    path: file,
                    reason: error.to_string(),
                });
            }
        }
        values.take(outer);
        values.fill_references(
            file.parent().unwrap_or(Path::new(".")),
            &sources.environment,
        )?;
        Self::build(&values, data_dir)
    }

    /// The defaults, with everything in this directory.
    pub fn in_directory(data_dir: &Path) -> Result<Self, SettingsError> {
        Self::build(&Values::default(), data_dir.to_owned())
    }

    /// What the Hub may be reached by must be safe.
    fn check(&self) -> Result<(), SettingsError> {
        let is_open = !self.listen.ip().is_loopback();
        if is_open && self.tls.is_none() && self.trust_proxy.is_empty() && !self.insecure_http {
            return Err(unusable(
                "listen",
                "off this machine the Hub needs `tls.cert` and `tls.key`, a proxy in `trust_proxy`, or `insecure_http: true`",
            ));
        }
        if self
            .sync
            .allowed_roots
            .iter()
            .any(|root| !root.is_absolute())
        {
            return Err(unusable(
                "sync.allowed_roots",
                "every root must be an absolute path",
            ));
        }
        Ok(())
    }

    /// The host of `public_url`, with its port if it names one.
    pub fn public_host(&self) -> &str {
        host_of(&self.public_url).unwrap_or("localhost")
    }
}

fn unusable(key: &str, reason: impl Into<String>) -> SettingsError {
    SettingsError::Unusable {
        key: key.into(),
        reason: reason.into(),
    }
}

/// The host and port of a URL.
fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next()?;
    (matches!(scheme, "http" | "https") && !host.is_empty()).then_some(host)
}

fn default_data_dir(environment: &BTreeMap<String, String>) -> PathBuf {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    match (set("XDG_DATA_HOME"), set("HOME")) {
        (Some(data), _) => Path::new(data).join("hermes-hub"),
        (None, Some(home)) => Path::new(home).join(".local/share/hermes-hub"),
        (None, None) => "hermes-hub".into(),
    }
}
