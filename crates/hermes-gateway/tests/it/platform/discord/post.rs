//! What is sent, and what Discord says to it.

use std::time::{Duration, Instant};

use hermes_gateway::platform::{
    AttachmentKind, Button, ChatAddress, ChatKind, CommandSpec, InboundKind, OutboundFile,
    OutboundMessage, PlatformClient as _, PostError,
};
use hermes_testkit::platform::PlatformFault;
use serde_json::json;

use super::{DiscordFixture, DiscordReceiver};

fn button(label: &str, data: &str) -> Button {
    Button {
        label: label.into(),
        data: data.into(),
        is_link: false,
    }
}

#[tokio::test]
async fn a_message_is_a_reply_that_calls_nobody() {
    let place = DiscordFixture::new();
    let asked = place.say("who?");
    let message = OutboundMessage {
        reply_to: Some(asked.clone()),
        ..OutboundMessage::text(format!("<@{}> @everyone **bold**", place.ada))
    };
    let posted = place.client().post(&place.chat(), &message).await.unwrap();
    let seen = &place.server.answers(&place.channel)[0];
    assert_eq!(seen.id, posted.message_id);
    assert_eq!(seen.text, message.text);
    assert_eq!(seen.reply_to.as_ref(), Some(&asked));
    assert_eq!(seen.mentions, Vec::<String>::new());
    let body = &place.server.requests().pop().unwrap().body;
    assert_eq!(
        body["allowed_mentions"],
        json!({"parse": [], "replied_user": false})
    );
    assert_eq!(body["message_reference"]["fail_if_not_exists"], false);
}

#[tokio::test]
async fn the_same_nonce_posts_one_message() {
    let place = DiscordFixture::new();
    let client = place.client();
    let message = OutboundMessage {
        nonce: Some("out-1234567890-1234567890-and-more".into()),
        ..OutboundMessage::text("once")
    };
    let one = client.post(&place.chat(), &message).await.unwrap();
    let two = client.post(&place.chat(), &message).await.unwrap();
    assert_eq!(one, two);
    assert_eq!(place.server.answers(&place.channel).len(), 1);
    let body = &place.server.requests().pop().unwrap().body;
    assert_eq!(body["nonce"], "out-1234567890-1234567890");
    assert_eq!(body["enforce_nonce"], true);
    // A preview that nobody remembers becomes the answer.
    let whole = OutboundMessage {
        text: "once and for all".into(),
        ..message
    };
    let three = client.post(&place.chat(), &whole).await.unwrap();
    assert_eq!(three, one);
    let seen = place.server.answers(&place.channel);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].text, "once and for all");
}

#[tokio::test]
async fn edits_replace_text_and_buttons_and_messages_go() {
    let place = DiscordFixture::new();
    let client = place.client();
    let message = OutboundMessage {
        buttons: vec![vec![
            button("Once", "ea:once:ap_1"),
            button("Deny", "ea:deny:ap_1"),
        ]],
        ..OutboundMessage::text("Run it?")
    };
    let id = client
        .post(&place.chat(), &message)
        .await
        .unwrap()
        .message_id;
    let seen = &place.server.answers(&place.channel)[0];
    let targets: Vec<&str> = seen
        .buttons
        .iter()
        .map(|button| button.target.as_str())
        .collect();
    assert_eq!(targets, ["ea:once:ap_1", "ea:deny:ap_1"]);

    let decided = OutboundMessage::text("Approved by ada");
    client.edit(&place.chat(), &id, &decided).await.unwrap();
    let seen = &place.server.answers(&place.channel)[0];
    assert_eq!(
        (seen.text.as_str(), seen.buttons.len(), seen.is_edited),
        ("Approved by ada", 0, true)
    );

    client.delete(&place.chat(), &id).await.unwrap();
    assert!(place.server.answers(&place.channel).is_empty());
    let gone = client.edit(&place.chat(), &id, &decided).await.unwrap_err();
    let reason = "Discord API error (404): Unknown Message".into();
    assert_eq!(gone, PostError::Refused { reason });
}

#[tokio::test]
async fn links_are_buttons_that_open_an_address() {
    let place = DiscordFixture::new();
    let message = OutboundMessage {
        buttons: vec![vec![
            Button {
                is_link: true,
                ..button("Open", "https://example.org/form")
            },
            button("Done", "el:done:1"),
        ]],
        ..OutboundMessage::text("Please log in")
    };
    place.client().post(&place.chat(), &message).await.unwrap();
    let buttons = &place.server.answers(&place.channel)[0].buttons;
    assert!(buttons[0].is_link && buttons[0].target == "https://example.org/form");
    assert!(!buttons[1].is_link);
}

#[tokio::test]
async fn a_pressed_button_is_confirmed_and_whoever_pressed_gets_the_notice() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    let message = OutboundMessage {
        buttons: vec![vec![button("Once", "ea:once:ap_1")]],
        ..OutboundMessage::text("Run it?")
    };
    let client = &receiver.client;
    let id = client
        .post(&place.chat(), &message)
        .await
        .unwrap()
        .message_id;
    let token = place
        .server
        .press(&place.channel, &id, "ea:once:ap_1", &place.ada);
    let event = receiver.event().await;
    let InboundKind::ButtonPress(press) = &event.kind else {
        panic!("{event:?}");
    };
    assert_eq!(
        (press.data.as_str(), press.message_id.as_ref()),
        ("ea:once:ap_1", Some(&id))
    );
    assert_eq!(event.sender.as_ref().unwrap().id, place.ada);

    client.acknowledge(&event, None).await.unwrap();
    assert_eq!(place.server.interaction(&token).callback, Some(6));
    // What is to be said later goes to whoever pressed it, too.
    client.acknowledge(&event, Some("expired")).await.unwrap();
    assert_eq!(place.server.interaction(&token).notices, ["expired"]);

    let other = place
        .server
        .press(&place.channel, &id, "ea:once:ap_1", &place.ada);
    receiver.wait_updates(2).await;
    let event = &receiver.events()[1];
    client
        .acknowledge(event, Some("not for you"))
        .await
        .unwrap();
    let answer = place.server.interaction(&other);
    assert_eq!(
        (answer.callback, &answer.notices[..]),
        (Some(4), &["not for you".to_owned()][..])
    );
}

#[tokio::test]
async fn a_button_that_waited_too_long_is_a_refusal() {
    let place = DiscordFixture::new();
    place.server.set_interaction_timeout(Duration::ZERO);
    let receiver = DiscordReceiver::connect(&place).await;
    place
        .server
        .use_command(&place.channel, &place.ada, "stop", &json!({}));
    let event = receiver.event().await;
    let error = receiver.client.acknowledge(&event, None).await.unwrap_err();
    assert!(matches!(error, PostError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_command_leaves_nothing_to_see_without_a_notice() {
    let place = DiscordFixture::new();
    let receiver = DiscordReceiver::connect(&place).await;
    let token = place
        .server
        .use_command(&place.channel, &place.ada, "new", &json!({}));
    let event = receiver.event().await;
    receiver.client.acknowledge(&event, None).await.unwrap();
    let answer = place.server.interaction(&token);
    // Deferred, and the placeholder is gone.
    assert_eq!((answer.callback, answer.notices.len()), (Some(0), 0));
    assert!(place.server.answers(&place.channel).is_empty());
}

#[tokio::test]
async fn files_go_out_together_with_their_text() {
    let place = DiscordFixture::new();
    let directory = tempfile::tempdir().unwrap();
    let files = ["a.png", "b \"x\".txt"].map(|name| {
        let path = directory.path().join(name.replace('"', "_"));
        std::fs::write(&path, name).unwrap();
        OutboundFile {
            path,
            kind: AttachmentKind::Document,
            name: name.into(),
        }
    });
    let mut message = OutboundMessage {
        files: files.to_vec(),
        ..OutboundMessage::text("two files")
    };
    let client = place.client();
    client.post(&place.chat(), &message).await.unwrap();
    let seen = &place.server.answers(&place.channel)[0];
    assert_eq!(seen.text, "two files");
    assert_eq!(seen.files, ["a.png", "b \"x\".txt"]);
    assert_eq!(place.server.file("a.png").unwrap(), b"a.png");

    place.server.set_max_file_bytes(3);
    let error = client.post(&place.chat(), &message).await.unwrap_err();
    let reason = "Discord API error (413): Request entity too large".into();
    assert_eq!(error, PostError::Refused { reason });
    message.files[0].path = directory.path().join("missing");
    let error = client.post(&place.chat(), &message).await.unwrap_err();
    assert!(matches!(error, PostError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_limited_channel_waits_and_another_goes_on() {
    let place = DiscordFixture::new();
    let other = place.server.add_channel(&place.guild, "other");
    let other = ChatAddress::new(other, ChatKind::Group);
    let client = place.client();
    let path = format!("/channels/{}/messages", place.channel);
    place
        .server
        .limit_requests(&path, 1, Duration::from_mins(1));
    let message = OutboundMessage::text("hello");
    let error = client.post(&place.chat(), &message).await.unwrap_err();
    let PostError::RateLimited { wait } = error else {
        panic!("{error:?}");
    };
    assert!(wait > Duration::from_secs(59));
    // It is not tried again before the time has come.
    let before = place.server.requests().len();
    let error = client.post(&place.chat(), &message).await.unwrap_err();
    assert!(matches!(error, PostError::RateLimited { .. }), "{error:?}");
    assert_eq!(place.server.requests().len(), before);
    client.post(&other, &message).await.unwrap();
    // Nor is the typing sign of the same channel held up: it has a limit of its own.
    client.show_typing(&place.chat()).await.unwrap();
    assert_eq!(place.server.typing_count(&place.channel), 1);
}

#[tokio::test]
async fn the_headers_say_when_a_bucket_is_empty() {
    let place = DiscordFixture::new();
    place.server.set_message_limit(2, Duration::from_secs(1));
    let client = place.client();
    let started = Instant::now();
    let mut limited = 0;
    for number in 0..5 {
        let message = OutboundMessage::text(format!("{number}"));
        while let Err(error) = client.post(&place.chat(), &message).await {
            let PostError::RateLimited { wait } = error else {
                panic!("{error:?}");
            };
            limited += 1;
            tokio::time::sleep(wait).await;
        }
    }
    assert!(limited >= 2);
    assert!(started.elapsed() >= Duration::from_secs(2));
    let texts: Vec<String> = place
        .server
        .answers(&place.channel)
        .into_iter()
        .map(|message| message.text)
        .collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4"]);
    // No request was refused: the client did not send what would have been.
    let path = format!("/channels/{}/messages", place.channel);
    let requests = place.server.requests();
    assert_eq!(
        requests
            .iter()
            .filter(|request| request.path == path)
            .count(),
        5
    );
}

#[tokio::test]
async fn the_limit_of_the_whole_bot_stops_every_channel() {
    let place = DiscordFixture::new();
    let client = place.client();
    place.server.limit_globally(Duration::from_mins(1));
    let message = OutboundMessage::text("hello");
    client.post(&place.chat(), &message).await.unwrap_err();
    let other = ChatAddress::new("1", ChatKind::Group);
    let error = client.post(&other, &message).await.unwrap_err();
    assert!(matches!(error, PostError::RateLimited { .. }), "{error:?}");
}

#[tokio::test]
async fn failures_are_told_apart() {
    let place = DiscordFixture::new();
    let client = place.client();
    let message = OutboundMessage::text("hello");
    place.server.fail("/messages", PlatformFault::status(502));
    let error = client.post(&place.chat(), &message).await.unwrap_err();
    assert!(error.is_temporary(), "{error:?}");
    place.server.forbid_channel(&place.channel);
    let error = client.post(&place.chat(), &message).await.unwrap_err();
    let reason = "Discord API error (403): Missing Permissions".into();
    assert_eq!(error, PostError::Refused { reason });
    let unknown = ChatAddress::new("404404", ChatKind::Group);
    let error = client.post(&unknown, &message).await.unwrap_err();
    let reason = "Discord API error (404): Unknown Channel".into();
    assert_eq!(error, PostError::Refused { reason });
    let long = OutboundMessage::text("x".repeat(2001));
    let other = place.server.add_channel(&place.guild, "other");
    let other = ChatAddress::new(other, ChatKind::Group);
    let error = client.post(&other, &long).await.unwrap_err();
    let reason = "Discord API error (400): Invalid Form Body: Must be 2000 or fewer in length.";
    assert_eq!(
        error,
        PostError::Refused {
            reason: reason.into()
        }
    );
    place.server.revoke_token();
    let error = client.post(&other, &message).await.unwrap_err();
    assert!(matches!(error, PostError::BadToken { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("very-secret"));
}

#[tokio::test]
async fn a_thread_is_opened_on_a_message_once() {
    let place = DiscordFixture::new();
    let client = place.client();
    let asked = place.say("A question");
    let mut chat = place.chat();
    chat.name = Some("Team / #general".into());
    let name = format!("A question {}\nmore", "x".repeat(200));
    let thread = client
        .open_thread(&chat, &asked, &name)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(thread.kind, ChatKind::Thread);
    assert_eq!(thread.parent_id.as_ref(), Some(&place.channel));
    let threads = place.server.threads(&place.channel);
    assert_eq!(threads[0].0, thread.id);
    assert_eq!(threads[0].1.chars().count(), 100);
    client
        .post(&thread, &OutboundMessage::text("An answer"))
        .await
        .unwrap();
    assert_eq!(place.server.answers(&thread.id)[0].text, "An answer");
    // After a lost reply the same is asked again.
    let again = client
        .open_thread(&chat, &asked, &name)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.id, thread.id);
    // A thread has no threads.
    assert_eq!(client.open_thread(&thread, &asked, "x").await, Ok(None));
}

#[tokio::test]
async fn in_a_forum_a_message_opens_a_thread() {
    let place = DiscordFixture::new();
    let forum = place.server.add_forum(&place.guild, "ideas");
    let client = place.client();
    for kind in [ChatKind::Forum, ChatKind::Group] {
        let chat = ChatAddress::new(&forum, kind);
        let message = OutboundMessage {
            nonce: Some("n".into()),
            ..OutboundMessage::text("# An idea\nwith text")
        };
        let posted = client.post(&chat, &message).await.unwrap();
        assert!(posted.warning.is_some());
        let thread = &posted.message_id;
        assert!(
            place
                .server
                .threads(&forum)
                .contains(&(thread.clone(), "An idea".to_owned()))
        );
        assert_eq!(place.server.answers(thread)[0].text, message.text);
    }
}

#[tokio::test]
async fn reactions_typing_commands_and_channels() {
    let place = DiscordFixture::new();
    let client = place.client();
    let asked = place.say("hello");
    client.react(&place.chat(), &asked, "👀").await.unwrap();
    assert_eq!(place.server.messages(&place.channel)[0].reactions, ["👀"]);
    let commands = [
        CommandSpec {
            name: "new",
            description: "Begins a new conversation",
            argument: Some("Title"),
        },
        CommandSpec {
            name: "reload-mcp",
            description: "Reads the servers again",
            argument: None,
        },
    ];
    client.register_commands(&commands).await.unwrap();
    assert_eq!(place.server.commands(), ["new", "reload-mcp"]);
    place.server.add_forum(&place.guild, "ideas");
    let channels = client.list_channels().await.unwrap();
    let listed: Vec<(&str, &str, Option<&str>)> = channels
        .iter()
        .map(|channel| {
            (
                channel.name.as_str(),
                channel.kind.as_str(),
                channel.guild.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        listed,
        [
            ("general", "channel", Some("Team")),
            ("ideas", "forum", Some("Team"))
        ]
    );
}
