//! Questions of MCP servers to people in a chat.

use hermes_testkit::{Behaviour, Era};

use super::{bridge::Bridge, pressing::SeenMessage, three_platforms::*, *};
use crate::harness::program::entry;

const SURE: &str = "Are you sure?";
const PERSON: &str = "Who are you?";

fn form(message: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "mode": "form", "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    })
}

fn sure_form() -> Value {
    form(SURE, &json!({"sure": {"type": "boolean"}}), &["sure"])
}

fn person_form() -> Value {
    let fields = json!({
        "age": {"type": "integer", "minimum": 1, "maximum": 150},
        "name": {"type": "string"},
    });
    form(PERSON, &fields, &["age", "name"])
}

fn page() -> Value {
    json!({
        "mode": "url", "message": "Please log in.", "elicitationId": "login-1",
        "url": "https://login.example.com/start?next=_a_&b=1",
    })
}

/// A model that has its server ask, whenever somebody writes one of these words.
fn asking() -> ModelScript {
    let ask = |tool: &str, params: &Value| {
        ScriptedAnswer::call(&format!("mcp_kit_{tool}"), &json!({"params": params}))
    };
    let secret = form("Log in", &json!({"token": {"type": "string"}}), &["token"]);
    ModelScript::default()
        .rule("action", ScriptedAnswer::text("Finished."))
        .rule("sure please", ask("elicit", &sure_form()))
        .rule("person please", ask("elicit", &person_form()))
        .rule("secret please", ask("elicit", &secret))
        .rule("page please", ask("elicit_url", &page()))
}

fn servers(era: Era, more: &Value) -> String {
    let mut kit = entry(&Behaviour::new().era(era));
    if let (Some(kit), Some(more)) = (kit.as_object_mut(), more.as_object()) {
        kit.extend(more.clone());
    }
    format!("mcp_servers: {}\n", json!({"kit": kit}))
}

fn asking_home() -> ChatHome {
    ChatHome::with_more(asking(), &servers(Era::Legacy, &json!({})))
}

#[test]
fn a_yes_or_no_is_a_button_on_every_platform_and_the_message_says_who_answered() {
    let home = ThreePlatformHome::with_more(asking(), &servers(Era::Legacy, &json!({})));
    let _gateway = home.start();
    for (platform, person) in [
        (ChatPlatform::Telegram, "Ada"),
        (ChatPlatform::Discord, "bob"),
        (ChatPlatform::Slack, "carol"),
    ] {
        home.say(platform, "sure please");
        let question = home.wait_for_question(platform, SURE);
        assert_eq!(question.labels(), ["Yes", "No", "Decline", "Cancel"]);
        assert!(question.text.contains("kit"), "{}", question.text);
        home.press(platform, &question, "Yes");
        home.wait_for_change(platform, &question.id, &format!("Answered by {person}"));
        wait_until("an answer", || {
            home.answers(platform).contains(&"Finished.".to_owned())
        });
        let result = home.home.results().pop().unwrap();
        assert!(result.contains(r#""action":"accept""#), "{result}");
        assert!(result.contains(r#""sure":true"#), "{result}");
        let mut seen = home.seen(platform).into_iter();
        let closed = seen.find(|message| message.id == question.id).unwrap();
        assert!(closed.buttons.is_empty(), "{closed:?}");
    }
}

#[test]
fn a_form_is_asked_field_by_field_and_a_wrong_answer_is_asked_for_again() {
    // The stateless revision asks in another way.
    let home = ChatHome::with_more(asking(), &servers(Era::Stateless, &json!({})));
    let _gateway = home.start();
    home.telegram.say(ADA, "person please");
    let first = home.wait_for_question("Question 1 of 2: age");
    assert!(first.text.contains(PERSON), "{}", first.text);
    home.telegram.say(ADA, "very old");
    home.wait_for_question("age must be a whole number");
    home.telegram.say(ADA, "200");
    let again = home.wait_for_question("age must be at most 150");
    home.telegram.say(ADA, "36");
    home.wait_for_change(&again.id, "→ 36");
    home.wait_for_question("Question 2 of 2: name");
    home.telegram.say(ADA, "Ada Lovelace");
    let review = home.wait_for_question("Send this to");
    assert!(
        review.text.contains("age: 36\nname: Ada Lovelace"),
        "{}",
        review.text
    );
    home.press_label(&review, "Send");
    let result = home.wait_for_result(1);
    assert!(result.contains(r#""action":"accept""#), "{result}");
    assert!(result.contains(r#""age":36"#), "{result}");
    assert!(result.contains(r#""name":"AdaLovelace""#), "{result}");
    home.wait_for_change(&review.id, "Answered by Ada (Telegram)");
    // The answers went to the server, and were not messages to the model.
    wait_until("an answer", || {
        home.telegram.answers(ADA).contains(&"Finished.".to_owned())
    });
    let asked = home.last_turn();
    let mut messages = asked.as_array().unwrap().iter();
    assert!(!messages.any(|message| message["role"] == "user" && message["content"] == "36"));
}

#[test]
fn a_page_is_a_button_with_its_address_and_done() {
    let home = ThreePlatformHome::with_more(asking(), &servers(Era::Legacy, &json!({})));
    let _gateway = home.start();
    for platform in ChatPlatform::ALL {
        home.say(platform, "page please");
        let question = home.wait_for_question(platform, "Please log in.");
        let address = "https://login.example.com/start?next=_a_";
        assert!(question.text.contains(address), "{}", question.text);
        assert!(
            question.text.contains("Host: login.example.com"),
            "{}",
            question.text
        );
        assert_eq!(
            question.labels(),
            ["Open login.example.com", "Done", "Decline"]
        );
        if platform != ChatPlatform::Slack {
            assert!(question.buttons[0].1.starts_with(address), "{question:?}");
        }
        home.press(platform, &question, "Done");
        home.wait_for_change(platform, &question.id, "Confirmed by");
        wait_until("an answer", || {
            home.answers(platform).contains(&"Finished.".to_owned())
        });
        let result = home.home.results().pop().unwrap();
        assert!(result.contains(r#""action":"accept""#), "{result}");
    }
}

#[test]
fn a_question_can_be_declined_and_left() {
    let home = asking_home();
    let _gateway = home.start();
    home.telegram.say(ADA, "person please");
    let question = home.wait_for_question(PERSON);
    home.press_label(&question, "Decline");
    let result = home.wait_for_result(1);
    assert!(result.contains(r#""action":"decline""#), "{result}");
    home.wait_for_change(&question.id, "Declined by Ada");
    home.telegram.say(ADA, "person please again");
    home.wait_for_question(PERSON);
    home.telegram.say(ADA, "36");
    let second = home.wait_for_question("Question 2 of 2");
    home.telegram.say(ADA, "cancel");
    let result = home.wait_for_result(2);
    assert!(result.contains(r#""action":"cancel""#), "{result}");
    home.wait_for_change(&second.id, "Cancelled by Ada");
    home.telegram.say(ADA, "page please");
    let page = home.wait_for_question("Please log in.");
    home.press_label(&page, "Decline");
    let result = home.wait_for_result(3);
    assert!(result.contains(r#""action":"decline""#), "{result}");
    home.wait_for_change(&page.id, "Declined by Ada");
}

#[test]
fn a_question_ends_with_its_turn() {
    let home = asking_home();
    let gateway = home.start();
    home.telegram.say(ADA, "person please");
    let question = home.wait_for_question(PERSON);
    home.telegram.say(ADA, "/stop");
    home.wait_for_change(&question.id, "No longer needed");
    wait_until("no run", || {
        gateway.get("/health/detailed")["queues"]["runs"] == 0
    });
    // What is written next is a message like others.
    home.telegram.say(ADA, "sure please");
    let question = home.wait_for_question(SURE);
    let told = home.press_label(&question, "No");
    assert_eq!(told, "Done.");
    wait_until("an answer", || {
        home.telegram.answers(ADA).contains(&"Finished.".to_owned())
    });
}

#[test]
fn a_question_that_nobody_answers_expires_and_is_cancelled() {
    let more = json!({"elicitation": {"timeout": 2}});
    let home = ChatHome::with_more(asking(), &servers(Era::Legacy, &more));
    let _gateway = home.start();
    home.telegram.say(ADA, "person please");
    let result = home.wait_for_result(1);
    assert!(result.contains(r#""action":"cancel""#), "{result}");
    wait_until("it says so", || {
        let seen = home.seen();
        seen.iter()
            .any(|message| message.text.contains(PERSON) && message.text.contains("Expired"))
    });
}

#[test]
fn a_question_of_an_earlier_process_has_expired() {
    let home = asking_home();
    let mut gateway = home.start();
    home.telegram.say(ADA, "sure please");
    let question = home.wait_for_question(SURE);
    gateway.process.kill();
    let _gateway = home.start();
    let told = home.press_label(&question, "Yes");
    assert!(told.contains("expired"), "{told}");
    home.wait_for_change(&question.id, "expired");
}

#[test]
fn whoever_may_not_decide_does_not_answer_and_ends_nothing() {
    let more = servers(Era::Legacy, &json!({}));
    let home = ChatHome::with_more(
        asking(),
        &format!("{more}telegram: {{allow_admin_from: ['9']}}"),
    );
    let _gateway = home.start();
    home.telegram.say(ADA, "person please");
    let question = home.wait_for_question(PERSON);
    home.telegram.say(ADA, "36");
    wait_until("it waits", || {
        home.telegram
            .answers(ADA)
            .contains(&"Queued, place 1.".to_owned())
    });
    let told = home.press_label(&question, "Decline");
    assert!(told.contains("may not"), "{told}");
    let seen = home.seen();
    let shown = seen.iter().find(|message| message.id == question.id);
    assert!(!shown.unwrap().buttons.is_empty(), "{shown:?}");
    assert!(home.results().is_empty());
}

/// What is open at the bridge, as soon as that is one.
fn wait_for_one_open(bridge: &mut Bridge) -> Value {
    let mut open = Value::Null;
    wait_until("the bridge sees it", || {
        open = bridge.call("permissions_list_open", &json!({}));
        open["count"] == 1
    });
    open
}

#[test]
fn a_question_is_a_row_that_the_bridge_and_the_api_see() {
    let home = asking_home();
    let gateway = home.start();
    let mut bridge = Bridge::open(&home);
    home.telegram.say(ADA, "person please");
    let question = home.wait_for_question(PERSON);
    let open = wait_for_one_open(&mut bridge);
    let row = &open["approvals"][0];
    assert_eq!(row["kind"], "mcp");
    assert!(row["command"].as_str().unwrap().contains(PERSON), "{row}");
    assert_eq!(row["session_key"], format!("agent:main:telegram:dm:{ADA}"));
    // Nobody can say yes to what is not filled in.
    let id = row["id"].as_str().unwrap();
    let refused = bridge.call(
        "permissions_respond",
        &json!({"id": id, "decision": "allow-once"}),
    );
    assert!(
        refused["error"].as_str().unwrap().contains("form"),
        "{refused}"
    );
    home.telegram.say(ADA, "/approve");
    wait_until("a hint", || {
        let answers = home.telegram.answers(ADA);
        answers
            .iter()
            .any(|text| text.contains("waits for its answers"))
    });
    let run = home.gateway.run_of_approval(id);
    let path = format!("/v1/runs/{run}/approval");
    let (status, refused) = gateway.post(&path, &json!({"choice": "once"}));
    assert_eq!(status, 400, "{refused}");
    let (status, decided) = gateway.post(&path, &json!({"choice": "deny"}));
    assert_eq!(status, 200, "{decided}");
    let result = home.wait_for_result(1);
    assert!(result.contains(r#""action":"decline""#), "{result}");
    home.wait_for_change(&question.id, "Declined by api");
    // The defaults of another form are enough for a yes from elsewhere.
    home.telegram.say(ADA, "sure please");
    let question = home.wait_for_question(SURE);
    let open = wait_for_one_open(&mut bridge);
    let id = &open["approvals"][0]["id"];
    let decided = bridge.call(
        "permissions_respond",
        &json!({"id": id, "decision": "allow-once"}),
    );
    assert_eq!(decided["resolved"], true, "{decided}");
    let result = home.wait_for_result(2);
    assert!(result.contains(r#""sure":true"#), "{result}");
    home.wait_for_change(&question.id, "Answered by mcp");
}

#[test]
fn in_a_group_a_reply_answers_and_a_secret_is_never_asked_for() {
    const GROUP: i64 = -5002;
    let home = asking_home();
    home.telegram.set_privacy_mode(false);
    home.telegram.add_group(GROUP, "Team");
    let _gateway = home.start();
    let name = home.telegram.bot_username();
    let say = |text: &str| home.telegram.message(GROUP, ADA).text(text).send();
    say(&format!("@{name} person please"));
    let question = home.wait_for_question_in(GROUP, "Question 1 of 2: age");
    // Talk is not an answer, and what strangers write is not either.
    say("35");
    let reply = |user: i64, question: &SeenMessage, text: &str| {
        let to = question.id.parse().unwrap();
        let message = home.telegram.message(GROUP, user).text(text);
        message.reply_to(to).send()
    };
    reply(EVE, &question, "34");
    reply(ADA, &question, "36");
    let second = home.wait_for_question_in(GROUP, "Question 2 of 2: name");
    let told = home.press_label_as(GROUP, EVE, &second, "Decline");
    assert!(told.contains("may not"), "{told}");
    reply(ADA, &second, "Ada");
    let review = home.wait_for_question_in(GROUP, "Send this to");
    assert!(review.text.contains("age: 36\nname: Ada"), "{review:?}");
    // A word that is waited for needs no mention.
    say("yes");
    let result = home.wait_for_result(1);
    assert!(result.contains(r#""action":"accept""#), "{result}");
    say(&format!("@{name} secret please"));
    let result = home.wait_for_result(2);
    assert!(result.contains(r#""action":"decline""#), "{result}");
    wait_until("it says why", || {
        let answers = home.telegram.answers(GROUP);
        answers.iter().any(|text| text.contains("secret"))
    });
}
