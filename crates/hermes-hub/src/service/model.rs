//! The model of a tenant: the section `model` of its home's `config.yaml`, and asking it one word.
//!
//! `agent.model` of the tenant, its flavor or the Hub wins over it. So a name cannot be set here while one is set there: it
//! would have no effect.

use std::{collections::BTreeSet, time::Duration};

use hermes_config::Redactor;
use hermes_protocol::{AgentReply, AgentRequest, ModelRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    TenantRef,
    agent::{ask_agent, unexpected_reply},
    deserialize_nullable,
    home_config::{change_config, own_variables, policy_problem, read_config},
    mcp_servers::entry::check_references,
};
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    service::call::{Call, Reply},
    tenants::{reserved_variables::classify_variable, settings::effective_agent},
};

const TEST_TIMEOUT: Duration = Duration::from_secs(75);
const MAX_TEXT_CHARS: usize = 500;

/// The model of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantModel {
    /// Its name.
    model: Option<String>,
    /// A built-in provider, or one under `providers` of the home's `config.yaml`.
    provider: Option<String>,
    /// Another endpoint.
    base_url: Option<String>,
    /// The variable that holds the key.
    key_env: Option<String>,
    /// The protocol, where the provider does not imply it.
    api_mode: Option<String>,
    /// How many tokens fit into one request with its reply.
    context_length: Option<u32>,
    /// `agent.model` of the tenant, its flavor or the Hub: if it is set, it wins over `model`.
    agent_model: Option<String>,
}

/// What changes; `null` removes a member.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::option_option,
    reason = "absent, `null` and a value are three things"
)]
pub(crate) struct PatchModel {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Its name.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    model: Option<Option<String>>,
    /// A built-in provider, or one under `providers` of the home's `config.yaml`.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    provider: Option<Option<String>>,
    /// Another endpoint, with http or https.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    base_url: Option<Option<String>>,
    /// The variable that holds the key: one of the tenant.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    key_env: Option<Option<String>>,
    /// The protocol: `chat_completions`, `anthropic_messages` or `auto`.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    api_mode: Option<Option<String>>,
    /// How many tokens fit into one request with its reply.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    context_length: Option<Option<u32>>,
}

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let document = read_config(&call).await?;
    Reply::json(&show_model(&call, &document)?)
}

pub(crate) async fn update(call: Call, input: PatchModel) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let agent = effective_agent(record, &call.hub.effective_documents());
    let variables = own_variables(&call, record).await?;
    let patch = checked_patch(&call.hub, input, agent.model.as_deref(), &variables)?;
    let policy = call.hub.effective_documents().policy().models.clone();
    let document = change_config(&call, move |file| {
        let document = file.get(&[]).cloned().unwrap_or_default();
        let section = merged_section(&document, patch);
        check_policy(&section, &policy)?;
        if section.is_empty() {
            file.unset(&["model"]);
        } else {
            file.change(&["model"], &Value::Object(section));
        }
        Ok(file.get(&[]).cloned().unwrap_or_default())
    })
    .await?;
    Reply::json(&show_model(&call, &document)?)
}

pub(crate) async fn test(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    let request = AgentRequest::TestModel;
    match ask_agent(&call.hub, call.tenant_id()?, &request, TEST_TIMEOUT).await? {
        AgentReply::ModelTested(report) => Reply::json(&report),
        _ => Err(unexpected_reply()),
    }
}

fn show_model(call: &Call, document: &Value) -> Result<TenantModel, Problem> {
    let section = section_of(document);
    let redactor = Redactor::default();
    let text = |keys: &[&str]| {
        let mut values = keys.iter().filter_map(|key| section.get(*key)?.as_str());
        values.next().map(|text| redactor.redact(text).into_owned())
    };
    let length = section.get("context_length").and_then(Value::as_u64);
    let agent = effective_agent(call.tenant()?, &call.hub.effective_documents());
    Ok(TenantModel {
        model: text(&["default", "model"]),
        provider: text(&["provider"]),
        base_url: text(&["base_url", "api", "url"]),
        key_env: text(&["key_env", "api_key_env"]),
        api_mode: text(&["api_mode"]),
        context_length: length.and_then(|length| u32::try_from(length).ok()),
        agent_model: agent.model,
    })
}

/// The section `model`, which may also be just a name.
fn section_of(document: &Value) -> Map<String, Value> {
    match document.get("model") {
        Some(Value::Object(section)) => section.clone(),
        Some(Value::String(name)) => Map::from_iter([("default".to_owned(), name.clone().into())]),
        _ => Map::new(),
    }
}

/// Whether a change could be made of a configuration, where the tenant has these variables. `agent_model` is that of its
/// settings, which would win.
pub(crate) fn check_patch(
    hub: &Hub,
    input: PatchModel,
    agent_model: Option<&str>,
    variables: &BTreeSet<String>,
    document: &Value,
) -> Result<(), Problem> {
    let patch = checked_patch(hub, input, agent_model, variables)?;
    let section = merged_section(document, patch);
    check_policy(&section, &hub.effective_documents().policy().models)
}

fn check_policy(section: &Map<String, Value>, policy: &ModelRules) -> Result<(), Problem> {
    let text = |key: &str| section.get(key).and_then(Value::as_str).unwrap_or_default();
    let (provider, name) = (text("provider"), text("default"));
    if name.is_empty() || policy.allows(provider, name) {
        return Ok(());
    }
    Err(policy_problem(format!(
        "the policy does not allow the model `{name}` (`models.allow`)"
    ))
    .with_detail("/model", "denied by policy"))
}

/// The changes by the keys of `config.yaml`, checked one by one.
fn checked_patch(
    hub: &Hub,
    input: PatchModel,
    agent_model: Option<&str>,
    variables: &BTreeSet<String>,
) -> Result<Map<String, Value>, Problem> {
    if let (Some(Some(_)), Some(set)) = (&input.model, agent_model) {
        return Err(Problem::precondition(format!(
            "`agent.model` of the tenant, its flavor or the Hub is `{set}` and wins, so this would have no effect; remove \
             it first, or change it there"
        ))
        .with_reason("agent_model_set")
        .with_detail("/model", "without effect"));
    }
    let mut patch = Map::new();
    let mut set = |key: &str, value: Option<Option<Value>>| {
        if let Some(value) = value {
            patch.insert(key.to_owned(), value.unwrap_or_default());
        }
    };
    let text = |member: Option<Option<String>>| member.map(|text| text.map(Value::from));
    for (member, value) in [
        ("model", &input.model),
        ("provider", &input.provider),
        ("baseUrl", &input.base_url),
        ("keyEnv", &input.key_env),
    ] {
        if let Some(Some(text)) = value {
            check_text(member, text)?;
        }
    }
    if let Some(Some(mode)) = &input.api_mode
        && !["chat_completions", "anthropic_messages", "auto"].contains(&mode.as_str())
    {
        return Err(unprocessable(
            "apiMode",
            "must be `chat_completions`, `anthropic_messages` or `auto`",
        ));
    }
    if input.context_length == Some(Some(0)) {
        return Err(unprocessable("contextLength", "must be at least 1"));
    }
    if let Some(Some(url)) = &input.base_url {
        check_references(&Value::from(url.as_str()), None, "baseUrl", variables)?;
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        if !is_web && !url.starts_with("${") {
            return Err(unprocessable(
                "baseUrl",
                "must begin with `http://` or `https://`",
            ));
        }
    }
    if let Some(Some(name)) = &input.key_env {
        check_key_variable(hub, name, variables)?;
    }
    set("default", text(input.model));
    set("provider", text(input.provider));
    set("base_url", text(input.base_url));
    set("key_env", text(input.key_env));
    set("api_mode", text(input.api_mode));
    let length = input.context_length.map(|length| length.map(Value::from));
    set("context_length", length);
    if patch.is_empty() {
        return Err(Problem::invalid(
            "nothing is to be changed; give at least one member",
        ));
    }
    Ok(patch)
}

fn check_text(member: &str, text: &str) -> Result<(), Problem> {
    let is_plain = !text.trim().is_empty()
        && text.chars().count() <= MAX_TEXT_CHARS
        && !text.chars().any(char::is_control);
    if is_plain {
        return Ok(());
    }
    Err(unprocessable(
        member,
        "must be a text of 1 to 500 characters without control characters",
    ))
}

/// A key comes from a variable of the tenant: whatever else this machine has is none of its business.
fn check_key_variable(hub: &Hub, name: &str, variables: &BTreeSet<String>) -> Result<(), Problem> {
    if classify_variable(name).is_some() {
        return Err(unprocessable(
            "keyEnv",
            "names a variable that is not for keys",
        ));
    }
    if !hub.effective_documents().policy().env.allows(name) {
        return Err(policy_problem(format!(
            "the policy does not allow `{name}` (`env.deny`)"
        )));
    }
    if !variables.contains(name) {
        return Err(Problem::new(
            ProblemCode::Unprocessable,
            format!("the tenant has no variable `{name}`; set it first (`hermes tenant env set`)"),
        )
        .with_reason("unknown_variable")
        .with_detail("/keyEnv", "not set"));
    }
    Ok(())
}

fn unprocessable(member: &str, reason: &str) -> Problem {
    Problem::new(ProblemCode::Unprocessable, format!("`{member}` {reason}"))
        .with_detail(format!("/{member}"), reason)
}

/// The section after a change. Other spellings of a changed key go, or they would stand beside it.
fn merged_section(document: &Value, patch: Map<String, Value>) -> Map<String, Value> {
    let mut section = section_of(document);
    for (key, value) in patch {
        let others: &[&str] = match key.as_str() {
            "default" => &["model"],
            "base_url" => &["api", "url"],
            "key_env" => &["api_key_env"],
            _ => &[],
        };
        for other in others {
            section.shift_remove(*other);
        }
        if value.is_null() {
            section.shift_remove(&key);
        } else {
            section.insert(key, value);
        }
    }
    section
}
