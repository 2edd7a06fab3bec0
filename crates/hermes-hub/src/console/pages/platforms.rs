//! The messaging platforms of a tenant: how its bots are, who may use them, and who was let in by a code.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::{PlatformName, StrangerReply, Time},
    console::{conflict::digest_for, drawing::QrDrawing, frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/platforms.html")]
#[expect(clippy::struct_excessive_bools, reason = "what may be done, each")]
struct PlatformsPage {
    page: Frame,
    tenant: String,
    platforms: Vec<PlatformView>,
    pairing: PairingView,
    may_write: bool,
    /// Whether tokens may be given: they are variables.
    may_set_token: bool,
    may_remove: bool,
    may_approve: bool,
    may_revoke: bool,
}

#[derive(Deserialize)]
struct PlatformListing {
    platforms: Vec<Value>,
}

/// A platform as the API shows it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlatformView {
    platform: PlatformName,
    enabled: bool,
    token_env: Option<String>,
    token_last4: Option<String>,
    has_app_token: bool,
    allow_from: Vec<String>,
    group_allow_from: Vec<String>,
    group_allowed_chats: Vec<String>,
    allowed_roles: Vec<String>,
    allow_all_users: bool,
    unauthorized_dm: StrangerReply,
    home_channel: Option<String>,
    bots: Vec<BotView>,
    /// What the form about it was made from.
    #[serde(skip)]
    seen: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BotView {
    label: String,
    state: String,
    last_ok_at: Option<String>,
    error: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

impl BotView {
    /// Where somebody writes to a bot on Telegram.
    fn address(&self) -> Option<String> {
        let name = self.name.as_ref()?;
        Some(format!("https://t.me/{name}?start=hello"))
    }

    fn qr_code(&self) -> Option<QrDrawing> {
        QrDrawing::new(&self.address()?)
    }

    /// The key of the text that says what helps.
    fn fix(&self) -> Option<&'static str> {
        Some(match self.state.as_str() {
            "deaf" => "platforms.fix.deaf",
            "fatal" => "platforms.fix.fatal",
            "degraded" => "platforms.fix.degraded",
            "reconnecting" => "platforms.fix.reconnecting",
            _ => return None,
        })
    }
}

impl PlatformView {
    fn name(&self) -> &'static str {
        match self.platform {
            PlatformName::Telegram => "telegram",
            PlatformName::Discord => "discord",
            PlatformName::Slack => "slack",
        }
    }

    fn title(&self) -> &'static str {
        match self.platform {
            PlatformName::Telegram => "platform.telegram",
            PlatformName::Discord => "platform.discord",
            PlatformName::Slack => "platform.slack",
        }
    }

    fn help(&self) -> &'static str {
        match self.platform {
            PlatformName::Telegram => "platforms.telegram_help",
            PlatformName::Discord => "platforms.discord_help",
            PlatformName::Slack => "platforms.slack_help",
        }
    }

    fn is_telegram(&self) -> bool {
        self.platform == PlatformName::Telegram
    }

    fn is_slack(&self) -> bool {
        self.platform == PlatformName::Slack
    }

    fn is_discord(&self) -> bool {
        self.platform == PlatformName::Discord
    }

    fn pairs(&self) -> bool {
        self.unauthorized_dm == StrangerReply::Pair
    }

    /// A token in a variable of another name stays there only if it is named again.
    fn own_token_env(&self) -> Option<&str> {
        let name = self.token_env.as_deref()?;
        let usual = format!("{}_BOT_TOKEN", self.name().to_uppercase());
        (name != usual).then_some(name)
    }
}

#[derive(Deserialize, Default)]
struct PairingView {
    pending: Vec<PendingPairing>,
    approved: Vec<ApprovedUserRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingPairing {
    account: String,
    user_id: String,
    user_name: String,
    created_at: Time,
    expires_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApprovedUserRow {
    account: String,
    user_id: String,
    user_name: String,
    approved_at: Option<Time>,
}

impl PlatformsPage {
    /// The bots that somebody can be let in to.
    fn accounts(&self) -> Vec<&str> {
        let mut accounts: Vec<&str> = Vec::new();
        for platform in self.platforms.iter().filter(|platform| platform.enabled) {
            accounts.push(platform.name());
            accounts.extend(platform.bots.iter().map(|bot| bot.label.as_str()));
        }
        let waiting = self.pairing.pending.iter();
        accounts.extend(waiting.map(|person| person.account.as_str()));
        let mut seen = std::collections::HashSet::new();
        accounts.retain(|account| seen.insert(*account));
        accounts
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let named = json!({"tenant_id": tenant});
    let list: PlatformListing = request.read("list_platforms", named.clone()).await?;
    let platforms = list.platforms.into_iter().map(|found| {
        let seen = digest_for("put_platform", &found);
        serde_json::from_value::<PlatformView>(found).map(|shown| PlatformView { seen, ..shown })
    });
    let platforms: Result<Vec<_>, serde_json::Error> = platforms.collect();
    let pairing = if request.may("list_pairing") {
        request.read("list_pairing", named).await?
    } else {
        PairingView::default()
    };
    render(&PlatformsPage {
        page: Frame::new(&request, request.texts.get("tabs.platforms")),
        tenant,
        platforms: platforms.map_err(|error| Problem::internal(&error))?,
        pairing,
        may_write: request.may("put_platform"),
        may_set_token: request.may("set_env"),
        may_remove: request.may("delete_platform"),
        may_approve: request.may("approve_pairing"),
        may_revoke: request.may("revoke_pairing"),
    })
}
