//! A tenant's access.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::TenantRef;
use crate::{
    Problem, TenantId,
    api_types::AccessStatus,
    service::call::{Call, Reply},
    storage::state::AccessChange,
};

/// A change of access.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetAccess {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// `blocked` stops runs and cron jobs and keeps new ones from starting.
    status: AccessStatus,
    /// For the tenant's users.
    message: Option<String>,
    /// For operators.
    reason: Option<String>,
}

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    Reply::json(&call.tenant()?.access)
}

pub(crate) async fn set(call: Call, input: SetAccess) -> Result<Reply, Problem> {
    for (name, text) in [("message", &input.message), ("reason", &input.reason)] {
        if text
            .as_ref()
            .is_some_and(|text| text.chars().count() > 1000)
        {
            return Err(
                Problem::invalid(format!("`{name}` may have 1000 characters at most"))
                    .with_detail(name, "too long"),
            );
        }
    }
    let usual = || {
        let effective_documents = call.hub.effective_documents();
        let rules = effective_documents.section("access");
        let message = rules.get("blockedMessage").and_then(Value::as_str);
        message.map(str::to_owned)
    };
    let message = match input.status {
        AccessStatus::Blocked => input.message.or_else(usual),
        AccessStatus::Active => input.message,
    };
    let access = AccessChange {
        status: input.status,
        message,
        reason: input.reason,
        by: call.principal().token.to_string(),
    };
    let id = call.tenant_id()?;
    let access = call
        .hub
        .state()
        .set_access(id, access, call.entry.clone())
        .await?;
    call.hub.access_changed(id, access.status).await;
    Reply::json(&access)
}
