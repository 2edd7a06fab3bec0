//! `messages_send`.

use hermes_store::OwnPlatform;

use crate::{
    bridge::{
        Bridge,
        arguments::Arguments,
        envelope::{Document, Refusal},
    },
    send::MediaPolicy,
};

/// The platform of a target whose conversations cannot be sent to.
fn own(target: &str) -> Option<OwnPlatform> {
    let platform = target.split(':').next().unwrap_or_default();
    OwnPlatform::named(&platform.trim().to_lowercase())
}

fn reason(own: OwnPlatform) -> String {
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
) -> Result<Document, Refusal> {
    let (target, message) = (arguments.text("target"), arguments.text("message"));
    if target.is_empty() || message.is_empty() {
        return Err(Refusal::new("Both target and message are required"));
    }
    if let Some(own) = own(target).filter(|own| bridge.shown().own().contains(own)) {
        return Err(Refusal::new(reason(own)));
    }
    // A client's text is sent literally. Local files are uploaded only if the owner allows it.
    let media = if bridge.settings().bridge.allow_media {
        MediaPolicy::Upload
    } else {
        MediaPolicy::Literal
    };
    match bridge.sender().send(target, message, media).await {
        Ok(sent) => Ok(Document::line(&sent)),
        Err(error) => Err(Refusal(serde_json::to_value(error).unwrap_or_default())),
    }
}
