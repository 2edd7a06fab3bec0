//! `messages_send` and `channels_list`.

use hermes_store::OwnPlatform;
use serde_json::json;

use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{JsonDocument, ToolRefusal},
    },
    send::MediaPolicy,
};

/// The platform of a target whose conversations cannot be sent to.
fn own_platform(target: &str) -> Option<OwnPlatform> {
    let platform = target.split(':').next().unwrap_or_default();
    OwnPlatform::from_name(&platform.trim().to_lowercase())
}

fn refusal_reason(own: OwnPlatform) -> String {
    let (name, why) = match own {
        OwnPlatform::Cli => (
            "cli",
            "they belong to whoever sits at the terminal; resume one with `hermes --resume ID`",
        ),
        OwnPlatform::Api => (
            "api",
            "the program that began one goes on with it, over the HTTP API of `hermes gateway run`",
        ),
        OwnPlatform::Cron => (
            "cron",
            "they are runs of jobs; `hermes cron run JOB` starts another one",
        ),
    };
    format!("Conversations of `{name}` can be read but not sent to: {why}")
}

pub(super) async fn messages_send(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let (target, message) = (arguments.text("target"), arguments.text("message"));
    if target.is_empty() || message.is_empty() {
        return Err(ToolRefusal::new("Both target and message are required"));
    }
    if let Some(own) =
        own_platform(target).filter(|own| bridge.shown_platforms().own_platforms().contains(own))
    {
        return Err(ToolRefusal::new(refusal_reason(own)));
    }
    // A client's text is sent literally. Local files are uploaded only if the owner allows it.
    let media = if bridge.settings().bridge.allow_media {
        MediaPolicy::Upload
    } else {
        MediaPolicy::Literal
    };
    match bridge.sender().send(target, message, media).await {
        Ok(sent) => Ok(JsonDocument::line(&sent)),
        Err(error) => Err(ToolRefusal(serde_json::to_value(error).unwrap_or_default())),
    }
}

pub(super) async fn channels_list(
    bridge: &Bridge,
    arguments: &Arguments,
) -> Result<JsonDocument, ToolRefusal> {
    let platform = arguments.optional("platform");
    let targets = bridge.sender().list_targets(bridge.index(), platform).await;
    let targets = targets.map_err(|error| ToolRefusal::new(error.to_string()))?;
    Ok(json!({"count": targets.len(), "channels": targets}).into())
}
