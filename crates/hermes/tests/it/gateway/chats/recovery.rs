//! What happens to messages when a gateway ends, in whatever way.

use hermes_testkit::{model::ReplyEnding, platform::PlatformFault};

use super::*;

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

#[test]
fn killed_at_any_moment_every_message_is_answered_once() {
    const ROUNDS: usize = 12;
    let slow = |text: &str| {
        ScriptedAnswer::pieces([text, " ", "done"]).with(|reply| {
            reply.delay_ms = 20;
            reply.pause_ms = 20;
        })
    };
    let mut script = ModelScript::default();
    for round in 0..ROUNDS {
        script = script.rule(&format!("task-{round}."), slow(&format!("answer-{round}.")));
    }
    let home = ChatHome::new(script);
    let mut gateway = home.start();
    let mut in_doubt = 0;
    for round in 0..ROUNDS {
        home.telegram.say(ADA, &format!("task-{round}."));
        // Spread over the whole life of a turn.
        let moment = std::time::Duration::from_millis(u64::try_from(round).unwrap() * 9);
        std::thread::sleep(moment);
        gateway.process.kill();
        in_doubt += unconfirmed_messages(&home);
        gateway = home.start();
        let answer = format!("answer-{round}. done");
        wait_until(&answer, || home.telegram.answers(ADA).contains(&answer));
    }
    let mut answers = home.telegram.answers(ADA);
    let expected: Vec<String> = (0..ROUNDS)
        .map(|round| format!("answer-{round}. done"))
        .collect();
    answers.retain(|answer| answer.starts_with("answer-"));
    let all = answers.len();
    answers.dedup();
    assert_eq!(answers, expected);
    assert!(
        all - expected.len() <= in_doubt,
        "{all} answers, {in_doubt} in doubt"
    );
}

/// Messages that Telegram may have taken without the killed gateway's knowledge. They are posted again, since Telegram
/// cannot tell that it has them.
fn unconfirmed_messages(home: &ChatHome) -> usize {
    let home = hermes_config::Home::at(home.gateway.home.path());
    let counts = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let store = hermes_store::runtime::RuntimeStore::open(&home)
                .await
                .unwrap();
            let counts = store.outbound_counts().await.unwrap();
            store.close().await;
            counts
        });
    usize::try_from(counts.queued).unwrap()
}
