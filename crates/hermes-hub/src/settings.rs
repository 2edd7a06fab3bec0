//! The Hub's settings: `hub.yaml`, `HERMES_HUB_*` variables, flags and defaults.
//!
//! What clients change while the Hub runs (policy, tenant-impact configuration) is state, not settings.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

mod build;
#[cfg(test)]
mod tests;
mod values;

use hermes_config::Secret;
use values::SettingValues;

use crate::api_types::Role;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("`{path}` cannot be read: {reason}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    #[error("`{path}` is not usable YAML: {reason}", path = path.display())]
    InvalidYaml {
        /// The file.
        path: PathBuf,
        reason: String,
    },
    #[error("unknown setting `{key}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    UnknownKey {
        /// As written.
        key: String,
        nearest: Option<String>,
    },
    #[error("setting `{key}`: {reason}")]
    InvalidValue {
        /// The key.
        key: String,
        reason: String,
    },
}

/// Sources of settings besides the default file.
#[derive(Debug, Clone, Default)]
pub struct SettingsSources {
    /// `--config`; otherwise `hub.yaml` in the data directory, which need not exist.
    pub file: Option<PathBuf>,
    /// Keys and values from the command line; they take precedence.
    pub flags: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
}

/// All settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub listen: SocketAddr,
    /// The Hub's URL for clients, without a trailing slash.
    pub public_url: String,
    pub data_dir: PathBuf,
    /// Certificate and key, as PEM files.
    pub tls: Option<TlsSettings>,
    /// Networks of trusted proxies, whose `X-Forwarded-For` is used.
    pub trust_proxy: Vec<String>,
    /// Allows plain HTTP on other than loopback addresses.
    pub insecure_http: bool,
    /// Allowed `Host` names, besides loopback and `public_url`.
    pub allowed_hosts: Vec<String>,
    /// Allowed origins, besides its own.
    pub allowed_origins: Vec<String>,
    pub database: DatabaseSettings,
    pub objects: ObjectSettings,
    /// The file with the key that encrypts secrets.
    pub secret_key_file: PathBuf,
    /// Where the first token is written.
    pub admin_token_file: PathBuf,
    pub runtime: RuntimeKind,
    pub isolation: IsolationSettings,
    /// Idle agents are stopped after this time.
    pub idle_stop_seconds: u64,
    pub runs: RunSettings,
    /// Limits of requests.
    pub limits: RequestLimits,
    /// The MCP endpoint.
    pub mcp: McpSettings,
    pub sync: SyncSettings,
    pub tenants: TenantSettings,
    /// The audit log.
    pub audit: AuditSettings,
    pub metrics: MetricsSettings,
    /// Traces.
    pub telemetry: TelemetrySettings,
    /// This node's name; generated once if absent.
    pub node_id: Option<String>,
    pub lease_seconds: u64,
    /// How many tenants this node takes by itself, where several nodes share a database.
    pub node_capacity: usize,
    /// Grace period for requests and runs at shutdown.
    pub drain_seconds: u64,
    /// Scheduled backups.
    pub backup: BackupSettings,
    /// How long events of the Hub and deliveries of webhooks are kept.
    pub event_retention_days: u64,
    /// Whether webhooks may be on this machine and in private networks.
    pub allow_private_webhooks: bool,
    /// Prices of models, by name.
    pub usage_prices: BTreeMap<String, ModelPrice>,
    /// The identity provider at which people sign in to the console.
    pub oidc: Option<OidcSettings>,
}

/// An identity provider (OpenID Connect).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// As its tokens have it.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client.
    pub client_secret: Option<Secret<String>>,
    pub scopes: Vec<String>,
    /// The claim with a person's groups; dots lead into nested ones.
    pub groups_claim: String,
    /// Roles by group; `*` is everybody.
    pub roles: BTreeMap<String, Role>,
}

/// The price of a million tokens of a model, in any currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    /// Of input that comes from a cache.
    pub cached: f64,
}

/// Where the Hub's state is. Addresses may have passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// `sqlite:` and a path, or `postgres:`.
    pub url: Secret<String>,
    /// The address for notices, if a pooler is at the other one.
    pub listen_url: Option<Secret<String>>,
    /// Of this node to PostgreSQL.
    pub max_connections: u32,
    /// How long PostgreSQL may take for a statement. Then the connection is given up.
    pub timeout: Duration,
}

impl DatabaseSettings {
    /// The file of an SQLite database.
    pub fn sqlite_path(&self) -> Option<PathBuf> {
        let path = self.url.expose().strip_prefix("sqlite:")?;
        Some(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))
    }

    pub fn is_postgres(&self) -> bool {
        let url = self.url.expose();
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }
}

/// Object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSettings {
    /// `file:` or `s3:`.
    pub url: String,
    /// The server, if it is not that of AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Allows plain HTTP.
    pub allow_http: bool,
    /// Without keys, the usual variables or the machine's role have them.
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret<String>>,
}

impl ObjectSettings {
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            endpoint: None,
            region: None,
            allow_http: false,
            access_key_id: None,
            secret_access_key: None,
        }
    }
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A process per tenant.
    Process,
    /// No agents: runs complete with a fixed text.
    Mock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationMode {
    /// As far as the system supports it.
    Auto,
    /// Refuses to start tenants without a sandbox.
    Strict,
    /// Never.
    Off,
}

#[derive(Debug, Clone, PartialEq)]
pub struct IsolationSettings {
    pub mode: IsolationMode,
    /// Resident memory of a tenant's processes.
    pub memory_bytes: u64,
    pub pids: u64,
    /// Processors.
    pub cpu: f64,
    /// First and last uid for tenants, if the Hub is root.
    pub uid_range: (u32, u32),
    /// Directories that tenants may read besides the system's.
    pub read_paths: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSettings {
    pub max_concurrent: u64,
    pub queue_depth: u64,
    /// Of one run.
    pub max_minutes: u64,
    pub retention_days: u64,
}

/// Limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    pub body_bytes: usize,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub list_entries: usize,
    pub rps_per_token: u32,
    pub burst: u32,
    pub auth_failures_per_minute: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// The 34 standard tools.
    Standard,
    Extended,
}

/// The MCP endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpSettings {
    pub enabled: bool,
    pub tools: ToolChoice,
    /// Hides tools that change something.
    pub read_only: bool,
    /// Idle MCP sessions end after this time.
    pub session_idle_seconds: u64,
    pub sessions_per_token: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncSettings {
    /// Allowed roots of destinations.
    pub allowed_roots: Vec<PathBuf>,
    /// Paths in a home that are copied.
    pub sources: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantSettings {
    /// How long they can be restored.
    pub restore_days: u64,
    /// How long removed files stay in the trash.
    pub trash_days: u64,
}

/// The audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Whether reads over REST are logged too.
    pub rest_reads: bool,
    pub retention_days: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Disabled if absent.
    pub listen: Option<SocketAddr>,
    /// Whether metrics have a tenant label.
    pub per_tenant: bool,
}

/// Where traces go. The standard variables of OpenTelemetry say what is not set here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TelemetrySettings {
    /// The collector, for OTLP over HTTP. Without one nothing is traced.
    pub endpoint: Option<String>,
    /// Sent with each batch: `name=value`, with commas between them.
    pub headers: Option<Secret<String>>,
    /// The part of new traces that is recorded, from 0 to 1.
    pub sample_ratio: Option<f64>,
    pub service_name: Option<String>,
}

/// Scheduled backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSettings {
    /// In cron syntax; disabled if absent.
    pub schedule: Option<String>,
    pub keep: u64,
    /// Where.
    pub path: Option<PathBuf>,
}

impl Settings {
    /// Precedence: flags, environment variables, file, defaults.
    pub fn load(sources: &SettingsSources) -> Result<Self, SettingsError> {
        let mut outer = SettingValues::default();
        outer.merge_environment(&sources.environment)?;
        outer.merge_flags(&sources.flags)?;
        let data_dir = outer
            .path("data_dir")?
            .unwrap_or_else(|| default_data_dir(&sources.environment));
        let file = sources
            .file
            .clone()
            .unwrap_or_else(|| data_dir.join("hub.yaml"));
        let mut values = SettingValues::default();
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let document = hermes_config::read_yaml(&text).map_err(|error| {
                    SettingsError::InvalidYaml {
                        path: file.clone(),
                        reason: error.to_string(),
                    }
                })?;
                values.merge_document(&document)?;
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
        values.merge(outer);
        values.resolve_references(
            file.parent().unwrap_or(Path::new(".")),
            &sources.environment,
        )?;
        Self::build(&values, data_dir)
    }

    pub fn for_directory(data_dir: &Path) -> Result<Self, SettingsError> {
        Self::build(&SettingValues::default(), data_dir.to_owned())
    }

    /// Refuses insecure listeners and relative sync roots.
    fn check(&self) -> Result<(), SettingsError> {
        let is_open = !self.listen.ip().is_loopback();
        if is_open && self.tls.is_none() && self.trust_proxy.is_empty() && !self.insecure_http {
            return Err(invalid_value(
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
            return Err(invalid_value(
                "sync.allowed_roots",
                "every root must be an absolute path",
            ));
        }
        Ok(())
    }

    /// The host of `public_url`, with its port if it has one.
    pub fn public_host(&self) -> &str {
        host_of(&self.public_url).unwrap_or("localhost")
    }
}

fn invalid_value(key: &str, reason: impl Into<String>) -> SettingsError {
    SettingsError::InvalidValue {
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

/// Whether nobody on the way can read or change what is sent to an address: with TLS, or on this machine.
pub(crate) fn is_protected_address(address: &str) -> bool {
    let Ok(url) = url::Url::parse(address) else {
        return false;
    };
    let is_here = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}

fn default_data_dir(environment: &BTreeMap<String, String>) -> PathBuf {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    match (set("XDG_DATA_HOME"), set("HOME")) {
        (Some(data), _) => Path::new(data).join("hermes-hub"),
        (None, Some(home)) => Path::new(home).join(".local/share/hermes-hub"),
        (None, None) => "hermes-hub".into(),
    }
}
