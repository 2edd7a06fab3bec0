//! Titles that a model writes beside the conversation.

use std::time::{Duration, Instant};

use hermes_agent::conversation::{Conversation, TitleSource};
use hermes_store::{EndReason, SessionId};
use hermes_testkit::model::{ModelRule, ModelScript, ScriptedAnswer};

use super::{ConversationFixture, send};

/// The words that only requests for a title hold.
const ASKS_FOR_TITLE: &str = "Assistant:";

/// Whether the conversation goes on until there is a title.
#[derive(PartialEq, Eq)]
enum WaitForTitle {
    Yes,
    No,
}

/// Waits until a title was written for the session, if perhaps not used.
async fn wait_until_requested(command: &ConversationFixture, id: &SessionId) {
    let requested = hermes_testkit::eventually_some(Duration::from_secs(30), async || {
        let usage = command.agent.store().model_usage(id).await.unwrap();
        let is_title = |task: &str| task == "title_generation";
        usage
            .iter()
            .any(|share| is_title(&share.task))
            .then_some(())
    });
    requested.await.expect("no title");
}

async fn titled(
    script: ModelScript,
    given: Option<&str>,
    waits: WaitForTitle,
) -> (ConversationFixture, SessionId) {
    let command = ConversationFixture::new(script).await;
    let mut setup = command.setup();
    setup.titles = TitleSource::Generated;
    let mut conversation = Conversation::new_cli(command.agent.clone(), setup);
    send(&mut conversation, "hello").await.unwrap();
    if let Some(title) = given {
        conversation.set_title(title).await.unwrap();
    }
    send(&mut conversation, "hello again").await.unwrap();
    let id = conversation.id().clone();
    if waits == WaitForTitle::Yes {
        wait_until_requested(&command, &id).await;
    }
    conversation.close(EndReason::CliClose).await.unwrap();
    (command, id)
}

async fn title(command: &ConversationFixture, id: &SessionId) -> Option<String> {
    let session = command.agent.store().session(id).await.unwrap();
    session.unwrap().title
}

#[tokio::test]
async fn a_model_names_the_session_after_the_first_exchange() {
    let script = ModelScript::echo().rule(
        ASKS_FOR_TITLE,
        ScriptedAnswer::text("\"A friendly start.\""),
    );
    let (command, id) = titled(script, None, WaitForTitle::Yes).await;
    assert_eq!(
        title(&command, &id).await.as_deref(),
        Some("A friendly start")
    );
    assert_eq!(command.server.requests().len(), 3);
    let usage = command.agent.store().model_usage(&id).await.unwrap();
    assert!(usage.iter().any(|share| share.task == "title_generation"));

    // The next one with the same title gets another.
    let mut setup = command.setup();
    setup.titles = TitleSource::Generated;
    let mut conversation = Conversation::new_cli(command.agent.clone(), setup);
    send(&mut conversation, "hello").await.unwrap();
    let id = conversation.id().clone();
    wait_until_requested(&command, &id).await;
    conversation.close(EndReason::CliClose).await.unwrap();
    assert_eq!(
        title(&command, &id).await.as_deref(),
        Some("A friendly start (2)")
    );
}

#[tokio::test]
async fn the_users_own_title_stays() {
    let slow = ScriptedAnswer::text("Late").with(|reply| reply.delay_ms = 300);
    let script = ModelScript::echo().rule(ASKS_FOR_TITLE, slow);
    let (command, id) = titled(script, Some("Mine"), WaitForTitle::Yes).await;
    assert_eq!(title(&command, &id).await.as_deref(), Some("Mine"));
}

#[tokio::test]
async fn a_title_that_fails_fails_alone() {
    let refuses = ModelRule {
        contains: ASKS_FOR_TITLE.into(),
        answer: ScriptedAnswer::status(400, "no titles today"),
        times: None,
    };
    let script = ModelScript {
        rules: vec![refuses],
        ..ModelScript::default()
    };
    let (command, id) = titled(script, None, WaitForTitle::No).await;
    assert_eq!(title(&command, &id).await, None);
}

#[tokio::test]
async fn whoever_leaves_at_once_does_not_wait_for_a_title() {
    let slow = ScriptedAnswer::text("Late").with(|reply| reply.delay_ms = 120_000);
    let script = ModelScript::echo().rule(ASKS_FOR_TITLE, slow);
    let began = Instant::now();
    let (command, id) = titled(script, None, WaitForTitle::No).await;
    assert!(began.elapsed() < Duration::from_mins(1), "it waited");
    assert_eq!(title(&command, &id).await, None);
}
