use super::*;

#[test]
fn a_chat_is_renamed_wherever_the_settings_name_it() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    std::fs::write(
        home.env_file(),
        "# who may\nTELEGRAM_BOT_TOKEN=-5:secret\nTELEGRAM_GROUP_ALLOWED_CHATS=-7, -5\nTELEGRAM_HOME_CHANNEL=-5\nDISCORD_HOME_CHANNEL=-5\nTELEGRAM_FREE_RESPONSE_TOPICS=-5:3,-55:3\n",
    )
    .unwrap();
    std::fs::write(
        home.config_file(),
        "# mine\ntelegram:\n  allowed_chats: [-5, -6]  # two\n  home_channel: -5\nslack:\n  allowed_channels: [-5]\n",
    )
    .unwrap();
    let changed = rename_chat(&home, Platform::Telegram, "-5", "-1005").unwrap();
    assert_eq!(
        changed,
        [
            "TELEGRAM_FREE_RESPONSE_TOPICS",
            "TELEGRAM_GROUP_ALLOWED_CHATS",
            "TELEGRAM_HOME_CHANNEL",
            "telegram.allowed_chats",
            "telegram.home_channel",
        ]
    );
    let variables = std::fs::read_to_string(home.env_file()).unwrap();
    assert_eq!(
        variables,
        "# who may\nTELEGRAM_BOT_TOKEN=-5:secret\nTELEGRAM_GROUP_ALLOWED_CHATS=-7, -1005\nTELEGRAM_HOME_CHANNEL=-1005\nDISCORD_HOME_CHANNEL=-5\nTELEGRAM_FREE_RESPONSE_TOPICS=-1005:3,-55:3\n"
    );
    let settings = hermes_config::Settings::load(&home).unwrap();
    assert_eq!(settings.document["telegram"]["home_channel"], -1005);
    assert_eq!(
        settings.document["telegram"]["allowed_chats"],
        serde_json::json!([-1005, -6])
    );
    assert_eq!(settings.document["slack"]["allowed_channels"][0], -5);
    let text = std::fs::read_to_string(home.config_file()).unwrap();
    assert!(text.starts_with("# mine\n"), "{text}");
    let again = rename_chat(&home, Platform::Telegram, "-5", "-1005").unwrap();
    assert_eq!(again, [] as [String; 0]);
}

#[test]
fn rules_of_a_chat_and_of_its_topics_follow_it() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let config = "telegram:
  chats:
    # the team
    '-5': {require_mention: false}
    '-5:17':
      enabled: false
    '-55': {enabled: false}
  accounts:
    work:
      chats: {'-5': {enabled: false}}
";
    std::fs::write(home.config_file(), config).unwrap();
    let mut changed = rename_chat(&home, Platform::Telegram, "-5", "-1005").unwrap();
    changed.sort();
    assert_eq!(
        changed,
        [
            "telegram.accounts.work.chats.-1005",
            "telegram.chats.-1005",
            "telegram.chats.-1005:17",
        ]
    );
    let settings = hermes_config::Settings::load(&home).unwrap();
    assert_eq!(
        settings.document["telegram"]["chats"],
        serde_json::json!({
            "-1005": {"require_mention": false},
            "-1005:17": {"enabled": false},
            "-55": {"enabled": false},
        })
    );
    let again = rename_chat(&home, Platform::Telegram, "-5", "-1005").unwrap();
    assert_eq!(again, [] as [String; 0]);
}

#[test]
fn a_home_without_files_stays_without_them() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let changed = rename_chat(&home, Platform::Telegram, "-5", "-1005").unwrap();
    assert_eq!(changed, [] as [String; 0]);
    assert!(!home.env_file().exists() && !home.config_file().exists());
}
