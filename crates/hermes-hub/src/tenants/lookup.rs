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
use hermes_protocol::{Directives, Feature};
use hermes_store::cron::heartbeat_age;
use serde_json::{Map, Value};

use crate::{
    Problem, TenantId,
    settings::Settings,
    storage::{
        audit::NewAuditEntry,
        encryption::{EncryptedSecret, EncryptionContext, SecretKey},
        files::HomeDirectory,
        state::{DocumentKind, NewRuntimeKey, State, TenantHome, TenantRecord},
    },
    tenants::{
        agents::{AgentSpec, CronContext, CronRunner, MissedRunPolicy, TenantLookup, WakePolicy},
        documents::{EffectiveDocuments, policy::job_limits},
        provided_skills::provide_skills,
        reserved_variables::classify_variable,
        runtime::{AgentLaunch, ResourceLimits},
        settings::{effective_agent, quota_state, time_zone},
    },
};

/// A ticker writes a heartbeat every minute; without one for this long it counts as gone.
const TICKER_TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) struct StoredTenants {
    pub(crate) state: Arc<dyn State>,
    pub(crate) key: SecretKey,
    pub(crate) settings: Arc<ArcSwap<Settings>>,
    pub(crate) effective_documents: Arc<ArcSwap<EffectiveDocuments>>,
}

impl StoredTenants {
    async fn load_record(&self, tenant: &TenantId) -> Result<TenantRecord, Problem> {
        let record = self
            .state
            .tenant(tenant)
            .await?
            .filter(|record| record.deleted_at.is_none());
        record.ok_or_else(|| Problem::not_found(format!("there is no tenant `{tenant}`")))
    }

    async fn load_secrets(
        &self,
        record: &TenantRecord,
    ) -> Result<(Secret<String>, BTreeMap<String, Secret<String>>), Problem> {
        let open = |context: &EncryptionContext, sealed: &EncryptedSecret| {
            self.key
                .decrypt(context, sealed)
                .map_err(|error| Problem::internal(&error))
        };
        let runtime_key = match self.state.runtime_key(&record.id).await? {
            Some(sealed) => open(&EncryptionContext::runtime_key(&record.uid), &sealed)?,
            None => self.create_runtime_key(record).await?,
        };
        let mut env = BTreeMap::new();
        for (name, sealed) in self.state.encrypted_env(&record.id).await? {
            let value = open(&EncryptionContext::variable(&record.uid, &name), &sealed)?;
            env.insert(name, value);
        }
        Ok((runtime_key, env))
    }

    /// Its old key may have been deleted with secrets that could not be decrypted; an agent needs one.
    async fn create_runtime_key(&self, record: &TenantRecord) -> Result<Secret<String>, Problem> {
        let (secret, kept) = NewRuntimeKey::generate(&self.key, &record.uid)?;
        let entry = NewAuditEntry::by_hub("rotate_runtime_key")
            .for_tenant(&record.id)
            .with_target(record.id.as_str());
        self.state.set_runtime_key(&record.id, kept, entry).await?;
        Ok(secret)
    }

    /// A tenant's resource limits: the flavor's, else the Hub's.
    fn resource_limits(
        &self,
        record: &TenantRecord,
        effective_documents: &EffectiveDocuments,
    ) -> ResourceLimits {
        let isolation = self.settings.load().isolation.clone();
        let mut given: Map<String, Value> = effective_documents.section("limits").clone();
        given.extend(
            effective_documents
                .flavor_section(&record.flavor, "limits")
                .clone(),
        );
        let number = |name: &str| given.get(name).and_then(Value::as_u64);
        ResourceLimits {
            memory_bytes: number("memoryBytes").unwrap_or(isolation.memory_bytes),
            pids: number("pids").unwrap_or(isolation.pids),
            cpu: given
                .get("cpu")
                .and_then(Value::as_f64)
                .unwrap_or(isolation.cpu),
        }
    }
}

pub(crate) fn tenant_home(settings: &Settings, record: &TenantRecord) -> Home {
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
impl TenantLookup for StoredTenants {
    async fn agent_spec(&self, tenant: &TenantId) -> Result<AgentSpec, Problem> {
        let record = self.load_record(tenant).await?;
        let effective_documents = self.effective_documents.load_full();
        let agent = effective_agent(&record, &effective_documents);
        let (runtime_key, mut env) = self.load_secrets(&record).await?;
        // It may have been set before the policy denied it, or by an earlier version.
        env.retain(|name, _| effective_documents.policy().env.allows(name));
        let ignored_variables: Vec<String> = env
            .extract_if(.., |name, _| classify_variable(name).is_some())
            .map(|(name, _)| name)
            .collect();
        let home = tenant_home(&self.settings.load(), &record);
        // A linked home is the user's own: its agent runs as long as the user wants.
        let never_sleeps = record.linked_home.is_some();
        let has_platform = never_sleeps || has_messaging_platform(home.clone(), &env).await;
        let policy = effective_documents.policy();
        let listens = never_sleeps || policy.features.has(Feature::Messaging) && has_platform;
        let runs = self.settings.load().runs;
        let queue_depth = effective_documents
            .number("runs", "queueDepth")
            .unwrap_or(runs.queue_depth);
        let most_minutes = effective_documents
            .number("runs", "maxMinutes")
            .unwrap_or(runs.max_minutes)
            .min(policy.runs.max_minutes.get().into());
        let directives = Directives {
            policy: policy.clone(),
            specialization: effective_documents.specialization().to_owned(),
            feature: effective_documents.section("feature").clone(),
            model: agent.model.clone(),
            approval_timeout_seconds: policy.approvals.timeout_seconds,
        };
        Ok(AgentSpec {
            launch: AgentLaunch {
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
                limits: self.resource_limits(&record, &effective_documents),
                directives,
            },
            access: record.access.status,
            wake_policy: match (listens, agent.auto_start) {
                (true, _) => WakePolicy::Always,
                (false, true) => WakePolicy::OnDemand,
                (false, false) => WakePolicy::Manual,
            },
            has_platform,
            idle_stop: Duration::from_secs(agent.idle_stop_seconds),
            max_concurrent_runs: agent.max_concurrent_runs,
            queue_depth: u32::try_from(queue_depth).unwrap_or(u32::MAX),
            max_run_duration: Duration::from_secs(most_minutes.saturating_mul(60)),
            ignored_variables,
            generation: record.generation,
            revisions: effective_documents.revisions(),
        })
    }

    fn revisions(&self) -> Vec<(DocumentKind, u64)> {
        self.effective_documents.load().revisions()
    }

    async fn prepare_home(&self, tenant: &TenantId) -> Result<(), Problem> {
        let record = self.load_record(tenant).await?;
        let home = tenant_home(&self.settings.load(), &record);
        let documents = self.effective_documents.load_full();
        let missing = provide_skills(&*self.state, &documents, home.path(), &record).await?;
        if !missing.is_empty() {
            tracing::warn!(%tenant, skills = missing.join(", "), "skills of a flavor or a group are not in the library");
        }
        Ok(())
    }

    fn home(&self, tenant: &TenantHome) -> PathBuf {
        home_path(
            &self.settings.load(),
            &tenant.id,
            tenant.linked_home.as_deref(),
        )
    }

    async fn cron_context(&self, tenant: &TenantId) -> Result<CronContext, Problem> {
        let record = self.load_record(tenant).await?;
        let effective_documents = self.effective_documents.load();
        let missed = effective_documents
            .section("cron")
            .get("missedRuns")
            .and_then(Value::as_str);
        Ok(CronContext {
            home: tenant_home(&self.settings.load(), &record)
                .path()
                .to_owned(),
            zone: time_zone(&record, &effective_documents),
            access: record.access.status,
            quota: quota_state(&record, &effective_documents),
            runner: match &record.linked_home {
                Some(home) if has_own_ticker(&Home::at(home)) => CronRunner::OwnGateway,
                _ => CronRunner::Hub,
            },
            missed_runs: if missed == Some("skip") {
                MissedRunPolicy::Skip
            } else {
                MissedRunPolicy::RunOnce
            },
            limits: job_limits(effective_documents.policy().cron),
        })
    }
}

/// Whether a process that the Hub did not start runs the home's jobs.
fn has_own_ticker(home: &Home) -> bool {
    heartbeat_age(home).is_some_and(|age| age < TICKER_TIMEOUT)
}

/// The settings of a tenant's home. A file that the tenant replaced by a link counts as missing.
pub(crate) fn read_home_settings(
    home: &Home,
    pairs: Vec<(String, String)>,
) -> Option<hermes_config::Settings> {
    let directory = HomeDirectory::open_home(home.path()).ok()?;
    let text = |name: &str| directory.read_settings(name).ok().flatten();
    let variables = Variables::from_pairs_and_text(pairs, &text(".env").unwrap_or_default());
    let (config, older) = (text("config.yaml"), text("gateway.json"));
    let config = config.unwrap_or_default();
    hermes_config::Settings::parse_files(&config, older.as_deref(), variables).ok()
}

/// Whether a messaging platform is enabled in a home, so that its agent is always on.
async fn has_messaging_platform(home: Home, env: &BTreeMap<String, Secret<String>>) -> bool {
    let pairs: Vec<_> = env
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().clone()))
        .collect();
    let read = tokio::task::spawn_blocking(move || read_home_settings(&home, pairs));
    match read.await {
        Ok(Some(settings)) => Platform::ALL
            .iter()
            .any(|platform| settings.gateway.accounts(*platform).next().is_some()),
        _ => false,
    }
}
