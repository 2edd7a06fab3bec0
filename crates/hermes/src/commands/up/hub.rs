//! The Hub under `hermes up`: on this machine alone, with the user's own home as tenant `main`.

use std::{net::Ipv4Addr, path::Path, sync::Arc};

use hermes_config::Home;
use hermes_gateway::instance;
use hermes_hub::{
    TenantId,
    api_types::{KeyKind, NewKey, TenantStatus, new_uid},
    settings::{Settings, SettingsSources},
    storage::{
        audit::NewAuditEntry,
        data_dir::DataDirError,
        state::{NewRuntimeKey, NewTenant},
    },
};

use crate::{
    cli::UpArgs,
    commands::hub::client::environment_variables,
    embedded_hub::{
        self, MetricsPort, PreparedHub, RunningHub,
        runtime::{LinkedAgent, LinkedRuntime},
    },
    failure::Failure,
};

/// The tenant that is the user.
const MAIN_TENANT: &str = "main";
/// Extra seconds for a Hub under `up` to shut down after the home's runs were drained.
const SHUTDOWN_GRACE_SECONDS: u64 = 2;

/// The tenant that is the user.
pub(super) fn main_tenant() -> Result<TenantId, Failure> {
    TenantId::parse(MAIN_TENANT).map_err(|error| Failure::failed(error.to_string()))
}

/// What a home is run in.
pub(super) enum HubPreparation {
    /// A Hub of its own.
    Hub(Box<PreparedHub>),
    /// No Hub: the one there is belongs to another home. With a sentence that says so.
    Without(String),
}

/// Opens the data and takes the port, before anything else is started. A Hub's directory that belongs to another home is
/// left to it.
pub(super) async fn prepare_hub(
    args: &UpArgs,
    drain: std::time::Duration,
    home: &Home,
) -> Result<HubPreparation, Failure> {
    let settings = hub_settings(args, drain)?;
    let directory = embedded_hub::open_data_dir(&settings)?;
    let failure = match PreparedHub::open(settings, MetricsPort::Optional).await {
        Ok(prepared) => return check_hub_owner(prepared, home.path()).await,
        Err(failure) => failure,
    };
    let Err(DataDirError::InUse { holder, .. }) = directory.lock() else {
        return Err(with_hint(failure));
    };
    let own = instance::find_running(home)?;
    if own.is_some_and(|own| holder.starts_with(&format!("process {},", own.pid))) {
        return Err(
            Failure::failed(format!("`hermes up` runs for this home already ({holder})"))
                .hint(
                    "`hermes hub login-link` makes a link to its console, `hermes mcp status` asks it; stop it to start \
                     another one",
                ),
        );
    }
    Ok(HubPreparation::Without(format!(
        "The Hub of this machine belongs to another `hermes up` or `hermes hub serve` ({holder}), so this home runs \
         without a Hub. HERMES_HUB_DATA_DIR and `--port` give it one of its own."
    )))
}

fn with_hint(failure: Failure) -> Failure {
    failure.hint("`hermes up --port 0` takes a free port; HERMES_HUB_DATA_DIR names another directory for the Hub")
}

/// A Hub whose tenant `main` is another home is that home's.
async fn check_hub_owner(prepared: PreparedHub, home: &Path) -> Result<HubPreparation, Failure> {
    let main = main_tenant()?;
    let known = prepared.state.shared().tenant(&main).await;
    let known = known.map_err(|error| Failure::failed(error.to_string()))?;
    let home = home.canonicalize()?;
    let whose = match known.map(|tenant| tenant.linked_home) {
        None => return Ok(HubPreparation::Hub(Box::new(prepared))),
        Some(Some(linked)) if linked == home => {
            return Ok(HubPreparation::Hub(Box::new(prepared)));
        }
        Some(Some(linked)) => format!("the home `{}`", linked.display()),
        Some(None) => "a tenant of its own".to_owned(),
    };
    let directory = prepared.settings.data_dir.display().to_string();
    prepared.state.shared().close().await;
    Ok(HubPreparation::Without(format!(
        "The tenant `{main}` of the Hub in `{directory}` is {whose}, so this home runs without a Hub. \
         HERMES_HUB_DATA_DIR and `--port` give it one of its own."
    )))
}

/// The settings of the Hub of this machine.
pub(super) fn load_hub_settings() -> Result<Settings, Failure> {
    embedded_hub::load_settings(&SettingsSources {
        environment: environment_variables(),
        ..SettingsSources::default()
    })
}

/// The settings, with what `up` is sure of: nobody off this machine is served.
fn hub_settings(args: &UpArgs, drain: std::time::Duration) -> Result<Settings, Failure> {
    let mut settings = load_hub_settings()?;
    let usual = format!("http://{}", settings.listen);
    let port = args.port.unwrap_or_else(|| settings.listen.port());
    settings.listen = (Ipv4Addr::LOCALHOST, port).into();
    if settings.public_url == usual {
        settings.public_url = format!("http://{}", settings.listen);
    }
    settings.metrics.listen = settings
        .metrics
        .listen
        .filter(|address| address.ip().is_loopback());
    settings.drain_seconds = drain.as_secs() + SHUTDOWN_GRACE_SECONDS;
    Ok(settings)
}

/// Starts a Hub that has the home as a tenant.
pub(super) async fn start_hub(
    prepared: PreparedHub,
    main: TenantId,
    agent: LinkedAgent,
) -> Result<RunningHub, Failure> {
    let others = prepared.tenants.runtime();
    let runtime = LinkedRuntime::new(main.clone(), agent, others);
    let hosted = prepared.start(Arc::new(runtime)).await?;
    // It is awake already; the Hub has to learn that.
    hosted.hub.agents().start(&main);
    Ok(hosted)
}

/// Makes the home a tenant, if it is not one.
pub(super) async fn link_home(
    prepared: &PreparedHub,
    home: &Path,
    main: &TenantId,
) -> Result<(), Failure> {
    let home = home.canonicalize()?;
    if prepared
        .settings
        .data_dir
        .canonicalize()?
        .starts_with(&home)
    {
        return Err(Failure::failed(
            "the Hub's data directory is inside the home that is to be its tenant",
        )
        .hint("HERMES_HUB_DATA_DIR names another directory for the Hub"));
    }
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot make the home the tenant `{main}`: {error}"))
    };
    let state = prepared.state.shared();
    let known = state.tenant(main).await.map_err(|error| failed(&error))?;
    let Some(known) = known else {
        let uid = new_uid().map_err(|error| failed(&error))?;
        let key = NewKey::random(KeyKind::Runtime).map_err(|error| failed(&error))?;
        let runtime_key = NewRuntimeKey::encrypt(&prepared.key, &uid, &key, None);
        let tenant = NewTenant {
            id: main.clone(),
            display_name: "My own home".into(),
            status: TenantStatus::Ready,
            flavor: "standard".into(),
            agent: serde_json::Map::new(),
            storage: serde_json::Map::new(),
            browser: serde_json::Map::new(),
            groups: Vec::new(),
            labels: std::collections::BTreeMap::new(),
            linked_home: Some(home),
            runtime_key: runtime_key.map_err(|error| failed(&error))?,
            env: Vec::new(),
            uid,
        };
        let entry = NewAuditEntry::by_hub("create_tenant")
            .for_tenant(main)
            .with_target(main.as_str());
        return state
            .create_tenant(tenant, entry)
            .await
            .map(drop)
            .map_err(|error| failed(&error));
    };
    // Deleting it took it off the Hub, no more; now it is wanted again.
    if known.deleted_at.is_some() {
        let entry = NewAuditEntry::by_hub("restore_tenant")
            .for_tenant(main)
            .with_target(main.as_str());
        state
            .restore_tenant(main, entry)
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}
