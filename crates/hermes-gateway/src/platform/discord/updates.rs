//! Updates as they are stored: the event as Discord sent it, with what is needed to read it later.

use serde_json::{Value, json};

use super::DiscordClient;
use crate::platform::RawUpdate;

/// An update of an event, `None` for the bot's own messages.
pub(super) async fn build_update(
    client: &DiscordClient,
    name: &str,
    event: Value,
) -> Option<RawUpdate> {
    let identity = client.identity();
    if event["author"]["id"] == identity.bot.as_str() {
        return None;
    }
    let event_id = event["id"].as_str()?.to_owned();
    let place = client.places.describe(&client.rest, &event).await;
    let roles = client
        .places
        .bot_roles(&client.rest, &event, &identity.bot)
        .await;
    let payload = json!({
        "type": name,
        "event": event,
        "place": place,
        "bot": {"id": identity.bot, "application_id": identity.application, "roles": roles},
    });
    Some(RawUpdate { event_id, payload })
}
