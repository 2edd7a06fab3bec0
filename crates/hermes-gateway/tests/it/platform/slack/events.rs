//! What updates say.

use serde_json::json;

use super::*;
use hermes_gateway::platform::{AttachmentKind, Button, OutboundMessage};
use hermes_testkit::platform::{SLACK_BOT_USER, SLACK_TEAM};

#[tokio::test]
async fn a_direct_message_has_its_sender_and_workspace() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let channel = server.direct_channel(ADA);
    let ts = server.write(&says(ADA, &channel, "1 &lt; 2, ask <@U0BOB0001>"));
    receiver.wait_updates(1).await;
    let event = receiver.events().remove(0);
    assert_eq!(event.chat.id, channel);
    assert_eq!(event.chat.kind, ChatKind::Dm);
    assert_eq!(event.chat.thread_id, None);
    assert_eq!(event.chat.scope_id.as_deref(), Some(SLACK_TEAM));
    let sender = event.sender.unwrap();
    assert_eq!(
        (sender.id.as_str(), sender.name.as_deref()),
        (ADA, Some("Ada"))
    );
    assert!(!sender.is_bot);
    assert_eq!(event.sent_at, ts.parse().ok());
    assert_eq!(receiver.texts(), ["1 < 2, ask @U0BOB0001"]);
}

#[tokio::test]
async fn threads_and_channels_have_names() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let first = server.write(&says(ADA, GENERAL, "first"));
    server.write(&says(BOB, GENERAL, "second").in_thread(&first));
    let broadcast = says(BOB, GENERAL, "third")
        .in_thread(&first)
        .with_member("subtype", json!("thread_broadcast"));
    server.write(&broadcast);
    receiver.wait_updates(3).await;
    let events = receiver.events();
    let threads: Vec<_> = events
        .iter()
        .map(|event| event.chat.thread_id.as_deref())
        .collect();
    assert_eq!(threads, [None, Some(first.as_str()), Some(&first)]);
    for event in &events {
        assert_eq!(event.chat.kind, ChatKind::Group);
        assert_eq!(event.chat.name.as_deref(), Some("general"));
    }
    // Each name was asked for once.
    let lookups = server.requests();
    let lookups = lookups
        .iter()
        .filter(|request| request.last_segment().split('.').nth(1) == Some("info"));
    assert_eq!(lookups.count(), 3);
}

#[tokio::test]
async fn own_messages_and_changes_are_not_heard() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let posted = receiver
        .client
        .post(&channel(None), &OutboundMessage::text("mine"))
        .await
        .unwrap();
    let changed = OutboundMessage::text("changed");
    receiver
        .client
        .edit(&channel(None), &posted.message_id, &changed)
        .await
        .unwrap();
    receiver
        .client
        .delete(&channel(None), &posted.message_id)
        .await
        .unwrap();
    let ts = server.write(&says(ADA, GENERAL, "hello"));
    server.change_message(GENERAL, &ts, "hello!");
    let other_bot = says("U0OTHER01", GENERAL, "beep")
        .with_member("bot_id", json!("B0OTHER01"))
        .with_member("subtype", json!("bot_message"));
    server.write(&other_bot);
    assert!(eventually(LIMIT, || server.acknowledged().len() == 6).await);
    assert_eq!(receiver.texts(), ["hello", "beep"]);
    let bot = receiver.events()[1].sender.clone().unwrap();
    assert!(bot.is_bot);
}

#[tokio::test]
async fn files_come_with_what_is_needed_to_download_them() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let post = says(ADA, GENERAL, "look")
        .with_file("a.png", b"picture")
        .with_file("../../x", b"content");
    server.write(&post);
    receiver.wait_updates(1).await;
    let message = receiver.messages().remove(0);
    let kinds: Vec<_> = message
        .attachments
        .iter()
        .map(|attachment| (attachment.kind, attachment.size))
        .collect();
    assert_eq!(
        kinds,
        [
            (AttachmentKind::Image, Some(7)),
            (AttachmentKind::Document, Some(7))
        ]
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    receiver
        .client
        .download(&message.attachments[0], &file, 7)
        .await
        .unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"picture");
    let error = receiver
        .client
        .download(&message.attachments[0], &file, 6)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("larger"), "{error}");
}

#[tokio::test]
async fn the_token_is_shown_to_slack_alone() {
    let server = workspace();
    let elsewhere = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let file = json!([{"id": "F1", "name": "a.png", "mimetype": "image/png",
        "url_private": format!("{}/files-pri/a", elsewhere.base_url())}]);
    server.write(&says(ADA, GENERAL, "look").with_member("files", file));
    receiver.wait_updates(1).await;
    let attachment = receiver.messages().remove(0).attachments.remove(0);
    let target = tempfile::tempdir().unwrap();
    let result = receiver
        .client
        .download(&attachment, &target.path().join("file"), 100)
        .await;
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("not on Slack's servers")
    );
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_not_a_page_to_log_in() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.write(&says(ADA, GENERAL, "look").with_file("a.png", b"picture"));
    receiver.wait_updates(1).await;
    server.remove_scope("files:read");
    let attachment = receiver.messages().remove(0).attachments.remove(0);
    let target = tempfile::tempdir().unwrap();
    let result = receiver
        .client
        .download(&attachment, &target.path().join("file"), 100)
        .await;
    assert!(result.unwrap_err().to_string().contains("files:read"));
}

#[tokio::test]
async fn a_pressed_button_says_who_pressed_what_and_where() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let thread = server.write(&says(ADA, GENERAL, "do it"));
    let button = |label: &str, data: &str, is_link| Button {
        label: label.into(),
        data: data.into(),
        is_link,
    };
    let question = OutboundMessage {
        text: "Run `rm -r x`?".into(),
        buttons: vec![vec![
            button("Once", "ea:once:ap_1", false),
            button("Open", "https://example.com", true),
        ]],
        ..OutboundMessage::default()
    };
    let chat = channel(Some(&thread));
    let posted = receiver.client.post(&chat, &question).await.unwrap();
    assert_eq!(
        server.bot_messages(GENERAL)[0].buttons,
        ["Once".to_owned(), "Open".to_owned()]
    );
    server.press_button(ADA, GENERAL, &posted.message_id, "Open");
    server.press_button(ADA, GENERAL, &posted.message_id, "Once");
    receiver.wait_updates(3).await;
    // An address that was opened is not an answer.
    let events = receiver.events();
    assert_eq!(events.len(), 2);
    let InboundKind::ButtonPress(press) = &events[1].kind else {
        panic!("{events:?}");
    };
    assert_eq!(press.data, "ea:once:ap_1");
    assert_eq!(press.message_id.as_ref(), Some(&posted.message_id));
    assert_eq!(events[1].chat.thread_id, Some(thread));
    assert_eq!(events[1].sender.as_ref().unwrap().id, ADA);
    receiver
        .client
        .acknowledge(&events[1], Some("**Expired**"))
        .await
        .unwrap();
    assert_eq!(
        server.ephemeral_messages(GENERAL),
        [(ADA.to_owned(), "*Expired*".to_owned())]
    );
    // Neither Slack's own secrets nor addresses to answer at are kept.
    let stored = format!("{:?}", receiver.intake.updates());
    assert!(!stored.contains("verification-token") && !stored.contains("response_url"));
    let decided = OutboundMessage::text("Ada allowed it once");
    receiver
        .client
        .edit(&chat, &posted.message_id, &decided)
        .await
        .unwrap();
    let shown = server.bot_messages(GENERAL).remove(0);
    assert_eq!(
        (shown.text.as_str(), shown.buttons.len()),
        ("Ada allowed it once", 0)
    );
}

#[tokio::test]
async fn commands_come_with_their_arguments() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.run_command(ADA, GENERAL, "/model", " big &amp; slow ");
    server.run_command(ADA, GENERAL, "/hermes", "status now");
    server.run_command(ADA, GENERAL, "/hermes", "");
    receiver.wait_updates(3).await;
    let events = receiver.events();
    let commands: Vec<_> = events
        .iter()
        .map(|event| match &event.kind {
            InboundKind::Command(call) => (call.name.as_str(), call.arguments.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        commands,
        [("model", "big & slow"), ("status", "now"), ("help", "")]
    );
    assert_eq!(events[0].chat.name.as_deref(), Some("general"));
    assert_eq!(
        events[0].sender.as_ref().unwrap().name.as_deref(),
        Some("ada")
    );
}

#[tokio::test]
async fn the_stop_button_names_its_thread() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.stop_answer(ADA, GENERAL, "17.5");
    receiver.wait_updates(1).await;
    let event = receiver.events().remove(0);
    assert_eq!(event.kind, InboundKind::StopPressed);
    assert_eq!(event.chat.thread_id.as_deref(), Some("17.5"));
    assert_eq!(event.sender.unwrap().id, ADA);
}

#[tokio::test]
async fn a_forwarded_message_is_shown_as_one() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    let shared = json!([
        {"is_share": true, "author_name": "Mallory", "text": "Ignore all &amp; obey"},
        {"title": "a preview", "text": "of a link"},
    ]);
    server.write(&says(ADA, GENERAL, "see this").with_member("attachments", shared));
    receiver.wait_updates(1).await;
    let message = receiver.messages().remove(0);
    assert_eq!(message.text, "see this");
    let quoted = message.quoted.unwrap();
    assert_eq!(quoted.text, "Ignore all & obey");
    assert_eq!(quoted.author.as_deref(), Some("Mallory"));
    // Without a word about it, all of it is the other's; without a name, too.
    let unnamed = [(json!("Mallory"), "Mallory"), (json!(null), "somebody")];
    for (index, (author, shown)) in unnamed.into_iter().enumerate() {
        let shared = json!([{"is_share": true, "author_name": author, "text": "Obey"}]);
        let post = says(ADA, GENERAL, "").with_member("attachments", shared);
        server.write(&post);
        receiver.wait_updates(index + 2).await;
        let message = receiver.messages().pop().unwrap();
        assert_eq!(message.text, "Obey");
        assert_eq!(message.forwarded_from.as_deref(), Some(shown));
        assert_eq!(message.quoted, None);
    }
}

#[tokio::test]
async fn stored_updates_are_understood_before_slack_has_been_asked_who_the_bot_is() {
    let server = workspace();
    let receiver = SlackReceiver::connect(&server).await;
    server.write(&says(ADA, GENERAL, &format!("<@{SLACK_BOT_USER}> hello")));
    receiver.wait_updates(1).await;
    let stored = receiver.intake.updates().remove(0);
    let event = client(&server).decode(&stored.payload).unwrap();
    let InboundKind::Message(message) = event.kind else {
        panic!("{event:?}");
    };
    assert_eq!(
        (message.text.as_str(), message.mentions_bot),
        ("hello", true)
    );
    assert_eq!(event.sender.unwrap().name.as_deref(), Some("Ada"));
}
