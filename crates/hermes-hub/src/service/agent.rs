//! A tenant's agent: its state, starting and stopping it.

use super::TenantRef;
use crate::{
    Problem,
    service::call::{Call, Reply},
};

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    Reply::json(&call.hub.agents().state(call.tenant_id()?).await)
}

pub(crate) async fn start(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    Ok(Reply::json(&call.hub.agents().start(call.tenant_id()?))?.status(202))
}

pub(crate) async fn stop(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    Ok(Reply::json(&call.hub.agents().stop(call.tenant_id()?))?.status(202))
}

pub(crate) async fn restart(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    call.record_audit().await?;
    Ok(Reply::json(&call.hub.agents().restart(call.tenant_id()?))?.status(202))
}
