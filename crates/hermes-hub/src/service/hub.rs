//! The Hub itself: health, version, `whoami`.

use std::{path::Path, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use super::NoInput;
use crate::{
    Problem, ProblemCode, TenantId, TokenId,
    api_types::{Scope, Time},
    service::call::{Call, Reply},
};

/// Whoever asks for readiness does not wait for long.
const OBJECTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The health of the Hub.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    status: &'static str,
}

pub(crate) async fn healthz(_: Call, _: NoInput) -> Result<Reply, Problem> {
    Reply::json(&Health { status: "ok" })
}

/// The readiness of the Hub.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Readiness {
    status: &'static str,
    database: bool,
    objects: bool,
    disk: bool,
}

pub(crate) async fn readyz(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let data_dir = call.hub.settings().data_dir.clone();
    let (has_shares, disk) = super::run_blocking(move || {
        Ok((data_dir.join("shares").is_dir(), has_free_space(&data_dir)))
    })
    .await?;
    let objects = async {
        match &call.hub.files().objects {
            None => has_shares,
            Some(objects) => {
                let checked = tokio::time::timeout(OBJECTS_TIMEOUT, objects.blobs.check()).await;
                checked.is_ok_and(|checked| checked.is_ok())
            }
        }
    };
    let (database, objects) = tokio::join!(call.hub.state().ping(), objects);
    let database = database.is_ok();
    let is_ready = database && objects && disk && !call.hub.is_draining();
    let reply = Readiness {
        status: if is_ready { "ready" } else { "not ready" },
        database,
        objects,
        disk,
    };
    Ok(Reply::json(&reply)?.status(if is_ready {
        200
    } else {
        ProblemCode::Unavailable.status()
    }))
}

fn has_free_space(directory: &Path) -> bool {
    const LEAST: u64 = 16 << 20;
    rustix::fs::statvfs(directory)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= LEAST)
}

/// The version, protocols and features of the Hub.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubVersion {
    name: &'static str,
    version: &'static str,
    node: String,
    api: &'static str,
    /// Revisions of the Model Context Protocol.
    protocols: Vec<String>,
    features: Vec<&'static str>,
    started_at: Time,
}

pub(crate) async fn version(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let settings = call.hub.settings();
    let mut features = vec!["rest", "openapi"];
    if settings.mcp.enabled {
        features.push("mcp");
    }
    let protocols = rmcp::model::ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .map(ToString::to_string)
        .collect();
    Reply::json(&HubVersion {
        name: "hermes-hub",
        version: env!("CARGO_PKG_VERSION"),
        node: call.hub.node().to_owned(),
        api: "v1",
        protocols,
        features,
        started_at: call.hub.started_at(),
    })
}

/// A token as its holder sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhoAmI {
    token_id: TokenId,
    name: String,
    scopes: Vec<Scope>,
    /// The tenants it covers; all, if absent.
    tenants: Option<Vec<TenantId>>,
    expires_at: Option<Time>,
}

pub(crate) async fn whoami(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let principal = call.principal();
    Reply::json(&WhoAmI {
        token_id: principal.token.clone(),
        name: principal.name.clone(),
        scopes: Scope::ALL
            .iter()
            .copied()
            .filter(|scope| principal.scopes.contains(*scope))
            .collect(),
        tenants: principal.visible_tenants(),
        expires_at: principal.expires_at,
    })
}
