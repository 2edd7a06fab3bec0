//! All the ways in which an approval of a chat is decided, or is not.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{bridge::Bridge, three_platforms::*, *};

/// A command that needs approval, whose outcome shows whether it ran.
fn remove(name: &str) -> ScriptedAnswer {
    let command = format!("rm -r /tmp/none-of-the-tests/{name}");
    ScriptedAnswer::call("terminal", &json!({"command": command}))
}

/// A model that wants to remove something, whenever somebody writes one of these words.
fn removing() -> ModelScript {
    ModelScript::default()
        .rule("remove apples", remove("apples"))
        .rule("remove pears", remove("pears"))
        .rule("remove plums", remove("plums"))
}

fn removing_home(more: &str) -> ChatHome {
    ChatHome::with_more(removing(), &format!("approvals: {{timeout: 60}}\n{more}"))
}

impl ChatHome {
    /// What the model was told about a command, in whichever conversation.
    fn outcome_of(&self, name: &str) -> Option<String> {
        let turns = self.turns();
        turns.iter().rev().find_map(|turn| {
            let messages = turn.body["messages"].as_array()?;
            let is_asked = |message: &&Value| message["tool_calls"].to_string().contains(name);
            let asked = messages.iter().rposition(|message| is_asked(&message))?;
            Some(messages.get(asked + 1)?["content"].to_string())
        })
    }

    #[track_caller]
    fn wait_for_outcome(&self, name: &str) -> String {
        wait_until(name, || self.outcome_of(name).is_some());
        self.outcome_of(name).unwrap()
    }

    fn waits(&self, name: &str) -> bool {
        let seen = self.seen();
        seen.iter()
            .any(|message| message.text.contains(name) && !message.buttons.is_empty())
    }
}

fn is_refused(outcome: &str) -> bool {
    outcome.contains("not approved")
}

#[test]
fn of_two_requests_each_button_decides_its_own() {
    let home = removing_home("");
    let _gateway = home.start();
    home.telegram.say(ADA, "remove apples");
    let apples = home.wait_for_question("apples");
    home.telegram.say(ADA, "/background remove pears");
    let pears = home.wait_for_question("pears");
    home.press_label(&pears, "Deny");
    assert!(is_refused(&home.wait_for_outcome("pears")));
    home.wait_for_change(&pears.id, "Denied by Ada (Telegram)");
    assert!(home.waits("apples"), "{:?}", home.seen());
    home.press_label(&apples, "Once");
    assert!(!is_refused(&home.wait_for_outcome("apples")));
    home.wait_for_change(&apples.id, "Allowed once by Ada (Telegram)");
}

#[test]
fn approve_takes_the_oldest_and_all_takes_all() {
    let home = removing_home("");
    let _gateway = home.start();
    home.telegram.say(ADA, "remove apples");
    home.wait_for_question("apples");
    home.telegram.say(ADA, "/background remove pears");
    home.wait_for_question("pears");
    home.telegram.say(ADA, "/approve");
    assert!(!is_refused(&home.wait_for_outcome("apples")));
    assert!(home.waits("pears"), "{:?}", home.seen());
    home.telegram.say(ADA, "/background remove plums");
    home.wait_for_question("plums");
    home.telegram.say(ADA, "/deny all too late");
    for name in ["pears", "plums"] {
        let outcome = home.wait_for_outcome(name);
        assert!(is_refused(&outcome), "{outcome}");
        assert!(outcome.contains("too late"), "{outcome}");
    }
}

#[test]
fn an_approval_of_a_chat_is_decided_over_the_api() {
    let home = removing_home("");
    let gateway = home.start();
    let mut bridge = Bridge::open(&home);
    home.telegram.say(ADA, "remove apples");
    let request = home.wait_for_question("apples");
    let mut open = Value::Null;
    wait_until("the bridge sees it", || {
        open = bridge.call("permissions_list_open", &json!({}));
        open["count"] == 1
    });
    let id = open["approvals"][0]["id"].as_str().unwrap();
    let run = home.gateway.run_of_approval(id);
    let decision = json!({"choice": "deny", "approval_id": id, "reason": "not over my dead body"});
    let (status, decided) = gateway.post(&format!("/v1/runs/{run}/approval"), &decision);
    assert_eq!(
        (status, &decided["resolved"]),
        (200, &json!(1)),
        "{decided}"
    );
    let outcome = home.wait_for_outcome("apples");
    assert!(outcome.contains("not over my dead body"), "{outcome}");
    home.wait_for_change(&request.id, "Denied by api");
}

#[test]
fn a_request_that_nobody_answers_expires_and_the_model_is_told() {
    let home = ChatHome::with_more(removing(), "approvals: {timeout: 2}");
    let _gateway = home.start();
    home.telegram.say(ADA, "remove apples");
    let outcome = home.wait_for_outcome("apples");
    assert!(outcome.contains("nobody answered within 2 s"), "{outcome}");
    let expired = || {
        let mut seen = home.seen().into_iter();
        seen.find(|message| message.text.contains("Expired: nobody answered in time"))
    };
    wait_until("it says so", || expired().is_some());
    assert!(expired().unwrap().buttons.is_empty());
}

#[test]
fn the_message_says_on_every_platform_who_decided() {
    let home = ThreePlatformHome::with_more(removing(), "approvals: {timeout: 60}");
    let _gateway = home.start();
    for (platform, by) in [
        (ChatPlatform::Telegram, "Ada (Telegram), "),
        (ChatPlatform::Discord, "bob (Discord), "),
        (ChatPlatform::Slack, "carol (Slack), "),
    ] {
        home.say(platform, "remove apples");
        let request = home.wait_for_question(platform, "apples");
        assert_eq!(request.labels(), ["Once", "Session", "Always", "Deny"]);
        home.press(platform, &request, "Session");
        let expected = format!("Allowed for this session by {by}");
        home.wait_for_change(platform, &request.id, &expected);
        let mut seen = home.seen(platform).into_iter();
        let closed = seen.find(|message| message.id == request.id).unwrap();
        assert!(closed.buttons.is_empty(), "{closed:?}");
    }
}

#[test]
fn a_long_command_is_shown_whole_where_messages_are_short() {
    let long = format!("rm -r /tmp/none-of-the-tests/{}end", "long/".repeat(600));
    let script = ModelScript::default().rule(
        "remove",
        ScriptedAnswer::call("terminal", &json!({"command": long})),
    );
    let home = ThreePlatformHome::with_more(script, "approvals: {timeout: 60}");
    let _gateway = home.start();
    home.say(ChatPlatform::Discord, "remove it");
    let request = home.wait_for_question(ChatPlatform::Discord, "Press a button");
    let seen = home.seen(ChatPlatform::Discord);
    let shown: usize = seen
        .iter()
        .map(|message| message.text.matches("long/").count())
        .sum();
    // One of them may be cut in two.
    assert!(shown >= 598, "{shown}");
    assert!(seen.iter().any(|message| message.text.contains("/end")));
    home.press(ChatPlatform::Discord, &request, "Deny");
    home.wait_for_change(ChatPlatform::Discord, &request.id, "Denied by bob");
}

#[test]
fn a_stranger_who_presses_is_refused() {
    const GROUP: i64 = -5003;
    let home = removing_home("");
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    let asked = format!("@{name} remove apples");
    home.telegram.message(GROUP, ADA).text(&asked).send();
    let request = home.wait_for_question_in(GROUP, "apples");
    let told = home.press_label_as(GROUP, EVE, &request, "Once");
    assert_eq!(told, "You may not use this bot.");
    home.telegram.message(GROUP, EVE).text("yes").send();
    // Without a mention: the word is waited for.
    home.telegram.message(GROUP, ADA).text("no").send();
    let outcome = home.wait_for_outcome("apples");
    assert!(is_refused(&outcome), "{outcome}");
    wait_until("who decided", || {
        let seen = home.seen_in(GROUP);
        seen.iter()
            .any(|message| message.text.contains("Denied by Ada"))
    });
}

#[test]
fn words_allow_once_in_the_session_and_always() {
    let home = removing_home("");
    let _gateway = home.start();
    home.telegram.say(ADA, "remove apples");
    let request = home.wait_for_question("apples");
    home.telegram.say(ADA, "Session");
    home.wait_for_change(&request.id, "Allowed for this session by Ada");
    home.telegram.say(ADA, "/background remove pears");
    let request = home.wait_for_question("pears");
    home.telegram.say(ADA, "always");
    home.wait_for_change(&request.id, "Allowed from now on by Ada");
    assert!(!is_refused(&home.wait_for_outcome("pears")));
    wait_until("it is written down", || {
        home.config().contains("command_allowlist")
    });
    home.telegram.say(ADA, "/background remove plums");
    let request = home.wait_for_question("plums");
    home.telegram.say(ADA, "n");
    home.wait_for_change(&request.id, "Denied by Ada");
    assert!(is_refused(&home.wait_for_outcome("plums")));
}

#[test]
fn what_was_said_more_than_a_minute_ago_approves_nothing() {
    let home = removing_home("");
    let _gateway = home.start();
    home.telegram.say(ADA, "remove apples");
    let request = home.wait_for_question("apples");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let before = now.as_secs() - 120;
    for old in ["yes", "/approve", "always"] {
        let message = home.telegram.message(ADA, ADA).text(old);
        message.sent_at(before).send();
    }
    home.telegram.say(ADA, "/whoami");
    wait_until("what came before was taken", || {
        let answers = home.telegram.answers(ADA);
        answers.iter().any(|text| text.contains(&ADA.to_string()))
    });
    assert!(home.waits("apples"), "{:?}", home.seen());
    home.telegram.say(ADA, "/deny");
    home.wait_for_change(&request.id, "Denied by Ada");
    assert!(is_refused(&home.wait_for_outcome("apples")));
}
