//! A tenant's access, and its runtime keys, with which its agent and the Hub authenticate each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TenantRef;
use crate::{
    Problem, TenantId,
    api_types::AccessStatus,
    auth::AGENT_SCOPES,
    service::{
        call::{Call, Reply},
        tokens,
    },
    storage::state::{AccessChange, NewRuntimeKey},
};

/// A change of access.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetAccess {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// `blocked` stops runs and cron jobs and refuses new ones.
    status: AccessStatus,
    /// The message for the tenant's users.
    message: Option<String>,
    /// The reason, for operators.
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

/// How long the old runtime key stays valid.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateRuntimeKey {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Seconds that the old key stays valid, 0 to 86400.
    grace: Option<u64>,
}

/// A runtime key, in the one reply that shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeKeyReply {
    runtime_key: String,
    last4: String,
}

pub(crate) async fn rotate_runtime_key(
    call: Call,
    input: RotateRuntimeKey,
) -> Result<Reply, Problem> {
    let hub = &call.hub;
    let record = call.tenant()?;
    // The reply contains a key, which must not have more rights than the caller's token.
    for scope in AGENT_SCOPES {
        call.principal().require(scope)?;
    }
    let grace_until = tokens::grace_end(input.grace)?;
    let (secret, kept) = NewRuntimeKey::generate(hub.key(), &record.uid)?;
    let last4 = kept.last4.clone();
    let kept = NewRuntimeKey {
        grace_until,
        ..kept
    };
    hub.state()
        .set_runtime_key(&record.id, kept, call.entry.clone())
        .await?;
    hub.settings_changed(&record.id);
    Reply::json(&RuntimeKeyReply {
        runtime_key: secret.expose().clone(),
        last4,
    })
}
