//! `session_reset`: when a conversation of a chat begins anew by itself.

use std::collections::BTreeMap;

use crate::fields::Fields;

/// What makes a conversation begin anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResetMode {
    /// Only people do.
    #[default]
    None,
    /// Nothing was said for `idle_minutes`.
    Idle,
    /// An hour of the day, local time.
    Daily,
    /// Whichever comes first.
    Both,
}

/// When a conversation begins anew by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPolicy {
    pub mode: ResetMode,
    /// The hour of `daily`, local time, 0 to 23.
    pub at_hour: u8,
    pub idle_minutes: u32,
    /// Whether the user is told.
    pub notify: bool,
    /// Platforms whose users are not told.
    pub notify_exclude_platforms: Vec<String>,
}

impl Default for ResetPolicy {
    fn default() -> Self {
        Self {
            mode: ResetMode::None,
            at_hour: 4,
            idle_minutes: 1440,
            notify: true,
            notify_exclude_platforms: vec!["api_server".into(), "webhook".into()],
        }
    }
}

/// The policies of all chats.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResetSettings {
    /// `session_reset`.
    pub default: ResetPolicy,
    /// `reset_by_platform`: by platform, or by account as `telegram@work`.
    pub by_platform: BTreeMap<String, ResetPolicy>,
    /// `reset_by_type`: `dm`, `group`, `channel`, `thread` or `forum`.
    pub by_type: BTreeMap<String, ResetPolicy>,
}

impl ResetSettings {
    /// The policy of a chat. `platform` may name an account: `telegram@work`.
    pub fn policy(&self, platform: &str, chat_type: &str) -> &ResetPolicy {
        let name = platform.split('@').next().unwrap_or(platform);
        self.by_platform
            .get(platform)
            .or_else(|| self.by_platform.get(name))
            .or_else(|| self.by_type.get(chat_type))
            .unwrap_or(&self.default)
    }

    /// Reads them from the places of the gateway's keys, the most important one first.
    pub(super) fn read(places: &[Fields<'_>]) -> Self {
        let with = |key: &str| places.iter().find(|place| place.is_set(key));
        let section = |keys: &[&str]| {
            let key = keys.iter().find(|key| with(key).is_some())?;
            Some(with(key)?.section(key))
        };
        let first = ResetPolicy::default();
        let default = section(&["session_reset", "default_reset_policy"])
            .map_or_else(|| first.clone(), |fields| read_policy(&fields, &first));
        let read_all = |key: &str| {
            let mut policies = BTreeMap::new();
            let Some(section) = section(&[key]) else {
                return policies;
            };
            for (name, value) in section.entries() {
                if let Some(map) = value.as_object() {
                    let policy = read_policy(&section.mapping(name, map), &default);
                    policies.insert(name.to_ascii_lowercase(), policy);
                } else {
                    section.warn(
                        name,
                        "must be a mapping such as `{mode: idle}`; it is ignored",
                    );
                }
            }
            policies
        };
        Self {
            by_platform: read_all("reset_by_platform"),
            by_type: read_all("reset_by_type"),
            default,
        }
    }
}

/// What is not set is as in `base`.
fn read_policy(fields: &Fields<'_>, base: &ResetPolicy) -> ResetPolicy {
    fields.warn_mistyped(&[
        "mode",
        "at_hour",
        "idle_minutes",
        "notify",
        "notify_exclude_platforms",
        "bg_process_max_age_hours",
    ]);
    let modes = [
        ("none", ResetMode::None),
        ("idle", ResetMode::Idle),
        ("daily", ResetMode::Daily),
        ("both", ResetMode::Both),
        ("off", ResetMode::None),
        ("false", ResetMode::None),
    ];
    let hour = fields.integer("at_hour", base.at_hour.into(), 0);
    let at_hour = u8::try_from(hour).ok().filter(|hour| *hour < 24);
    ResetPolicy {
        mode: fields.choice("mode", &modes, base.mode),
        at_hour: at_hour.unwrap_or_else(|| {
            let message = format!(
                "must be an hour from 0 to 23; {} is used instead",
                base.at_hour
            );
            fields.warn("at_hour", message);
            base.at_hour
        }),
        idle_minutes: fields.integer("idle_minutes", base.idle_minutes, 1),
        notify: fields.flag("notify", base.notify),
        notify_exclude_platforms: fields
            .texts_or_warn("notify_exclude_platforms")
            .unwrap_or_else(|| base.notify_exclude_platforms.clone()),
    }
}
