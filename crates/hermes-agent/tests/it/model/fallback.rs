//! Fallback to the next provider.

use hermes_agent::model::{ModelEvent, ModelProblem};
use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};

use super::{ModelFixture, echo, send_prompt};

fn setup(first: &ModelServer, second: &ModelServer) -> ModelFixture {
    let config = format!(
        "model: {{default: a, provider: one}}\n\
         agent: {{api_max_retries: 0}}\n\
         providers:\n  one: {{base_url: '{}', key_env: ONE_KEY}}\n  two: {{base_url: '{}', key_env: TWO_KEY, model: b}}\n\
         fallback_providers: [two, {{provider: openai, model: c}}]\n",
        first.base_url(),
        second.base_url()
    );
    ModelFixture::new(
        &config,
        &[("ONE_KEY", "key-of-one"), ("TWO_KEY", "key-of-two")],
    )
}

#[tokio::test]
async fn each_provider_gets_its_own_key_and_model() {
    let first = ModelServer::start(ModelScript::new([ScriptedAnswer::status(500, "oops")]));
    let second = echo();
    let selection = setup(&first, &second).configured().await.unwrap();
    let (reply, events) = send_prompt(&*selection.model, "hi").await;
    assert_eq!(reply.unwrap().model, "b");
    let [
        ModelEvent::FallbackStarted {
            model,
            provider,
            error,
        },
        ..,
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!((model.as_str(), provider.as_str()), ("b", "two"));
    assert_eq!(error.status(), Some(500));
    let header = |server: &ModelServer| {
        let request = &server.requests()[0];
        request.header("authorization").unwrap().to_owned()
    };
    assert_eq!(header(&first), "Bearer key-of-one");
    assert_eq!(header(&second), "Bearer key-of-two");
    // The third has no key, and the notes say so.
    assert!(
        selection.notes[0].contains("`OPENAI_API_KEY`"),
        "{:?}",
        selection.notes
    );
}

#[tokio::test]
async fn a_full_context_does_not_move_on() {
    let first = ModelServer::start(ModelScript::new([ScriptedAnswer::Overflow]));
    let second = echo();
    let selection = setup(&first, &second).configured().await.unwrap();
    let (reply, _) = send_prompt(&*selection.model, "hi").await;
    assert!(matches!(
        reply.unwrap_err().problem,
        ModelProblem::ContextOverflow { .. }
    ));
    assert_eq!(second.requests().len(), 0);
}
