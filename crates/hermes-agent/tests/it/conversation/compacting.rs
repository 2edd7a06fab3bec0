//! Stored conversations that become shorter.

use hermes_agent::{
    compact::Ran,
    conversation::{Conversation, Which},
    message::Message,
    turn::TurnEvent,
};
use hermes_store::{MessageQuery, MessageState, Rows};
use hermes_testkit::model::{Answer, ModelServer, Rule, Script};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Scene, say};

const SUMMARY: &str = "They spoke of herons.";

/// A scene whose summaries come from a model of their own.
async fn scene(script: Script) -> (Scene, ModelServer) {
    let scribe = ModelServer::start(Script::echo().rule("", Answer::text(SUMMARY)));
    let config = format!(
        "compression: {{protect_first_n: 1, protect_last_n: 2}}\n\
         auxiliary: {{compression: {{model: scribe, base_url: '{}', api_key: key-scribe}}}}\n",
        scribe.base_url()
    );
    (Scene::with_config(script, &config).await, scribe)
}

async fn talk(conversation: &mut Conversation) {
    for number in 0..6 {
        let text = format!("{number} {}", "heron ".repeat(400));
        say(conversation, &text).await.unwrap();
    }
}

async fn assert_shorter(scene: &Scene, conversation: &Conversation) {
    let id = conversation.id();
    let is_summary = |message: &Message| message.content().text().contains(SUMMARY);
    let messages = conversation.messages();
    assert_eq!(messages.iter().filter(|it| is_summary(it)).count(), 1);
    assert!(messages.len() < 12, "{}", messages.len());
    // The store says the same, and still has what was summed up.
    let which = Which::Named(id.as_str().to_owned());
    let resumed = Conversation::resume(scene.agent.clone(), &which, scene.setup()).await;
    assert_eq!(resumed.unwrap().messages(), messages);
    let everything = MessageQuery {
        rows: Rows::Kept,
        limit: 100,
        ..MessageQuery::default()
    };
    let rows = scene.agent.store().read_messages(id, &everything).await;
    let compacted = |state| state == MessageState::Compacted;
    let rows = rows.unwrap();
    assert!(rows.iter().filter(|row| compacted(row.state)).count() >= 12);
    let session = conversation.session().await.unwrap().unwrap();
    assert_eq!(
        session.message_count,
        i64::try_from(messages.len()).unwrap()
    );
}

#[tokio::test]
async fn a_user_makes_a_conversation_shorter() {
    let calls = Rule {
        contains: "3 heron".into(),
        answer: Answer::call("todo", &json!({})),
        times: Some(1),
    };
    let (scene, scribe) = scene(Script {
        rules: vec![calls],
        ..Script::echo()
    })
    .await;
    let mut conversation = scene.begin();
    talk(&mut conversation).await;
    let mut nobody = |_: TurnEvent| {};
    let ran = conversation
        .compress(&mut nobody, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(ran, Ran::Compacted);
    assert_eq!(scribe.requests().len(), 1);
    assert_shorter(&scene, &conversation).await;
    say(&mut conversation, "and now?").await.unwrap();
    let asked = scene.asked().pop().unwrap();
    let texts = serde_json::to_string(&asked).unwrap();
    assert!(texts.contains(SUMMARY), "{texts}");
    // Nobody is left holding the right to do it.
    let store = scene.agent.store();
    let lease = std::time::Duration::from_secs(1);
    let is_free = store
        .lock_compaction(conversation.id(), "somebody else", lease)
        .await;
    assert!(is_free.unwrap());
}

#[tokio::test]
async fn a_conversation_that_the_provider_finds_too_long_becomes_shorter_by_itself() {
    let too_long = Rule {
        contains: "one more".into(),
        answer: Answer::Overflow,
        times: Some(1),
    };
    let (scene, _scribe) = scene(Script {
        rules: vec![too_long],
        ..Script::echo()
    })
    .await;
    let mut conversation = scene.begin();
    talk(&mut conversation).await;
    let answer = say(&mut conversation, "one more").await.unwrap();
    assert_eq!(answer.text, "one more");
    assert_shorter(&scene, &conversation).await;
}
