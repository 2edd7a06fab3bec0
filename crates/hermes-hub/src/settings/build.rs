//! Builds settings from values and defaults.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use hermes_config::Secret;

use super::{
    AuditSettings, BackupSettings, DatabaseSettings, IsolationMode, IsolationSettings, McpSettings,
    MetricsSettings, ObjectSettings, OidcSettings, RequestLimits, RunSettings, RuntimeKind,
    Settings, SettingsError, SyncSettings, TelemetrySettings, TenantSettings, TlsSettings,
    ToolChoice, host_of, invalid_value, is_protected_address, values::SettingValues,
};

impl Settings {
    #[expect(clippy::too_many_lines, reason = "one line for each setting")]
    pub(super) fn build(
        values: &SettingValues,
        outer_data_dir: PathBuf,
    ) -> Result<Self, SettingsError> {
        let data_dir = values.path("data_dir")?.unwrap_or(outer_data_dir);
        let listen: SocketAddr = values
            .parsed("listen", "an address and port such as `127.0.0.1:7878`")?
            .unwrap_or_else(|| ([127, 0, 0, 1], 7878).into());
        let tls = match (values.path("tls.cert")?, values.path("tls.key")?) {
            (Some(cert), Some(key)) => Some(TlsSettings { cert, key }),
            (None, None) => None,
            _ => return Err(invalid_value("tls", "needs both `tls.cert` and `tls.key`")),
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let public_url = values
            .text("public_url")?
            .unwrap_or_else(|| format!("{scheme}://{listen}"));
        let public_url = public_url.trim_end_matches('/').to_owned();
        if host_of(&public_url).is_none() {
            return Err(invalid_value(
                "public_url",
                "must be a URL such as `https://hub.example.com`",
            ));
        }
        let settings = Self {
            listen,
            public_url,
            tls,
            trust_proxy: values.list("trust_proxy")?.unwrap_or_default(),
            insecure_http: values.flag("insecure_http")?.unwrap_or(false),
            allowed_hosts: values.list("allowed_hosts")?.unwrap_or_default(),
            allowed_origins: values.list("allowed_origins")?.unwrap_or_default(),
            database: DatabaseSettings::build(values, &data_dir)?,
            objects: ObjectSettings::build(values, &data_dir)?,
            secret_key_file: values
                .path("secrets.key_file")?
                .unwrap_or_else(|| data_dir.join("secret.key")),
            admin_token_file: values
                .path("admin_token_file")?
                .unwrap_or_else(|| data_dir.join("admin.token")),
            runtime: values.one_of(
                "runtime",
                &[
                    ("process", RuntimeKind::Process),
                    ("mock", RuntimeKind::Mock),
                ],
            )?,
            isolation: IsolationSettings::build(values)?,
            idle_stop_seconds: values.count("agent.idle_stop_seconds", 900)?,
            runs: RunSettings {
                max_concurrent: values.count::<u64>("runs.max_concurrent", 4)?.max(1),
                queue_depth: values.count("runs.queue_depth", 100)?,
                max_minutes: values.count("runs.max_minutes", 60)?,
                retention_days: values.count("runs.retention_days", 30)?,
            },
            limits: RequestLimits {
                body_bytes: values.size("limits.body_bytes", 16 << 20)?,
                read_bytes: values.size("limits.read_bytes", 1 << 20)?,
                write_bytes: values.size("limits.write_bytes", 8 << 20)?,
                list_entries: values.count("limits.list_entries", 5_000)?,
                rps_per_token: values.count("limits.rps_per_token", 200)?,
                burst: values.count("limits.burst", 400)?,
                auth_failures_per_minute: values.count("limits.auth_failures_per_minute", 20)?,
            },
            mcp: McpSettings {
                enabled: values.flag("mcp.enabled")?.unwrap_or(true),
                tools: values.one_of(
                    "mcp.tools",
                    &[
                        ("standard", ToolChoice::Standard),
                        ("extended", ToolChoice::Extended),
                    ],
                )?,
                read_only: values.flag("mcp.read_only")?.unwrap_or(false),
                session_idle_seconds: values.count("mcp.session_idle_seconds", 3600)?,
                sessions_per_token: values.count("mcp.sessions_per_token", 32)?,
            },
            sync: SyncSettings {
                allowed_roots: values
                    .list("sync.allowed_roots")?
                    .unwrap_or_default()
                    .into_iter()
                    .map(PathBuf::from)
                    .collect(),
                sources: values.list("sync.sources")?.unwrap_or_else(|| {
                    ["SOUL.md", "AGENTS.md", "context/", "memories/", "skills/"]
                        .map(str::to_owned)
                        .into()
                }),
            },
            tenants: TenantSettings {
                restore_days: values.count("tenants.restore_days", 7)?,
                trash_days: values.count("tenants.trash_days", 30)?,
            },
            audit: AuditSettings {
                rest_reads: values.flag("audit.rest_reads")?.unwrap_or(false),
                retention_days: values.count("audit.retention_days", 365)?,
            },
            metrics: MetricsSettings {
                listen: match values.text("metrics.listen")?.as_deref() {
                    Some("off") => None,
                    _ => Some(
                        values
                            .parsed("metrics.listen", "an address and port, or `off`")?
                            .unwrap_or_else(|| ([127, 0, 0, 1], 7879).into()),
                    ),
                },
                per_tenant: values.flag("metrics.per_tenant")?.unwrap_or(false),
            },
            telemetry: TelemetrySettings::build(values)?,
            node_id: values.text("node.id")?,
            lease_seconds: values.count::<u64>("node.lease_seconds", 15)?.max(3),
            node_capacity: values.count::<usize>("node.capacity", 1_000)?.max(1),
            drain_seconds: values.count("shutdown.drain_seconds", 30)?,
            backup: BackupSettings {
                schedule: values.text("backup.schedule")?.filter(|text| text != "off"),
                keep: values.count("backup.keep", 7)?,
                path: values.path("backup.path")?,
            },
            event_retention_days: values.count::<u64>("events.retention_days", 7)?.max(1),
            allow_private_webhooks: values.flag("webhooks.allow_private")?.unwrap_or(false),
            usage_prices: values.prices("usage.prices")?,
            oidc: OidcSettings::build(values)?,
            data_dir,
        };
        settings.check()?;
        Ok(settings)
    }
}

impl DatabaseSettings {
    fn build(values: &SettingValues, data_dir: &Path) -> Result<Self, SettingsError> {
        let url = values.text("database.url")?;
        let url = url.unwrap_or_else(|| format!("sqlite:{}", data_dir.join("hub.db").display()));
        let settings = Self {
            url: Secret::new(url),
            listen_url: values.text("database.listen_url")?.map(Secret::new),
            max_connections: values.count::<u32>("database.max_connections", 16)?,
            timeout: Duration::from_secs(values.count("database.timeout_seconds", 5)?),
        };
        // Without the address: it may have a password.
        if settings.sqlite_path().is_none() && !settings.is_postgres() {
            return Err(invalid_value(
                "database.url",
                "must be `sqlite:` and a path, or `postgres://user@host/database`",
            ));
        }
        if settings.max_connections < 3 {
            return Err(invalid_value(
                "database.max_connections",
                "must be at least 3: one for reads, one for writes, and one to replace that while it is being closed",
            ));
        }
        if !(1..=60).contains(&settings.timeout.as_secs()) {
            return Err(invalid_value(
                "database.timeout_seconds",
                "must be from 1 to 60: requests that wait for longer are answered with 503",
            ));
        }
        Ok(settings)
    }
}

impl ObjectSettings {
    fn build(values: &SettingValues, data_dir: &Path) -> Result<Self, SettingsError> {
        let url = values
            .text("objects.url")?
            .unwrap_or_else(|| format!("file:{}", data_dir.join("shares").display()));
        let settings = Self {
            url,
            endpoint: values.text("objects.endpoint")?,
            region: values.text("objects.region")?,
            allow_http: values.flag("objects.allow_http")?.unwrap_or(false),
            access_key_id: values.text("objects.access_key_id")?,
            secret_access_key: values.text("objects.secret_access_key")?.map(Secret::new),
        };
        if settings.access_key_id.is_some() != settings.secret_access_key.is_some() {
            return Err(invalid_value(
                "objects",
                "needs both `objects.access_key_id` and `objects.secret_access_key`, or neither",
            ));
        }
        Ok(settings)
    }
}

impl OidcSettings {
    fn build(values: &SettingValues) -> Result<Option<Self>, SettingsError> {
        let (issuer, client_id) =
            match (values.text("oidc.issuer")?, values.text("oidc.client_id")?) {
                (Some(issuer), Some(client_id)) => (issuer, client_id),
                (None, None) => return Ok(None),
                _ => {
                    let reason = "needs both `oidc.issuer` and `oidc.client_id`";
                    return Err(invalid_value("oidc", reason));
                }
            };
        if !is_protected_address(&issuer) {
            let reason = "must be an https address such as `https://login.example.com`";
            return Err(invalid_value("oidc.issuer", reason));
        }
        let roles = values.roles("oidc.roles")?;
        if roles.is_empty() {
            let reason = "must give at least one group a role; `\"*\": viewer` is everybody";
            return Err(invalid_value("oidc.roles", reason));
        }
        let usual = || ["openid", "profile", "email", "groups"].map(str::to_owned);
        let mut scopes = values
            .list("oidc.scopes")?
            .unwrap_or_else(|| usual().into());
        if !scopes.iter().any(|scope| scope == "openid") {
            scopes.insert(0, "openid".to_owned());
        }
        Ok(Some(Self {
            issuer,
            client_id,
            client_secret: values.text("oidc.client_secret")?.map(Secret::new),
            scopes,
            groups_claim: values
                .text("oidc.groups_claim")?
                .unwrap_or_else(|| "groups".into()),
            roles,
        }))
    }
}

impl TelemetrySettings {
    fn build(values: &SettingValues) -> Result<Self, SettingsError> {
        let sample_ratio = values.parsed("telemetry.sample_ratio", "a number from 0 to 1")?;
        if sample_ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio)) {
            return Err(invalid_value(
                "telemetry.sample_ratio",
                "must be a number from 0 to 1",
            ));
        }
        Ok(Self {
            endpoint: values.text("telemetry.endpoint")?,
            headers: values.text("telemetry.headers")?.map(Secret::new),
            sample_ratio,
            service_name: values.text("telemetry.service_name")?,
        })
    }
}

impl IsolationSettings {
    fn build(values: &SettingValues) -> Result<Self, SettingsError> {
        let range = values
            .text("isolation.uid_range")?
            .unwrap_or_else(|| "200000-265535".into());
        let uid_range = range
            .split_once('-')
            .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)))
            .filter(|(first, last)| first <= last)
            .ok_or_else(|| {
                invalid_value(
                    "isolation.uid_range",
                    "must be two numbers, such as `200000-265535`",
                )
            })?;
        Ok(Self {
            mode: values.one_of(
                "isolation.mode",
                &[
                    ("auto", IsolationMode::Auto),
                    ("strict", IsolationMode::Strict),
                    ("off", IsolationMode::Off),
                ],
            )?,
            memory_bytes: values.size("isolation.memory", 1 << 30)?,
            pids: values.count("isolation.pids", 256)?,
            cpu: values
                .parsed("isolation.cpu", "a number of processors")?
                .unwrap_or(1.0),
            uid_range,
            read_paths: values
                .list("isolation.read_paths")?
                .unwrap_or_default()
                .into_iter()
                .map(PathBuf::from)
                .collect(),
        })
    }
}
