//! Copying a tenant's context to a local directory.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ALL_PAGE_SIZE, run_recorded};
use crate::{
    Hub, Problem, TenantId,
    service::call::{Call, Reply},
    storage::{
        state::{FileChange, Page, StateError, TenantQuery},
        sync::{ExtraFiles, SyncMode, SyncRequest, SyncRules, sync_context},
    },
};

/// A copy of a tenant's context.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SyncContext {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// A directory below an allowed root, or relative to the Hub's own one.
    destination: String,
    /// Whether to only show what would be done.
    dry_run: Option<bool>,
    /// Whether to delete files that an earlier copy made and that the home no longer has.
    delete: Option<bool>,
}

pub(crate) async fn run_sync(call: Call, input: SyncContext) -> Result<Reply, Problem> {
    let extras = if input.delete == Some(true) {
        ExtraFiles::Delete
    } else {
        ExtraFiles::Keep
    };
    let settings = call.hub.settings();
    let rules = SyncRules {
        data_dir: settings.data_dir.clone(),
        allowed_roots: settings.sync.allowed_roots.clone(),
        sources: settings.sync.sources.clone(),
        protected: protected_paths(&call.hub).await?,
        node: call.hub.node().to_owned(),
    };
    let record = call.tenant()?;
    let request = SyncRequest {
        tenant: record.id.clone(),
        home: call.hub.home(record).path().to_owned(),
        destination: input.destination,
        mode: if input.dry_run == Some(true) {
            SyncMode::Dry
        } else {
            SyncMode::Real
        },
        extras,
    };
    let report = run_recorded(&call, FileChange::Copy, sync_context(rules, request)).await?;
    Reply::json(&report)
}

/// Homes and shares.
async fn protected_paths(hub: &Hub) -> Result<Vec<PathBuf>, StateError> {
    let data_dir = hub.settings().data_dir.clone();
    let mut protected = vec![data_dir.join("tenants"), data_dir.join("shares")];
    let mut page = Page::first(ALL_PAGE_SIZE);
    loop {
        let tenants = hub.state().tenants(&TenantQuery::default(), &page).await?;
        protected.extend(
            tenants
                .items
                .into_iter()
                .filter_map(|record| record.linked_home),
        );
        match tenants.next {
            Some(next) => page = Page::after(ALL_PAGE_SIZE, next),
            None => return Ok(protected),
        }
    }
}
