//! The keys of a platform in `config.yaml`. They may stand in three places, the first of which wins; the Hub writes to that
//! one and clears the others.

use hermes_config::{ConfigFile, Platform};
use serde_json::{Value, json};

use super::PutPlatform;

/// A member of the API, its key in the file, and the variable that would win over it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlatformKey {
    pub(super) member: &'static str,
    key: &'static str,
    /// Another name of the key.
    alias: Option<&'static str>,
    pub(super) variable: &'static str,
}

impl PlatformKey {
    pub(super) const TOKEN: Self = Self::new("tokenEnv", "token", None, "BOT_TOKEN");

    const fn new(
        member: &'static str,
        key: &'static str,
        alias: Option<&'static str>,
        variable: &'static str,
    ) -> Self {
        Self {
            member,
            key,
            alias,
            variable,
        }
    }
}

/// What a request says of all keys except the tokens; null where it says nothing.
pub(super) fn own_keys(input: &PutPlatform) -> Vec<(PlatformKey, Value)> {
    let list = |ids: &Option<Vec<String>>| match ids {
        Some(ids) if !ids.is_empty() => json!(ids),
        _ => Value::Null,
    };
    let key = PlatformKey::new;
    vec![
        (
            key(
                "allowFrom",
                "allow_from",
                Some("allowed_users"),
                "ALLOWED_USERS",
            ),
            list(&input.allow_from),
        ),
        (
            key(
                "groupAllowFrom",
                "group_allow_from",
                Some("group_allowed_users"),
                "GROUP_ALLOWED_USERS",
            ),
            list(&input.group_allow_from),
        ),
        (
            key(
                "groupAllowedChats",
                "group_allowed_chats",
                None,
                "GROUP_ALLOWED_CHATS",
            ),
            list(&input.group_allowed_chats),
        ),
        (
            key("allowedRoles", "allowed_roles", None, "ALLOWED_ROLES"),
            list(&input.allowed_roles),
        ),
        (
            key("allowAllUsers", "allow_all_users", None, "ALLOW_ALL_USERS"),
            json!(input.allow_all_users.filter(|all| *all)),
        ),
        (
            key(
                "unauthorizedDm",
                "unauthorized_dm_behavior",
                None,
                "UNAUTHORIZED_DM_BEHAVIOR",
            ),
            json!(input.unauthorized_dm),
        ),
        (
            key("homeChannel", "home_channel", None, "HOME_CHANNEL"),
            json!(input.home_channel),
        ),
        (
            key("enabled", "enabled", None, "ENABLED"),
            json!(input.enabled.filter(|enabled| !enabled)),
        ),
    ]
}

/// The places of a platform, the most important one first.
fn places(platform: Platform) -> [Vec<&'static str>; 3] {
    let name = platform.name();
    [
        vec![name],
        vec!["platforms", name],
        vec!["gateway", "platforms", name],
    ]
}

/// Sets a key, or removes it if the value is null.
pub(super) fn set_key(file: &mut ConfigFile, platform: Platform, key: &PlatformKey, value: &Value) {
    let [first, others @ ..] = places(platform);
    let mut stale: Vec<Vec<&str>> = Vec::new();
    for place in &others {
        for name in [Some(key.key), key.alias].into_iter().flatten() {
            stale.push([place.as_slice(), &[name]].concat());
        }
    }
    stale.extend(key.alias.map(|alias| [first.as_slice(), &[alias]].concat()));
    let own = [first.as_slice(), &[key.key]].concat();
    if value.is_null() {
        stale.push(own);
    } else {
        file.set(&own, value.clone());
    }
    for path in stale {
        file.unset(&path);
    }
}

/// Removes everything about a platform.
pub(super) fn unset_everywhere(file: &mut ConfigFile, platform: Platform) {
    for place in places(platform) {
        file.unset(&place);
    }
}

/// The variable that a token in the file refers to.
pub(super) fn token_reference(document: &Value, platform: Platform) -> Option<String> {
    let mut found = places(platform).into_iter().filter_map(|place| {
        let section = place.iter().try_fold(document, |at, key| at.get(key))?;
        let text = section.get("token")?.as_str()?;
        let name = text.strip_prefix("${")?.strip_suffix('}')?;
        Some(name.to_owned())
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ConfigFile {
        ConfigFile::with_text("config.yaml".into(), text.into()).unwrap()
    }

    #[test]
    fn a_key_is_set_where_it_wins_and_removed_everywhere_else() {
        let mut config = file(
            "# mine\ntelegram:\n  allowed_users: [1] # old\nplatforms:\n  telegram:\n    allow_from: [2]\nmodel: m\n",
        );
        let key = PlatformKey::new("allowFrom", "allow_from", Some("allowed_users"), "X");
        set_key(&mut config, Platform::Telegram, &key, &json!(["5"]));
        let text = config.checked_text().unwrap();
        assert!(
            text.contains("# mine") && text.contains("model: m"),
            "{text}"
        );
        assert_eq!(
            config.get(&["telegram"]),
            Some(&json!({"allow_from": ["5"]}))
        );
        assert!(
            config
                .get(&["platforms", "telegram", "allow_from"])
                .is_none()
        );
        set_key(&mut config, Platform::Telegram, &key, &Value::Null);
        assert!(config.get(&["telegram", "allow_from"]).is_none());
        config.checked_text().unwrap();
    }

    #[test]
    fn the_variable_of_a_token_is_found_in_its_reference() {
        let document = json!({"platforms": {"slack": {"token": "${BOT}"}}});
        let found = token_reference(&document, Platform::Slack);
        assert_eq!(found.as_deref(), Some("BOT"));
        assert_eq!(token_reference(&document, Platform::Telegram), None);
    }
}
