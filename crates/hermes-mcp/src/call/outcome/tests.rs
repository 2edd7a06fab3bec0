use hermes_config::ServerName;
use insta::assert_snapshot;
use rmcp::model::{
    ContentBlock, GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Role,
};

use super::*;

/// Stands in for the redactor: what it hides is not the subject here, only where it is asked.
fn redact(text: &str) -> String {
    text.replace("hunter2", "[REDACTED]")
}

fn media() -> MediaStore {
    MediaStore::new("/nonexistent".into())
}

async fn outcome(result: CallToolResult) -> Outcome {
    Outcome::from_result(result, &media(), None, &redact).await
}

fn texts(texts: &[&str]) -> Vec<ContentBlock> {
    texts.iter().map(|text| ContentBlock::text(*text)).collect()
}

async fn json_of(content: &[&str], structured: Option<Value>) -> String {
    let mut result = CallToolResult::success(texts(content));
    result.structured_content = structured;
    outcome(result).await.to_json()
}

async fn json_of_error(content: &[&str], structured: Option<Value>) -> String {
    let mut result = CallToolResult::error(texts(content));
    result.structured_content = structured;
    outcome(result).await.to_json()
}

#[tokio::test]
async fn text() {
    assert_snapshot!(json_of(&["größer ✓ \"quoted\""], None).await);
}

#[tokio::test]
async fn several_texts() {
    assert_snapshot!(json_of(&["first", "second"], None).await);
}

#[tokio::test]
async fn nothing_at_all() {
    assert_snapshot!(json_of(&[], None).await);
}

#[tokio::test]
async fn structured_only() {
    assert_snapshot!(json_of(&[], Some(json!({"größe": 42, "b": [1, null]}))).await);
}

#[tokio::test]
async fn text_and_structured() {
    assert_snapshot!(json_of(&["42 degrees"], Some(json!({"degrees": 42}))).await);
}

#[tokio::test]
async fn structured_that_repeats_the_text() {
    assert_snapshot!(json_of(&["{\"b\": 2, \"a\": 1}"], Some(json!({"a": 1, "b": 2}))).await);
}

#[tokio::test]
async fn structured_that_wraps_the_text() {
    assert_snapshot!(json_of(&["plain words"], Some(json!({"result": "plain words"}))).await);
}

#[tokio::test]
async fn structured_that_wraps_the_text_and_says_more() {
    let structured = json!({"result": "plain words", "cached": true});
    assert_snapshot!(json_of(&["plain words"], Some(structured)).await);
}

#[tokio::test]
async fn structured_null_beside_text() {
    assert_snapshot!(json_of(&["done"], Some(Value::Null)).await);
}

#[tokio::test]
async fn structured_null_alone() {
    assert_snapshot!(json_of(&[], Some(Value::Null)).await);
}

#[tokio::test]
async fn tool_error() {
    assert_snapshot!(json_of_error(&["login hunter2 failed: größer"], None).await);
}

#[tokio::test]
async fn tool_error_with_structured_content() {
    let structured = json!({"code": 7, "tried": ["hunter2"]});
    assert_snapshot!(json_of_error(&["failed"], Some(structured)).await);
}

#[tokio::test]
async fn tool_error_without_words() {
    assert_snapshot!(json_of_error(&[], None).await);
}

#[test]
fn transport_error() {
    let outcome = Outcome::transport_error("connection closed, key hunter2", &redact);
    assert_snapshot!(outcome.to_json());
}

#[test]
fn timeout() {
    let failure = CallFailure::TimedOut {
        elapsed: Duration::from_millis(120_040),
        allowed: Duration::from_mins(2),
    };
    assert_snapshot!(Outcome::from(failure).to_json());
}

#[test]
fn cancel() {
    assert_snapshot!(Outcome::from(CallFailure::Interrupted).to_json());
}

#[test]
fn login_needed() {
    let advice = LoginAdvice::LogIn(ServerName::new("my-api"));
    let server = "my-api".into();
    assert_snapshot!(Outcome::from(CallFailure::LoginNeeded { server, advice }).to_json());
}

#[test]
fn a_hosted_agent_is_told_what_its_operator_can_do_about_a_login() {
    let name = ServerName::new("my-api");
    for advice in [
        LoginAdvice::LogIn(name.clone()),
        LoginAdvice::LogInOrSetHeaders(name.clone()),
        LoginAdvice::CorrectHeadersOrLogIn(name),
    ] {
        assert_eq!(advice.clone().for_tenant(None), advice);
        let advice = advice.for_tenant(Some("acme"));
        let server = "my-api".into();
        let message = CallFailure::LoginNeeded { server, advice }.to_string();
        assert!(
            message.contains("`hermes tenant env set acme NAME`"),
            "{message}"
        );
        assert!(message.contains("Bearer ${NAME}"), "{message}");
        assert!(!message.contains("hermes mcp login"), "{message}");
    }
}

#[test]
fn unknown_tool() {
    assert_snapshot!(Outcome::from(CallFailure::UnknownTool("mcp_x_y".into())).to_json());
}

#[test]
fn missing_parameter() {
    assert_snapshot!(Outcome::from(CallFailure::MissingParameter("uri")).to_json());
}

#[test]
fn list_resources() {
    let resources = [
        Resource::new("file:///a", "a"),
        Resource::new("file:///b", "b")
            .with_title("never shown")
            .with_description("größer")
            .with_mime_type("text/plain"),
    ];
    assert_snapshot!(Outcome::from_resources(&resources, &[]).to_json());
}

#[test]
fn list_resources_with_templates() {
    let template = ResourceTemplate::new("file:///{path}", "files").with_mime_type("text/plain");
    assert_snapshot!(Outcome::from_resources(&[], &[template]).to_json());
}

#[tokio::test]
async fn read_resource() {
    let contents = vec![
        ResourceContents::text("größer", "file:///a"),
        ResourceContents::text("second", "file:///b"),
    ];
    let outcome = Outcome::from_resource(ReadResourceResult::new(contents), &media()).await;
    assert_snapshot!(outcome.to_json());
}

#[test]
fn list_prompts() {
    let arguments = vec![
        PromptArgument::new("code")
            .with_description("what to review")
            .with_required(true),
        PromptArgument::new("style"),
    ];
    let prompts = [
        Prompt::new("greet", None::<String>, None),
        Prompt::new("review", Some("Reviews code"), Some(arguments)),
    ];
    assert_snapshot!(Outcome::from_prompts(&prompts).to_json());
}

#[tokio::test]
async fn get_prompt() {
    let link = Resource::new("file:///a", "a");
    let result = GetPromptResult::new(vec![
        PromptMessage::new_text(Role::User, "größer"),
        PromptMessage::new_resource_link(Role::Assistant, link),
    ])
    .with_description("A greeting");
    let outcome = Outcome::from_prompt(result, &media(), None).await;
    assert_snapshot!(outcome.to_json());
}

#[tokio::test]
async fn successful_results_are_not_redacted() {
    assert!(json_of(&["hunter2"], None).await.contains("hunter2"));
    assert!(
        json_of(&[], Some(json!({"k": "hunter2"})))
            .await
            .contains("hunter2")
    );
}

#[tokio::test]
async fn a_single_text_is_not_copied() {
    let text = String::from("a long text");
    let address = text.as_ptr();
    let outcome = outcome(CallToolResult::success(vec![ContentBlock::text(text)])).await;
    assert_eq!(outcome.text().as_ptr(), address);
}

#[tokio::test]
async fn the_result_stays_as_received() {
    let result = CallToolResult::error(texts(&["hunter2"]));
    let outcome = outcome(result.clone()).await;
    assert!(outcome.is_error());
    assert_eq!(outcome.text(), "[REDACTED]");
    assert_eq!(outcome.raw(), Some(&result));
}

#[tokio::test]
async fn people_read_structured_content_where_there_is_no_text() {
    let mut result = CallToolResult::success(vec![]);
    result.structured_content = Some(json!({"a": 1}));
    assert_eq!(outcome(result).await.text(), "{\n  \"a\": 1\n}");
}

#[tokio::test]
async fn outcomes_can_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let media = media();
    let making = Outcome::from_result(CallToolResult::success(vec![]), &media, None, &redact);
    assert!(!is_send(making).await.is_error());
}
