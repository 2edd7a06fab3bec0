//! Messages that a client sends, to platforms that are played.

use hermes_testkit::platform::{PlatformFault, PlatformServer};

use super::*;

const TOKEN: &str = "123456:AAF-very-secret";

#[test]
fn a_client_sends_to_every_platform_and_the_conversation_shows_it() {
    let hermes = with_chat();
    let servers = [
        ("TELEGRAM", PlatformServer::telegram(TOKEN)),
        ("DISCORD", PlatformServer::discord(TOKEN)),
        ("SLACK", PlatformServer::slack(TOKEN)),
    ];
    let variables = servers.iter().map(|(platform, server)| {
        let address = server.base_url();
        format!("{platform}_BOT_TOKEN={TOKEN}\n{platform}_BASE_URL={address}\n")
    });
    hermes.home.write_env(&variables.collect::<String>());
    let (mut one, mut other) = (
        BridgeProcess::open(&hermes, &[]),
        BridgeProcess::open(&hermes, &[]),
    );
    // Both have begun before anything is sent.
    for bridge in [&mut one, &mut other] {
        assert_eq!(
            bridge.call_tool("events_poll", &json!({}))["events"],
            json!([])
        );
    }
    for (platform, chat) in [
        ("telegram", "1"),
        ("discord", "42"),
        ("slack", "C0123456789"),
    ] {
        let message = json!({"target": format!("{platform}:{chat}"), "message": "on it"});
        let sent = one.call_tool("messages_send", &message);
        let members: Vec<_> = sent.as_object().unwrap().keys().cloned().collect();
        let mut expected = vec!["success", "platform", "chat_id", "message_id"];
        if platform == "telegram" {
            expected.push("mirrored");
        }
        assert_eq!(members, expected, "{sent}");
        assert_eq!(
            (&sent["success"], &sent["platform"], &sent["chat_id"]),
            (&json!(true), &json!(platform), &json!(chat))
        );
        assert!(sent["message_id"].is_string(), "{sent}");
    }
    for (platform, server) in &servers {
        let requests = server.requests();
        let posts = requests.iter().filter(|asked| asked.method == "POST");
        assert_eq!(posts.count(), 1, "{platform}");
    }
    for bridge in [&mut one, &mut other] {
        let event =
            bridge.call_tool("events_wait", &json!({"timeout_ms": 30_000}))["event"].clone();
        assert_eq!(
            (&event["type"], &event["role"], &event["content"]),
            (&json!("message"), &json!("assistant"), &json!("on it")),
            "{event}"
        );
        assert_eq!(event["session_key"], KEY);
    }
    let read = other.call_tool("messages_read", &json!({"session_key": KEY}));
    assert_eq!(read["messages"][1]["content"], "on it");
}

#[test]
fn it_ends_in_the_middle_of_a_send_when_its_client_goes() {
    let hermes = with_chat();
    let server = PlatformServer::telegram(TOKEN);
    server.fail("sendMessage", PlatformFault::Silence);
    let address = server.base_url();
    hermes.home.write_env(&format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_BASE_URL={address}\n"
    ));
    let mut bridge = BridgeProcess::open(&hermes, &[]);
    bridge.send_call(
        "messages_send",
        &json!({"target": "telegram:1", "message": "on it"}),
    );
    crate::harness::test_home::wait_until("the platform was asked", || {
        !server.requests().is_empty()
    });
    drop(bridge.stdin.take());
    let (time, code) = bridge.wait_for_exit();
    assert!(time < Duration::from_secs(20), "{time:?}");
    assert_eq!(code, Some(0));
}
