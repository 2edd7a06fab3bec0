use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_config::Variables;
use serde_json::{Value, json};

use super::*;
use crate::{
    message::{Message, ToolCall},
    model::{FinishReason, TokenUsage},
};

/// Answers with a text, or with a call of a tool where the last message asks for one.
#[derive(Default)]
struct EchoModels {
    is_missing: bool,
    asked: AtomicUsize,
    last: Mutex<Option<ReceivedRequest>>,
}

#[derive(Debug, Clone)]
struct ReceivedRequest {
    name: String,
    limit: Option<Duration>,
    max_tokens: Option<u32>,
    messages: Vec<Message>,
}

impl SamplingModels for EchoModels {
    fn has_model(&self) -> bool {
        !self.is_missing
    }

    fn default_name(&self) -> BoxFuture<'_, Result<String, SamplingRefusal>> {
        let name = if self.is_missing {
            Err(SamplingRefusal::NoModel("none".into()))
        } else {
            Ok("usual".to_owned())
        };
        Box::pin(std::future::ready(name))
    }

    fn complete<'a>(
        &'a self,
        name: &'a str,
        limit: Option<Duration>,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, SamplingRefusal>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Some(ReceivedRequest {
            name: name.to_owned(),
            limit,
            max_tokens: request.max_tokens,
            messages: request.messages.to_vec(),
        });
        let text = request
            .messages
            .last()
            .map(|message| message.content().text().into_owned());
        let text = text.unwrap_or_default();
        let mut reply = ModelReply {
            model: name.to_owned(),
            usage: Some(TokenUsage {
                input_tokens: 5,
                output_tokens: 2,
                ..TokenUsage::default()
            }),
            ..ModelReply::default()
        };
        match text.as_str() {
            "use a tool" => {
                reply.tool_calls = vec![ToolCall::new("c1", "look", "{\"at\": \"sky\"}")];
                reply.finish = FinishReason::ToolCalls;
            }
            "use a tool badly" => {
                reply.tool_calls = vec![ToolCall::new("c1", "look", "at the sky")];
            }
            "say nothing" => {}
            "fail" => {
                return Box::pin(std::future::ready(Err(SamplingRefusal::CallFailed(
                    "sk-proj-abcdefghijk1234".into(),
                ))));
            }
            "stop early" => {
                reply.text = "cut".into();
                reply.finish = FinishReason::Length;
            }
            _ => reply.text = format!("You said: {text}"),
        }
        Box::pin(std::future::ready(Ok(reply)))
    }
}

struct Setup {
    sampler: Sampler,
    model: Arc<EchoModels>,
}

fn server(keys: &Value) -> Server {
    let config = json!({"mcp_servers": {"s": {"command": "x", "sampling": keys}}}).to_string();
    let settings = hermes_config::Settings::parse(&config, Variables::default()).unwrap();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    settings.servers[0].server.clone().unwrap()
}

impl Setup {
    fn new(keys: &Value) -> Self {
        Self::with(keys, EchoModels::default()).0
    }

    fn with(keys: &Value, model: EchoModels) -> (Self, Option<SamplingSupport>) {
        let model = Arc::new(model);
        let sampler = Sampler::new(model.clone(), Redactor::default());
        let offer = sampler.sampling_offer(&server(keys));
        (Self { sampler, model }, offer)
    }

    async fn ask(&self, prompt: &str) -> Result<Value, SamplingError> {
        self.ask_with(prompt, json!({})).await
    }

    async fn ask_with(&self, prompt: &str, more: Value) -> Result<Value, SamplingError> {
        let mut request = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
            "maxTokens": 100,
        });
        for (key, value) in more.as_object().unwrap() {
            request[key] = value.clone();
        }
        let origin = RequestOrigin {
            server: ServerName::new("s"),
            call: None,
            conversation: None,
        };
        let request = serde_json::from_value(request).unwrap();
        let sampled = self.sampler.sample(&origin, request).await?;
        assert_eq!(sampled.tokens, 7);
        Ok(serde_json::to_value(sampled.message).unwrap())
    }

    async fn refusal(&self, prompt: &str) -> &'static str {
        self.ask(prompt).await.unwrap_err().reason
    }

    fn asked(&self) -> ReceivedRequest {
        self.model.last.lock().clone().unwrap()
    }
}

#[tokio::test]
async fn a_text_comes_back_with_its_model_and_the_reason_it_ended() {
    let setup = Setup::new(&json!({}));
    let expected = json!({
        "role": "assistant", "model": "usual", "stopReason": "endTurn",
        "content": {"type": "text", "text": "You said: Hi"},
    });
    assert_eq!(setup.ask("Hi").await.unwrap(), expected);
    assert_eq!(
        setup.ask("stop early").await.unwrap()["stopReason"],
        "maxTokens"
    );
}

#[tokio::test]
async fn the_model_is_the_configured_one_then_the_first_hint_then_the_usual_one() {
    let hints = json!({"modelPreferences": {"hints": [{}, {"name": " "}, {"name": "hinted"}, {"name": "other"}]}});
    let free = Setup::new(&json!({}));
    free.ask("Hi").await.unwrap();
    assert_eq!(free.asked().name, "usual");
    free.ask_with("Hi", hints.clone()).await.unwrap();
    assert_eq!(free.asked().name, "hinted");
    let bound = Setup::new(&json!({"model": "configured"}));
    bound.ask_with("Hi", hints).await.unwrap();
    assert_eq!(bound.asked().name, "configured");
}

#[tokio::test]
async fn the_model_finally_chosen_must_be_allowed_also_the_usual_one() {
    let setup = Setup::new(&json!({"allowed_models": ["hinted"]}));
    assert_eq!(setup.refusal("Hi").await, "model_not_allowed");
    assert_eq!(setup.model.asked.load(Ordering::Relaxed), 0);
    let hints = json!({"modelPreferences": {"hints": [{"name": "hinted"}]}});
    setup.ask_with("Hi", hints).await.unwrap();
    let setup = Setup::new(&json!({"allowed_models": ["usual"], "model": "configured"}));
    assert_eq!(setup.refusal("Hi").await, "model_not_allowed");
    let setup = Setup::new(&json!({"allowed_models": ["a", "usual"]}));
    setup.ask("Hi").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_over_a_minute_that_slides() {
    let setup = Setup::new(&json!({"max_rpm": 2}));
    setup.ask("one").await.unwrap();
    tokio::time::advance(Duration::from_secs(40)).await;
    setup.ask("two").await.unwrap();
    assert_eq!(setup.refusal("three").await, "rate_limit");
    // The first is a minute old now, the second is not.
    tokio::time::advance(Duration::from_secs(20)).await;
    setup.ask("three").await.unwrap();
    assert_eq!(setup.refusal("four").await, "rate_limit");
    // Refused requests were not counted.
    tokio::time::advance(Duration::from_secs(40)).await;
    setup.ask("four").await.unwrap();
}

#[tokio::test]
async fn the_count_outlives_a_reconnect() {
    let setup = Setup::new(&json!({"max_rpm": 1}));
    setup.ask("one").await.unwrap();
    setup
        .sampler
        .sampling_offer(&server(&json!({"max_rpm": 1})));
    assert_eq!(setup.refusal("two").await, "rate_limit");
}

#[tokio::test]
async fn tokens_are_capped_and_never_raised() {
    let setup = Setup::new(&json!({"max_tokens_cap": 50}));
    setup.ask("Hi").await.unwrap();
    assert_eq!(setup.asked().max_tokens, Some(50));
    setup.ask_with("Hi", json!({"maxTokens": 7})).await.unwrap();
    assert_eq!(setup.asked().max_tokens, Some(7));
}

#[tokio::test]
async fn the_servers_own_time_limit_is_passed_on() {
    let setup = Setup::new(&json!({"timeout": 3}));
    setup.ask("Hi").await.unwrap();
    assert_eq!(setup.asked().limit, Some(Duration::from_secs(3)));
    let setup = Setup::new(&json!({}));
    setup.ask("Hi").await.unwrap();
    assert_eq!(setup.asked().limit, None);
}

#[tokio::test]
async fn tool_uses_in_a_row_are_limited_and_a_text_starts_over() {
    let setup = Setup::new(&json!({"max_tool_rounds": 2, "max_rpm": 100}));
    for _ in 0..2 {
        let answer = setup.ask("use a tool").await.unwrap();
        assert_eq!(answer["stopReason"], "toolUse");
        let expected =
            json!({"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "sky"}});
        assert_eq!(answer["content"], expected);
    }
    assert_eq!(setup.refusal("use a tool").await, "tool_loops_exceeded");
    // The refusal has reset the count, and so does a text.
    setup.ask("use a tool").await.unwrap();
    setup.ask("Hi").await.unwrap();
    setup.ask("use a tool").await.unwrap();
    setup.ask("use a tool").await.unwrap();
    assert_eq!(setup.refusal("use a tool").await, "tool_loops_exceeded");
}

#[tokio::test]
async fn without_tool_rounds_every_tool_use_is_refused_and_none_is_offered() {
    let (setup, offer) = Setup::with(&json!({"max_tool_rounds": 0}), EchoModels::default());
    assert_eq!(offer, Some(SamplingSupport::Plain));
    assert_eq!(setup.refusal("use a tool").await, "tool_loops_disabled");
    setup.ask("Hi").await.unwrap();
}

#[tokio::test]
async fn arguments_that_are_not_json_are_passed_on_as_they_are() {
    let setup = Setup::new(&json!({}));
    let answer = setup.ask("use a tool badly").await.unwrap();
    assert_eq!(answer["content"]["input"], json!({"_raw": "at the sky"}));
}

#[tokio::test]
async fn sampling_is_offered_only_where_it_is_on_and_there_is_a_model() {
    let offer = |keys: Value, is_missing| {
        let parrot = EchoModels {
            is_missing,
            ..EchoModels::default()
        };
        Setup::with(&keys, parrot).1
    };
    assert_eq!(offer(json!({}), false), Some(SamplingSupport::WithTools));
    assert_eq!(offer(json!({"enabled": false}), false), None);
    assert_eq!(offer(json!({}), true), None);
    assert_eq!(
        offer(json!({"model": "m"}), true),
        Some(SamplingSupport::WithTools)
    );
}

#[tokio::test]
async fn every_refusal_has_its_word() {
    let off = Setup::new(&json!({"enabled": false}));
    assert_eq!(off.refusal("Hi").await, "disabled");
    let missing = EchoModels {
        is_missing: true,
        ..EchoModels::default()
    };
    assert_eq!(
        Setup::with(&json!({}), missing).0.refusal("Hi").await,
        "no_model"
    );
    let setup = Setup::new(&json!({}));
    assert_eq!(setup.refusal("say nothing").await, "empty_reply");
    let failed = setup.ask("fail").await.unwrap_err();
    assert_eq!(failed.reason, "call_failed");
    assert!(failed.message.contains("[REDACTED]"), "{failed}");
    assert!(!failed.message.contains("sk-proj"), "{failed}");
}

#[tokio::test]
async fn secrets_in_an_answer_do_not_reach_the_server() {
    let setup = Setup::new(&json!({}));
    let answer = setup
        .ask("key ghp_abcdefghijklmnopqrstuvwxyz012345")
        .await
        .unwrap();
    let text = answer["content"]["text"].as_str().unwrap();
    assert_eq!(text, "You said: key [REDACTED]");
    // Secrets that settings bring along later count from then on.
    let own = hermes_config::Secret::new("plain-words".to_owned());
    setup.sampler.use_redactor(Redactor::new([own]));
    let answer = setup.ask("it is plain-words").await.unwrap();
    let text = answer["content"]["text"].as_str().unwrap();
    assert_eq!(text, "You said: it is [REDACTED]");
}

#[tokio::test]
async fn a_server_that_was_never_offered_anything_is_refused() {
    let sampler = Sampler::new(Arc::new(EchoModels::default()), Redactor::default());
    let setup = Setup {
        sampler,
        model: Arc::default(),
    };
    assert_eq!(setup.refusal("Hi").await, "disabled");
}

#[tokio::test]
async fn a_conversation_is_handed_over_whole() {
    let setup = Setup::new(&json!({}));
    let more = json!({
        "systemPrompt": "Be brief.",
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Look"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            ]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sky"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "toolUseId": "t1", "content": [
                    {"type": "text", "text": "blue"},
                    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                ]},
                {"type": "text", "text": "Well?"},
            ]},
        ],
    });
    setup.ask_with("", more).await.unwrap();
    let sent = serde_json::to_value(setup.asked().messages).unwrap();
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "Look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "text", "text": "[audio of type audio/wav left out]"},
        ]},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"sky\"}"}},
        ]},
        {"role": "tool", "tool_call_id": "t1", "name": "look", "content": "blue\n[image left out]"},
        {"role": "user", "content": "Well?"},
    ]);
    assert_eq!(sent, expected);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines about one request that is answered and one that fails.
async fn audited(level: &str) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let setup = Setup::new(&json!({"log_level": level}));
    setup.ask("a private question").await.unwrap();
    setup.ask("fail").await.unwrap_err();
    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    let lines = text.lines().filter(|line| line.contains("sampling"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn every_request_leaves_one_line_in_the_log_without_its_texts() {
    for (level, word) in [("info", "INFO"), ("warning", "WARN")] {
        let lines = audited(level).await;
        let [answered, failed] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        for part in [word, "server=s", "model=\"usual\"", "tokens=7", "answered"] {
            assert!(answered.contains(part), "no `{part}` in {answered}");
        }
        assert!(failed.contains("tokens=0"), "{failed}");
        let all = lines.concat();
        assert!(!all.contains("private") && !all.contains("abcdefghijk1234"));
    }
}

#[tokio::test]
async fn the_texts_are_logged_where_debug_asks_for_them() {
    let lines = audited("debug").await;
    assert!(lines[0].contains("DEBUG"), "{}", lines[0]);
    assert!(lines[0].contains("a private question"), "{}", lines[0]);
    assert!(lines[0].contains("You said:"), "{}", lines[0]);
    assert!(!lines.concat().contains("abcdefghijk1234"), "{lines:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever the secret, and whether the model answers or fails.
    #[test]
    fn no_generated_secret_reaches_the_server_or_its_refusal(
        own in "[0-9][!-#%-~äöü€]{7,30}",
        token in "(ghp_|sk-proj-|xoxb-)[A-Za-z0-9]{12,30}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let redactor = Redactor::new([hermes_config::Secret::new(own.clone())]);
        let setup = Setup::new(&json!({}));
        setup.sampler.use_redactor(redactor.clone());
        let prompt = format!("they are {own} and {token} here");
        let answer = runtime.block_on(setup.ask(&prompt)).unwrap();
        let said = answer["content"]["text"].as_str().unwrap();
        assert!(!said.contains(&own) && !said.contains(&token), "{said}");
        assert!(said.starts_with("You said: they are [REDACTED]"), "{said}");
        for refusal in [
            SamplingRefusal::CallFailed(prompt.clone()),
            SamplingRefusal::NoModel(prompt.clone()),
            SamplingRefusal::ModelNotAllowed(prompt),
        ] {
            let refused = SamplingError::from(refusal.redacted(&redactor));
            let text = refused.to_string();
            assert!(!text.contains(&own) && !text.contains(&token), "{text}");
        }
    }
}
