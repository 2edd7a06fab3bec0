//! The bots of a home under `hermes up`: in its own process, or in another gateway that works for the home.

use hermes_testkit::ReservedPort;

use super::*;
use crate::harness::screen_terminal::ScreenTerminal;

/// A home whose tokens are in its `.env`, so that every program of the home knows them.
fn home_with_bots(more: &str) -> ChatHome {
    let home = ChatHome::new(ModelScript::echo());
    let env = format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_BASE_URL={}\nTELEGRAM_ALLOWED_USERS={ADA}\n{more}",
        home.telegram.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    home
}

#[test]
fn the_platforms_of_the_home_run_under_up_too() {
    let home = home_with_bots("");
    let mut up = home.gateway.home.start(&["up"]);
    home.telegram.say(ADA, "hello up");
    let answers = home.wait_for_answers(ADA, 1);
    assert!(answers[0].contains("hello up"), "{answers:?}");
    up.signal(rustix::process::Signal::TERM);
    up.wait();
}

#[test]
fn the_table_has_a_line_for_each_bot_with_what_is_wrong() {
    let home = home_with_bots("TELEGRAM_BOT_TOKEN_WORK=1:wrong-token\n");
    let up = ScreenTerminal::start(home.gateway.home.command(&["up"]), 120, 24);
    let text = up.wait_for("both bots", |text| {
        let line = |label: &str| text.lines().find(|line| line.starts_with(label));
        line("telegram ").is_some_and(|line| line.contains("connected"))
            && line("telegram@work ").is_some_and(|line| line.contains("fatal"))
    });
    let line = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap();
    assert!(line("telegram ").contains("platform"), "{text}");
    assert!(line("telegram ").contains("last heard"), "{text}");
    assert!(line("telegram@work ").contains("token"), "{text}");
    assert!(!text.contains("wrong-token"), "{text}");
}

#[test]
fn another_gateway_keeps_the_bots_and_the_hub_drives_the_home_through_its_api() {
    let port = ReservedPort::reserve().unwrap();
    let home = home_with_bots(&format!("API_SERVER_KEY={KEY}\n"));
    let config = std::fs::read_to_string(home.gateway.home.config()).unwrap();
    let config = config.replace("port: 0", &format!("port: {}", port.number()));
    home.gateway.home.write_config(&config);
    let gateway = home.start();

    let mut up = home.gateway.home.start(&["up", "--no-open"]);
    let told = up.wait_for("Another gateway of this home");
    let pid = gateway.process.pid();
    assert!(told.contains(&format!("process {pid}")), "{told}");
    let line = up.wait_for("Hub: http://");
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http"));
    let url = url.unwrap();
    up.wait_for("telegram: connected");

    let run = ["tenant", "run", "main", "hello from the Hub", "--watch"];
    let ran = home.gateway.home.run(&[&run[..], &["--hub", url]].concat());
    assert!(ran.ok().stdout.contains("hello from the Hub"));
    // It ran in that gateway.
    let sessions = gateway.get("/api/sessions").to_string();
    assert!(sessions.contains("api"), "{sessions}");
    home.telegram.say(ADA, "hello gateway");
    let answers = home.wait_for_answers(ADA, 1);
    assert!(answers[0].contains("hello gateway"), "{answers:?}");

    // The end of `up` is not that gateway's.
    up.signal(rustix::process::Signal::TERM);
    up.wait();
    home.telegram.say(ADA, "still there");
    let answers = home.wait_for_answers(ADA, 2);
    assert!(answers[1].contains("still there"), "{answers:?}");
}
