//! Which tenants a change of a document of the whole Hub affects: their number, and the first of them by name.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::PageRequest;
use crate::{
    Problem,
    api_types::{Tenant, TenantStatus},
    operations::Operation,
    service::overview::HubOverview,
};

/// More are not named.
const MAX_NAMED: usize = 20;
/// How many tenants of one preset are counted.
const MAX_COUNTED: u32 = 500;

/// What would come of a change.
pub(super) struct AffectedTenants {
    pub(super) number: u64,
    /// Whether there are still more.
    pub(super) is_more: bool,
    pub(super) named: Vec<AffectedTenant>,
    /// How many agents are restarted when they are idle.
    pub(super) restarts: u64,
}

pub(super) struct AffectedTenant {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) restarts: bool,
}

impl AffectedTenants {
    /// Those that are not named.
    pub(super) fn others(&self) -> u64 {
        let named = u64::try_from(self.named.len()).unwrap_or(u64::MAX);
        self.number.saturating_sub(named)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TenantNames {
    tenants: Vec<Tenant>,
    next_cursor: Option<String>,
}

/// Does everything of a change but the change: refuses what the operation would refuse. `None` if it cannot be tried.
pub(super) async fn try_change(
    request: &PageRequest,
    operation: &Operation,
    arguments: &Map<String, Value>,
) -> Result<Option<Value>, Problem> {
    let mut known = operation.input.arguments.iter();
    if !known.any(|argument| argument.name == "dry_run") {
        return Ok(None);
    }
    let mut arguments = arguments.clone();
    arguments.insert("dry_run".to_owned(), true.into());
    let reply = request.read(operation.name, Value::Object(arguments));
    Ok(Some(reply.await?))
}

/// The tenants that a change affects, as far as the reader may see them. `tried` is what it has replied.
pub(super) async fn find_affected(
    request: &PageRequest,
    arguments: &Map<String, Value>,
    tried: &Value,
) -> Option<AffectedTenants> {
    let restarting = tried["restartTenants"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let (number, is_more, tenants) = if let Some(presets) = only_presets(arguments) {
        let mut tenants = Vec::new();
        let mut is_more = false;
        for preset in presets {
            let wanted = json!({"flavor": preset, "limit": MAX_COUNTED});
            let list = list_tenants(request, wanted).await?;
            is_more |= list.next_cursor.is_some();
            tenants.extend(list.tenants);
        }
        let number = u64::try_from(tenants.len()).unwrap_or(u64::MAX);
        (number, is_more, tenants)
    } else {
        let number = count_tenants(request).await?;
        let wanted = json!({"limit": MAX_NAMED});
        let list = list_tenants(request, wanted).await;
        (
            number,
            false,
            list.map_or_else(Vec::new, |list| list.tenants),
        )
    };
    let named = tenants.into_iter().take(MAX_NAMED);
    let named = named.map(|tenant| AffectedTenant {
        restarts: restarting.iter().any(|id| *id == tenant.id.as_str()),
        id: tenant.id.to_string(),
        name: tenant.display_name,
    });
    Some(AffectedTenants {
        number,
        is_more,
        named: named.collect(),
        restarts: u64::try_from(restarting.len()).unwrap_or(u64::MAX),
    })
}

/// The presets that a patch of the configuration changes, if it changes nothing else.
fn only_presets(arguments: &Map<String, Value>) -> Option<Vec<&str>> {
    let patch = arguments.get("patch")?.as_object()?;
    let presets = patch.get("flavors").filter(|_| patch.len() == 1)?;
    let names = presets.as_object()?.keys();
    Some(names.map(String::as_str).collect())
}

async fn list_tenants(request: &PageRequest, wanted: Value) -> Option<TenantNames> {
    if !request.may("list_tenants") {
        return None;
    }
    request.read("list_tenants", wanted).await.ok()
}

async fn count_tenants(request: &PageRequest) -> Option<u64> {
    if !request.may("get_overview") {
        return None;
    }
    let found: HubOverview = request.read("get_overview", Value::Null).await.ok()?;
    let counts = found.tenants.iter();
    let present = counts.filter(|count| count.status != TenantStatus::Deleted);
    Some(present.map(|count| count.count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_presets_alone_is_about_their_tenants() {
        let of = |patch: Value| {
            let arguments = Map::from_iter([("patch".to_owned(), patch)]);
            only_presets(&arguments).map(|names| names.join(" "))
        };
        let both = json!({"flavors": {"large": {"agent": {}}, "small.er": null}});
        assert_eq!(of(both).as_deref(), Some("large small.er"));
        assert_eq!(of(json!({"flavors": {"a": {}}, "runs": {}})), None);
        assert_eq!(of(json!({})), None);
        assert_eq!(of(json!({"flavors": null})), None);
        assert_eq!(only_presets(&Map::new()), None);
    }
}
