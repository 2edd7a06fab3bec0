//! A tenant's agent: its state, starting and stopping it.

use super::OfTenant;
use crate::{
    Problem,
    call::{Call, Reply},
};

pub(crate) async fn get(call: Call, _: OfTenant) -> Result<Reply, Problem> {
    Reply::json(&call.hub.agents().state(call.tenant_id()?).await)
}

pub(crate) async fn start(call: Call, _: OfTenant) -> Result<Reply, Problem> {
    call.log_now().await?;
    Ok(Reply::json(&call.hub.agents().start(call.tenant_id()?))?.status(202))
}

pub(crate) async fn stop(call: Call, _: OfTenant) -> Result<Reply, Problem> {
    call.log_now().await?;
    Ok(Reply::json(&call.hub.agents().stop(call.tenant_id()?))?.status(202))
}

pub(crate) async fn restart(call: Call, _: OfTenant) -> Result<Reply, Problem> {
    call.log_now().await?;
    Ok(Reply::json(&call.hub.agents().restart(call.tenant_id()?))?.status(202))
}
