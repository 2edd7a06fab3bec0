//! `channels_list`.

use serde_json::json;

use crate::bridge::{
    Bridge,
    arguments::Arguments,
    envelope::{Document, Refusal},
};

pub(super) async fn channels_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<Document, Refusal> {
    let platform = arguments.optional("platform");
    let targets = bridge.sender().targets(bridge.index(), platform).await;
    let targets = targets.map_err(|error| Refusal::new(error.to_string()))?;
    Ok(json!({"count": targets.len(), "channels": targets}).into())
}
