//! The MCP servers of a tenant: entries of `mcp_servers` in its home's `config.yaml`. Whatever talks to a server happens in
//! the tenant's own process.

use std::{collections::BTreeSet, time::Duration};

use hermes_config::{ConfigFile, ServerEntry, Variables};
use hermes_protocol::{AgentReply, AgentRequest, Feature, ServerState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    TenantRef,
    agent::ask_agent,
    home_config::{change_config, own_variables, policy_problem, read_config},
};
use crate::{
    Problem, TenantId,
    api_types::Time,
    service::call::{Call, Reply, etag, etag_matches, version_conflict},
};

pub(crate) mod entry;
pub(crate) mod live;
pub(crate) mod login;
mod redaction;

const SERVERS_KEY: &str = "mcp_servers";
/// How long a running agent gets to say how its servers are.
const STATE_TIMEOUT: Duration = Duration::from_secs(3);
const FORGET_TIMEOUT: Duration = Duration::from_secs(30);

/// An MCP server of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServer {
    /// Its name: the key in `config.yaml`.
    name: String,
    /// `stdio`, `http` or `sse`; absent if the entry cannot be used.
    transport: Option<&'static str>,
    /// Whether it is connected when the agent runs.
    enabled: bool,
    /// Its state while the agent runs: `ready`, `connecting`, `needs_auth` and so on.
    status: Option<String>,
    /// Why it cannot be used, or what went wrong last.
    error: Option<String>,
    /// How many tools it offers, while the agent runs.
    tools: Option<u64>,
    /// `stateless` or `legacy`, while it is connected.
    era: Option<String>,
    /// The process of a local server, while the agent runs.
    pid: Option<u32>,
    /// How often it was started again since the agent runs.
    restarts: Option<u32>,
    /// Since when it is in its state.
    since: Option<Time>,
    /// The entry as `config.yaml` has it. What may be a secret is shown as `[REDACTED]`.
    config: Map<String, Value>,
    /// What is odd about the entry.
    warnings: Vec<String>,
}

/// The MCP servers of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpServerList {
    /// In the order of `config.yaml`.
    mcp_servers: Vec<McpServer>,
}

/// Input that names a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    pub(super) server: String,
}

/// A whole entry.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutServer {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    server: String,
    /// The entry, with the keys of `mcp_servers.<name>`: `command` with `args` and `env`, or `url` with `headers`, and so
    /// on. A value that is sent back as `[REDACTED]` stays what it is.
    config: Map<String, Value>,
}

/// Changes of an entry.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchServer {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    server: String,
    /// A merge patch of the entry: `null` removes a key.
    patch: Map<String, Value>,
}

pub(crate) async fn list(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let document = read_config(&call).await?;
    let states = current_states(&call).await?;
    let entries = document.get(SERVERS_KEY).and_then(Value::as_object);
    let servers = entries.into_iter().flatten();
    let mcp_servers = servers
        .map(|(name, entry)| show_server(name, entry, &states))
        .collect();
    Reply::json(&McpServerList { mcp_servers })
}

pub(crate) async fn get(call: Call, input: ServerRef) -> Result<Reply, Problem> {
    let document = read_config(&call).await?;
    let entry = find_entry(&document, &input.server)?;
    let states = current_states(&call).await?;
    Ok(Reply::json(&show_server(&input.server, entry, &states))?.etag(entry_version(entry)))
}

pub(crate) async fn put(call: Call, input: PutServer) -> Result<Reply, Problem> {
    check_feature(&call)?;
    let PutServer { server, config, .. } = input;
    let variables = own_variables(&call, call.tenant()?).await?;
    let wanted = call.if_match.clone();
    let (shown, is_new) = change_config(&call, move |file| {
        let before = file.get(&[SERVERS_KEY, &server]).cloned();
        if let Some(wanted) = &wanted {
            check_version(wanted, before.as_ref())?;
        }
        if before.is_none() {
            entry::check_name(&server)?;
            check_count(file)?;
        }
        let mut config = Value::Object(config);
        if let Some(before) = &before {
            redaction::restore_redacted(&mut config, before);
        }
        let shown = write_entry(file, &server, &config, before.as_ref(), &variables)?;
        Ok((shown, before.is_none()))
    })
    .await?;
    Ok(Reply::json(&shown)?.status(if is_new { 201 } else { 200 }))
}

/// Whether an entry could be put into a configuration, where the tenant has these variables.
pub(crate) fn check_put(
    call: &Call,
    name: &str,
    config: &Map<String, Value>,
    document: &Value,
    variables: &BTreeSet<String>,
) -> Result<(), Problem> {
    check_feature(call)?;
    let before = find_entry(document, name).ok();
    let mut config = Value::Object(config.clone());
    match before {
        Some(before) => redaction::restore_redacted(&mut config, before),
        None => entry::check_name(name)?,
    }
    let members = config.as_object().cloned().unwrap_or_default();
    entry::check_entry(name, &members, before, variables).map(drop)
}

/// Whether a tenant may have so many servers.
pub(crate) fn check_server_count(count: usize) -> Result<(), Problem> {
    if count <= entry::MAX_SERVERS {
        return Ok(());
    }
    Err(Problem::precondition(format!(
        "a tenant has {} MCP servers at most; remove one first",
        entry::MAX_SERVERS
    ))
    .with_reason("too_many"))
}

pub(crate) async fn patch(call: Call, input: PatchServer) -> Result<Reply, Problem> {
    check_feature(&call)?;
    let PatchServer { server, patch, .. } = input;
    if patch.is_empty() {
        return Err(Problem::invalid(
            "nothing is to be changed; give at least one key",
        ));
    }
    let variables = own_variables(&call, call.tenant()?).await?;
    let shown = change_config(&call, move |file| {
        let before = entry_in_file(file, &server)?;
        let mut merged = before.as_object().cloned().unwrap_or_default();
        entry::merge(&mut merged, patch);
        let mut config = Value::Object(merged);
        redaction::restore_redacted(&mut config, &before);
        write_entry(file, &server, &config, Some(&before), &variables)
    })
    .await?;
    Reply::json(&shown)
}

pub(crate) async fn delete(call: Call, input: ServerRef) -> Result<Reply, Problem> {
    let name = input.server.clone();
    let removed = change_config(&call, move |file| {
        let removed = entry_in_file(file, &name)?;
        file.remove_server(&name);
        Ok(removed)
    })
    .await?;
    // The agent has let go of the server by now, and writes nothing of it any more.
    if removed.get("url").is_some() {
        forget_login(&call, &input.server).await;
    }
    Ok(Reply::empty())
}

pub(crate) async fn enable(call: Call, input: ServerRef) -> Result<Reply, Problem> {
    check_feature(&call)?;
    set_enabled(call, input.server, true).await
}

pub(crate) async fn disable(call: Call, input: ServerRef) -> Result<Reply, Problem> {
    set_enabled(call, input.server, false).await
}

async fn set_enabled(call: Call, server: String, enabled: bool) -> Result<Reply, Problem> {
    let shown = change_config(&call, move |file| {
        let before = entry_in_file(file, &server)?;
        // It is the default, and most entries do not say it.
        if !enabled || before.get("enabled").is_some() {
            file.set_server_key(&server, &["enabled"], enabled.into());
        }
        let after = entry_in_file(file, &server)?;
        Ok(show_server(&server, &after, &[]))
    })
    .await?;
    Reply::json(&shown)
}

/// The tokens of a login stay in the home, so its agent deletes them. A server can be removed without that.
async fn forget_login(call: &Call, server: &str) {
    let request = AgentRequest::ForgetServer {
        server: server.to_owned(),
    };
    let Ok(tenant) = call.tenant_id() else { return };
    if let Err(problem) = ask_agent(&call.hub, tenant, &request, FORGET_TIMEOUT).await {
        tracing::warn!(%tenant, server, %problem, "the login of a removed MCP server was not deleted");
    }
}

/// The version of an entry. Secrets are not part of it: sent back as they are shown, they stay what they are.
fn entry_version(entry: &Value) -> String {
    let shown = redaction::redact_entry(entry).to_string();
    etag(&hermes_config::to_hex(&Sha256::digest(shown))[..16])
}

fn check_version(wanted: &str, entry: Option<&Value>) -> Result<(), Problem> {
    match entry {
        Some(entry) if etag_matches(wanted, &entry_version(entry)) => Ok(()),
        Some(_) | None => Err(version_conflict()),
    }
}

/// Checks an entry and makes the file say it.
fn write_entry(
    file: &mut ConfigFile,
    name: &str,
    config: &Value,
    before: Option<&Value>,
    variables: &BTreeSet<String>,
) -> Result<McpServer, Problem> {
    let members = config.as_object().cloned().unwrap_or_default();
    let warnings = entry::check_entry(name, &members, before, variables)?;
    file.set_server(name, config);
    let mut shown = show_server(name, config, &[]);
    shown.warnings = warnings;
    Ok(shown)
}

fn check_count(file: &ConfigFile) -> Result<(), Problem> {
    let servers = file.get(&[SERVERS_KEY]).and_then(Value::as_object);
    check_server_count(servers.map_or(0, Map::len) + 1)
}

/// Refuses what has no effect while the policy turns MCP servers off.
pub(super) fn check_feature(call: &Call) -> Result<(), Problem> {
    let documents = call.hub.effective_documents();
    if documents.policy().features.has(Feature::Mcp) {
        return Ok(());
    }
    Err(policy_problem(
        "the policy turns MCP servers off; add `mcp` to `features.enabled`",
    ))
}

fn server_not_found(name: &str) -> Problem {
    let name: String = name.chars().take(80).collect();
    Problem::not_found(format!("there is no MCP server `{name}`"))
}

pub(super) fn find_entry<'a>(document: &'a Value, name: &str) -> Result<&'a Value, Problem> {
    let entries = document.get(SERVERS_KEY).and_then(Value::as_object);
    entries
        .and_then(|entries| entries.get(name))
        .ok_or_else(|| server_not_found(name))
}

fn entry_in_file(file: &ConfigFile, name: &str) -> Result<Value, Problem> {
    let entry = file.get(&[SERVERS_KEY, name]).cloned();
    entry.ok_or_else(|| server_not_found(name))
}

/// The states that a running agent knows. A sleeping one is not woken to be asked.
async fn current_states(call: &Call) -> Result<Vec<ServerState>, Problem> {
    let tenant = call.tenant_id()?;
    if !call.hub.agents().is_awake(tenant) {
        return Ok(Vec::new());
    }
    let runtime = call.hub.agents().runtime();
    let asked = runtime.send_request(tenant, &AgentRequest::ListServers, STATE_TIMEOUT);
    Ok(match tokio::time::timeout(STATE_TIMEOUT, asked).await {
        Ok(Ok(AgentReply::Servers(states))) => states,
        // The entries are worth seeing though the agent does not answer.
        _ => Vec::new(),
    })
}

fn show_server(name: &str, entry: &Value, states: &[ServerState]) -> McpServer {
    let (parsed, warnings) = ServerEntry::parse(name, entry.clone(), &Variables::default());
    let state = states.iter().find(|state| state.name == name);
    let invalid = parsed.server.as_ref().err().map(ToString::to_string);
    McpServer {
        name: name.to_owned(),
        transport: parsed
            .server
            .as_ref()
            .ok()
            .map(|server| server.transport.kind()),
        enabled: parsed.server.as_ref().is_ok_and(|server| server.enabled),
        status: state.map(|state| state.status.clone()),
        error: state.and_then(|state| state.error.clone()).or(invalid),
        tools: state.map(|state| state.tools),
        era: state.and_then(|state| state.era.clone()),
        pid: state.and_then(|state| state.pid),
        restarts: state.map(|state| state.restarts),
        since: state.map(|state| login::unix_time(state.since)),
        config: match redaction::redact_entry(entry) {
            Value::Object(members) => members,
            _ => Map::new(),
        },
        warnings: warnings.iter().map(ToString::to_string).collect(),
    }
}
