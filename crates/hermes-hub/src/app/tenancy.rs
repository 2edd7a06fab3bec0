//! Tenants as the Hub's state, settings and documents describe them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use hermes_config::{Home, Platform, Secret, Variables};
use hermes_store::cron::ticker_age;
use serde_json::{Map, Value};

use crate::{
    Problem, TenantId,
    agents::{Calendar, MissedRuns, Tenancy, Terms, Ticker, Waking},
    audit::NewEntry,
    files::HomeDirectory,
    runtime::{Directives, Launch, Limits},
    seal::{Place, Sealed, SecretKey},
    service::{documents::Standing, env::reserved, tenants},
    settings::Settings,
    state::{State, TenantHome, TenantRecord},
};

/// A ticker writes a heartbeat every minute; without one for this long it counts as gone.
const TICKER_SILENCE: Duration = Duration::from_mins(3);

pub(super) struct Records {
    pub(super) state: Arc<dyn State>,
    pub(super) key: SecretKey,
    pub(super) settings: Arc<ArcSwap<Settings>>,
    pub(super) standing: Arc<ArcSwap<Standing>>,
}

impl Records {
    async fn record(&self, tenant: &TenantId) -> Result<TenantRecord, Problem> {
        let record = self
            .state
            .tenant(tenant)
            .await?
            .filter(|record| record.deleted_at.is_none());
        record.ok_or_else(|| Problem::not_found(format!("there is no tenant `{tenant}`")))
    }

    async fn secrets(
        &self,
        record: &TenantRecord,
    ) -> Result<(Secret<String>, BTreeMap<String, Secret<String>>), Problem> {
        let open = |place: &Place, sealed: &Sealed| {
            self.key
                .open(place, sealed)
                .map_err(|error| Problem::internal(&error))
        };
        let runtime_key = match self.state.runtime_key(&record.id).await? {
            Some(sealed) => open(&Place::runtime_key(&record.uid), &sealed)?,
            None => self.new_runtime_key(record).await?,
        };
        let mut env = BTreeMap::new();
        for (name, sealed) in self.state.sealed_env(&record.id).await? {
            let value = open(&Place::variable(&record.uid, &name), &sealed)?;
            env.insert(name, value);
        }
        Ok((runtime_key, env))
    }

    /// Its old key may have been deleted with secrets that could not be decrypted; an agent needs one.
    async fn new_runtime_key(&self, record: &TenantRecord) -> Result<Secret<String>, Problem> {
        let (secret, kept) = tenants::runtime_key::fresh(&self.key, &record.uid)?;
        let entry = NewEntry::by_hub("rotate_runtime_key")
            .of(&record.id)
            .to(record.id.as_str());
        self.state.set_runtime_key(&record.id, kept, entry).await?;
        Ok(secret)
    }

    /// A tenant's resource limits: the flavor's, else the Hub's.
    fn limits(&self, record: &TenantRecord, standing: &Standing) -> Limits {
        let isolation = self.settings.load().isolation.clone();
        let mut given: Map<String, Value> = standing.section("limits").clone();
        given.extend(standing.flavor_section(&record.flavor, "limits").clone());
        let number = |name: &str| given.get(name).and_then(Value::as_u64);
        Limits {
            memory_bytes: number("memoryBytes").unwrap_or(isolation.memory_bytes),
            pids: number("pids").unwrap_or(isolation.pids),
            cpu: given
                .get("cpu")
                .and_then(Value::as_f64)
                .unwrap_or(isolation.cpu),
        }
    }
}

pub(super) fn home_of(settings: &Settings, record: &TenantRecord) -> Home {
    Home::at(home_path(
        settings,
        &record.id,
        record.linked_home.as_deref(),
    ))
}

fn home_path(settings: &Settings, id: &TenantId, linked: Option<&Path>) -> PathBuf {
    match linked {
        Some(path) => path.to_owned(),
        None => settings
            .data_dir
            .join("tenants")
            .join(id.as_str())
            .join("home"),
    }
}

#[async_trait]
impl Tenancy for Records {
    async fn terms(&self, tenant: &TenantId) -> Result<Terms, Problem> {
        let record = self.record(tenant).await?;
        let standing = self.standing.load_full();
        let agent = tenants::agent(&record, &standing);
        let (runtime_key, mut env) = self.secrets(&record).await?;
        // It may have been set before the policy denied it, or by an earlier version.
        env.retain(|name, _| standing.policy().allows_variable(name));
        let ignored_variables: Vec<String> = env
            .extract_if(.., |name, _| reserved(name).is_some())
            .map(|(name, _)| name)
            .collect();
        let home = home_of(&self.settings.load(), &record);
        // A linked home is the user's own: its agent runs as long as the user wants.
        let never_sleeps = record.linked_home.is_some();
        let listens = never_sleeps
            || standing.policy().has_messaging() && listens_to_a_platform(home.clone(), &env).await;
        let runs = self.settings.load().runs;
        let policy = standing.policy();
        let queue_depth = standing
            .number("runs", "queueDepth")
            .unwrap_or(runs.queue_depth);
        let most_minutes = standing
            .number("runs", "maxMinutes")
            .unwrap_or(runs.max_minutes)
            .min(policy.runs.max_minutes.into());
        let directives = Directives {
            policy: standing.policy_document().clone(),
            specialization: standing.specialization().to_owned(),
            feature: standing.section("feature").clone(),
            model: agent.model.clone(),
            approval_timeout_seconds: policy.approvals.timeout_seconds,
        };
        Ok(Terms {
            launch: Launch {
                tenant: record.id.clone(),
                home: home.path().to_owned(),
                runtime_key,
                env,
                teams: record
                    .groups
                    .iter()
                    .map(|group| format!("teams/{}:{}", group.id, group.access))
                    .collect(),
                timezone: agent.timezone,
                limits: self.limits(&record, &standing),
                directives,
            },
            access: record.access.status,
            waking: match (listens, agent.auto_start) {
                (true, _) => Waking::Always,
                (false, true) => Waking::Demand,
                (false, false) => Waking::Order,
            },
            idle_stop: Duration::from_secs(agent.idle_stop_seconds),
            max_concurrent_runs: agent.max_concurrent_runs,
            queue_depth: u32::try_from(queue_depth).unwrap_or(u32::MAX),
            longest_run: Duration::from_secs(most_minutes.saturating_mul(60)),
            ignored_variables,
            generation: record.generation,
            revisions: standing.revisions(),
        })
    }

    fn home(&self, tenant: &TenantHome) -> PathBuf {
        home_path(
            &self.settings.load(),
            &tenant.id,
            tenant.linked_home.as_deref(),
        )
    }

    async fn calendar(&self, tenant: &TenantId) -> Result<Calendar, Problem> {
        let record = self.record(tenant).await?;
        let standing = self.standing.load();
        let missed = standing
            .section("cron")
            .get("missedRuns")
            .and_then(Value::as_str);
        Ok(Calendar {
            home: home_of(&self.settings.load(), &record).path().to_owned(),
            zone: tenants::zone(&record, &standing),
            access: record.access.status,
            room: tenants::room(&record, &standing),
            ticker: match &record.linked_home {
                Some(home) if is_ticking(&Home::at(home)) => Ticker::OwnGateway,
                _ => Ticker::Hub,
            },
            missed: if missed == Some("skip") {
                MissedRuns::Skip
            } else {
                MissedRuns::Once
            },
            limits: standing.policy().cron.job_limits(),
        })
    }
}

/// Whether a process that the Hub did not start runs the home's jobs.
fn is_ticking(home: &Home) -> bool {
    ticker_age(home).is_some_and(|age| age < TICKER_SILENCE)
}

/// The settings of a tenant's home. A file that the tenant replaced by a link counts as missing.
fn settings_of(home: &Home, pairs: Vec<(String, String)>) -> Option<hermes_config::Settings> {
    let directory = HomeDirectory::home(home.path()).ok()?;
    let text = |name: &str| directory.read_settings(name).ok().flatten();
    let variables = Variables::with_text(pairs, &text(".env").unwrap_or_default());
    let (config, older) = (text("config.yaml"), text("gateway.json"));
    let config = config.unwrap_or_default();
    hermes_config::Settings::parse_files(&config, older.as_deref(), variables).ok()
}

/// Whether a messaging platform is enabled in a home, so that its agent is always on.
async fn listens_to_a_platform(home: Home, env: &BTreeMap<String, Secret<String>>) -> bool {
    let pairs: Vec<_> = env
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().clone()))
        .collect();
    let read = tokio::task::spawn_blocking(move || settings_of(&home, pairs));
    match read.await {
        Ok(Some(settings)) => Platform::ALL
            .iter()
            .any(|platform| settings.gateway.platform(*platform).token.is_some()),
        _ => false,
    }
}
