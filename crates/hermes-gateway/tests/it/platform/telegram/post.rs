//! Messages to chats.

use std::time::Duration;

use hermes_gateway::platform::{
    Button, CommandSpec, OutboundMessage, PlatformClient as _, PostError, TextFormat,
};
use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::*;

fn reply(text: &str, to: i64) -> OutboundMessage {
    OutboundMessage {
        reply_to: Some(to.to_string()),
        ..OutboundMessage::text(text)
    }
}

#[tokio::test]
async fn an_answer_is_rich_and_in_its_place() {
    let server = telegram();
    let question = server.say(ANN, "hi");
    let bot = client(&server);
    let answer = reply("**Done.**\nNow `a<b>`", question);
    let posted = bot.post(&private(ANN), &answer).await.unwrap();
    let message = &server.messages(ANN)[1];
    assert_eq!(message.id.to_string(), posted.message_id);
    assert!(message.is_rich && message.is_from_bot);
    assert_eq!(message.text, "**Done.**  \nNow `a<b>`");
    assert_eq!(message.reply_to, Some(question));
    assert_eq!(posted.warning, None);
}

#[tokio::test]
async fn an_older_server_gets_markdown_and_is_asked_once() {
    let server = telegram();
    server.say(ANN, "hi");
    server.forget_method("sendRichMessage");
    let bot = client(&server);
    for text in ["**One.**", "two"] {
        bot.post(&private(ANN), &OutboundMessage::text(text))
            .await
            .unwrap();
    }
    assert_eq!(server.answers(ANN), ["One.", "two"]);
    assert_eq!(server.calls("sendRichMessage"), 1);
}

#[tokio::test]
async fn cjk_is_never_rich() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    bot.post(&private(ANN), &OutboundMessage::text("**早** 안녕."))
        .await
        .unwrap();
    assert_eq!(server.answers(ANN), ["早 안녕."]);
    assert_eq!(server.calls("sendRichMessage"), 0);
}

#[tokio::test]
async fn a_refused_rich_message_is_sent_as_markdown() {
    let server = telegram();
    server.say(ANN, "hi");
    let wrong = json!({"ok": false, "error_code": 400, "description": "Bad Request: can't parse rich message"});
    server.fail("sendRichMessage", PlatformFault::Status(400, wrong));
    let bot = client(&server);
    bot.post(&private(ANN), &OutboundMessage::text("*a*"))
        .await
        .unwrap();
    assert_eq!(server.answers(ANN), ["a"]);
    assert!(!server.messages(ANN)[1].is_rich);
}

#[tokio::test]
async fn markup_that_cannot_be_parsed_is_reported_and_plain_text_goes() {
    let server = telegram();
    server.say(ANN, "hi");
    server.forget_method("sendRichMessage");
    let wrong = json!({"ok": false, "error_code": 400, "description": "Bad Request: can't parse entities: oops"});
    server.fail("sendMessage", PlatformFault::Status(400, wrong));
    let bot = client(&server);
    let mut message = OutboundMessage::text("**a.**");
    let refused = bot.post(&private(ANN), &message).await.unwrap_err();
    assert!(matches!(refused, PostError::Markup { .. }), "{refused:?}");
    message.format = TextFormat::Plain;
    bot.post(&private(ANN), &message).await.unwrap();
    assert_eq!(server.answers(ANN), ["**a.**"]);
}

#[tokio::test]
async fn a_missing_topic_falls_back_once_and_the_general_one_is_not_named() {
    let server = telegram();
    let bot = client(&server);
    let deploys = server.add_topic(FORUM, "Deploys");
    let message = OutboundMessage::text("x");
    bot.post(&topic(FORUM, deploys), &message).await.unwrap();
    assert_eq!(server.messages(FORUM)[0].topic, Some(deploys));
    bot.post(&topic(FORUM, 1), &message).await.unwrap();
    assert_eq!(server.messages(FORUM)[1].topic, None);
    server.delete_topic(FORUM, deploys);
    let posted = bot.post(&topic(FORUM, deploys), &message).await.unwrap();
    assert!(posted.warning.unwrap().contains(&deploys.to_string()));
    assert_eq!(server.messages(FORUM)[2].topic, None);
    // The typing sign is shown in the general topic only by its number.
    bot.show_typing(&topic(FORUM, 1)).await.unwrap();
    assert_eq!(server.actions(FORUM), [(Some(1), "typing".to_owned())]);
}

#[tokio::test]
async fn a_message_that_is_gone_can_still_be_replied_to() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    bot.post(&private(ANN), &reply("x", 9999)).await.unwrap();
    assert_eq!(server.messages(ANN)[1].reply_to, None);
}

#[tokio::test]
async fn edits_replace_text_and_buttons() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    let mut message = OutboundMessage::text("Allow?");
    message.buttons = vec![vec![
        Button {
            label: "Once".into(),
            data: "ea:once:ap_1".into(),
            is_link: false,
        },
        Button {
            label: "Open".into(),
            data: "https://x.y/".into(),
            is_link: true,
        },
    ]];
    let posted = bot.post(&private(ANN), &message).await.unwrap();
    let id = posted.message_id.parse().unwrap();
    assert_eq!(server.messages(ANN)[1].buttons[0].len(), 2);

    let query = server.press(ANN, ANN, id, "ea:once:ap_1");
    let receiving = ReceivingClient::start(client(&server));
    receiving.wait_updates(2).await;
    let event = receiving.events().remove(1);
    bot.acknowledge(&event, Some("Allowed")).await.unwrap();
    assert_eq!(server.button_answer(&query).as_deref(), Some("Allowed"));
    // Twice does no harm: nobody waits any more.
    let again = bot.acknowledge(&event, None).await;
    assert_eq!(again, Err(PostError::TooLate));

    let done = OutboundMessage::text("Allowed by Ann.");
    let chat = private(ANN);
    for _ in 0..2 {
        // The second changes nothing, which Telegram refuses.
        bot.edit(&chat, &posted.message_id, &done).await.unwrap();
    }
    let shown = &server.messages(ANN)[1];
    assert_eq!(shown.text, "Allowed by Ann.");
    assert_eq!(shown.buttons, Vec::<Vec<(String, String)>>::new());
    bot.delete(&chat, &posted.message_id).await.unwrap();
    bot.delete(&chat, &posted.message_id).await.unwrap();
    assert_eq!(server.messages(ANN).len(), 1);
    let gone = bot.edit(&chat, &posted.message_id, &done).await;
    assert!(matches!(gone, Err(PostError::Refused { .. })), "{gone:?}");
}

#[tokio::test]
async fn each_refusal_says_what_can_be_done() {
    let server = telegram();
    server.say(ANN, "hi");
    server.say(BOB, "hi");
    server.set_blocked(BOB, true);
    let bot = client(&server);
    let message = OutboundMessage::text("x");
    let post = |chat: ChatAddress| {
        let (bot, message) = (&bot, &message);
        async move { bot.post(&chat, message).await.unwrap_err() }
    };
    server.fail("sendRichMessage", PlatformFault::LimitedByBody(60));
    assert_eq!(
        post(private(ANN)).await,
        PostError::RateLimited {
            wait: Duration::from_mins(1)
        }
    );
    server.fail("sendRichMessage", PlatformFault::status(502));
    assert!(post(private(ANN)).await.is_temporary());
    assert!(matches!(
        post(private(BOB)).await,
        PostError::Refused { .. }
    ));
    let new_id = server.migrate_group(GROUP).to_string();
    let group = ChatAddress::new(GROUP.to_string(), ChatKind::Group);
    assert_eq!(post(group).await, PostError::Migrated { new_id });
    let mut wrong = settings(&server);
    wrong.token = Some(Secret::new("1:very-secret".into()));
    let refused = client_with(&wrong).post(&private(ANN), &message).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, PostError::BadToken { .. }), "{refused:?}");
    assert!(!format!("{refused:?}").contains("very-secret"));
}

#[tokio::test]
async fn an_unreachable_server_is_a_temporary_problem_without_the_token() {
    let mut server = telegram();
    let bot = client(&server);
    server.go_offline();
    let chat = private(ANN);
    let error = bot.post(&chat, &OutboundMessage::text("x")).await;
    let error = error.unwrap_err();
    assert!(error.is_temporary());
    assert!(!format!("{error:?} {error}").contains("very-secret"));
}

#[tokio::test]
async fn commands_and_reactions_are_set() {
    let server = telegram();
    let message = server.say(ANN, "hi");
    let bot = client(&server);
    let command = |name| CommandSpec {
        name,
        description: "Does something",
        argument: None,
    };
    let mut commands = vec![command("help"), command("reload-mcp")];
    commands.resize(70, command("stop"));
    bot.register_commands(&commands).await.unwrap();
    assert_eq!(server.commands()[..2], ["help", "reload_mcp"]);
    assert_eq!(server.commands().len(), 60);
    let id = message.to_string();
    bot.react(&private(ANN), &id, "👀").await.unwrap();
    assert_eq!(server.messages(ANN)[0].reactions, ["👀"]);
    bot.react(&private(ANN), &id, "").await.unwrap();
    assert_eq!(server.messages(ANN)[0].reactions, Vec::<String>::new());
}
