//! Approvals in a chat.

use super::*;

fn with_command(more: &str) -> ChatHome {
    let script = ModelScript::new([
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "rm -r /tmp/none-of-the-tests"}),
        ),
        ScriptedAnswer::text("Finished."),
        ScriptedAnswer::text("A title"),
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "rm -r /tmp/none-of-the-tests"}),
        ),
        ScriptedAnswer::text("Finished again."),
    ]);
    ChatHome::with_more(script, &format!("approvals: {{timeout: 60}}\n{more}"))
}

impl ChatHome {
    /// The message of a request, as it is now.
    fn request(&self) -> Option<hermes_testkit::platform::TelegramMessage> {
        let mut messages = self.telegram.messages(ADA).into_iter();
        messages.rfind(|message| message.text.contains("rm -r"))
    }

    fn wait_for_request(&self) -> hermes_testkit::platform::TelegramMessage {
        wait_until("a request", || {
            self.request()
                .is_some_and(|message| !message.buttons.is_empty())
        });
        self.request().unwrap()
    }

    fn told(&self) -> String {
        self.last_turn().to_string()
    }
}

#[test]
fn a_button_decides_and_the_message_says_who_did() {
    let home = with_command("");
    let _gateway = home.start();
    home.telegram.say(ADA, "clean up");
    let request = home.wait_for_request();
    let labels: Vec<&str> = request
        .buttons
        .iter()
        .flatten()
        .map(|(label, _)| label.as_str())
        .collect();
    assert_eq!(labels, ["Once", "Session", "Always", "Deny"]);
    let deny = &request.buttons[1][0].1;
    assert!(
        deny.starts_with("ea:deny:ap_") && deny.len() <= 64,
        "{deny}"
    );
    let pressed = home.telegram.press(ADA, ADA, request.id, deny);
    wait_until("it is confirmed", || {
        home.telegram.button_answer(&pressed).is_some()
    });
    wait_until("an answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|text| text == "Finished.")
    });
    wait_until("the message is changed", || {
        home.request()
            .is_some_and(|message| message.buttons.is_empty())
    });
    let text = home.request().unwrap().text;
    assert!(text.contains("Denied by Ada (Telegram), "), "{text}");
    let told = home.turns().into_iter().nth(1).unwrap().body["messages"].to_string();
    assert!(
        told.contains("denied") || told.contains("not approved"),
        "{told}"
    );
}

#[test]
fn words_and_commands_decide_too() {
    let home = with_command("");
    let _gateway = home.start();
    home.telegram.say(ADA, "clean up");
    home.wait_for_request();
    home.telegram.say(ADA, "yes");
    wait_until("an answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|text| text == "Finished.")
    });
    wait_until("the message is changed", || {
        home.request()
            .is_some_and(|message| message.text.contains("Allowed once by Ada"))
    });
    // The word was not a message to the model.
    assert!(!home.told().contains("\"yes\""), "{}", home.told());
    wait_until("a title", || home.gateway.model.requests().len() == 3);
    home.telegram.say(ADA, "once more");
    wait_until("another request", || {
        home.request()
            .is_some_and(|message| !message.buttons.is_empty())
    });
    home.telegram.say(ADA, "/deny not today");
    wait_until("an answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|text| text == "Finished again.")
    });
    assert!(home.told().contains("not today"), "{}", home.told());
}

#[test]
fn a_request_that_waits_over_a_restart_has_expired_and_the_turn_goes_on() {
    let home = with_command("");
    let mut gateway = home.start();
    home.telegram.say(ADA, "clean up");
    let request = home.wait_for_request();
    gateway.process.kill();
    let _gateway = home.start();
    // The turn goes on: the call has no result, and the model answers.
    wait_until("an answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|text| text == "Finished.")
    });
    let pressed = home
        .telegram
        .press(ADA, ADA, request.id, &request.buttons[0][0].1);
    wait_until("it is confirmed", || {
        home.telegram.button_answer(&pressed).is_some()
    });
    assert!(
        home.telegram
            .button_answer(&pressed)
            .unwrap()
            .contains("expired")
    );
    wait_until("the message says so", || {
        let shown = home.telegram.messages(ADA);
        shown
            .iter()
            .any(|message| message.id == request.id && message.text.contains("expired"))
    });
    let finished = home
        .telegram
        .answers(ADA)
        .iter()
        .filter(|text| *text == "Finished.")
        .count();
    assert_eq!(finished, 1);
}

#[test]
fn a_button_gives_no_more_rights_than_a_command() {
    let home = with_command("telegram: {allow_admin_from: ['9']}");
    let _gateway = home.start();
    home.telegram.say(ADA, "clean up");
    let request = home.wait_for_request();
    let always = &request.buttons[0][2].1;
    let pressed = home.telegram.press(ADA, ADA, request.id, always);
    wait_until("it is confirmed", || {
        home.telegram.button_answer(&pressed).is_some()
    });
    let told = home.telegram.button_answer(&pressed).unwrap();
    assert!(told.contains("may not"), "{told}");
    assert!(
        !home.request().unwrap().buttons.is_empty(),
        "it still waits"
    );
}
