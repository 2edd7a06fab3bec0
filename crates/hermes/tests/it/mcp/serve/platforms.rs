//! Whose conversations are shown: flag and configuration.

use super::*;

const AT_TERMINAL: &str = "20260101_010102_abcdef";

/// A chat, and a conversation at the terminal.
fn with_both() -> Hermes {
    let hermes = with_chat();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let home = Home::at(hermes.home.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let id = SessionId::parse(AT_TERMINAL).unwrap();
        let session = NewSession::new(id, "cli");
        store.create_session(&session).await.unwrap();
        store.close().await;
    });
    hermes
}

fn listed(hermes: &Hermes, flags: &[&str]) -> Vec<String> {
    let mut piped = BridgeProcess::open(hermes, flags);
    piped.call(1, "conversations_list", &json!({}));
    let answer = piped.receive();
    let text = answer["result"]["structuredContent"]["result"].as_str();
    let list: Value = serde_json::from_str(text.unwrap()).unwrap();
    let conversations = list["conversations"].as_array().unwrap().iter();
    let mut keys: Vec<String> = conversations
        .map(|entry| entry["session_key"].as_str().unwrap().to_owned())
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_flag_chooses_and_else_the_configuration() {
    let hermes = with_both();
    let terminal = format!("cli:{AT_TERMINAL}");
    assert_eq!(listed(&hermes, &[]), [KEY]);
    assert_eq!(listed(&hermes, &["--platforms", "cli,api"]), [&*terminal]);
    hermes.home.write_config("bridge: {platforms: all}\n");
    assert_eq!(listed(&hermes, &[]), [KEY, &terminal]);
    hermes
        .home
        .write_config("bridge: {platforms: [cli, telegram]}\n");
    assert_eq!(listed(&hermes, &[]), [KEY, &terminal]);
    assert_eq!(listed(&hermes, &["--platforms", "messaging"]), [KEY]);
}

#[test]
fn a_platform_that_is_none_is_named_with_its_place() {
    let hermes = Hermes::new();
    for flags in [
        &["--platforms", "cli,telegarm"][..],
        &["--platforms", "telegarm", "--install", "cursor"],
    ] {
        let ran = hermes
            .run(&[&["mcp", "serve"], flags].concat())
            .exits_with(2);
        assert!(
            ran.stderr
                .contains("--platforms: `telegarm` is not a platform"),
            "{ran:?}"
        );
        assert!(
            ran.stderr.contains("cli, api, cron, messaging, all"),
            "{ran:?}"
        );
        assert_eq!(ran.stdout, "");
    }
    hermes.home.write_config("bridge: {platforms: telegarm}\n");
    let ran = hermes.run(&["mcp", "serve"]).exits_with(2);
    assert!(
        ran.stderr
            .contains("config.yaml: bridge.platforms: `telegarm`"),
        "{ran:?}"
    );
}
