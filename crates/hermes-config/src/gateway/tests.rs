//! Which of several places counts.

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
