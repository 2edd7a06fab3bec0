//! Auxiliary models.

use std::time::{Duration, Instant};

use hermes_agent::{
    message::Message,
    model::{Auxiliary, ModelProblem, ModelRequest},
};
use hermes_config::AuxiliaryTask;
use hermes_testkit::model::{ModelScript, ModelServer, ReplyEnding, ScriptedAnswer};

use super::{ModelFixture, echo};

fn config(server: &ModelServer, auxiliary: &str) -> ModelFixture {
    let config = format!(
        "model: {{default: main, base_url: '{}', api_key: key-main, extra_body: {{x: 1}}}}\nauxiliary: {auxiliary}\n",
        server.base_url()
    );
    ModelFixture::new(&config, &[])
}

fn hello() -> [Message; 1] {
    [Message::user("hello")]
}

fn request(messages: &[Message]) -> ModelRequest<'_> {
    ModelRequest {
        messages,
        ..ModelRequest::default()
    }
}

#[tokio::test]
async fn a_task_uses_the_main_model_unless_told_otherwise() {
    let (main, other) = (echo(), echo());
    let auxiliary = format!(
        "{{mcp: {{model: small, reasoning_effort: low, extra_body: {{y: 2}}}}, \
          vision: {{model: eyes, base_url: '{}', api_key: key-eyes, timeout: 7}}}}",
        other.base_url()
    );
    let setup = config(&main, &auxiliary);
    let selection = setup.configured().await.unwrap();
    let context = setup.resolve_context();
    let messages = hello();
    for task in [
        AuxiliaryTask::Compression,
        AuxiliaryTask::Mcp,
        AuxiliaryTask::Vision,
    ] {
        let auxiliary = Auxiliary::find(&context, Some(&selection), task)
            .await
            .unwrap();
        let reply = auxiliary.complete(&request(&messages)).await.unwrap();
        assert_eq!(reply.text, "hello");
    }
    let asked = main.requests();
    assert_eq!(asked[0].body["model"], "main");
    assert_eq!(asked[1].body["model"], "small");
    assert_eq!(asked[1].body["reasoning_effort"], "low");
    assert_eq!(
        (&asked[1].body["x"], &asked[1].body["y"]),
        (&1.into(), &2.into())
    );
    assert_eq!(asked[1].header("authorization"), Some("Bearer key-main"));
    let asked = other.requests();
    assert_eq!(asked[0].body["model"], "eyes");
    assert_eq!(asked[0].header("authorization"), Some("Bearer key-eyes"));

    let vision = Auxiliary::find(&context, Some(&selection), AuxiliaryTask::Vision)
        .await
        .unwrap();
    assert_eq!(vision.timeout(), Duration::from_secs(7));
    assert_eq!(vision.with_model("sharper").name(), "sharper");
}

#[tokio::test]
async fn another_address_never_gets_the_main_key() {
    let (main, other) = (echo(), echo());
    let auxiliary = format!("{{mcp: {{model: m, base_url: '{}'}}}}", other.base_url());
    let setup = config(&main, &auxiliary);
    let selection = setup.configured().await.unwrap();
    let auxiliary = Auxiliary::find(
        &setup.resolve_context(),
        Some(&selection),
        AuxiliaryTask::Mcp,
    )
    .await
    .unwrap();
    auxiliary.complete(&request(&hello())).await.unwrap();
    assert_eq!(other.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn the_main_model_is_looked_for_only_if_it_is_needed() {
    let server = echo();
    let config = format!(
        "auxiliary: {{mcp: {{model: m, base_url: '{}'}}}}\n",
        server.base_url()
    );
    let setup = ModelFixture::new(&config, &[]);
    let context = setup.resolve_context();
    assert!(
        Auxiliary::find(&context, None, AuxiliaryTask::Mcp)
            .await
            .is_ok()
    );
    assert!(
        Auxiliary::find(&context, None, AuxiliaryTask::Vision)
            .await
            .is_err()
    );
    let setup = super::ModelFixture::new(
        &format!("model: {{default: n, base_url: '{}'}}\n", server.base_url()),
        &[],
    );
    let found = Auxiliary::find(&setup.resolve_context(), None, AuxiliaryTask::Vision)
        .await
        .unwrap();
    assert_eq!(found.name(), "n");
}

#[tokio::test]
async fn time_is_limited_as_a_whole() {
    let stalled = ScriptedAnswer::text("Hel").with(|reply| reply.ending = ReplyEnding::Stalled);
    let server = ModelServer::start(ModelScript::new([stalled]));
    let setup = config(&server, "{mcp: {timeout: 0.3}}");
    let selection = setup.configured().await.unwrap();
    let auxiliary = Auxiliary::find(
        &setup.resolve_context(),
        Some(&selection),
        AuxiliaryTask::Mcp,
    )
    .await
    .unwrap();
    let begun = Instant::now();
    let error = auxiliary.complete(&request(&hello())).await.unwrap_err();
    assert!(matches!(
        error.problem,
        ModelProblem::TimedOut { again: false, .. }
    ));
    // A stream that stalls is given up after minutes.
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn passing_trouble_is_waited_out_as_often_as_configured() {
    let server = ModelServer::start(ModelScript::new(vec![
        ScriptedAnswer::too_many_requests("0");
        9
    ]));
    let setup = config(&server, "{transient_retries: 1}");
    let selection = setup.configured().await.unwrap();
    let auxiliary = Auxiliary::find(
        &setup.resolve_context(),
        Some(&selection),
        AuxiliaryTask::Approval,
    )
    .await
    .unwrap();
    let error = auxiliary.complete(&request(&hello())).await.unwrap_err();
    assert_eq!(error.status(), Some(429));
    assert_eq!(server.requests().len(), 2);
}
