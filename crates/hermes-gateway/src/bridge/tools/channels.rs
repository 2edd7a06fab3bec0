//! `channels_list`.

use serde_json::json;

use crate::bridge::{
    Bridge,
    arguments::Arguments,
    envelope::{JsonDocument, ToolRefusal},
};

pub(super) async fn channels_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let platform = arguments.optional("platform");
    let targets = bridge.sender().list_targets(bridge.index(), platform).await;
    let targets = targets.map_err(|error| ToolRefusal::new(error.to_string()))?;
    Ok(json!({"count": targets.len(), "channels": targets}).into())
}
