//! Messages, files, reactions and statuses out.

use super::*;
use hermes_gateway::platform::{
    AttachmentKind, Button, OutboundFile, OutboundMessage, PostError, TextFormat,
};
use hermes_testkit::platform::PlatformFault;

#[tokio::test]
async fn markdown_is_posted_in_slacks_markup_into_the_thread() {
    let server = workspace();
    let client = client(&server);
    let message = OutboundMessage::text("**bold** & <b>");
    let posted = client.post(&channel(Some("17.5")), &message).await.unwrap();
    let shown = server.bot_messages(GENERAL).remove(0);
    assert_eq!(shown.text, "*bold* &amp; &lt;b&gt;");
    assert_eq!(shown.thread_ts.as_deref(), Some("17.5"));
    assert_eq!(shown.ts, posted.message_id);
    let plain = OutboundMessage {
        format: TextFormat::Plain,
        ..message
    };
    client
        .edit(&channel(None), &posted.message_id, &plain)
        .await
        .unwrap();
    let shown = server.bot_messages(GENERAL).remove(0);
    assert_eq!(shown.text, "**bold** &amp; &lt;b&gt;");
}

#[tokio::test]
async fn a_message_that_was_posted_is_found_by_its_nonce() {
    let server = workspace();
    let client = client(&server);
    let parent = server.write(&says(ADA, GENERAL, "hello"));
    let mut found = Vec::new();
    for (chat, nonce) in [(channel(None), "n1"), (channel(Some(&parent)), "n2")] {
        let message = OutboundMessage {
            nonce: Some(nonce.into()),
            ..OutboundMessage::text("once")
        };
        let posted = client.post(&chat, &message).await.unwrap();
        let seen = client.find_posted(&chat, nonce, 0.0).await.unwrap();
        assert_eq!(seen, Some(posted.message_id));
        found.push(client.find_posted(&chat, "n3", 0.0).await.unwrap());
    }
    assert_eq!(found, [None, None]);
    let chat = channel(None);
    let later = client.find_posted(&chat, "n1", 9_000_000_000.0).await;
    assert_eq!(later.unwrap(), None);
}

#[tokio::test]
async fn a_user_is_written_to_in_their_conversation() {
    let server = workspace();
    let client = client(&server);
    let chat = ChatAddress::new(ADA, ChatKind::Dm);
    for text in ["one", "two"] {
        client
            .post(&chat, &OutboundMessage::text(text))
            .await
            .unwrap();
    }
    assert_eq!(server.bot_messages(&server.direct_channel(ADA)).len(), 2);
    let opened = server.requests();
    let opened = opened
        .iter()
        .filter(|request| request.path.ends_with("conversations.open"));
    assert_eq!(opened.count(), 1);
}

#[tokio::test]
async fn files_are_uploaded_as_one_message_with_its_text() {
    let server = workspace();
    let client = client(&server);
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        OutboundFile {
            path,
            kind: AttachmentKind::Document,
            name: name.into(),
        }
    };
    let message = OutboundMessage {
        text: "**two** files".into(),
        files: vec![file("a.txt", "aaa"), file("b.txt", "b")],
        ..OutboundMessage::default()
    };
    client.post(&channel(Some("17.5")), &message).await.unwrap();
    let shown = server.bot_messages(GENERAL).remove(0);
    assert_eq!(shown.files, ["a.txt", "b.txt"]);
    assert_eq!(shown.text, "*two* files");
    assert_eq!(shown.thread_ts.as_deref(), Some("17.5"));
    let uploads = server.requests();
    let uploads: Vec<_> = uploads
        .iter()
        .filter(|request| request.path.starts_with("/upload/"))
        .collect();
    assert_eq!(uploads[0].bytes, b"aaa");
    assert!(
        uploads
            .iter()
            .all(|request| request.authorization.is_none())
    );

    let gone = OutboundMessage {
        files: vec![OutboundFile {
            path: directory.path().join("gone"),
            kind: AttachmentKind::Document,
            name: "gone".into(),
        }],
        ..OutboundMessage::default()
    };
    let error = client.post(&channel(None), &gone).await.unwrap_err();
    assert!(matches!(error, PostError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn errors_say_what_can_be_done() {
    let server = workspace();
    let client = client(&server);
    let chat = channel(None);
    let message = OutboundMessage::text("hi");
    let mut results = Vec::new();
    for fault in [
        PlatformFault::LimitedByHeader(60),
        PlatformFault::status(503),
        PlatformFault::NotOk("internal_error".into()),
        PlatformFault::NotOk("unknown_method".into()),
        PlatformFault::NotOk("is_archived".into()),
        PlatformFault::NotOk("token_revoked".into()),
    ] {
        server.fail("chat.postMessage", fault);
        results.push(client.post(&chat, &message).await.unwrap_err());
    }
    assert_eq!(
        results[0],
        PostError::RateLimited {
            wait: Duration::from_mins(1)
        }
    );
    assert!(matches!(results[1], PostError::Temporary { .. }));
    assert!(matches!(results[2], PostError::Temporary { .. }));
    assert_eq!(results[3], PostError::Unsupported);
    assert!(matches!(&results[4], PostError::Refused { reason } if reason.contains("is_archived")));
    assert!(matches!(results[5], PostError::BadToken { .. }));
    // One request each: waiting is the outbox's.
    assert_eq!(server.requests().len(), results.len());
    for error in results {
        assert!(!format!("{error} {error:?}").contains("very-secret"));
    }
    server.remove_scope("chat:write");
    let error = client.post(&chat, &message).await.unwrap_err().to_string();
    assert!(error.contains("`chat:write`"), "{error}");
}

#[tokio::test]
async fn a_markdown_block_that_slack_refuses_costs_only_the_block() {
    let server = workspace();
    let client = client(&server);
    let refused = || PlatformFault::NotOk("invalid_blocks".into());
    server.fail("chat.postMessage", refused());
    let message = OutboundMessage::text("**bold**");
    let posted = client.post(&channel(None), &message).await.unwrap();
    let shown = || server.bot_messages(GENERAL).remove(0);
    assert_eq!((shown().text.as_str(), shown().markdown), ("*bold*", None));
    server.fail("chat.update", refused());
    let (id, other) = (posted.message_id, OutboundMessage::text("**other**"));
    client.edit(&channel(None), &id, &other).await.unwrap();
    assert_eq!((shown().text.as_str(), shown().markdown), ("*other*", None));
    // Buttons are not given up, but the format may be.
    server.fail("chat.update", refused());
    let with_button = OutboundMessage {
        buttons: vec![vec![Button::stop()]],
        ..message
    };
    let error = client.edit(&channel(None), &id, &with_button).await;
    assert!(matches!(error, Err(PostError::Markup { .. })), "{error:?}");
}

#[tokio::test]
async fn a_long_answer_can_be_edited() {
    let server = workspace();
    let client = client(&server);
    let first = OutboundMessage::text("…");
    let posted = client.post(&channel(None), &first).await.unwrap();
    let text = "**word** & <!here> ".repeat(500);
    assert!(text.len() < client.limits().message);
    for format in [TextFormat::Markdown, TextFormat::Plain] {
        let message = OutboundMessage {
            format,
            ..OutboundMessage::text(&text)
        };
        client
            .edit(&channel(None), &posted.message_id, &message)
            .await
            .unwrap();
        let shown = server.bot_messages(GENERAL).remove(0);
        assert_eq!(shown.markdown.is_some(), format == TextFormat::Markdown);
        assert!(!shown.calls_many());
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_passing_failure() {
    let mut server = workspace();
    let client = client(&server);
    server.stop();
    let error = client
        .post(&channel(None), &OutboundMessage::text("hi"))
        .await
        .unwrap_err();
    assert!(error.is_temporary(), "{error:?}");
    assert!(!error.to_string().contains("http"), "{error}");
}

#[tokio::test]
async fn reactions_are_added_once() {
    let server = workspace();
    let client = client(&server);
    let ts = server.write(&says(ADA, GENERAL, "hello"));
    for reaction in ["👀", "👀", ":tada:"] {
        client.react(&channel(None), &ts, reaction).await.unwrap();
    }
    assert_eq!(server.messages(GENERAL)[0].reactions, ["eyes", "tada"]);
}

#[tokio::test]
async fn what_is_gone_need_not_be_deleted() {
    let server = workspace();
    let client = client(&server);
    let posted = client
        .post(&channel(None), &OutboundMessage::text("hi"))
        .await
        .unwrap();
    for _ in 0..2 {
        client
            .delete(&channel(None), &posted.message_id)
            .await
            .unwrap();
    }
    assert_eq!(server.bot_messages(GENERAL), []);
}

#[tokio::test]
async fn a_thread_shows_that_the_bot_is_at_work_until_it_answers() {
    let server = workspace();
    let client = client(&server);
    let chat = channel(Some("17.5"));
    let status = || server.session_status(GENERAL, "17.5");
    client.show_typing(&chat).await.unwrap();
    client.show_typing(&chat).await.unwrap();
    assert_eq!(status().as_deref(), Some("processing"));
    // Slack keeps it, so it is not said again.
    assert_eq!(server.requests().len(), 1);
    client
        .post(&chat, &OutboundMessage::text("done"))
        .await
        .unwrap();
    assert_eq!(status().as_deref(), Some("active"));
    // Outside of threads there is no such sign.
    client.show_typing(&channel(None)).await.unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn an_older_slack_gets_the_older_status_or_none() {
    let server = workspace();
    server.forget_method("agents.sessions.setStatus");
    let client = client(&server);
    let chat = channel(Some("17.5"));
    client.show_typing(&chat).await.unwrap();
    assert_eq!(
        server.session_status(GENERAL, "17.5").as_deref(),
        Some("is thinking…")
    );
    server.forget_method("assistant.threads.setStatus");
    for _ in 0..3 {
        client.show_typing(&chat).await.unwrap();
    }
    let methods: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.last_segment().to_owned())
        .collect();
    assert_eq!(
        methods,
        [
            "agents.sessions.setStatus",
            "assistant.threads.setStatus",
            "assistant.threads.setStatus",
        ]
    );
}

#[tokio::test]
async fn without_an_app_token_messages_can_be_sent() {
    let server = workspace();
    let mut settings = settings(&server);
    settings.app_token = None;
    let client = client_with(&settings, timeouts());
    client
        .post(&direct(&server, ADA), &OutboundMessage::text("hi"))
        .await
        .unwrap();
    assert_eq!(server.bot_messages(&server.direct_channel(ADA)).len(), 1);
}
