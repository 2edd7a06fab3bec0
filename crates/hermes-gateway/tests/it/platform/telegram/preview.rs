//! Growing answers.

use hermes_gateway::platform::{
    InboundEvent, InboundKind, OutboundMessage, PlatformClient as _, PostError, TaskState,
};
use hermes_testkit::{eventually, eventually_some, platform::PlatformFault};
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_private_chat_sees_a_draft_that_becomes_the_message() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    let chat = private(ANN);
    let mut preview = bot.open_preview(&chat, None).await.unwrap().unwrap();
    let draft = server.drafts(ANN).remove(0);
    assert_eq!(draft.text, "");
    assert!(draft.can_stop && draft.id != 0);
    preview.update("Hal").await.unwrap();
    preview
        .update_task("1", "Reading a file", TaskState::InProgress)
        .await
        .unwrap();
    let shows = |words: &str| {
        server
            .drafts(ANN)
            .iter()
            .any(|draft| draft.text.contains(words))
    };
    assert!(eventually(LIMIT, || shows("Hal") && shows("⏳ Reading a file")).await);
    preview.update("Hallo").await.unwrap();
    assert!(eventually(LIMIT, || shows("Hallo")).await);
    let message = OutboundMessage::text("Hallo.");
    // The draft vanishes with the message, which the gateway posts.
    assert_eq!(preview.finish(&message).await.unwrap(), None);
    bot.post(&chat, &message).await.unwrap();
    assert_eq!(server.drafts(ANN), []);
    assert_eq!(server.answers(ANN), ["Hallo."]);
    assert_eq!(server.calls("sendMessageDraft"), 1);
}

#[tokio::test]
async fn every_answer_has_a_draft_of_its_own_in_its_topic() {
    let server = telegram();
    let notes = server.add_topic(ANN, "Notes");
    let bot = client(&server);
    let mut chat = private(ANN);
    let _first = bot.open_preview(&chat, None).await.unwrap().unwrap();
    chat.thread_id = Some(notes.to_string());
    let _second = bot.open_preview(&chat, None).await.unwrap().unwrap();
    let drafts = server.drafts(ANN);
    assert_eq!(drafts[0].topic, None);
    assert_eq!(drafts[1].topic, Some(notes));
    assert_ne!(drafts[0].id, drafts[1].id);
}

#[tokio::test]
async fn a_draft_stays_while_nothing_changes() {
    let server = telegram();
    server.say(ANN, "hi");
    let opened = client(&server).open_preview(&private(ANN), None).await;
    let mut preview = opened.unwrap().unwrap();
    preview.update("Thinking").await.unwrap();
    let revisions = || {
        server
            .drafts(ANN)
            .first()
            .map_or(0, |draft| draft.revisions)
    };
    assert!(eventually(LIMIT, || revisions() >= 4).await);
    preview.discard().await;
}

#[tokio::test]
async fn groups_and_older_servers_have_none() {
    let server = telegram();
    server.say(ANN, "hi");
    let bot = client(&server);
    let group = ChatAddress::new(GROUP.to_string(), ChatKind::Group);
    assert!(bot.open_preview(&group, None).await.unwrap().is_none());
    server.forget_method("sendMessageDraft");
    for _ in 0..2 {
        let opened = bot.open_preview(&private(ANN), None).await.unwrap();
        assert!(opened.is_none());
    }
    assert_eq!(server.calls("sendMessageDraft"), 1);
}

#[tokio::test]
async fn a_server_without_rich_drafts_gets_markdown() {
    let server = telegram();
    server.say(ANN, "hi");
    server.forget_method("sendRichMessageDraft");
    let bot = client(&server);
    let opened = bot.open_preview(&private(ANN), None).await.unwrap();
    let mut preview = opened.unwrap();
    preview.update("**Half** of `it").await.unwrap();
    let shows = || {
        server
            .drafts(ANN)
            .iter()
            .any(|draft| draft.text == "Half of `it")
    };
    assert!(eventually(LIMIT, shows).await, "{:?}", server.drafts(ANN));
    preview.update("**Half** of `it`, and").await.unwrap();
    let shows = || {
        server
            .drafts(ANN)
            .iter()
            .any(|draft| draft.text == "Half of it, and")
    };
    assert!(eventually(LIMIT, shows).await);
    assert_eq!(server.calls("sendRichMessageDraft"), 1);
    preview.discard().await;
}

#[tokio::test]
async fn a_long_answer_shows_its_end() {
    let server = telegram();
    server.say(ANN, "hi");
    let opened = client(&server).open_preview(&private(ANN), None).await;
    let mut preview = opened.unwrap().unwrap();
    let long = format!("{}the end", "早word ".repeat(3000));
    preview.update(&long).await.unwrap();
    let shows = || {
        server
            .drafts(ANN)
            .iter()
            .any(|draft| draft.text.ends_with("the end"))
    };
    assert!(eventually(LIMIT, shows).await);
}

#[tokio::test]
async fn a_limit_delays_a_draft_and_a_refusal_ends_it() {
    let server = telegram();
    server.say(ANN, "hi");
    let opened = client(&server).open_preview(&private(ANN), None).await;
    let mut preview = opened.unwrap().unwrap();
    server.fail("sendRichMessageDraft", PlatformFault::LimitedByBody(1));
    preview.update("one").await.unwrap();
    assert!(eventually(LIMIT, || server.calls("sendRichMessageDraft") == 1).await);
    preview.update("two").await.unwrap();
    let shows = || server.drafts(ANN).iter().any(|draft| draft.text == "two");
    assert!(eventually(LIMIT, shows).await);
    let blocked = json!({"ok": false, "error_code": 403, "description": "Forbidden: bot was blocked by the user"});
    server.fail("sendRichMessageDraft", PlatformFault::Status(403, blocked));
    preview.update("three").await.unwrap();
    let refused = eventually_some(LIMIT, async || preview.update("four").await.err()).await;
    assert!(
        matches!(refused, Some(PostError::Refused { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_stop_button_is_an_event() {
    let server = telegram();
    let receiving = ReceivingClient::start(client(&server));
    server.say(ANN, "hi");
    receiving.wait_updates(1).await;
    let bot = &receiving.client;
    let _preview = bot
        .open_preview(&private(ANN), None)
        .await
        .unwrap()
        .unwrap();
    assert!(server.press_stop(ANN));
    receiving.wait_updates(2).await;
    let event = receiving.events().remove(1);
    assert_eq!(event.kind, InboundKind::StopPressed);
    assert_eq!(event.chat.id, ANN.to_string());
}

#[tokio::test]
async fn a_stop_below_an_answer_that_is_over_is_no_event() {
    let server = telegram();
    let receiving = ReceivingClient::start(client(&server));
    server.say(ANN, "hi");
    receiving.wait_updates(1).await;
    let bot = &receiving.client;
    let chat = private(ANN);
    let mut over = bot.open_preview(&chat, None).await.unwrap().unwrap();
    assert!(server.press_stop(ANN));
    receiving.wait_updates(2).await;
    over.finish(&OutboundMessage::text("done")).await.unwrap();
    let _next = bot.open_preview(&chat, None).await.unwrap().unwrap();
    let is_stop = |event: &InboundEvent| event.kind == InboundKind::StopPressed;
    assert!(!receiving.events().iter().any(is_stop));
    assert!(server.press_stop(ANN));
    receiving.wait_updates(3).await;
    let stops = receiving.events().into_iter().filter(is_stop).count();
    assert_eq!(stops, 1);
}
