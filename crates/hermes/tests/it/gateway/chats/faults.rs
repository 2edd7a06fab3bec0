//! Faults of the machine and of platforms while a gateway runs: it goes on by itself when they are over.

use hermes_testkit::platform::{PlatformFault, SlackPost};

use super::{
    three_platforms::{ChatPlatform, ThreePlatformHome},
    *,
};

/// Waits for an answer and for that of a later message, and checks that there is nothing else.
#[track_caller]
fn assert_only_answer(home: &ChatHome, answer: &str) {
    wait_until(answer, || {
        home.telegram.answers(ADA).iter().any(|text| text == answer)
    });
    home.telegram.say(ADA, "/whoami");
    wait_until("a later answer", || home.telegram.answers(ADA).len() > 1);
    let answers = home.telegram.answers(ADA);
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[0], answer);
}

#[test]
fn on_a_full_disk_nothing_is_confirmed_and_with_room_it_is_answered_once() {
    let home = ChatHome::new(ModelScript::new([ScriptedAnswer::text("Good.")]));
    let gateway = home.start_with_limits();
    limit_files(&gateway, Some(0));
    home.telegram.say(ADA, "hello");
    wait_until("it is told", || {
        gateway.platform("telegram")["error_code"] == "storage"
    });
    assert_eq!(home.telegram.waiting_updates().len(), 1);
    assert_eq!(home.turns().len(), 0);
    limit_files(&gateway, None);
    assert_only_answer(&home, "Good.");
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn an_answer_that_finds_no_room_is_sent_when_there_is_some() {
    let slow = |text: &str| ScriptedAnswer::text(text).with(|reply| reply.delay_ms = 1500);
    let script = ModelScript::default().rule("hello", slow("Good."));
    let home = ChatHome::new(script);
    let mut gateway = home.start_with_limits();
    home.telegram.say(ADA, "hello");
    wait_until("the model is asked", || home.turns().len() == 1);
    limit_files(&gateway, Some(0));
    gateway.process.wait_for("turn of a chat could not begin");
    assert_eq!(home.telegram.answers(ADA), Vec::<String>::new());
    limit_files(&gateway, None);
    assert_only_answer(&home, "Good.");
    let asked = home.last_turn().to_string();
    assert_eq!(asked.matches("\"hello\"").count(), 1, "{asked}");
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

#[test]
fn with_a_clock_that_is_wrong_new_messages_are_not_late_and_old_commands_do_not_act() {
    const DAY: u64 = 86_400;
    for is_ahead in [false, true] {
        let home = ChatHome::new(ModelScript::echo());
        // As seen from here it is the platform's clock that is wrong.
        let (ahead, platform_now) = if is_ahead {
            (-86_400, now() - DAY)
        } else {
            (86_400, now() + DAY)
        };
        home.telegram.set_clock_ahead(ahead);
        let _gateway = home.start();
        let message = home.telegram.message(ADA, ADA).text("hello");
        message.sent_at(platform_now).send();
        home.wait_for_answers(ADA, 1);
        let asked = home.last_turn().to_string();
        assert!(!asked.contains("minutes before"), "{asked}");
        let message = home.telegram.message(ADA, ADA).text("long ago");
        message.sent_at(platform_now - 7200).send();
        home.wait_for_answers(ADA, 2);
        let asked = home.last_turn().to_string();
        assert!(asked.contains("120 minutes before"), "{asked}");
        // To an old stop nothing is said.
        let old = home.telegram.message(ADA, ADA).text("/stop");
        old.sent_at(platform_now - 120).send();
        let new = home.telegram.message(ADA, ADA).text("/stop");
        new.sent_at(platform_now).send();
        home.wait_for_answers(ADA, 3);
        let last = home.telegram.message(ADA, ADA).text("last");
        last.sent_at(platform_now).send();
        let answers = home.wait_for_answers(ADA, 4);
        assert!(answers[3].contains("last"), "{answers:?}");
    }
}

#[test]
fn a_limit_in_the_middle_of_a_stream_is_waited_for_and_the_answer_comes_once() {
    let pieces = ["One ", "two ", "three ", "four ", "five ", "six ", "seven"];
    let grows = ScriptedAnswer::pieces(pieces).with(|reply| reply.pause_ms = 800);
    let places = ThreePlatformHome::new(ModelScript::default().rule("count", grows));
    let _gateway = places.start();
    let wait = std::time::Duration::from_secs(3);
    places.say(ChatPlatform::Discord, "count");
    wait_until("it is shown", || {
        !places.answers(ChatPlatform::Discord).is_empty()
    });
    let path = format!("/channels/{}/messages", places.discord_chat);
    places.discord.limit_requests(&path, 1, wait);
    let started = std::time::Instant::now();
    wait_until("the answer", || {
        places.answers(ChatPlatform::Discord) == ["One two three four five six seven"]
    });
    assert!(started.elapsed() >= wait, "{:?}", started.elapsed());
    assert_eq!(places.answers(ChatPlatform::Discord).len(), 1);
}

#[test]
fn what_was_said_between_two_sessions_of_discord_is_fetched() {
    let places = ThreePlatformHome::new(ModelScript::echo());
    let gateway = places.start();
    places.say(ChatPlatform::Discord, "before");
    places.wait_for_answers(ChatPlatform::Discord, 1);
    // The session is over, and what is said until the next one belongs to none.
    places.discord.invalidate_sessions(false);
    wait_until("no session", || places.discord.ready_sockets() == 0);
    places.say(ChatPlatform::Discord, "between");
    wait_until("another session", || places.discord.identifies() == 2);
    let answers = places.wait_for_answers(ChatPlatform::Discord, 2);
    assert!(answers[1].contains("between"), "{answers:?}");
    places.say(ChatPlatform::Discord, "after");
    let answers = places.wait_for_answers(ChatPlatform::Discord, 3);
    assert!(answers[2].contains("after"), "{answers:?}");
    assert_eq!(gateway.platform("discord")["state"], "connected");
}

#[test]
fn what_was_said_between_two_sockets_of_slack_is_fetched_every_time() {
    let places = ThreePlatformHome::new(ModelScript::echo());
    let _gateway = places.start();
    places.say(ChatPlatform::Slack, "before");
    places.wait_for_answers(ChatPlatform::Slack, 1);
    // One gap soon after the other, in each of which the old socket is closed before the next one may be opened.
    for round in 1..=3 {
        let limit = PlatformFault::LimitedByHeader(1);
        places.slack.fail("apps.connections.open", limit);
        places
            .slack
            .disconnect("refresh_requested", std::time::Duration::ZERO);
        wait_until("no socket", || places.slack.open_sockets() == 0);
        places.say(ChatPlatform::Slack, &format!("between {round}"));
        let answers = places.wait_for_answers(ChatPlatform::Slack, round + 1);
        assert!(
            answers[round].contains(&format!("between {round}")),
            "{answers:?}"
        );
    }
}

#[test]
fn a_message_that_comes_before_the_gap_is_fetched_does_not_hide_what_was_said_in_it() {
    let places = ThreePlatformHome::new(ModelScript::echo());
    let _gateway = places.start();
    places.say(ChatPlatform::Slack, "before");
    places.wait_for_answers(ChatPlatform::Slack, 1);
    let limit = PlatformFault::LimitedByHeader(1);
    places.slack.fail("apps.connections.open", limit);
    // Both the look for other chats and that into this one fail the first time.
    for _ in 0..2 {
        let fault = PlatformFault::status(500);
        places.slack.fail("conversations.history", fault);
    }
    places
        .slack
        .disconnect("refresh_requested", std::time::Duration::ZERO);
    wait_until("no socket", || places.slack.open_sockets() == 0);
    places.say(ChatPlatform::Slack, "between");
    wait_until("a socket", || places.slack.open_sockets() == 1);
    places.say(ChatPlatform::Slack, "later");
    let answers = places.wait_for_answers(ChatPlatform::Slack, 3);
    for text in ["before", "between", "later"] {
        let count = answers
            .iter()
            .filter(|answer| answer.contains(text))
            .count();
        assert_eq!(count, 1, "{text}: {answers:?}");
    }
}

#[test]
fn slash_commands_that_could_not_be_registered_are_tried_again_and_people_are_told() {
    let home = ChatHome::new(ModelScript::echo());
    // So often that people are told.
    for _ in 0..3 {
        let fault = PlatformFault::status(500);
        home.telegram.fail("setMyCommands", fault);
    }
    let gateway = home.start();
    let is_told = || {
        let warnings = gateway.platform("telegram")["warnings"].to_string();
        warnings.contains("commands_not_registered")
    };
    wait_until("it is told", is_told);
    // The bot works meanwhile.
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
    wait_until("they are registered", || {
        !home.telegram.commands().is_empty()
    });
    wait_until("it is over", || !is_told());
}

#[test]
fn a_token_that_is_revoked_is_told_and_the_other_platforms_go_on() {
    let places = ThreePlatformHome::new(ModelScript::echo());
    let gateway = places.start();
    places.discord.revoke_token();
    wait_until("it is told", || {
        gateway.platform("discord")["state"] == "fatal"
    });
    assert_eq!(gateway.platform("discord")["error_code"], "bad_token");
    for platform in [ChatPlatform::Telegram, ChatPlatform::Slack] {
        places.say(platform, "hello");
        places.wait_for_answers(platform, 1);
    }
}

#[test]
fn a_refresh_of_slack_and_a_reconnect_of_discord_lose_and_double_nothing() {
    let queue = "display: {busy_input_mode: queue}";
    let places = ThreePlatformHome::with_more(ModelScript::echo(), queue);
    let _gateway = places.start();
    for round in 0..3 {
        places
            .slack
            .disconnect("refresh_requested", std::time::Duration::from_millis(200));
        places.discord.request_reconnect();
        for platform in [ChatPlatform::Slack, ChatPlatform::Discord] {
            places.say(platform, &format!("round {round}."));
        }
    }
    for platform in [ChatPlatform::Slack, ChatPlatform::Discord] {
        let count = |text: &str| {
            let answers = places.answers(platform);
            answers.iter().filter(|it| it.contains(text)).count()
        };
        let rounds = ["round 0.", "round 1.", "round 2."];
        wait_until("the answers", || rounds.iter().all(|it| count(it) > 0));
        places.say(platform, "afterwards");
        wait_until("a later answer", || count("afterwards") > 0);
        let counts = rounds.map(count);
        assert_eq!(counts, [1, 1, 1], "{:?}", places.answers(platform));
    }
}

#[test]
fn stopped_in_the_middle_of_a_tool_it_ends_the_tool_and_goes_on_afterwards() {
    let marker = tempfile::tempdir().unwrap();
    let pid_file = marker.path().join("pid");
    let command = format!("echo $$ > {}; sleep 600", pid_file.display());
    let home = ChatHome::new(ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": command})),
        ScriptedAnswer::text("Good."),
    ]));
    let mut gateway = home.start();
    home.telegram.say(ADA, "hello");
    wait_until("the tool runs", || {
        std::fs::read_to_string(&pid_file).is_ok_and(|text| !text.trim().is_empty())
    });
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.wait(), Some(0));
    let pids = crate::harness::test_home::read_pids(&pid_file);
    crate::harness::test_home::assert_gone(&pids, TIMEOUT);
    let _gateway = home.start();
    assert_only_answer(&home, "Good.");
    let asked = home.turns().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("interrupted"), "{asked}");
}

#[test]
fn a_platform_that_fails_for_a_while_gets_the_answer_once() {
    let home = ChatHome::new(ModelScript::new([ScriptedAnswer::text("Good.")]));
    for fault in [
        PlatformFault::status(502),
        PlatformFault::status(500),
        PlatformFault::LimitedByBody(1),
    ] {
        home.telegram.fail("sendRichMessage", fault);
    }
    let _gateway = home.start();
    home.telegram.say(ADA, "hello");
    assert_only_answer(&home, "Good.");
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn strangers_cause_no_request_and_get_no_answer_on_any_platform() {
    let places = ThreePlatformHome::new(ModelScript::echo());
    let mallory = places.discord.add_user("mallory");
    let discord_chat = places.discord.open_dm(&mallory);
    places.slack.add_user("U2", "mallory");
    let slack_chat = places.slack.direct_channel("U2");
    let _gateway = places.start();
    places.home.telegram.say(EVE, "let me in");
    places.discord.say(&discord_chat, &mallory, "let me in");
    places
        .slack
        .write(&SlackPost::new("U2", &slack_chat, "let me in"));
    for platform in ChatPlatform::ALL {
        places.say(platform, "hello");
        places.wait_for_answers(platform, 1);
    }
    assert_eq!(places.home.turns().len(), 3);
    let asked = places.home.gateway.model.requests();
    let knows = |call: &ModelCall| call.body.to_string().contains("let me in");
    assert!(!asked.iter().any(knows));
    assert_eq!(places.home.telegram.answers(EVE), Vec::<String>::new());
    assert!(places.discord.answers(&discord_chat).is_empty());
    assert!(places.slack.bot_messages(&slack_chat).is_empty());
}

/// The files below a directory, but for what people write their tokens into.
fn written_files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(written_files(&entry.path()));
        } else if kind.is_file() && entry.file_name() != ".env" {
            files.push(entry.path());
        }
    }
    files
}

#[test]
fn no_token_is_written_or_printed_whatever_fails() {
    let mut all = ThreePlatformHome::new(ModelScript::echo());
    let command = all.home.gateway.home.command(&["gateway", "run", "-vv"]);
    let mut gateway = all.home.start_command(command);
    let wait_for_state = |gateway: &GatewayProcess, state: &str| {
        for platform in ChatPlatform::ALL {
            let label = platform.label();
            wait_until(&format!("{label} is {state}"), || {
                gateway.platform(label)["state"] == state
            });
        }
    };
    wait_for_state(&gateway, "connected");
    for platform in ChatPlatform::ALL {
        all.say(platform, "before");
        all.wait_for_answers(platform, 1);
    }
    let refused = json!({"ok": false, "error_code": 500, "description": "failed"});
    let fault = PlatformFault::Status(500, refused);
    all.home.telegram.fail("sendMessage", fault);
    all.home.telegram.go_offline();
    all.discord.go_offline();
    all.slack.stop();
    wait_for_state(&gateway, "reconnecting");
    all.home.telegram.come_back();
    all.discord.come_back();
    all.slack.resume();
    wait_for_state(&gateway, "connected");
    for platform in ChatPlatform::ALL {
        all.say(platform, "after");
        all.wait_for_answers(platform, 2);
    }
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.wait(), Some(0));
    let rest = std::time::Duration::from_millis(100);
    let mut printed = gateway.process.lines_within(rest);
    printed.append(&mut gateway.process.seen);
    assert!(printed.iter().any(|line| line.contains("platform")));
    // Without `-v` there is a file instead.
    let mut gateway = all.start();
    all.home.telegram.go_offline();
    wait_until("Telegram is missed", || {
        gateway.platform("telegram")["state"] == "reconnecting"
    });
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.wait(), Some(0));
    let mut texts: Vec<(String, Vec<u8>)> = written_files(&all.home.gateway.home.path())
        .into_iter()
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    assert!(texts.iter().any(|(path, _)| path.contains("logs/")));
    texts.extend(printed.into_iter().map(|line| (line.clone(), line.into())));
    let env = std::fs::read_to_string(all.home.gateway.home.path().join(".env")).unwrap();
    let tokens = env.lines().filter_map(|line| line.split_once("_TOKEN="));
    let tokens: Vec<&str> = tokens.map(|(_, token)| token).chain([TOKEN]).collect();
    assert_eq!(tokens.len(), 4);
    for (place, bytes) in &texts {
        let text = String::from_utf8_lossy(bytes);
        for token in &tokens {
            assert!(!text.contains(token), "{place} has {token}");
        }
    }
}
