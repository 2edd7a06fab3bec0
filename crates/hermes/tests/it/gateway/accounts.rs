//! How the bots of a running gateway are told of: by `gateway status`, `status`, `doctor` and `up`.

use hermes_testkit::platform::PlatformServer;
use serde_json::Value;

use crate::harness::test_home::{TestHome, wait_until};

const TOKEN: &str = "123456:AAF-very-secret-token";

/// A home with a bot that works and one whose token is wrong.
fn home_with_bots(platform: &PlatformServer) -> TestHome {
    let home = TestHome::with_servers(&[]);
    home.write_config(&format!(
        "model: {{autodetect: false}}\ntelegram:\n  token: '{TOKEN}'\n  extra: {{base_url: '{}'}}\n  accounts: {{work: {{token: '1:wrong-token'}}}}\n",
        platform.base_url()
    ));
    home
}

fn account(home: &TestHome, label: &str) -> Value {
    let status = home.run(&["gateway", "status", "--json"]).ok().json();
    let accounts = status["accounts"].as_array().cloned().unwrap_or_default();
    let mut found = accounts.into_iter().filter(|it| it["label"] == label);
    found.next().unwrap_or_default()
}

#[test]
fn each_bot_has_its_own_state_and_the_fix_is_named() {
    let platform = PlatformServer::telegram(TOKEN);
    let home = home_with_bots(&platform);
    let _gateway = home.start(&["gateway", "run"]);
    wait_until("both bots are told of", || {
        account(&home, "telegram")["state"] == "connected"
            && account(&home, "telegram@work")["state"] == "fatal"
    });
    let works = account(&home, "telegram");
    assert!(works["last_ok_at"].is_string(), "{works}");
    let broken = account(&home, "telegram@work");
    assert_eq!(broken["error_code"], "bad_token", "{broken}");
    let shown = home.run(&["gateway", "status"]).ok();
    let shown = shown.hides(&["very-secret", "wrong-token"]).stdout;
    for text in [
        "LAST HEARD",
        " s ago",
        "fatal",
        "hermes gateway setup --platform telegram",
    ] {
        assert!(shown.contains(text), "{shown}");
    }
    let doctor = home.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let level = |id: &str| {
        let check = checks.iter().find(|check| check["id"] == id);
        check.map_or(Value::Null, |check| check["level"].clone())
    };
    assert_eq!(level("telegram"), "ok");
    assert_eq!(level("telegram@work"), "fail");
    let status = home.run(&["status"]).ok().stdout;
    assert!(status.contains("connected, last heard"), "{status}");
}

#[test]
fn up_shows_each_bot() {
    let platform = PlatformServer::telegram(TOKEN);
    let home = home_with_bots(&platform);
    let mut up = home.start(&["up"]);
    up.wait_for_each(&["telegram: connected", "telegram@work: fatal"]);
}
