//! Runtime keys, with which agents and the Hub authenticate each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Problem, TenantId,
    auth::AGENT_SCOPES,
    service::{
        call::{Call, Reply},
        tokens,
    },
    storage::state::NewRuntimeKey,
};

/// How long the runtime key before lives on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateRuntimeKey {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Seconds that the key before works beside the new one, 0 to 86400.
    grace: Option<u64>,
}

/// A runtime key, in the one reply that shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeKeyReply {
    runtime_key: String,
    last4: String,
}

pub(crate) async fn rotate(call: Call, input: RotateRuntimeKey) -> Result<Reply, Problem> {
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
