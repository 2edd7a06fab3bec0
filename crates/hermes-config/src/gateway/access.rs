//! Who may use a bot account: allow-lists, roles, other bots, and what happens to strangers.

use super::{
    Platform,
    keys::{AccountKeys, KeyScope},
};

/// Ids as a comma list of a variable or a YAML list has them; `*` is everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdList(Vec<String>);

impl IdList {
    pub fn new(ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(ids.into_iter().map(Into::into).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the id is in the list, or everybody is.
    pub fn includes(&self, id: &str) -> bool {
        self.0.iter().any(|listed| listed == "*" || listed == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// What messages of other bots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BotPolicy {
    /// Ignored.
    #[default]
    None,
    /// Taken if they mention this bot.
    Mentions,
    /// Taken like those of people.
    All,
}

/// What a stranger who writes a direct message gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnauthorizedDm {
    /// A pairing code, unless there is an allow-list.
    #[default]
    Pair,
    /// Nothing.
    Ignore,
}

/// Who may use a bot account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessSettings {
    /// `allow_from`, `<PLATFORM>_ALLOWED_USERS`.
    pub allowed_users: IdList,
    /// `group_allow_from`, `<PLATFORM>_GROUP_ALLOWED_USERS`: people who may use it in groups only.
    pub group_allowed_users: IdList,
    /// `group_allowed_chats`, `<PLATFORM>_GROUP_ALLOWED_CHATS`: groups in which everybody may use it.
    pub group_allowed_chats: IdList,
    /// `allowed_roles`, `DISCORD_ALLOWED_ROLES`.
    pub allowed_roles: IdList,
    /// `allow_all_users`, `<PLATFORM>_ALLOW_ALL_USERS`.
    pub allow_all: bool,
    /// `allow_bots`, `<PLATFORM>_ALLOW_BOTS`.
    pub bots: BotPolicy,
    /// `unauthorized_dm_behavior`.
    pub unauthorized_dm: UnauthorizedDm,
    /// Who may use which slash command in direct chats.
    pub direct_commands: CommandAccess,
    /// The same in groups.
    pub group_commands: CommandAccess,
}

impl AccessSettings {
    /// Whether somebody wrote down who may use it.
    pub fn has_allow_list(&self) -> bool {
        let lists = [
            &self.allowed_users,
            &self.group_allowed_users,
            &self.group_allowed_chats,
            &self.allowed_roles,
        ];
        lists.iter().any(|list| !list.is_empty())
    }
}

/// Who may use which slash command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandAccess {
    /// `allow_admin_from`: those who may use every command. Without any, everybody may.
    pub admins: IdList,
    /// `user_allowed_commands`: what the others may use.
    pub user_commands: Vec<String>,
}

const BOT_POLICIES: [(&str, BotPolicy); 6] = [
    ("none", BotPolicy::None),
    ("mentions", BotPolicy::Mentions),
    ("all", BotPolicy::All),
    ("false", BotPolicy::None),
    ("off", BotPolicy::None),
    ("true", BotPolicy::All),
];

pub(super) const UNAUTHORIZED: [(&str, UnauthorizedDm); 2] = [
    ("pair", UnauthorizedDm::Pair),
    ("ignore", UnauthorizedDm::Ignore),
];

impl AccessSettings {
    /// Reads them. Grants of the first account are not those of a further one.
    pub(super) fn read(keys: &AccountKeys<'_>, unauthorized_dm: UnauthorizedDm) -> Self {
        let own = KeyScope::Own;
        let mut access = Self {
            allowed_users: read_people(keys, "ALLOWED_USERS", &["allow_from", "allowed_users"]),
            group_allowed_users: read_people(
                keys,
                "GROUP_ALLOWED_USERS",
                &["group_allow_from", "group_allowed_users"],
            ),
            group_allowed_chats: keys.ids("GROUP_ALLOWED_CHATS", &["group_allowed_chats"], own),
            allowed_roles: keys.ids("ALLOWED_ROLES", &["allowed_roles"], own),
            allow_all: keys.flag("ALLOW_ALL_USERS", &["allow_all_users"], false, own),
            bots: keys.choice(
                "ALLOW_BOTS",
                &["allow_bots"],
                &BOT_POLICIES,
                BotPolicy::None,
                own,
            ),
            unauthorized_dm: keys.choice(
                "UNAUTHORIZED_DM_BEHAVIOR",
                &["unauthorized_dm_behavior"],
                &UNAUTHORIZED,
                unauthorized_dm,
                KeyScope::Inherited,
            ),
            direct_commands: CommandAccess {
                admins: keys.ids("ALLOW_ADMIN_FROM", &["allow_admin_from"], own),
                user_commands: read_commands(keys, "user_allowed_commands"),
            },
            group_commands: CommandAccess {
                admins: keys.ids("GROUP_ALLOW_ADMIN_FROM", &["group_allow_admin_from"], own),
                user_commands: read_commands(keys, "group_user_allowed_commands"),
            },
        };
        access.move_chats(keys);
        access
    }

    /// Older versions took chats in the list of group users.
    fn move_chats(&mut self, keys: &AccountKeys<'_>) {
        if keys.platform != Platform::Telegram {
            return;
        }
        let (chats, people): (Vec<String>, Vec<String>) = self
            .group_allowed_users
            .0
            .drain(..)
            .partition(|id| id.starts_with('-'));
        self.group_allowed_users.0 = people;
        if let Some(chat) = chats.first() {
            keys.warn(
                "GROUP_ALLOWED_USERS",
                &["group_allow_from", "group_allowed_users"],
                format!(
                    "`{chat}` is a chat, not a person; move it to `{}`",
                    keys.variable_name("GROUP_ALLOWED_CHATS")
                ),
            );
            self.group_allowed_chats.0.extend(chats);
        }
    }
}

fn read_people(keys: &AccountKeys<'_>, variable: &str, names: &[&'static str]) -> IdList {
    let list = keys.ids(variable, names, KeyScope::Own);
    let is_number = |id: &str| {
        let digits = id.strip_prefix('-').unwrap_or(id);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_id = |id: &str| match keys.platform {
        Platform::Telegram | Platform::Discord => is_number(id),
        Platform::Slack => id.starts_with(['U', 'W', 'B']),
    };
    if let Some(name) = list.iter().find(|id| *id != "*" && !is_id(id)) {
        let example = match keys.platform {
            Platform::Telegram => "a number such as `123456789`; `/whoami` shows it",
            Platform::Discord => "a number such as `284102345871466496`; `/whoami` shows it",
            Platform::Slack => "such as `U024BE7LH`; `/whoami` shows it",
        };
        keys.warn(
            variable,
            names,
            format!(
                "`{name}` is not an id of {}: write {example}",
                keys.platform
            ),
        );
    }
    list
}

/// Commands without their slash.
fn read_commands(keys: &AccountKeys<'_>, name: &'static str) -> Vec<String> {
    let variable = name.to_ascii_uppercase();
    keys.ids(&variable, &[name], KeyScope::Own)
        .iter()
        .map(|command| {
            command
                .trim_start_matches(['/', '!'])
                .to_ascii_lowercase()
                .replace('_', "-")
        })
        .collect()
}
