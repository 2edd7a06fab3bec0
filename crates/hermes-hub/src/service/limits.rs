//! What a tenant may use a day.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{TenantRef, deserialize_nullable};
use crate::{
    Problem, TenantId,
    service::call::{Call, Reply},
    storage::state::LimitChange,
};

/// Limits to change; `null` removes one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::option_option,
    reason = "absent, `null` and a value are three things"
)]
pub(crate) struct PatchLimits {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// Runs that are accepted a day, those of cron jobs and chats included; needs a token without a list of tenants.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<u64>")]
    runs_per_day: Option<Option<u64>>,
    /// Tokens of runs that ended, a day; needs a token without a list of tenants.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schemars(with = "Option<u64>")]
    tokens_per_day: Option<Option<u64>>,
}

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    Reply::json(&call.hub.state().limits(call.tenant_id()?).await?)
}

pub(crate) async fn patch(call: Call, input: PatchLimits) -> Result<Reply, Problem> {
    let change = LimitChange {
        runs_per_day: input.runs_per_day,
        tokens_per_day: input.tokens_per_day,
    };
    let changed = call
        .hub
        .state()
        .set_limits(call.tenant_id()?, change, call.entry.clone())
        .await?;
    Reply::json(&changed)
}
