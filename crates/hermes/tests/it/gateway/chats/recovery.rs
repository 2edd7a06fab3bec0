//! What happens to messages when a gateway ends, in whatever way.

use hermes_testkit::{
    model::ReplyEnding,
    platform::{PlatformFault, SLACK_BOT_USER, SlackPost},
};

use super::{three_platforms::ThreePlatformHome, *};

#[test]
fn what_was_written_while_no_gateway_ran_is_answered() {
    let home = ChatHome::new(ModelScript::echo());
    home.telegram.say(ADA, "anybody there");
    let _gateway = home.start();
    let answers = home.wait_for_answers(ADA, 1);
    assert!(answers[0].contains("anybody there"), "{answers:?}");
}

/// Kills a gateway when this is so, and starts another one.
fn kill_when(
    home: &ChatHome,
    mut gateway: GatewayProcess,
    holds: impl FnMut() -> bool,
) -> GatewayProcess {
    wait_until("the moment to kill it", holds);
    gateway.process.kill();
    home.start()
}

/// The answers to one message, after whatever else might come.
#[track_caller]
fn assert_answered_once(home: &ChatHome, answer: &str) {
    wait_until(answer, || {
        home.telegram.answers(ADA).iter().any(|text| text == answer)
    });
    home.telegram.say(ADA, "/whoami");
    wait_until("a later answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|text| text.contains("7001"))
    });
    let answers = home.telegram.answers(ADA);
    let count = answers.iter().filter(|text| *text == answer).count();
    assert_eq!(count, 1, "{answers:?}");
    assert_eq!(answers.len(), 2, "{answers:?}");
}

#[test]
fn killed_while_the_model_is_asked_it_answers_once() {
    let stalled = ScriptedAnswer::text("Go").with(|reply| reply.ending = ReplyEnding::Stalled);
    let home = ChatHome::new(ModelScript::new([stalled, ScriptedAnswer::text("Good.")]));
    let gateway = home.start();
    home.telegram.say(ADA, "hello");
    let _gateway = kill_when(&home, gateway, || home.turns().len() == 1);
    assert_answered_once(&home, "Good.");
    let asked = home.turns().into_iter().nth(1).unwrap().body["messages"].to_string();
    assert_eq!(asked.matches("\"hello\"").count(), 1, "{asked}");
}

#[test]
fn killed_in_a_turn_that_a_command_began_it_answers_once() {
    let stalled = ScriptedAnswer::text("Go").with(|reply| reply.ending = ReplyEnding::Stalled);
    let home = ChatHome::new(ModelScript::new([stalled, ScriptedAnswer::text("Good.")]));
    let gateway = home.start();
    home.telegram.say(ADA, "/queue hello");
    let _gateway = kill_when(&home, gateway, || home.turns().len() == 1);
    assert_answered_once(&home, "Good.");
}

#[test]
fn killed_while_a_tool_runs_it_goes_on_from_there() {
    let marker = tempfile::tempdir().unwrap();
    let file = marker.path().join("ran");
    let command = format!("echo x >> {}; sleep 600", file.display());
    let home = ChatHome::new(ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": command})),
        ScriptedAnswer::text("Good."),
    ]));
    let gateway = home.start();
    home.telegram.say(ADA, "hello");
    let _gateway = kill_when(&home, gateway, || file.exists());
    assert_answered_once(&home, "Good.");
    let asked = home.turns().into_iter().nth(1).unwrap().body["messages"].to_string();
    assert!(asked.contains("interrupted"), "{asked}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
}

#[test]
fn killed_before_the_answer_is_sent_it_sends_it_without_asking_again() {
    let home = ChatHome::new(ModelScript::new([ScriptedAnswer::text("Good.")]));
    // The platform takes the message and never says so: nothing of it is seen.
    home.telegram
        .fail("sendRichMessage", PlatformFault::Silence);
    let gateway = home.start();
    home.telegram.say(ADA, "hello");
    wait_until("it tries to send", || {
        home.telegram.calls("sendRichMessage") > 0
    });
    drop(gateway);
    let _gateway = home.start();
    assert_answered_once(&home, "Good.");
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn stopped_in_the_middle_of_a_turn_it_continues_by_itself() {
    let stalled = ScriptedAnswer::text("Go").with(|reply| reply.ending = ReplyEnding::Stalled);
    let home = ChatHome::new(ModelScript::new([stalled, ScriptedAnswer::text("Good.")]));
    let mut gateway = home.start();
    home.telegram.say(ADA, "hello");
    wait_until("the model is asked", || home.turns().len() == 1);
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.wait(), Some(0));
    let _gateway = home.start();
    assert_answered_once(&home, "Good.");
}

#[test]
fn an_answer_waits_for_a_platform_that_is_down() {
    let slow = ScriptedAnswer::text("Good.").with(|reply| reply.delay_ms = 500);
    let mut home = ChatHome::new(ModelScript::new([slow]));
    let gateway = home.start();
    home.telegram.say(ADA, "hello");
    wait_until("the model is asked", || home.turns().len() == 1);
    home.telegram.go_offline();
    wait_until("the loss is seen", || {
        gateway.platform("telegram")["state"] == "reconnecting"
    });
    home.telegram.come_back();
    wait_until("it is connected again", || {
        gateway.platform("telegram")["state"] == "connected"
    });
    let answers = home.wait_for_answers(ADA, 1);
    assert!(answers[0].contains("Good."), "{answers:?}");
    assert_eq!(answers.len(), 1);
}

/// The state of a process that can write no file, as on a full disk.
fn fill_disk(gateway: &GatewayProcess) {
    limit_files(gateway, Some(0));
}

#[test]
fn killed_with_an_update_that_it_could_not_store_the_next_one_answers_once() {
    let home = ChatHome::new(ModelScript::new([ScriptedAnswer::text("Good.")]));
    let mut gateway = home.start_with_limits();
    fill_disk(&gateway);
    home.telegram.say(ADA, "hello");
    wait_until("the update cannot be stored", || {
        gateway.platform("telegram")["error_code"] == "storage"
    });
    assert_eq!(home.telegram.waiting_updates().len(), 1);
    gateway.process.kill();
    let _gateway = home.start();
    assert_answered_once(&home, "Good.");
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn killed_between_the_inbox_and_the_model_it_answers_once() {
    let stalled = ScriptedAnswer::text("Go").with(|reply| reply.ending = ReplyEnding::Stalled);
    let script = ModelScript::default()
        .rule("hold the place", stalled)
        .rule("hello", ScriptedAnswer::text("Good."));
    let home = ChatHome::with_more(script, "gateway: {max_concurrent_turns: 1}");
    let gateway = home.start();
    // The only turn that may go on belongs to another chat.
    home.telegram.add_group(-5, "Group");
    let text = format!("@{} hold the place", home.telegram.bot_username());
    home.telegram.message(-5, ADA).text(&text).send();
    wait_until("the model is asked", || home.turns().len() == 1);
    home.telegram.say(ADA, "hello");
    wait_until("it is confirmed to Telegram", || {
        home.telegram.waiting_updates().is_empty()
    });
    assert_eq!(home.turns().len(), 1);
    drop(gateway);
    home.gateway.home.write_config(
        &home
            .config()
            .replace("max_concurrent_turns: 1", "max_concurrent_turns: 4"),
    );
    let _gateway = home.start();
    assert_answered_once(&home, "Good.");
}

#[test]
fn killed_after_chunk_one_of_three_it_sends_the_other_two() {
    let words: Vec<String> = (0..1200).map(|number| format!("word{number:04}")).collect();
    let text = words.join(" ");
    let home = ChatHome::new(ModelScript::new([ScriptedAnswer::text(&text)]));
    // The second chunk is taken by nobody.
    home.telegram
        .fail_after("sendRichMessage", 1, PlatformFault::Silence);
    let gateway = home.start();
    home.telegram.say(ADA, "hello");
    let _gateway = kill_when(&home, gateway, || {
        home.telegram.calls("sendRichMessage") == 2
    });
    let chunks = home.wait_for_answers(ADA, 3);
    assert_eq!(chunks.len(), 3, "{chunks:?}");
    let mut seen = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let (body, number) = chunk.rsplit_once(" (").unwrap();
        assert_eq!(number, format!("{}/3)", index + 1));
        seen.extend(body.split_whitespace().map(str::to_owned));
    }
    assert_eq!(seen, words);
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn killed_in_the_middle_of_a_stream_its_message_becomes_the_answer() {
    let stalled = ScriptedAnswer::text("Go").with(|reply| reply.ending = ReplyEnding::Stalled);
    let script = ModelScript::new([stalled, ScriptedAnswer::text("Good.")]);
    let places = ThreePlatformHome::new(script);
    places.slack.add_channel("C1", "general");
    let mut gateway = places.start();
    let asked = format!("<@{SLACK_BOT_USER}> hello");
    places.slack.write(&SlackPost::new("U1", "C1", &asked));
    let shown = || places.slack.bot_messages("C1");
    wait_until("it is shown", || {
        shown()
            .iter()
            .any(|message| message.is_streaming && message.text == "Go")
    });
    gateway.process.kill();
    let _gateway = places.start();
    wait_until("the answer", || {
        shown().iter().any(|message| message.text == "Good.")
    });
    assert_eq!(shown().len(), 1, "{:?}", shown());
    assert!(!shown()[0].is_streaming);
}
