//! Who may use the bot: [`authorize`] decides about an event, a [`PairingStore`] lets strangers in by a code, [`mentions`]
//! decides whether a message in a group is meant for the bot, and [`may_use_command`] who may use which slash command.
//!
//! Nobody may, unless a rule says so.

pub mod mentions;
pub mod migration;

use hermes_config::{AccessSettings, BotPolicy, GatewaySettings, PlatformSettings, UnauthorizedDm};

use crate::platform::{ChatAddress, InboundEvent, InboundKind, Sender};

pub use hermes_store::pairing::{CodeOffer, PairingError, PairingStore};

/// What decides about an event.
pub struct AccessRules<'a> {
    pub gateway: &'a GatewaySettings,
    /// The settings of the account that received it.
    pub account: &'a PlatformSettings,
    /// Whether a user was let in by a code: [`PairingStore::is_approved`].
    pub is_paired: &'a dyn Fn(&str) -> bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDecision {
    Allowed(AccessGrant),
    /// Nothing is answered.
    Refused,
    /// A stranger's direct message: it may be answered with a pairing code, and with nothing else.
    OfferCode,
}

impl AccessDecision {
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// The rule that let somebody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessGrant {
    GroupChat,
    BotPolicy,
    PlatformAllowAll,
    Role,
    Paired,
    AllowList,
    GatewayAllowAll,
}

impl AccessGrant {
    /// Why, for people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::GroupChat => "this group is allowed",
            Self::BotPolicy => "bots are allowed",
            Self::PlatformAllowAll | Self::GatewayAllowAll => "everybody is allowed",
            Self::Role => "one of your roles is allowed",
            Self::Paired => "you were paired",
            Self::AllowList => "you are on the allow-list",
        }
    }
}

/// Decides whether the sender of an event may use the bot. The first rule that matches counts.
pub fn authorize(event: &InboundEvent, rules: &AccessRules<'_>) -> AccessDecision {
    let mentions_bot = match &event.kind {
        InboundKind::Message(message) => message.mentions_bot,
        // Whoever presses a button or uses a command of the bot means the bot.
        _ => true,
    };
    match find_grant(&event.chat, event.sender.as_ref(), mentions_bot, rules) {
        Some(grant) => AccessDecision::Allowed(grant),
        None if offers_code(event, rules) => AccessDecision::OfferCode,
        None => AccessDecision::Refused,
    }
}

fn find_grant(
    chat: &ChatAddress,
    sender: Option<&Sender>,
    mentions_bot: bool,
    rules: &AccessRules<'_>,
) -> Option<AccessGrant> {
    let access = &rules.account.access;
    let is_group = !chat.is_direct();
    let chat_ids = [Some(&chat.id), chat.parent_id.as_ref()];
    let mut chat_ids = chat_ids.into_iter().flatten();
    if is_group && chat_ids.any(|id| access.group_allowed_chats.includes(id)) {
        return Some(AccessGrant::GroupChat);
    }
    if sender.is_some_and(|sender| sender.is_bot) {
        let is_admitted = match access.bots {
            BotPolicy::None => false,
            BotPolicy::Mentions => mentions_bot,
            BotPolicy::All => true,
        };
        return is_admitted.then_some(AccessGrant::BotPolicy);
    }
    let sender = sender.filter(|sender| !sender.id.is_empty())?;
    if access.allow_all {
        return Some(AccessGrant::PlatformAllowAll);
    }
    let allowed_roles = &access.allowed_roles;
    if sender.roles.iter().any(|role| allowed_roles.includes(role)) {
        return Some(AccessGrant::Role);
    }
    if (rules.is_paired)(&sender.id) {
        return Some(AccessGrant::Paired);
    }
    if access.allowed_users.includes(&sender.id)
        || (is_group && access.group_allowed_users.includes(&sender.id))
        || rules.gateway.allowed_users.includes(&sender.id)
    {
        return Some(AccessGrant::AllowList);
    }
    rules
        .gateway
        .allow_all_users
        .then_some(AccessGrant::GatewayAllowAll)
}

/// Whether a stranger gets a code: only for a direct message of a person, and only where nobody wrote down who may.
fn offers_code(event: &InboundEvent, rules: &AccessRules<'_>) -> bool {
    let access = &rules.account.access;
    let is_person = event
        .sender
        .as_ref()
        .is_some_and(|sender| !sender.is_bot && !sender.id.is_empty());
    let is_written = matches!(
        event.kind,
        InboundKind::Message(_) | InboundKind::Command(_)
    );
    event.chat.is_direct()
        && is_person
        && is_written
        && access.unauthorized_dm == UnauthorizedDm::Pair
        && !access.has_allow_list()
        && rules.gateway.allowed_users.is_empty()
}

/// Commands that everybody who may use the bot may use.
const OPEN_COMMANDS: [&str; 4] = ["help", "commands", "whoami", "stop"];

/// Whether a user may use a slash command, by its name in the table. Without administrators everybody may use all.
pub fn may_use_command(
    access: &AccessSettings,
    chat: &ChatAddress,
    user_id: &str,
    command: &str,
) -> bool {
    let rules = if chat.is_direct() {
        &access.direct_commands
    } else {
        &access.group_commands
    };
    is_admin(access, chat, user_id)
        || OPEN_COMMANDS.contains(&command)
        || rules.user_commands.iter().any(|allowed| allowed == command)
}

/// Whether a user may use every command.
pub fn is_admin(access: &AccessSettings, chat: &ChatAddress, user_id: &str) -> bool {
    let rules = if chat.is_direct() {
        &access.direct_commands
    } else {
        &access.group_commands
    };
    rules.admins.is_empty() || rules.admins.includes(user_id)
}

/// What a stranger is sent with a code. The operator of a tenant has another command than the owner of a home.
pub fn code_message(account: &str, code: &str, tenant: Option<&str>) -> String {
    let command = match tenant {
        Some(tenant) => format!("hermes tenant pairing {tenant} approve {account} {code}"),
        None => format!("hermes pairing approve {account} {code}"),
    };
    format!(
        "I do not know you yet. The owner of this bot can let you in with:\n\n`{command}`\n\nThe code is valid for one hour."
    )
}

/// What a stranger is sent when others are waiting already.
pub const TOO_MANY_PENDING: &str =
    "I do not know you yet, and others are waiting to be let in. Try again later.";

#[cfg(test)]
mod tests;
