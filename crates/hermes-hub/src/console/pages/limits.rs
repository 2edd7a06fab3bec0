//! What a tenant may use: runs and tokens a day, disk space, runs at the same time.

use askama::Template;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{LimitUse, Tenant},
    console::{conflict::digest_for, frame::Frame, request::PageRequest},
};

const MIB: u64 = 1 << 20;

#[derive(Template)]
#[template(path = "pages/limits.html")]
struct LimitsPage {
    page: Frame,
    limits: LimitUse,
    /// What the form about them was made from.
    seen: String,
    /// With its version, for whoever may read it.
    tenant: Option<(Tenant, String)>,
    id: String,
    may_limit: bool,
    may_update: bool,
}

impl LimitsPage {
    fn quota_mib(&self, tenant: &Tenant) -> u64 {
        tenant.storage.quota_bytes / MIB
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let id = request.path_value("tenant_id").to_owned();
    let named = json!({"tenant_id": id});
    let found: Value = request.read("get_limits", named.clone()).await?;
    let seen = digest_for("patch_limits", &found);
    let limits = serde_json::from_value(found).map_err(|error| Problem::internal(&error))?;
    let tenant = if request.may("get_tenant") {
        let (tenant, version) = request.read_versioned("get_tenant", named).await?;
        Some((tenant, version.unwrap_or_default()))
    } else {
        None
    };
    // A limit is not for the one whom it limits.
    let is_whole_hub = request.principal().tenants.is_none();
    render(&LimitsPage {
        page: Frame::new(&request, request.texts.get("tabs.limits")),
        limits,
        seen,
        tenant,
        id,
        may_limit: is_whole_hub && request.may("patch_limits"),
        may_update: is_whole_hub && request.may("update_tenant"),
    })
}
