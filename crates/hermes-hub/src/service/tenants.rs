//! Tenants: creating, changing, deleting and restoring them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ALL_PAGE_SIZE, TenantRef, deserialize_nullable, page_request};
use crate::{
    Hub, Problem, ProblemCode, TenantId,
    api_types::{GroupMembership, Scope, Tenant, TenantStatus, Via, new_uid},
    hub::{CachedTenant, ChangeEffects},
    service::call::{Call, Reply, etag},
    storage::state::{
        NewRuntimeKey, NewTenant, Page, Propagation, TenantChange, TenantDeletion, TenantFilter,
        TenantQuery, TenantRecord,
    },
    tenants::settings::{
        overrides::{AgentOverrides, BrowserOverrides, StorageOverrides},
        public_tenant,
    },
};

/// A filter of tenants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTenants {
    /// Only tenants in this state; `deleted` shows those that can be restored.
    status: Option<TenantStatus>,
    /// Only tenants whose id or name contains this.
    search: Option<String>,
    /// Only tenants of this flavor.
    flavor: Option<String>,
    /// Only tenants with this label: `name`, or `name=value`.
    label: Option<String>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Tenants.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantList {
    tenants: Vec<Tenant>,
    next_cursor: Option<String>,
}

/// A tenant to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateTenant {
    /// Its id, which never changes; generated if absent.
    id: Option<TenantId>,
    /// Its display name, 1 to 200 characters.
    display_name: Option<String>,
    /// Settings of its agent that differ from the flavor's.
    #[serde(default)]
    #[schemars(with = "Option<AgentOverrides>")]
    agent: Option<Map<String, Value>>,
    /// Limits of its disk space that differ from the flavor's.
    #[serde(default)]
    #[schemars(with = "Option<StorageOverrides>")]
    storage: Option<Map<String, Value>>,
    /// Settings of its browser that differ from the flavor's.
    #[serde(default)]
    #[schemars(with = "Option<BrowserOverrides>")]
    browser: Option<Map<String, Value>>,
    /// The preset of defaults; `standard` if absent.
    flavor: Option<String>,
    /// The groups it is a member of; needs `groups:write`.
    groups: Option<Vec<GroupMembership>>,
    /// Variables of its environment; their values are never shown again. Needs `env:write`.
    env: Option<BTreeMap<String, String>>,
    /// Labels.
    labels: Option<BTreeMap<String, String>>,
    /// Whether to start its agent at once, which needs `agent:write`; if absent, it is started if the token may do so.
    start: Option<bool>,
}

/// A change of a tenant; `null` is the flavor's default.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(
    clippy::option_option,
    reason = "absent, `null` and a value are three things"
)]
pub(crate) struct UpdateTenant {
    /// The tenant's id.
    #[serde(rename = "tenant_id")]
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Its display name, 1 to 200 characters.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<String>")]
    display_name: Option<Option<String>>,
    /// Settings of its agent to change. Zone and limits need a token without a list of tenants.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<AgentOverrides>")]
    agent: Option<Option<Map<String, Value>>>,
    /// Limits of its disk space to change; needs a token without a list of tenants.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<StorageOverrides>")]
    storage: Option<Option<Map<String, Value>>>,
    /// Settings of its browser to change. Its limit needs a token without a list of tenants.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<BrowserOverrides>")]
    browser: Option<Option<Map<String, Value>>>,
    /// Another preset of defaults; needs a token without a list of tenants.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<String>")]
    flavor: Option<Option<String>>,
    /// All the groups it is a member of; needs `groups:write` and a token without a list of tenants.
    groups: Option<Vec<GroupMembership>>,
    /// Variables to set, `null` to unset one; their values are never shown again. Needs `env:write`.
    env: Option<BTreeMap<String, Option<String>>>,
    /// Labels to set, `null` to remove one, or all of them.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<BTreeMap<String, Option<String>>>")]
    labels: Option<Option<BTreeMap<String, Option<String>>>>,
}

/// A tenant to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteTenant {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Whether to remove it at once and permanently.
    #[serde(default)]
    purge: Option<bool>,
}

pub(crate) async fn count_tenants(hub: &Hub) -> Result<u64, Problem> {
    let counts = hub.state().count_tenants().await?;
    Ok(counts
        .iter()
        .filter(|(status, _)| *status != TenantStatus::Deleted)
        .map(|(_, count)| count)
        .sum())
}

pub(crate) async fn list(call: Call, input: ListTenants) -> Result<Reply, Problem> {
    let query = TenantQuery {
        filter: input
            .status
            .map_or(TenantFilter::Present, TenantFilter::Status),
        only: call.principal().visible_tenants(),
        text: input.search,
        flavor: input.flavor,
        label: input.label.map(|label| match label.split_once('=') {
            Some((name, value)) => (name.trim().to_owned(), Some(value.trim().to_owned())),
            None => (label.trim().to_owned(), None),
        }),
    };
    let effective_documents = call.hub.effective_documents();
    let mut tenants = Vec::new();
    let mut page = if call.via == Via::Mcp {
        Page::first(ALL_PAGE_SIZE)
    } else {
        page_request(input.limit, input.cursor)?
    };
    let next_cursor = loop {
        let records = call.hub.state().tenants(&query, &page).await?;
        tenants.extend(
            records
                .items
                .iter()
                .map(|record| public_tenant(record, &effective_documents)),
        );
        match records.next {
            Some(next) if call.via == Via::Mcp => page = Page::after(ALL_PAGE_SIZE, next),
            next => break next,
        }
    };
    Reply::json(&TenantList {
        tenants,
        next_cursor,
    })
}

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    show_known(&call, call.tenant()?)
}

/// What many ask for is put together once.
fn show_known(call: &Call, tenant: &CachedTenant) -> Result<Reply, Problem> {
    let document = tenant.rendered(
        call.hub.effective_documents(),
        |record, effective_documents| {
            let document =
                serde_json::value::to_raw_value(&public_tenant(record, effective_documents));
            Ok(document.map_err(|error| Problem::internal(&error))?.into())
        },
    )?;
    Ok(Reply::document(document).etag(etag(tenant.revision)))
}

fn tenant_reply(call: &Call, record: &TenantRecord) -> Result<Reply, Problem> {
    let tenant = public_tenant(record, &call.hub.effective_documents());
    Ok(Reply::json(&tenant)?.etag(etag(record.revision)))
}

pub(crate) async fn create(call: Call, input: CreateTenant) -> Result<Reply, Problem> {
    let hub = &call.hub;
    let effective_documents = hub.effective_documents();
    let flavor = input.flavor.unwrap_or_else(|| "standard".into());
    effective_documents.check_flavor(&flavor)?;
    let id = match input.id {
        Some(id) => id,
        None => TenantId::random().map_err(|error| Problem::internal(&error))?,
    };
    let display_name = input.display_name.unwrap_or_else(|| id.to_string());
    check_name(&display_name)?;
    let agent = crate::tenants::settings::overrides::merge_overrides::<AgentOverrides>(
        "agent",
        Map::new(),
        input.agent.unwrap_or_default(),
    )?;
    let storage = crate::tenants::settings::overrides::merge_overrides::<StorageOverrides>(
        "storage",
        Map::new(),
        input.storage.unwrap_or_default(),
    )?;
    let browser = crate::tenants::settings::overrides::merge_overrides::<BrowserOverrides>(
        "browser",
        Map::new(),
        input.browser.unwrap_or_default(),
    )?;
    let labels = input.labels.unwrap_or_default();
    check_labels(&labels)?;
    let uid = new_uid().map_err(|error| Problem::internal(&error))?;
    let (secret, runtime_key) = NewRuntimeKey::generate(hub.key(), &uid)?;
    let env = super::env::encrypt_variables(hub, &uid, input.env.unwrap_or_default())?;
    let tenant = NewTenant {
        display_name,
        status: TenantStatus::Provisioning,
        flavor,
        agent,
        storage,
        browser,
        groups: input.groups.unwrap_or_default(),
        labels,
        linked_home: None,
        runtime_key,
        env,
        uid,
        id: id.clone(),
    };
    let entry = call.entry.clone().for_tenant(&id).with_target(id.as_str());
    let record = hub
        .state()
        .create_tenant(tenant, entry)
        .await
        .map_err(|error| unknown_group(error.into()))?;
    let may_start = call.principal().scopes.contains(Scope::AgentWrite);
    crate::hub::provisioning::provision(hub, &record, input.start.unwrap_or(may_start));
    let reply = if call.via == Via::Mcp {
        tenant_reply(&call, &record)?
    } else {
        let tenant = public_tenant(&record, &hub.effective_documents());
        Reply::json_with_secret(&tenant, "runtimeKey", secret.expose())?.etag(etag(record.revision))
    };
    Ok(reply.status(201))
}

/// A missing group is an error in the request, not a missing route.
fn unknown_group(problem: Problem) -> Problem {
    if problem.code == ProblemCode::NotFound && problem.message.contains("group") {
        return Problem::invalid("a group in `groups` does not exist; create it first")
            .with_detail("groups", "unknown group");
    }
    problem
}

pub(crate) async fn update(call: Call, input: UpdateTenant) -> Result<Reply, Problem> {
    let hub = &call.hub;
    let record = call.tenant()?;
    call.check_version(&etag(record.revision))?;
    let flavor = input
        .flavor
        .map(|flavor| flavor.unwrap_or_else(|| "standard".into()));
    if let Some(flavor) = &flavor {
        hub.effective_documents().check_flavor(flavor)?;
    }
    let display_name = input
        .display_name
        .map(|name| name.unwrap_or_else(|| record.id.to_string()));
    if let Some(name) = &display_name {
        check_name(name)?;
    }
    let labels = input.labels.map(|changes| {
        let Some(changes) = changes else {
            return BTreeMap::new();
        };
        let mut labels = record.labels.clone();
        for (name, value) in changes {
            match value {
                Some(value) => labels.insert(name, value),
                None => labels.remove(&name),
            };
        }
        labels
    });
    if let Some(labels) = &labels {
        check_labels(labels)?;
    }
    let (mut set, mut unset) = (BTreeMap::new(), Vec::new());
    for (name, value) in input.env.unwrap_or_default() {
        match value {
            Some(value) => {
                set.insert(name, value);
            }
            None => unset.push(name),
        }
    }
    let mut change = TenantChange {
        display_name,
        flavor,
        agent: crate::tenants::settings::overrides::patch_overrides::<AgentOverrides>(
            "agent",
            &record.agent,
            input.agent,
        )?,
        storage: crate::tenants::settings::overrides::patch_overrides::<StorageOverrides>(
            "storage",
            &record.storage,
            input.storage,
        )?,
        browser: crate::tenants::settings::overrides::patch_overrides::<BrowserOverrides>(
            "browser",
            &record.browser,
            input.browser,
        )?,
        groups: input.groups,
        labels,
        env: super::env::encrypt_variables(hub, &record.uid, set)?,
        unset_env: unset,
        propagation: Propagation::default(),
    };
    let consequences = ChangeEffects::from_change(&change);
    change.propagation = hub.required_propagation(&record.id, consequences);
    let expected = call.if_match.is_some().then_some(record.revision);
    let before = hub.state().changes_of(&record.id);
    let updated = hub
        .state()
        .update_tenant(&record.id, change, expected, call.entry.clone())
        .await;
    let updated = updated.map_err(|error| unknown_group(error.into()))?;
    let updated = hub.keep_changed(updated, before);
    hub.tenant_changed(&updated.id, consequences);
    show_known(&call, &updated)
}

pub(crate) async fn delete(call: Call, input: DeleteTenant) -> Result<Reply, Problem> {
    let hub = &call.hub;
    let record = call.tenant()?;
    call.check_version(&etag(record.revision))?;
    let expected = call.if_match.is_some().then_some(record.revision);
    let deletion = if input.purge == Some(true) {
        TenantDeletion::Permanent
    } else {
        TenantDeletion::Restorable
    };
    let deleted = hub
        .state()
        .delete_tenant(&record.id, deletion, expected, call.entry.clone())
        .await?;
    hub.tenant_deleted(&deleted.id).await;
    if deletion == TenantDeletion::Permanent {
        crate::hub::provisioning::purge(hub, &deleted, &call.entry).await?;
    }
    Ok(Reply::empty())
}

pub(crate) async fn restore(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    let restored = call
        .hub
        .state()
        .restore_tenant(&record.id, call.entry.clone())
        .await?;
    call.hub.jobs_changed(&record.id);
    call.hub.tenant_reactivated(&record.id);
    tenant_reply(&call, &restored)
}

pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    if (1..=200).contains(&name.chars().count()) {
        return Ok(());
    }
    Err(
        Problem::invalid("`displayName` must have 1 to 200 characters")
            .with_detail("displayName", "length"),
    )
}

pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Problem> {
    let fits = labels.len() <= 64
        && labels
            .iter()
            .all(|(name, value)| (1..=128).contains(&name.len()) && value.len() <= 1024);
    if fits {
        return Ok(());
    }
    Err(
        Problem::invalid("at most 64 labels, with names of 1 to 128 bytes and values up to 1024")
            .with_detail("labels", "too large"),
    )
}
