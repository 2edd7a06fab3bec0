//! All tenants: searched, filtered, in pages; those that were deleted can be restored.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{AccessStatus, Tenant, TenantStatus},
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 50;
const FILTERS: [&str; 5] = ["search", "status", "flavor", "label", "cursor"];

#[derive(Template)]
#[template(path = "pages/tenants.html")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a thing that is shown or not"
)]
struct TenantsPage {
    page: Frame,
    search: String,
    status: String,
    flavor: String,
    label: String,
    statuses: &'static [TenantStatus],
    flavors: Vec<String>,
    tenants: Vec<Tenant>,
    /// Whether nothing is filtered: then an empty list is an empty Hub.
    is_all: bool,
    is_deleted: bool,
    /// Where the first ones are, on a later page.
    first: Option<String>,
    /// Where the next ones are.
    more: Option<String>,
    may_create: bool,
    may_start: bool,
    may_block: bool,
    may_delete: bool,
    may_restore: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TenantsView {
    tenants: Vec<Tenant>,
    next_cursor: Option<String>,
}

impl TenantsPage {
    fn is_blocked(&self, tenant: &Tenant) -> bool {
        tenant.access.status == AccessStatus::Blocked
    }

    fn has_actions(&self) -> bool {
        self.may_start || self.may_block || self.may_delete
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut arguments = json!({"limit": PAGE_SIZE});
    for name in FILTERS {
        if let Some(value) = request.query(name) {
            arguments[name] = Value::from(value);
        }
    }
    let list: TenantsView = request.read("list_tenants", arguments).await?;
    let more = list.next_cursor.as_deref();
    let filter = |name| request.query(name).unwrap_or_default().to_owned();
    let status = filter("status");
    render(&TenantsPage {
        page: Frame::new(&request, request.texts.get("nav.tenants")),
        search: filter("search"),
        is_deleted: status == TenantStatus::Deleted.as_str(),
        status,
        flavor: filter("flavor"),
        label: filter("label"),
        statuses: TenantStatus::ALL,
        flavors: read_flavors(&request).await,
        is_all: FILTERS.iter().all(|name| request.query(name).is_none()),
        first: request
            .query("cursor")
            .map(|_| request.address_with("cursor", "")),
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        tenants: list.tenants,
        may_create: request.may("create_tenant"),
        may_start: request.may("start_tenant_agent"),
        may_block: request.may("set_tenant_access"),
        may_delete: request.may("delete_tenant"),
        may_restore: request.may("restore_tenant"),
    })
}

/// The flavors that there are, for whoever may read them.
pub(super) async fn read_flavors(request: &PageRequest) -> Vec<String> {
    if !request.may("get_tenant_impact_config") {
        return Vec::new();
    }
    let config = request.read::<Value>("get_tenant_impact_config", json!({}));
    let flavors = config.await.map(|config| {
        let flavors = config["config"]["flavors"].as_object();
        flavors.map(|flavors| flavors.keys().cloned().collect())
    });
    flavors.ok().flatten().unwrap_or_default()
}
