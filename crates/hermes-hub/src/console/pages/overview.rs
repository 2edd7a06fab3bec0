//! The first page: what needs somebody, the runs of the last day, and how the Hub is.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::{is_there, render};
use crate::{
    Problem, TenantId,
    api_types::{Approval, Tenant, TenantStatus, Time},
    console::{
        drawing::{CHART_HEIGHT, CHART_WIDTH, Sparkline, sparkline},
        frame::Frame,
        request::PageRequest,
    },
    service::overview::{Activity, ActivityStep, HubOverview, TenantAlertKind, TenantCount},
};

/// More than this of a kind does not fit on a first page.
const MOST: usize = 8;

#[derive(Template)]
#[template(path = "pages/overview.html")]
struct OverviewPage {
    page: Frame,
    needs: Vec<PendingAction>,
    /// Where the rest is: an address and the key of its text.
    more: Vec<(&'static str, &'static str)>,
    counts: Vec<TenantCount>,
    activity: Option<ActivityView>,
    version: VersionView,
    /// The nodes that the Hub has, for those who may see them.
    nodes: Option<NodeCounts>,
    /// Whether this node can do its work, for the same.
    health: Option<NodeHealth>,
    /// A tenant is the next thing to make.
    is_empty: bool,
}

/// Something that somebody should do.
struct PendingAction {
    /// The key of what it is.
    what: &'static str,
    /// What it is about: a name or a command.
    subject: String,
    /// Why.
    reason: String,
    at: Option<Time>,
    address: String,
    /// The key of what to do there.
    fix: &'static str,
}

struct ActivityView {
    since: Time,
    charts: Vec<Chart>,
    rows: Vec<ActivityRow>,
}

/// A chart with the number that sums it up.
struct Chart {
    title: &'static str,
    sum: String,
    line: Sparkline,
}

struct ActivityRow {
    at: Time,
    runs: u64,
    failed: u64,
    tokens: u64,
    took: String,
}

#[derive(Deserialize)]
struct WaitingApprovals {
    approvals: Vec<Approval>,
}

#[derive(Deserialize)]
struct OverviewTenants {
    tenants: Vec<Tenant>,
}

/// How many nodes there are, and how many of them are away.
struct NodeCounts {
    there: u64,
    away: u64,
}

#[derive(Deserialize)]
struct OverviewNodes {
    nodes: Vec<OverviewNode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OverviewNode {
    id: String,
    state: String,
    seen_at: Time,
}

/// What load balancers are told of this node.
#[derive(Deserialize)]
struct NodeHealth {
    status: String,
    database: bool,
    objects: bool,
    disk: bool,
}

impl NodeHealth {
    fn is_ready(&self) -> bool {
        self.status == "ready"
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionView {
    version: String,
    node: String,
    started_at: Time,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut needs = Vec::new();
    let mut more = Vec::new();
    add_approvals(&request, &mut needs, &mut more).await?;
    let mut overview = None;
    if request.may("get_overview") {
        let found: HubOverview = request.read("get_overview", json!({})).await?;
        add_failures(&request, &found, &mut needs, &mut more).await?;
        overview = Some(found);
    }
    add_missing_model(&request, &mut needs).await;
    let nodes = add_nodes(&request, &mut needs).await?;
    let health = add_health(&request, &mut needs).await?;
    let (counts, activity) = match overview {
        Some(found) => (found.tenants, found.activity),
        None => (Vec::new(), None),
    };
    let page = Frame::new(&request, request.texts.get("overview.title"));
    let is_present = |count: &TenantCount| count.status != TenantStatus::Deleted;
    render(&OverviewPage {
        is_empty: !counts.iter().any(is_present) && request.may("create_tenant"),
        activity: activity.map(|activity| show_activity(&page, &activity)),
        page,
        needs,
        more,
        counts,
        // One person does not need to know of nodes.
        nodes: nodes.filter(|_| request.only_tenant().is_none()),
        health,
        version: request.read("version", json!({})).await?,
    })
}

type SeeAllLinks = Vec<(&'static str, &'static str)>;

async fn add_approvals(
    request: &PageRequest,
    needs: &mut Vec<PendingAction>,
    more: &mut SeeAllLinks,
) -> Result<(), Problem> {
    if !request.may("list_approvals") {
        return Ok(());
    }
    let wanted = json!({"limit": MOST + 1});
    let list: WaitingApprovals = request.read("list_approvals", wanted).await?;
    if list.approvals.len() > MOST {
        more.push(("/approvals", "overview.more_approvals"));
    }
    let shown = list.approvals.into_iter().take(MOST);
    needs.extend(shown.map(|approval| PendingAction {
        what: "overview.approval",
        subject: approval.command,
        reason: tenant_name(request, &approval.tenant_id),
        at: Some(approval.created_at),
        address: format!("/approvals#{}", approval.approval_id),
        fix: "overview.fix.approval",
    }));
    Ok(())
}

async fn add_failures(
    request: &PageRequest,
    overview: &HubOverview,
    needs: &mut Vec<PendingAction>,
    more: &mut SeeAllLinks,
) -> Result<(), Problem> {
    let has_failed = |count: &TenantCount| count.status == TenantStatus::Failed && count.count > 0;
    if overview.tenants.iter().any(has_failed) && request.may("list_tenants") {
        let wanted = json!({"status": "failed", "limit": MOST + 1});
        let list: OverviewTenants = request.read("list_tenants", wanted).await?;
        if list.tenants.len() > MOST {
            more.push(("/tenants?status=failed", "overview.more_failed"));
        }
        needs.extend(list.tenants.into_iter().take(MOST).map(|tenant| {
            PendingAction {
                what: "overview.failed",
                subject: tenant.display_name,
                reason: tenant
                    .conditions
                    .iter()
                    .map(|condition| condition.message.as_str())
                    .find(|message| !message.is_empty())
                    .unwrap_or_default()
                    .to_owned(),
                at: Some(tenant.updated_at),
                address: format!("/tenants/{}", tenant.id),
                fix: "overview.fix.tenant",
            }
        }));
    }
    for trouble in &overview.troubles {
        let (what, path, fix) = match trouble.kind {
            TenantAlertKind::Agent => ("overview.agent", "", "overview.fix.tenant"),
            TenantAlertKind::Login => ("overview.login", "/mcp", "overview.fix.login"),
            TenantAlertKind::Platform => {
                ("overview.platform", "/platforms", "overview.fix.platform")
            }
            TenantAlertKind::Quota => ("overview.quota", "/limits", "overview.fix.quota"),
        };
        needs.push(PendingAction {
            what,
            subject: match request.only_tenant() {
                Some(_) => String::new(),
                None => trouble.display_name.clone(),
            },
            reason: trouble.message.clone(),
            at: Some(trouble.since),
            address: tenant_address(request, &trouble.tenant_id, path),
            fix,
        });
    }
    let failed = overview.failed_runs.iter().flatten();
    if failed.clone().count() > MOST && is_there(request, "/runs") {
        more.push(("/runs?status=failed", "overview.more_runs"));
    }
    needs.extend(failed.take(MOST).map(|run| PendingAction {
        what: "overview.run",
        subject: tenant_name(request, &run.tenant_id),
        reason: run.message.clone(),
        at: Some(run.ended_at),
        address: format!("/tenants/{}/runs/{}", run.tenant_id, run.run_id),
        fix: "overview.fix.run",
    }));
    Ok(())
}

/// The model as a home configures it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfiguredModel {
    model: Option<String>,
    agent_model: Option<String>,
}

/// A person who has just begun has no model, and a chat that cannot answer.
async fn add_missing_model(request: &PageRequest, needs: &mut Vec<PendingAction>) {
    let tenant = request.only_tenant();
    let Some(tenant) = tenant.filter(|_| request.may("update_tenant_model")) else {
        return;
    };
    // A configuration that cannot be read is told by its own page.
    let read = request.read("get_tenant_model", json!({"tenant_id": tenant}));
    let found: Result<ConfiguredModel, _> = read.await;
    let Ok(found) = found else {
        return;
    };
    let mut names = [found.model, found.agent_model].into_iter().flatten();
    if names.any(|name| !name.is_empty()) {
        return;
    }
    needs.push(PendingAction {
        what: "overview.no_model",
        subject: String::new(),
        reason: request.texts.get("overview.no_model_why").to_owned(),
        at: None,
        address: format!("/tenants/{tenant}"),
        fix: "overview.fix.model",
    });
}

/// Which tenant something is about; nothing where there is only one.
fn tenant_name(request: &PageRequest, tenant: &TenantId) -> String {
    match request.only_tenant() {
        Some(_) => String::new(),
        None => tenant.to_string(),
    }
}

/// The page of a tenant where something is mended; its first page where that one is not there.
fn tenant_address(request: &PageRequest, tenant: &TenantId, path: &str) -> String {
    let is_shown = is_there(request, &format!("/tenants/{{tenant_id}}{path}"));
    let path = if is_shown { path } else { "" };
    format!("/tenants/{tenant}{path}")
}

async fn add_nodes(
    request: &PageRequest,
    needs: &mut Vec<PendingAction>,
) -> Result<Option<NodeCounts>, Problem> {
    if !request.may("list_nodes") {
        return Ok(None);
    }
    let list: OverviewNodes = request.read("list_nodes", json!({})).await?;
    let (gone, there): (Vec<_>, Vec<_>) = list
        .nodes
        .into_iter()
        .partition(|node| node.state == "gone");
    let count = |nodes: &[OverviewNode]| u64::try_from(nodes.len()).unwrap_or(u64::MAX);
    let counts = NodeCounts {
        there: count(&there),
        away: count(&gone),
    };
    needs.extend(gone.into_iter().take(MOST).map(|node| PendingAction {
        what: "overview.gone",
        subject: node.id,
        reason: String::new(),
        at: Some(node.seen_at),
        address: "/nodes".to_owned(),
        fix: "overview.fix.node",
    }));
    Ok(Some(counts))
}

/// What this node lacks stands before everything else: without it, the rest fails too.
async fn add_health(
    request: &PageRequest,
    needs: &mut Vec<PendingAction>,
) -> Result<Option<NodeHealth>, Problem> {
    if !request.may("list_nodes") {
        return Ok(None);
    }
    let health: NodeHealth = request.read("readyz", json!({})).await?;
    let parts = [
        (health.database, "overview.no_database"),
        (health.objects, "overview.no_objects"),
        (health.disk, "overview.no_disk"),
    ];
    let missing = parts.into_iter().filter(|(is_there, _)| !is_there);
    let (address, fix) = match request.only_tenant() {
        Some(tenant) => (format!("/tenants/{tenant}/limits"), "overview.fix.quota"),
        None => ("/nodes".to_owned(), "overview.fix.node"),
    };
    let missing = missing.map(|(_, what)| PendingAction {
        what,
        subject: String::new(),
        reason: request.texts.get("overview.ill").to_owned(),
        at: None,
        address: address.clone(),
        fix,
    });
    let mut all: Vec<_> = missing.collect();
    all.append(needs);
    *needs = all;
    Ok(Some(health))
}

fn show_activity(page: &Frame, activity: &Activity) -> ActivityView {
    let steps = &activity.steps;
    let values = |value: fn(&ActivityStep) -> u64| steps.iter().map(value).collect::<Vec<u64>>();
    let runs = values(|step| step.runs);
    let tokens = values(|step| step.tokens);
    let failed = values(|step| step.failed);
    let took = values(|step| step.median_millis.unwrap_or(0));
    let sum = |values: &[u64]| page.number(values.iter().sum::<u64>());
    let slowest = took.iter().copied().max().unwrap_or(0);
    let chart = |title, sum, values: &[u64]| Chart {
        title,
        sum,
        line: sparkline(values),
    };
    ActivityView {
        since: activity.since,
        charts: vec![
            chart("overview.runs", sum(&runs), &runs),
            chart("overview.tokens", sum(&tokens), &tokens),
            chart("overview.errors", sum(&failed), &failed),
            chart("overview.latency", page.duration(slowest), &took),
        ],
        rows: steps
            .iter()
            .filter(|step| step.runs > 0)
            .map(|step| ActivityRow {
                at: Time::from_millis(step.at),
                runs: step.runs,
                failed: step.failed,
                tokens: step.tokens,
                took: page.duration(step.median_millis.unwrap_or(0)),
            })
            .collect(),
    }
}

impl OverviewPage {
    fn width(&self) -> u32 {
        CHART_WIDTH
    }

    fn height(&self) -> u32 {
        CHART_HEIGHT
    }
}
