//! Compaction: what the store keeps of a conversation.

use hermes_agent::{
    compact::CompactionOutcome,
    conversation::{Conversation, SessionReference},
    turn::TurnEvent,
};
use hermes_store::{MessageQuery, MessageRows, MessageState};
use hermes_testkit::model::{ModelScript, ScriptedAnswer, ScriptedUsage};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{ConversationFixture, agent, send};

const KEEP_LITTLE: &str = "compression: {protect_first_n: 1, protect_last_n: 2}\n";

async fn compress(conversation: &mut Conversation) -> CompactionOutcome {
    let mut nobody = |_: TurnEvent| {};
    let compressed = conversation.compress(&mut nobody, CancellationToken::new());
    compressed.await.unwrap()
}

/// A conversation with a call in the middle.
async fn long_conversation(command: &ConversationFixture) -> Conversation {
    let mut conversation = command.begin();
    for number in 0..8 {
        send(&mut conversation, &format!("question {number}"))
            .await
            .unwrap();
    }
    conversation
}

fn script() -> ModelScript {
    let call = ScriptedAnswer::call("todo", &json!({}));
    let mut answers = vec![call, ScriptedAnswer::text("done")];
    answers.extend((1..8).map(|number| ScriptedAnswer::text(&format!("answer {number}"))));
    let summary = ScriptedAnswer::text("They counted to seven.");
    answers.push(summary.with(|reply| {
        reply.usage = Some(ScriptedUsage {
            prompt: 90,
            completion: 7,
            ..ScriptedUsage::default()
        });
    }));
    answers.push(ScriptedAnswer::text("on we go"));
    ModelScript::new(answers)
}

#[tokio::test]
async fn a_summary_takes_the_place_of_the_middle_and_the_old_rows_stay() {
    let command = ConversationFixture::with_config(script(), KEEP_LITTLE).await;
    let mut conversation = long_conversation(&command).await;
    let id = conversation.id().clone();
    let before = command.rows(&id).await;
    assert_eq!(
        compress(&mut conversation).await,
        CompactionOutcome::Compacted
    );

    let after = command.rows(&id).await;
    assert!(after.len() < before.len(), "{} rows", after.len());
    assert_eq!(after[0].body.timestamp, before[0].body.timestamp);
    assert_eq!(after[0].body.content, before[0].body.content);
    let (last, last_before) = (after.last().unwrap(), before.last().unwrap());
    assert_eq!(last.body.timestamp, last_before.body.timestamp);
    let texts = command.texts(&id).await;
    assert!(
        texts
            .iter()
            .any(|(_, text)| text.contains("They counted to seven.")),
        "{texts:?}"
    );
    let all = MessageQuery {
        rows: MessageRows::All,
        limit: 1000,
        ..MessageQuery::default()
    };
    let all = command
        .agent
        .store()
        .read_messages(&id, &all)
        .await
        .unwrap();
    let usage = command.agent.store().model_usage(&id).await.unwrap();
    let summary = usage.iter().find(|share| share.task == "compression");
    let summary = &summary.unwrap().usage;
    assert_eq!((summary.input_tokens, summary.output_tokens), (90, 7));
    let put_away = all
        .iter()
        .filter(|row| row.state == MessageState::Compacted);
    assert_eq!(put_away.count(), before.len());
    let session = conversation.session().await.unwrap().unwrap();
    assert_eq!(session.message_count, i64::try_from(after.len()).unwrap());
}

#[tokio::test]
async fn a_shorter_conversation_goes_on_and_is_resumed_as_it_is() {
    let command = ConversationFixture::with_config(script(), KEEP_LITTLE).await;
    let mut conversation = long_conversation(&command).await;
    compress(&mut conversation).await;
    let kept = conversation.messages().to_vec();
    assert_eq!(
        send(&mut conversation, "go on").await.unwrap().text,
        "on we go"
    );
    let asked = command.asked().pop().unwrap();
    assert_eq!(asked.len(), kept.len() + 1);

    let which = SessionReference::Named(conversation.id().to_string());
    let resumed = Conversation::resume(agent(&command.home).await, &which, command.setup());
    assert_eq!(resumed.await.unwrap().messages(), conversation.messages());
}

#[tokio::test]
async fn without_a_summary_the_failure_is_remembered() {
    let mut answers: Vec<ScriptedAnswer> = (0..8).map(|_| ScriptedAnswer::text("yes")).collect();
    answers.push(ScriptedAnswer::status(400, "no summaries today"));
    let command = ConversationFixture::with_config(ModelScript::new(answers), KEEP_LITTLE).await;
    let mut conversation = long_conversation(&command).await;
    let id = conversation.id().clone();
    let before = command.texts(&id).await;
    assert_eq!(
        compress(&mut conversation).await,
        CompactionOutcome::Nothing
    );
    assert_eq!(command.texts(&id).await, before);
    let failure = command.agent.store().compaction_failure(&id).await.unwrap();
    let failure = failure.unwrap();
    assert!(failure.error.contains("no summaries today"), "{failure:?}");
    assert_eq!(failure.streak, 1);
}

#[tokio::test]
async fn another_process_at_it_is_left_alone() {
    let command = ConversationFixture::with_config(script(), KEEP_LITTLE).await;
    let mut conversation = long_conversation(&command).await;
    let lease = std::time::Duration::from_mins(1);
    let store = command.agent.store();
    let id = conversation.id().clone();
    assert!(store.lock_compaction(&id, "other", lease).await.unwrap());
    let before = command.texts(&id).await;
    assert_eq!(
        compress(&mut conversation).await,
        CompactionOutcome::Nothing
    );
    assert_eq!(command.texts(&id).await, before);
}

#[tokio::test]
async fn a_full_context_is_made_room_in_and_the_question_answered() {
    let mut answers: Vec<ScriptedAnswer> = (0..8).map(|_| ScriptedAnswer::text("yes")).collect();
    answers.push(ScriptedAnswer::status(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    ));
    answers.push(ScriptedAnswer::text("A short story."));
    answers.push(ScriptedAnswer::text("at last"));
    let command = ConversationFixture::with_config(ModelScript::new(answers), KEEP_LITTLE).await;
    let mut conversation = long_conversation(&command).await;
    assert_eq!(
        send(&mut conversation, "more").await.unwrap().text,
        "at last"
    );
    let texts = command.texts(conversation.id()).await;
    assert!(
        texts
            .iter()
            .any(|(_, text)| text.contains("A short story."))
    );
    assert_eq!(texts.last().unwrap().1, "at last");
}
