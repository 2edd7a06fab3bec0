//! Documents for the whole Hub: policy, tenant-impact configuration, specialization.

use hermes_protocol::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{NoInput, page_request, tenants};
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    api_types::Time,
    service::call::{Call, Reply, etag},
    storage::state::{Document, DocumentKind, Notice},
    tenants::documents::{DocumentDefaults, EffectiveDocuments, impact, merge, policy},
};

mod specialization;

pub(crate) use crate::tenants::documents::policy::{ToolDecision, decide_tool};
pub(crate) use specialization::{
    Specialization, get as get_specialization, put as put_specialization,
};

/// The policy and its version.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyReply {
    /// The document as it was put; missing members have their defaults.
    policy: Map<String, Value>,
    revision: u64,
    etag: String,
    /// How many tenants it applies to, after a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    affected_tenants: Option<u64>,
}

/// A whole policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutPolicy {
    /// The document that replaces the one in force.
    #[schemars(with = "Policy")]
    policy: Map<String, Value>,
    /// Whether to check it only: nothing is changed.
    dry_run: Option<bool>,
}

pub(crate) async fn get_policy(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let document = call.hub.state().document(DocumentKind::Policy).await?;
    policy_reply(&call, document, None)
}

fn policy_reply(
    call: &Call,
    document: Option<Document>,
    affected_tenants: Option<u64>,
) -> Result<Reply, Problem> {
    let (policy, revision) = match document {
        Some(Document {
            content: Value::Object(policy),
            revision,
            ..
        }) => (policy, revision),
        _ => (
            policy::default_document(DocumentDefaults::from_settings(&call.hub.settings())),
            0,
        ),
    };
    let version = etag(revision);
    let reply = PolicyReply {
        policy,
        revision,
        etag: version.clone(),
        affected_tenants,
    };
    Ok(Reply::json(&reply)?.etag(version))
}

pub(crate) async fn put_policy(call: Call, input: PutPolicy) -> Result<Reply, Problem> {
    policy::check_policy(&input.policy)?;
    let affected = tenants::count_tenants(&call.hub).await?;
    if input.dry_run == Some(true) {
        let unchanged = call.hub.state().document(DocumentKind::Policy).await?;
        call.check_version(&etag(revision_of(unchanged.as_ref())))?;
        return policy_reply(&call, unchanged, Some(affected));
    }
    let document = store_document(&call, DocumentKind::Policy, Value::Object(input.policy)).await?;
    policy_reply(&call, Some(document), Some(affected))
}

fn revision_of(document: Option<&Document>) -> u64 {
    document.map_or(0, |document| document.revision)
}

/// A question about the policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainPolicy {
    /// The tenant's id.
    tenant_id: TenantId,
    /// The tool.
    tool: String,
}

pub(crate) async fn explain_policy(call: Call, input: ExplainPolicy) -> Result<Reply, Problem> {
    let gone = || Problem::not_found(format!("there is no tenant `{}`", input.tenant_id));
    if !call.principal().covers_tenant(&input.tenant_id) {
        return Err(gone());
    }
    call.hub
        .tenant(&input.tenant_id)
        .await?
        .filter(|tenant| tenant.deleted_at.is_none())
        .ok_or_else(gone)?;
    Reply::json(&decide_tool(
        call.hub.effective_documents().policy(),
        &input.tool,
    ))
}

/// The tenant-impact configuration.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImpactReply {
    /// The document in force.
    config: Map<String, Value>,
    /// Its JSON Schema.
    schema: Map<String, Value>,
    revision: u64,
    etag: String,
    /// Settings that take effect only when an agent is restarted.
    restart_required: Vec<&'static str>,
    /// Which settings a patch has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Vec<String>>,
    /// Tenants whose agents are restarted when idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_tenants: Option<Vec<TenantId>>,
}

/// A change of the tenant-impact configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchImpact {
    /// A merge patch: members to set, `null` for the default.
    patch: Map<String, Value>,
    /// Whether to check it only: the reply says what would change, and nothing does.
    dry_run: Option<bool>,
}

pub(crate) async fn get_impact(call: Call, _: NoInput) -> Result<Reply, Problem> {
    impact_reply(
        call.hub
            .state()
            .document(DocumentKind::TenantImpact)
            .await?,
        None,
        None,
    )
}

fn impact_reply(
    document: Option<Document>,
    changed: Option<Vec<String>>,
    restart_tenants: Option<Vec<TenantId>>,
) -> Result<Reply, Problem> {
    let (config, revision) = impact::content_or_default(document);
    let version = etag(revision);
    let reply = ImpactReply {
        config,
        schema: impact::schema().clone(),
        revision,
        etag: version.clone(),
        restart_required: impact::RESTART_REQUIRED.to_vec(),
        changed,
        restart_tenants,
    };
    Ok(Reply::json(&reply)?.etag(version))
}

pub(crate) async fn patch_impact(call: Call, input: PatchImpact) -> Result<Reply, Problem> {
    // If somebody else writes in between, the patch is applied again to the new version.
    for _ in 0..5 {
        let stored = call
            .hub
            .state()
            .document(DocumentKind::TenantImpact)
            .await?;
        let unchanged = stored.clone();
        let (before, revision) = impact::content_or_default(stored);
        call.check_version(&etag(revision))?;
        let after = merge::apply_merge_patch(before.clone(), input.patch.clone());
        impact::check_config(&after)?;
        let changed = merge::changed_paths(&before, &after);
        if input.dry_run == Some(true) {
            let restart = agents_to_restart(&call, &changed);
            return impact_reply(unchanged, Some(changed), Some(restart));
        }
        let content = Value::Object(after);
        let put = call.hub.state().put_document(
            DocumentKind::TenantImpact,
            content,
            call.principal().token.as_str(),
            Some(revision),
            call.entry.clone(),
        );
        match put.await {
            Ok(document) => {
                apply_documents(&call).await;
                let restart = agents_to_restart(&call, &changed);
                return impact_reply(Some(document), Some(changed), Some(restart));
            }
            Err(crate::storage::state::StateError::Changed { .. }) if call.if_match.is_none() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::new(
        ProblemCode::Unavailable,
        "the configuration keeps being changed by others; try again",
    )
    .with_retry_after(1000))
}

/// Tenants whose agents are restarted because of changed settings.
fn agents_to_restart(call: &Call, changed: &[String]) -> Vec<TenantId> {
    if changed.iter().any(|path| impact::needs_restart(path)) {
        call.hub.agents().awake()
    } else {
        Vec::new()
    }
}

/// Stores a document and applies it.
async fn store_document(
    call: &Call,
    kind: DocumentKind,
    content: Value,
) -> Result<Document, Problem> {
    let state = call.hub.state();
    let mut expected = None;
    if call.if_match.is_some() {
        let revision = state
            .document(kind)
            .await?
            .map_or(0, |document| document.revision);
        call.check_version(&etag(revision))?;
        expected = Some(revision);
    }
    let by = call.principal().token.as_str();
    let document = state
        .put_document(kind, content, by, expected, call.entry.clone())
        .await?;
    apply_documents(call).await;
    Ok(document)
}

/// Applies stored documents, at once or as soon as they can be read.
async fn apply_documents(call: &Call) {
    let load = |hub: Hub| async move {
        let had_messaging = hub.allows_messaging();
        let baseline = DocumentDefaults::from_settings(&hub.settings());
        hub.set_effective_documents(EffectiveDocuments::load(hub.state(), baseline).await?);
        hub.directives_changed();
        hub.notify_nodes(Notice::Documents);
        if !had_messaging {
            hub.spawn_always_on_agents();
        }
        Ok(())
    };
    call.hub
        .retry_until_stored("applying a changed document", load)
        .await;
}

/// Which revisions to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRevisions {
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Revisions of a document, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevisionList {
    revisions: Vec<Revision>,
    next_cursor: Option<String>,
}

/// A revision of a document.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names clients see")]
pub(crate) struct Revision {
    revision: u64,
    content: Value,
    updated_at: Time,
    updated_by: String,
}

impl From<Document> for Revision {
    fn from(document: Document) -> Self {
        Self {
            revision: document.revision,
            content: document.content,
            updated_at: document.updated_at,
            updated_by: document.updated_by,
        }
    }
}

async fn list_revisions(
    call: &Call,
    kind: DocumentKind,
    input: ListRevisions,
) -> Result<Reply, Problem> {
    let page = page_request(input.limit, input.cursor)?;
    let revisions = call
        .hub
        .state()
        .document_revisions(kind, &page)
        .await?
        .map(Revision::from);
    Reply::json(&RevisionList {
        revisions: revisions.items,
        next_cursor: revisions.next,
    })
}

/// A revision to restore.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreRevision {
    /// Its number.
    revision: u64,
}

async fn restore_revision(
    call: &Call,
    kind: DocumentKind,
    input: &RestoreRevision,
) -> Result<Reply, Problem> {
    let revision = call
        .hub
        .state()
        .document_revision(kind, input.revision)
        .await?;
    let revision = revision
        .ok_or_else(|| Problem::not_found(format!("there is no revision {}", input.revision)))?;
    // An earlier version may have stored what this one cannot read, and then agents could do nothing.
    if let (DocumentKind::Policy, Value::Object(document)) = (kind, &revision.content) {
        policy::check_policy(document)?;
    }
    let document = store_document(call, kind, revision.content).await?;
    let version = etag(document.revision);
    Ok(Reply::json(&Revision::from(document))?.etag(version))
}

pub(crate) async fn policy_revisions(call: Call, input: ListRevisions) -> Result<Reply, Problem> {
    list_revisions(&call, DocumentKind::Policy, input).await
}

pub(crate) async fn restore_policy(call: Call, input: RestoreRevision) -> Result<Reply, Problem> {
    restore_revision(&call, DocumentKind::Policy, &input).await
}

pub(crate) async fn impact_revisions(call: Call, input: ListRevisions) -> Result<Reply, Problem> {
    list_revisions(&call, DocumentKind::TenantImpact, input).await
}

pub(crate) async fn restore_impact(call: Call, input: RestoreRevision) -> Result<Reply, Problem> {
    restore_revision(&call, DocumentKind::TenantImpact, &input).await
}

pub(crate) async fn specialization_revisions(
    call: Call,
    input: ListRevisions,
) -> Result<Reply, Problem> {
    list_revisions(&call, DocumentKind::Specialization, input).await
}

pub(crate) async fn restore_specialization(
    call: Call,
    input: RestoreRevision,
) -> Result<Reply, Problem> {
    restore_revision(&call, DocumentKind::Specialization, &input).await
}
