//! What is read from variables, `config.yaml` and `gateway.json`, and in which order.

use super::*;
use crate::{Home, Settings};

fn parse(yaml: &str, variables: &[(&str, &str)]) -> Settings {
    Settings::parse(yaml, Variables::from_pairs(variables.iter().copied())).unwrap()
}

fn token(settings: &Settings, platform: Platform) -> Option<String> {
    let token = settings.gateway.platform(platform).token.as_ref()?;
    Some(token.expose().clone())
}

#[test]
fn without_settings_there_are_the_services_and_no_token() {
    let settings = parse("", &[]);
    assert_eq!(settings.warnings, []);
    for platform in Platform::ALL {
        let found = settings.gateway.platform(platform);
        assert_eq!(found.token, None);
        assert_eq!(found.home_channel, None);
        assert!(found.base_url.starts_with("https://"));
        assert!(!found.allow_http);
    }
}

#[test]
fn a_variable_wins_over_the_file() {
    let yaml =
        "telegram: {token: from-file, home_channel: 5, extra: {base_url: 'http://localhost:1'}}\n";
    let settings = parse(yaml, &[]);
    assert_eq!(token(&settings, Platform::Telegram).unwrap(), "from-file");
    let telegram = settings.gateway.platform(Platform::Telegram);
    assert_eq!(telegram.home_channel.as_ref().unwrap().chat_id, "5");
    assert_eq!(telegram.base_url, "http://localhost:1");

    let settings = parse(
        yaml,
        &[
            ("TELEGRAM_BOT_TOKEN", " from-variable "),
            ("TELEGRAM_HOME_CHANNEL", "-100"),
            ("TELEGRAM_HOME_CHANNEL_THREAD_ID", "7"),
            ("TELEGRAM_HOME_CHANNEL_NAME", "Team"),
            ("TELEGRAM_BASE_URL", "http://localhost:2"),
            ("DISCORD_PROXY", "http://proxy:3128"),
        ],
    );
    assert_eq!(
        token(&settings, Platform::Telegram).unwrap(),
        "from-variable"
    );
    let telegram = settings.gateway.platform(Platform::Telegram);
    assert_eq!(
        telegram.home_channel,
        Some(HomeChannel {
            chat_id: "-100".into(),
            name: Some("Team".into()),
            thread_id: Some("7".into()),
        })
    );
    assert_eq!(telegram.base_url, "http://localhost:2");
    assert_eq!(telegram.proxy, None);
    let discord = settings.gateway.platform(Platform::Discord);
    assert_eq!(discord.proxy.as_deref(), Some("http://proxy:3128"));
}

#[test]
fn a_platform_may_stand_in_three_places() {
    let settings = parse(
        "slack: {home_channel: {chat_id: C1}}\n\
     platforms: {slack: {home_channel: C2, token: second}, discord: {token: '${DC}'}}\n\
     gateway: {platforms: {slack: {token: third, extra: {allow_http: yes}}, telegram: {token: '${NOPE}'}}}\n",
        &[("DC", "filled")],
    );
    let slack = settings.gateway.platform(Platform::Slack);
    assert_eq!(slack.home_channel.as_ref().unwrap().chat_id, "C1");
    assert!(slack.allow_http);
    assert_eq!(token(&settings, Platform::Slack).unwrap(), "second");
    assert_eq!(token(&settings, Platform::Discord).unwrap(), "filled");
    assert_eq!(token(&settings, Platform::Telegram), None);
    assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
    assert_eq!(settings.gateway.secrets().count(), 2);
}

#[test]
fn a_platform_that_is_switched_off_has_no_token() {
    let settings = parse(
        "discord: {enabled: false}\n",
        &[("DISCORD_BOT_TOKEN", "abc"), ("SLACK_BOT_TOKEN", "xoxb-1")],
    );
    assert_eq!(token(&settings, Platform::Discord), None);
    assert_eq!(token(&settings, Platform::Slack).unwrap(), "xoxb-1");
}

#[test]
fn gateway_json_counts_where_nothing_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let file = directory.path().join("gateway.json");
    std::fs::write(
        &file,
        r#"{"platforms": {"slack": {"token": "old", "home_channel": {"platform": "slack", "chat_id": "C9", "name": "x"}}}}"#,
    )
    .unwrap();
    std::fs::write(home.config_file(), "slack: {token: new}\n").unwrap();
    let load = || Settings::load_with(&home, Variables::default(), Vec::new()).unwrap();
    let settings = load();
    assert_eq!(token(&settings, Platform::Slack).unwrap(), "new");
    let slack = settings.gateway.platform(Platform::Slack);
    assert_eq!(slack.home_channel.as_ref().unwrap().chat_id, "C9");

    std::fs::write(&file, "{nonsense").unwrap();
    let settings = load();
    assert_eq!(
        settings.gateway.platform(Platform::Slack).home_channel,
        None
    );
    assert!(
        settings.warnings[0].message.contains("gateway.json"),
        "{:?}",
        settings.warnings
    );
}

#[test]
fn nothing_of_a_token_is_printed() {
    let settings = parse("", &[("SLACK_BOT_TOKEN", "xoxb-very-secret")]);
    assert!(!format!("{settings:?}").contains("very-secret"));
}

#[test]
fn directories_for_media_are_absolute() {
    let settings = parse(
        "",
        &[("HERMES_MEDIA_ALLOW_DIRS", "/srv/a:relative::/srv/b")],
    );
    assert_eq!(
        settings.gateway.media_dirs,
        [PathBuf::from("/srv/a"), PathBuf::from("/srv/b")]
    );
}

#[test]
fn a_variable_decides_who_may_and_a_list_in_the_file_does_otherwise() {
    let yaml = "
telegram:
  allow_from: [123, '456']
  group_allow_from: '7, 8'
  group_allowed_chats: [-100]
  allow_all_users: no
discord: {allowed_roles: [11]}
slack: {allow_from: U1, allow_bots: mentions}
allowed_users: [9]
";
    let settings = parse(yaml, &[]);
    assert_eq!(settings.warnings, []);
    let access = &settings.gateway.platform(Platform::Telegram).access;
    assert_eq!(access.allowed_users, IdList::new(["123", "456"]));
    assert_eq!(access.group_allowed_users, IdList::new(["7", "8"]));
    assert_eq!(access.group_allowed_chats, IdList::new(["-100"]));
    assert!(access.has_allow_list() && !access.allow_all);
    let discord = &settings.gateway.platform(Platform::Discord).access;
    assert_eq!(discord.allowed_roles, IdList::new(["11"]));
    let slack = &settings.gateway.platform(Platform::Slack).access;
    assert_eq!(slack.bots, BotPolicy::Mentions);
    assert_eq!(settings.gateway.allowed_users, IdList::new(["9"]));

    let settings = parse(
        yaml,
        &[
            ("TELEGRAM_ALLOWED_USERS", " 1, 2 ,,"),
            ("TELEGRAM_GROUP_ALLOWED_CHATS", ""),
            ("TELEGRAM_ALLOW_ALL_USERS", "True"),
            ("TELEGRAM_ALLOW_BOTS", "ALL"),
            ("DISCORD_ALLOWED_ROLES", "12,13"),
            ("GATEWAY_ALLOWED_USERS", "*"),
            ("GATEWAY_ALLOW_ALL_USERS", "yes"),
        ],
    );
    assert_eq!(settings.warnings, []);
    let access = &settings.gateway.platform(Platform::Telegram).access;
    assert_eq!(access.allowed_users, IdList::new(["1", "2"]));
    // A variable that is empty says nothing.
    assert_eq!(access.group_allowed_chats, IdList::new(["-100"]));
    assert!(access.allow_all);
    assert_eq!(access.bots, BotPolicy::All);
    assert!(settings.gateway.allowed_users.includes("anybody"));
    assert!(settings.gateway.allow_all_users);
}

#[test]
fn without_settings_nobody_may_and_groups_need_a_mention() {
    let settings = parse("", &[]);
    for platform in Platform::ALL {
        let found = settings.gateway.platform(platform);
        assert_eq!(*found, PlatformSettings::default_of(platform));
        assert!(!found.access.allow_all && !found.access.has_allow_list());
        assert_eq!(found.access.bots, BotPolicy::None);
        assert_eq!(found.access.unauthorized_dm, UnauthorizedDm::Pair);
        assert!(found.groups.require_mention && !found.groups.strict_mention);
        assert_eq!(found.groups.auto_thread, platform == Platform::Discord);
        assert_eq!(found.reply_to_mode, ReplyToMode::First);
        assert!(found.is_streaming && found.shows_typing && !found.has_reactions);
    }
    let gateway = &settings.gateway;
    assert_eq!(gateway.busy_input_mode, BusyInputMode::Interrupt);
    assert_eq!(gateway.session_reset, ResetSettings::default());
    assert!(gateway.group_sessions_per_user && !gateway.thread_sessions_per_user);
    assert!(gateway.write_sessions_json && !gateway.allow_all_users);
}

#[test]
fn the_rules_of_groups_are_read_from_every_place() {
    let settings = parse(
        "
telegram:
  require_mention: false
  mention_patterns: ['^jarvis']
  free_response_chats: [-1]
  free_response_topics: ['-1:5']
  allowed_chats: '-1,-2'
  allowed_topics: [5]
  chats: {'-1': {require_mention: true}}
  extra: {reactions: true}
platforms:
  discord: {auto_thread: false, free_response_channels: [7], reply_to_mode: off}
gateway:
  observe_groups: true
  platforms:
    slack: {strict_mention: true, allowed_channels: [C1], reply_in_thread: false, streaming: {enabled: false}}
",
        &[
            ("DISCORD_REQUIRE_MENTION", "off"),
            ("SLACK_MENTION_PATTERNS", r#"["a", "b"]"#),
        ],
    );
    assert_eq!(settings.warnings, []);
    let telegram = settings.gateway.platform(Platform::Telegram);
    assert!(!telegram.groups.require_mention && telegram.groups.observe);
    assert_eq!(telegram.groups.mention_patterns, ["^jarvis"]);
    assert_eq!(telegram.groups.free_response_chats, IdList::new(["-1"]));
    assert_eq!(telegram.groups.free_response_topics, IdList::new(["-1:5"]));
    assert_eq!(telegram.groups.allowed_chats, IdList::new(["-1", "-2"]));
    assert_eq!(telegram.groups.allowed_topics, IdList::new(["5"]));
    let rules: Vec<_> = telegram.groups.rules_of("-1", Some("5")).collect();
    assert_eq!(rules[0].require_mention, Some(true));
    assert!(telegram.has_reactions);
    let discord = settings.gateway.platform(Platform::Discord);
    assert!(!discord.groups.auto_thread && !discord.groups.require_mention);
    assert_eq!(discord.groups.free_response_chats, IdList::new(["7"]));
    assert_eq!(discord.reply_to_mode, ReplyToMode::Off);
    let slack = settings.gateway.platform(Platform::Slack);
    assert!(slack.groups.strict_mention && !slack.reply_in_thread && !slack.is_streaming);
    assert_eq!(slack.groups.allowed_chats, IdList::new(["C1"]));
    assert_eq!(slack.groups.mention_patterns, ["a", "b"]);
}

#[test]
fn sessions_of_the_gateway_follow_the_most_special_policy() {
    let settings = parse(
        "
session_reset: {mode: both, at_hour: 3, idle_minutes: 90, notify: no}
reset_by_platform: {telegram: {mode: none}}
gateway:
  session_reset: {mode: idle}
  reset_by_type: {group: {mode: daily}, dm: {idle_minutes: 5}}
  group_sessions_per_user: false
  thread_sessions_per_user: true
  write_sessions_json: false
display: {busy_input_mode: queue}
streaming: false
",
        &[],
    );
    assert_eq!(settings.warnings, []);
    let gateway = &settings.gateway;
    let reset = &gateway.session_reset;
    // The top level wins over `gateway`.
    assert_eq!(reset.default.mode, ResetMode::Both);
    assert_eq!((reset.default.at_hour, reset.default.idle_minutes), (3, 90));
    assert!(!reset.default.notify);
    assert_eq!(reset.policy("telegram", "group").mode, ResetMode::None);
    assert_eq!(reset.policy("telegram@work", "dm").mode, ResetMode::None);
    assert_eq!(reset.policy("slack", "group").mode, ResetMode::Daily);
    assert_eq!(reset.policy("slack", "dm").idle_minutes, 5);
    assert_eq!(reset.policy("slack", "dm").mode, ResetMode::Both);
    assert_eq!(reset.policy("slack", "thread"), &reset.default);
    assert!(!gateway.group_sessions_per_user && gateway.thread_sessions_per_user);
    assert!(!gateway.write_sessions_json);
    assert_eq!(gateway.busy_input_mode, BusyInputMode::Queue);
    assert!(!gateway.platform(Platform::Slack).is_streaming);
}

#[test]
fn a_platform_has_several_accounts_and_each_its_own_grants() {
    let settings = parse(
        "
telegram:
  token: '1:first'
  allow_from: [1]
  require_mention: false
  home_channel: 5
  extra: {base_url: 'http://localhost:1'}
  accounts:
    Work: {token: '2:work', allow_from: [2], reply_to_mode: all}
    my-bot: {allow_bots: all}
    'no/name': {token: '9:x'}
",
        &[
            ("TELEGRAM_BOT_TOKEN_MY_BOT", "3:mine"),
            ("TELEGRAM_BOT_TOKEN_PLAY", "4:play"),
            ("TELEGRAM_ALLOW_ALL_USERS", "true"),
            ("TELEGRAM_ALLOWED_USERS_PLAY", "7"),
            ("TELEGRAM_HOME_CHANNEL_PLAY", "8"),
            ("SLACK_BOT_TOKEN_OPS", "xoxb-ops"),
            ("SLACK_APP_TOKEN_OPS", "xapp-ops"),
        ],
    );
    assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
    assert_eq!(
        settings.warnings[0].key.as_deref(),
        Some("telegram.accounts.no/name")
    );
    let gateway = &settings.gateway;
    let names: Vec<&str> = gateway
        .accounts(Platform::Telegram)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["", "work", "my-bot", "play"]);
    let account = |name| gateway.account(Platform::Telegram, name).unwrap();
    assert!(account("").access.allow_all);
    for name in ["work", "my-bot", "play"] {
        // What one bot may be used for says nothing about another.
        assert!(!account(name).access.allow_all, "{name}");
        assert!(!account(name).groups.require_mention, "{name}");
        assert_eq!(account(name).base_url, "http://localhost:1");
    }
    assert_eq!(account("work").access.allowed_users, IdList::new(["2"]));
    assert_eq!(account("work").reply_to_mode, ReplyToMode::All);
    assert_eq!(account("work").home_channel, None);
    assert_eq!(account("my-bot").access.allowed_users, IdList::default());
    assert_eq!(account("my-bot").access.bots, BotPolicy::All);
    assert_eq!(account("my-bot").token, Some(Secret::new("3:mine".into())));
    assert_eq!(account("play").access.allowed_users, IdList::new(["7"]));
    assert_eq!(account("play").home_channel.as_ref().unwrap().chat_id, "8");
    // Without a first account there may be a further one.
    assert_eq!(gateway.platform(Platform::Slack).token, None);
    let ops: Vec<_> = gateway.accounts(Platform::Slack).collect();
    assert_eq!(ops[0].0, "ops");
    assert_eq!(ops[0].1.app_token, Some(Secret::new("xapp-ops".into())));
    let secrets: Vec<String> = gateway
        .secrets()
        .map(|secret| secret.expose().clone())
        .collect();
    for secret in [
        "1:first", "2:work", "3:mine", "4:play", "xoxb-ops", "xapp-ops",
    ] {
        assert!(secrets.iter().any(|found| found == secret), "{secret}");
    }
}

#[test]
fn a_webhook_needs_a_secret() {
    let url = ("TELEGRAM_WEBHOOK_URL", "https://bot.example/hook");
    let settings = parse("", &[url]);
    assert_eq!(settings.gateway.platform(Platform::Telegram).webhook, None);
    assert!(
        settings.warnings[0]
            .message
            .contains("TELEGRAM_WEBHOOK_SECRET"),
        "{:?}",
        settings.warnings
    );
    let settings = parse("", &[url, ("TELEGRAM_WEBHOOK_SECRET", "s3cr3t")]);
    let webhook = settings
        .gateway
        .platform(Platform::Telegram)
        .webhook
        .clone();
    let webhook = webhook.unwrap();
    assert_eq!((webhook.url.as_str(), webhook.port), (url.1, 8443));
    assert!(
        settings
            .gateway
            .secrets()
            .any(|secret| secret.expose() == "s3cr3t")
    );
}

#[test]
fn wrong_values_are_named_with_the_fix_and_change_nothing_else() {
    let settings = parse(
        "
telegram:
  allow_from: ['@alice']
  group_allow_from: [-100]
  mention_patterns: ['(', 'fine']
  chats: {'-1': true}
  requiremention: false
discord: {reply_to_mode: sometimes}
session_reset: {mode: weekly, at_hour: 25}
display: {busy_input_mode: wait}
",
        &[
            ("SLACK_ALLOW_BOTS", "perhaps"),
            ("SLACK_REQUIRE_MENTION", "maybe"),
            ("GATEWAY_ALLOW_ALL_USERS", "of course"),
        ],
    );
    let keys: Vec<&str> = settings
        .warnings
        .iter()
        .filter_map(|warning| warning.key.as_deref())
        .collect();
    for key in [
        "telegram.allow_from",
        "telegram.group_allow_from",
        "telegram.mention_patterns",
        "telegram.chats.-1",
        "telegram.requiremention",
        "discord.reply_to_mode",
        "session_reset.mode",
        "session_reset.at_hour",
        "display.busy_input_mode",
        "SLACK_ALLOW_BOTS",
        "SLACK_REQUIRE_MENTION",
        "GATEWAY_ALLOW_ALL_USERS",
    ] {
        assert!(keys.contains(&key), "{key}: {:?}", settings.warnings);
    }
    assert_eq!(keys.len(), 12, "{:?}", settings.warnings);
    let telegram = settings.gateway.platform(Platform::Telegram);
    assert_eq!(telegram.groups.mention_patterns, ["fine"]);
    // A chat among the people is a chat.
    assert_eq!(telegram.access.group_allowed_chats, IdList::new(["-100"]));
    assert!(!settings.gateway.allow_all_users);
    let slack = settings.gateway.platform(Platform::Slack);
    assert_eq!(slack.access.bots, BotPolicy::None);
    assert!(slack.groups.require_mention);
}

#[test]
fn gateway_json_is_the_lowest_layer_of_every_setting() {
    let older = r#"{"platforms": {"telegram": {"allow_from": ["1"], "require_mention": false}},
        "default_reset_policy": {"mode": "daily"}, "group_sessions_per_user": false}"#;
    let yaml = "telegram: {allow_from: [2]}\nsession_reset: {mode: idle}\n";
    let settings = Settings::parse_files(yaml, Some(older), Variables::default()).unwrap();
    let telegram = settings.gateway.platform(Platform::Telegram);
    assert_eq!(telegram.access.allowed_users, IdList::new(["2"]));
    assert!(!telegram.groups.require_mention);
    assert_eq!(settings.gateway.session_reset.default.mode, ResetMode::Idle);
    assert!(!settings.gateway.group_sessions_per_user);
    let settings = Settings::parse_files("", Some(older), Variables::default()).unwrap();
    assert_eq!(
        settings.gateway.session_reset.default.mode,
        ResetMode::Daily
    );
}
