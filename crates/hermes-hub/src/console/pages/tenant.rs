//! A tenant: its state, what it may use and has used, its last runs, its settings, and what may be done with it.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{is_there, render};
use crate::{
    Problem,
    api_types::{
        AccessStatus, AgentPhase, AgentState, Condition, ConditionStatus, LimitUse, Run, Tenant,
        Time, UsageDay,
    },
    console::{conflict::digest_for, frame::Frame, request::PageRequest},
};

const SHOWN_RUNS: u32 = 5;

#[derive(Template)]
#[template(path = "pages/tenant.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a thing that is shown or not"
)]
struct TenantPage {
    page: Frame,
    /// For `If-Match`.
    version: String,
    agent: AgentState,
    /// Those that say that something is not as it should be, and the others.
    findings: Vec<Condition>,
    others: Vec<Condition>,
    limits: Option<LimitUse>,
    month: Option<MonthUsage>,
    runs: Option<Vec<Run>>,
    model: Option<ModelSettings>,
    /// What the form about the model was made from.
    seen_model: String,
    labels: String,
    label_names: String,
    audit: Option<String>,
    is_blocked: bool,
    is_awake: bool,
    links_groups: bool,
    /// Whether settings for operators of the whole Hub are there.
    is_whole_hub: bool,
    may: TenantActions,
    tenant: Tenant,
}

/// What is there for whoever is signed in.
#[expect(clippy::struct_excessive_bools, reason = "each is one operation")]
struct TenantActions {
    start: bool,
    restart: bool,
    block: bool,
    update: bool,
    update_model: bool,
    test_model: bool,
    rotate_key: bool,
    export: bool,
    delete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MonthUsage {
    runs: u64,
    tool_calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelSettings {
    model: Option<String>,
    provider: Option<String>,
    base_url: Option<String>,
    key_env: Option<String>,
    api_mode: Option<String>,
    context_length: Option<u32>,
    agent_model: Option<String>,
}

impl ModelSettings {
    /// The model that answers.
    fn effective(&self) -> Option<&str> {
        let name = self.agent_model.as_deref().or(self.model.as_deref());
        name.filter(|name| !name.is_empty())
    }
}

impl TenantPage {
    fn model_name(&self) -> &str {
        let configured = self.model.as_ref().and_then(ModelSettings::effective);
        let name = configured.or(self.tenant.agent.model.as_deref());
        name.unwrap_or("–")
    }

    /// What the month cost, if models have prices and something was used.
    fn cost(&self) -> Option<String> {
        let cost = self.month.as_ref()?.cost?;
        (cost > 0.0).then(|| format!("{cost:.2}"))
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let id = request.path_value("tenant_id");
    let named = json!({"tenant_id": id});
    let (tenant, version): (Tenant, _) =
        request.read_versioned("get_tenant", named.clone()).await?;
    let agent: AgentState = request.read("get_tenant_agent", named.clone()).await?;
    let (findings, others) = tenant
        .conditions
        .iter()
        .cloned()
        .partition(|condition| condition.status != ConditionStatus::True);
    let audit = is_there(&request, "/audit").then(|| format!("/audit?tenant={id}"));
    let labels = tenant.labels.iter();
    let labels: Vec<String> = labels
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let label_names: Vec<&str> = tenant.labels.keys().map(String::as_str).collect();
    let model: Option<Value> = read_if_allowed(&request, "get_tenant_model", named.clone()).await;
    render(&TenantPage {
        page: Frame::new(&request, tenant.display_name.clone()),
        version: version.unwrap_or_default(),
        is_awake: matches!(
            agent.state,
            AgentPhase::Starting | AgentPhase::Running | AgentPhase::Idle
        ),
        agent,
        findings,
        others,
        limits: read_if_allowed(&request, "get_limits", named.clone()).await,
        month: read_month(&request, id).await,
        runs: read_runs(&request, id).await,
        seen_model: digest_for(
            "update_tenant_model",
            model.as_ref().unwrap_or(&Value::Null),
        ),
        model: model.and_then(|model| serde_json::from_value(model).ok()),
        label_names: label_names.join("\n"),
        labels: labels.join("\n"),
        audit,
        is_blocked: tenant.access.status == AccessStatus::Blocked,
        links_groups: is_there(&request, "/groups/{group_id}"),
        is_whole_hub: request.principal().tenants.is_none(),
        may: TenantActions {
            start: request.may("start_tenant_agent"),
            restart: request.may("restart_tenant_agent"),
            block: request.may("set_tenant_access"),
            update: request.may("update_tenant"),
            update_model: request.may("update_tenant_model"),
            test_model: request.may("test_tenant_model"),
            rotate_key: request.may("rotate_runtime_key"),
            export: request.may("get_manifest"),
            delete: request.may("delete_tenant"),
        },
        tenant,
    })
}

/// A part of the page: left out if it is not for the reader, or cannot be read now.
async fn read_if_allowed<T: serde::de::DeserializeOwned>(
    request: &PageRequest,
    operation: &str,
    arguments: Value,
) -> Option<T> {
    if !request.may(operation) {
        return None;
    }
    request.read(operation, arguments).await.ok()
}

async fn read_runs(request: &PageRequest, id: &str) -> Option<Vec<Run>> {
    #[derive(Deserialize)]
    struct LastRuns {
        runs: Vec<Run>,
    }
    let arguments = json!({"tenant_id": id, "limit": SHOWN_RUNS});
    let list: Option<LastRuns> = read_if_allowed(request, "list_runs", arguments).await;
    list.map(|list| list.runs)
}

/// What it used since the first of the month, in UTC.
async fn read_month(request: &PageRequest, id: &str) -> Option<MonthUsage> {
    #[derive(Deserialize)]
    struct TenantUsageReport {
        total: MonthUsage,
    }
    let today = UsageDay::of(Time::now()).to_string();
    let first = format!("{}-01", today.get(..7)?);
    let arguments = json!({"by": "day", "from": first, "tenant": id});
    let report: Option<TenantUsageReport> = read_if_allowed(request, "get_usage", arguments).await;
    report.map(|report| report.total)
}
