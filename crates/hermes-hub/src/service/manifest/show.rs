//! A tenant as a document. It has no secrets, and only what the caller may read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ManifestRun, reply_value};
use crate::{
    Problem, TenantId,
    api_types::{MemoryKind, Scope},
    service::{
        TenantRef,
        call::{Call, Reply},
        character::{TextFile, read_text},
        cron, limits, mcp_servers, model, platforms, skills,
    },
    tenants::settings::effective_storage,
};

/// Members of a job that a document can set.
const JOB_MEMBERS: [&str; 13] = [
    "name",
    "prompt",
    "deliver",
    "skills",
    "model",
    "provider",
    "base_url",
    "script",
    "no_agent",
    "context_from",
    "enabled_toolsets",
    "workdir",
    "enabled",
];

/// Members of a platform that a document can set.
const PLATFORM_MEMBERS: [&str; 8] = [
    "tokenEnv",
    "allowFrom",
    "groupAllowFrom",
    "groupAllowedChats",
    "allowedRoles",
    "allowAllUsers",
    "unauthorizedDm",
    "homeChannel",
];

/// A tenant as a document. Members that the token may not read are absent.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManifestView {
    id: String,
    name: String,
    flavor: String,
    labels: BTreeMap<String, String>,
    groups: BTreeMap<String, String>,
    /// Each a reference to a variable of the same name where `hermes tenant apply` runs; values are never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    model: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp_servers: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skills: Option<Vec<SkillName>>,
    soul: String,
    memory: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    platforms: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<Vec<Map<String, Value>>>,
    limits: Map<String, Value>,
    storage: StorageLimits,
}

/// A skill that is there.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillName {
    name: String,
}

/// Limits of disk space.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StorageLimits {
    quota_bytes: u64,
    files_quota: u64,
}

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let record = call.tenant()?.clone();
    let storage = effective_storage(&record, &call.hub.effective_documents());
    let groups = record.groups.iter();
    let mut shown = ManifestView {
        id: record.id.to_string(),
        name: record.display_name.clone(),
        flavor: record.flavor.clone(),
        labels: record.labels.clone(),
        groups: groups
            .map(|group| (group.id.to_string(), group.access.to_string()))
            .collect(),
        storage: StorageLimits {
            quota_bytes: storage.quota_bytes,
            files_quota: storage.files_quota,
        },
        ..ManifestView::default()
    };
    let may = |scope| call.principal().scopes.contains(scope);
    if may(Scope::EnvRead) {
        let variables = call.hub.state().env(&record.id).await?;
        let reference = |name: String| (name.clone(), format!("${{env:{name}}}"));
        let variables = variables.into_iter();
        shown.env = Some(variables.map(|variable| reference(variable.name)).collect());
    }
    if may(Scope::SkillsRead) {
        let names = skills::skill_names(&call, &record).await?;
        shown.skills = Some(names.into_iter().map(|name| SkillName { name }).collect());
    }
    shown.soul = read_text(&call, &record, TextFile::Soul)
        .await?
        .into_content();
    for kind in MemoryKind::ALL {
        let text = read_text(&call, &record, TextFile::Memory(*kind)).await?;
        shown.memory.insert(kind.as_str(), text.into_content());
    }
    let run = ManifestRun {
        tenant: call.tenant.clone(),
        call: call.clone(),
        is_dry: true,
        parts: Vec::new(),
    };
    add_named_parts(&run, &record.id, &mut shown).await?;
    Reply::json(&shown)
}

async fn add_named_parts(
    run: &ManifestRun,
    tenant: &TenantId,
    shown: &mut ManifestView,
) -> Result<(), Problem> {
    let own = || -> Result<TenantRef, Problem> {
        let members = Map::from_iter([("tenant_id".to_owned(), json!(tenant))]);
        super::read_input("tenant", members)
    };
    let call = || run.call.clone();
    let may = |scope| run.call.principal().scopes.contains(scope);
    let mut found = reply_value(&model::get(call(), own()?).await?)?;
    if let Some(members) = found.as_object_mut() {
        members.retain(|name, value| name != "agentModel" && !value.is_null());
        shown.model = std::mem::take(members);
    }
    if may(Scope::McpRead) {
        let found = reply_value(&mcp_servers::list(call(), own()?).await?)?;
        let servers = found["mcpServers"].as_array().into_iter().flatten();
        let servers = servers.map(|server| {
            let name = server["name"].as_str().unwrap_or_default();
            (name.to_owned(), server["config"].clone())
        });
        shown.mcp_servers = Some(servers.collect());
    }
    if may(Scope::CronRead) {
        let found = reply_value(&cron::list(call(), own()?).await?)?;
        let jobs = found["jobs"].as_array().into_iter().flatten();
        shown.cron = Some(jobs.filter_map(Value::as_object).map(show_job).collect());
    }
    let found = reply_value(&limits::get(call(), own()?).await?)?;
    for name in ["runsPerDay", "tokensPerDay"] {
        shown.limits.insert(name.to_owned(), found[name].clone());
    }
    let found = reply_value(&platforms::list(call(), own()?).await?)?;
    for platform in found["platforms"].as_array().into_iter().flatten() {
        if platform["tokenEnv"].is_null() {
            continue;
        }
        let members = PLATFORM_MEMBERS.iter().filter_map(|name| {
            let value = platform.get(*name)?;
            let is_default = value.is_null() || *value == json!([]) || *value == json!(false);
            (!is_default).then(|| ((*name).to_owned(), value.clone()))
        });
        let members: Map<String, Value> = members.collect();
        let name = platform["platform"].as_str().unwrap_or_default();
        shown.platforms.insert(name.to_owned(), members.into());
    }
    Ok(())
}

fn show_job(job: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = Map::new();
    for member in JOB_MEMBERS {
        let value = job.get(member).filter(|value| {
            !value.is_null()
                && **value != json!([])
                && (member != "no_agent" || **value == json!(true))
        });
        if let Some(value) = value {
            shown.insert(member.to_owned(), value.clone());
        }
    }
    let schedule = job.get("schedule").cloned().unwrap_or_default();
    let spelled = match schedule["expr"].as_str() {
        Some(expression) => json!(expression),
        None => schedule,
    };
    shown.insert("schedule".into(), spelled);
    if let Some(times) = job.get("repeat").and_then(|repeat| repeat.get("times"))
        && !times.is_null()
    {
        shown.insert("repeat".into(), times.clone());
    }
    shown
}
