//! Answers that grow.

use super::*;
use hermes_gateway::platform::{
    Button, LivePreview, OutboundMessage, PostError, Sender, TaskState, TextFormat,
};
use hermes_testkit::platform::{PlatformFault, SlackMessage};

/// What Ada asked in the channel.
fn question(thread: &str) -> InboundEvent {
    InboundEvent {
        chat: channel(Some(thread)),
        sender: Some(Sender {
            id: ADA.into(),
            ..Sender::default()
        }),
        sent_at: None,
        kind: InboundKind::Message(Box::default()),
    }
}

/// A stream in the thread of a question.
async fn open(server: &SlackServer, client: &SlackClient) -> (String, Box<dyn LivePreview>) {
    let thread = server.write(&says(ADA, GENERAL, "ask"));
    let event = question(&thread);
    let preview = client
        .open_preview(&event.chat, Some(&event))
        .await
        .unwrap();
    (thread, preview.unwrap())
}

fn shown(server: &SlackServer) -> SlackMessage {
    let mut messages = server.bot_messages(GENERAL);
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

fn count(server: &SlackServer, method: &str) -> usize {
    let requests = server.requests();
    let matching = requests
        .iter()
        .filter(|request| request.last_segment() == method);
    matching.count()
}

#[tokio::test]
async fn an_answer_grows_with_its_tasks_and_becomes_the_message() {
    let server = workspace();
    let client = client(&server);
    let (thread, mut preview) = open(&server, &client).await;
    assert!(shown(&server).is_streaming);
    preview.update("one").await.unwrap();
    assert_eq!(shown(&server).text, "one");
    preview
        .update_task("t1", "search", TaskState::InProgress)
        .await
        .unwrap();
    preview.update("one two").await.unwrap();
    preview
        .update_task("t1", "search", TaskState::Complete)
        .await
        .unwrap();
    let button = Button {
        label: "More".into(),
        data: "more".into(),
        is_link: false,
    };
    let answer = OutboundMessage {
        text: "one two **three**".into(),
        buttons: vec![vec![button]],
        ..OutboundMessage::default()
    };
    let posted = preview.finish(&answer).await.unwrap().unwrap();
    let message = shown(&server);
    assert_eq!(message.text, "one two **three**");
    assert_eq!(message.ts, posted.message_id);
    assert_eq!(message.thread_ts, Some(thread));
    assert_eq!(
        message.tasks,
        [("search".to_owned(), "complete".to_owned())]
    );
    assert_eq!(message.buttons, ["More"]);
    assert!(!message.is_streaming);
}

#[tokio::test]
async fn what_comes_fast_is_joined() {
    let server = workspace();
    let slow = SlackTimeouts {
        stream_interval: Duration::from_mins(1),
        ..timeouts()
    };
    let client = client_with(&settings(&server), slow);
    let (_, mut preview) = open(&server, &client).await;
    let mut text = String::new();
    for _ in 0..100 {
        text.push_str("0123456789");
        preview.update(&text).await.unwrap();
    }
    // The first piece at once, then 256 characters each.
    assert_eq!(count(&server, "chat.appendStream"), 4);
    preview.finish(&OutboundMessage::text(&text)).await.unwrap();
    assert_eq!(shown(&server).text, text);
}

/// What models write, and what people must not be called by.
const RICH: &str = "# Title\n\n**bold** and [a link](https://a.b/?c=1&d=2)\n\n- one\n- two\n\n\
    | a | b |\n|---|---|\n| 1 < 2 | `x` |\n\n```rust\nlet a: &str = \"<!here>\";\n```\n\
    <@U0ADA0001> is asked, <!channel> and <!subteam^S1|@all> are not";

#[tokio::test]
async fn an_answer_looks_the_same_streamed_replaced_and_posted() {
    let mut forms = Vec::new();
    for way in ["streamed", "written anew", "posted", "edited"] {
        let server = workspace();
        let client = client(&server);
        let answer = OutboundMessage::text(RICH);
        match way {
            "posted" => {
                client.post(&channel(None), &answer).await.unwrap();
            }
            "edited" => {
                let first = OutboundMessage::text("first");
                let chat = channel(None);
                let posted = client.post(&chat, &first).await.unwrap();
                let edit = client.edit(&chat, &posted.message_id, &answer);
                edit.await.unwrap();
            }
            _ => {
                let (_, mut preview) = open(&server, &client).await;
                if way == "written anew" {
                    preview.update("something else").await.unwrap();
                }
                preview.finish(&answer).await.unwrap();
            }
        }
        let message = shown(&server);
        assert!(!message.calls_many(), "{way}: {message:?}");
        forms.push(message.markdown.unwrap());
    }
    let expected = RICH.replace("<!", "&lt;!");
    assert_eq!(forms, vec![expected; 4]);
}

#[tokio::test]
async fn a_call_to_everyone_that_comes_in_two_pieces_is_none() {
    let server = workspace();
    let client = client(&server);
    let (_, mut preview) = open(&server, &client).await;
    let (first, whole) = ("now <", "now <!channel> and 1 <");
    preview.update(first).await.unwrap();
    assert_eq!(shown(&server).markdown.as_deref(), Some("now "));
    preview.update(whole).await.unwrap();
    preview.finish(&OutboundMessage::text(whole)).await.unwrap();
    let message = shown(&server);
    assert!(!message.calls_many());
    let expected = "now &lt;!channel> and 1 <";
    assert_eq!(message.markdown.as_deref(), Some(expected));
}

#[tokio::test]
async fn a_stream_that_is_too_long_for_slack_is_finished_by_an_edit() {
    let server = workspace();
    let client = client(&server);
    let (_, mut preview) = open(&server, &client).await;
    preview.update("one").await.unwrap();
    server.fail(
        "chat.appendStream",
        PlatformFault::NotOk("msg_too_long".into()),
    );
    let text = "one ".repeat(client.limits().message / 4);
    preview.update(&text).await.unwrap();
    preview.finish(&OutboundMessage::text(&text)).await.unwrap();
    assert_eq!(shown(&server).markdown.as_deref(), Some(text.trim()));
}

#[tokio::test]
async fn a_plain_answer_is_not_read_as_markdown() {
    let server = workspace();
    let client = client(&server);
    let (_, mut preview) = open(&server, &client).await;
    let answer = OutboundMessage {
        format: TextFormat::Plain,
        ..OutboundMessage::text("a *b* <c>")
    };
    preview.finish(&answer).await.unwrap();
    let message = shown(&server);
    assert_eq!(message.text, "a *b* &lt;c&gt;");
    assert_eq!(message.markdown, None);
}

#[tokio::test]
async fn an_answer_that_was_written_anew_replaces_the_stream() {
    let server = workspace();
    let client = client(&server);
    let (_, mut preview) = open(&server, &client).await;
    preview.update("a first try").await.unwrap();
    preview.update("another").await.unwrap();
    assert_eq!(shown(&server).text, "a first try");
    let posted = preview
        .finish(&OutboundMessage::text("another **one**"))
        .await
        .unwrap();
    let message = shown(&server);
    assert_eq!(message.text, "another *one*");
    assert_eq!(Some(message.ts), posted.map(|posted| posted.message_id));
}

#[tokio::test]
async fn a_stream_that_somebody_stopped_is_finished_by_an_edit() {
    let server = workspace();
    let client = client(&server);
    let (thread, mut preview) = open(&server, &client).await;
    preview.update("one").await.unwrap();
    server.stop_answer(ADA, GENERAL, &thread);
    preview.update("one two").await.unwrap();
    preview.update("one two three").await.unwrap();
    preview
        .finish(&OutboundMessage::text("one two (stopped)"))
        .await
        .unwrap();
    assert_eq!(shown(&server).text, "one two (stopped)");
    assert_eq!(count(&server, "chat.appendStream"), 2);
}

#[tokio::test]
async fn a_limit_in_the_middle_is_borne_and_at_the_end_reported() {
    let server = workspace();
    let client = client(&server);
    let (_, mut preview) = open(&server, &client).await;
    preview.update("one").await.unwrap();
    server.fail("chat.appendStream", PlatformFault::LimitedByHeader(60));
    preview.update("one two").await.unwrap();
    // Nothing more is tried before the limit is over, however much there is.
    preview.update(&"one two three ".repeat(50)).await.unwrap();
    for state in [TaskState::InProgress, TaskState::Failed] {
        preview.update_task("t1", "search", state).await.unwrap();
    }
    assert_eq!(count(&server, "chat.appendStream"), 2);
    server.fail("chat.stopStream", PlatformFault::LimitedByHeader(60));
    let answer = OutboundMessage::text("one two three");
    let error = preview.finish(&answer).await.unwrap_err();
    let wait = Duration::from_mins(1);
    assert_eq!(error, PostError::RateLimited { wait });
    preview.finish(&answer).await.unwrap();
    assert_eq!(shown(&server).text, "one two three");
    assert_eq!(
        shown(&server).tasks,
        [("search".to_owned(), "error".to_owned())]
    );
}

#[tokio::test]
async fn the_end_of_a_stream_ends_the_status() {
    let server = workspace();
    let client = client(&server);
    let (thread, mut preview) = open(&server, &client).await;
    client.show_typing(&channel(Some(&thread))).await.unwrap();
    let status = || server.session_status(GENERAL, &thread);
    assert_eq!(status().as_deref(), Some("processing"));
    preview
        .finish(&OutboundMessage::text("done"))
        .await
        .unwrap();
    assert_eq!(status().as_deref(), Some("active"));
    assert_eq!(count(&server, "agents.sessions.setStatus"), 1);
}

#[tokio::test]
async fn a_discarded_stream_leaves_nothing() {
    let server = workspace();
    let client = client(&server);
    let (_, mut preview) = open(&server, &client).await;
    preview.update("one").await.unwrap();
    preview.discard().await;
    assert_eq!(server.bot_messages(GENERAL), []);
}

#[tokio::test]
async fn a_slack_without_streams_is_asked_once() {
    let server = workspace();
    server.forget_method("chat.startStream");
    let client = client(&server);
    let event = question("17.5");
    for _ in 0..3 {
        let preview = client.open_preview(&event.chat, Some(&event)).await;
        assert!(preview.unwrap().is_none());
    }
    assert_eq!(count(&server, "chat.startStream"), 1);
}

#[tokio::test]
async fn without_a_thread_or_a_reader_there_is_no_stream() {
    let server = workspace();
    let client = client(&server);
    let event = question("17.5");
    let outside = client.open_preview(&channel(None), Some(&event)).await;
    assert!(outside.unwrap().is_none());
    let nobody = client.open_preview(&event.chat, None).await;
    assert!(nobody.unwrap().is_none());
    assert_eq!(count(&server, "chat.startStream"), 0);
    // In a direct conversation it is clear who reads.
    let mut chat = direct(&server, ADA);
    chat.thread_id = Some("17.5".into());
    assert!(client.open_preview(&chat, None).await.unwrap().is_some());
}
