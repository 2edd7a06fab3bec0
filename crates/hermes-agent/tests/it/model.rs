//! Models over real sockets, against a scripted server.

mod auxiliary;
mod detect;
mod failures;
mod fallback;
mod resolve;
mod streaming;

use std::{sync::Arc, time::Duration};

use hermes_agent::{
    message::Message,
    model::{
        ApiKey, Endpoint, ExplainedValue, HttpClients, HttpModel, KeyState, LocalServers, Model,
        ModelError, ModelEvent, ModelOverrides, ModelReply, ModelRequest, ModelTimeouts, Protocol,
        ResolveContext, ResolveError, RetryPolicy, RetryingModel, Selection, explain_model,
        resolve_model,
    },
};
use hermes_config::{Home, Secret, Settings, Variables};
use hermes_testkit::{
    ReservedPort,
    model::{ModelScript, ModelServer},
};

use self::resolve::KEYS;

const BOTH: [Protocol; 2] = [Protocol::ChatCompletions, Protocol::AnthropicMessages];
const KEY: &str = "key-0123456789";

/// Far longer than anything here takes, so that a busy machine fails no test.
const TIMEOUT: Duration = Duration::from_secs(30);

fn endpoint(server: &ModelServer, protocol: Protocol) -> Endpoint {
    let base_url = match protocol {
        Protocol::ChatCompletions => server.base_url(),
        Protocol::AnthropicMessages => server.origin(),
    };
    Endpoint {
        provider: "scripted".into(),
        protocol,
        base_url: base_url.parse().unwrap(),
        key: ApiKey {
            value: Some(Secret::new(KEY.into())),
            source: "`SCRIPTED_KEY`".into(),
        },
        model: "some-model".into(),
        context_length: None,
        supports_images: false,
        extra_body: serde_json::Map::default(),
    }
}

/// A model that is asked once.
fn single_attempt(server: &ModelServer, protocol: Protocol) -> HttpModel {
    HttpModel::new(endpoint(server, protocol), Arc::new(HttpClients::default()))
}

/// A model that is asked again, after pauses too short to wait for.
fn retrying(server: &ModelServer, protocol: Protocol) -> RetryingModel<HttpModel> {
    let policy = RetryPolicy {
        retries: 3,
        initial_pause: Duration::from_millis(5),
    };
    RetryingModel::new(single_attempt(server, protocol), policy)
}

fn with_short_timeouts(model: HttpModel) -> HttpModel {
    model.with_timeouts(ModelTimeouts {
        first_byte: Duration::from_secs(2),
        next_byte: Duration::from_secs(2),
    })
}

/// Sends a conversation of one message.
async fn send_prompt(
    model: &dyn Model,
    text: &str,
) -> (Result<ModelReply, ModelError>, Vec<ModelEvent>) {
    let messages = [Message::user(text)];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    complete(model, &request).await
}

async fn complete(
    model: &dyn Model,
    request: &ModelRequest<'_>,
) -> (Result<ModelReply, ModelError>, Vec<ModelEvent>) {
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let asked = model.complete(request, &mut sink);
    let result = tokio::time::timeout(TIMEOUT, asked).await;
    (result.expect("no answer in time"), events)
}

fn shown(events: &[ModelEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::TextDelta(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn retries(events: &[ModelEvent]) -> usize {
    events
        .iter()
        .filter(|event| matches!(event, ModelEvent::Retrying { .. }))
        .count()
}

/// A home with a configuration and variables, and its model.
struct ModelFixture {
    home: Home,
    settings: Settings,
    local: LocalServers,
    clients: Arc<HttpClients>,
    /// Where nobody listens.
    _nobody: [ReservedPort; 4],
    _directory: tempfile::TempDir,
}

impl ModelFixture {
    fn new(config: &str, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let variables = Variables::from_pairs(variables.iter().copied());
        let settings = Settings::parse(config, variables).unwrap();
        let nobody = std::array::from_fn(|_| ReservedPort::reserve().unwrap());
        let [ollama, lm_studio, vllm, llama_cpp] = nobody.each_ref().map(ReservedPort::number);
        Self {
            home: Home::at(directory.path()),
            settings,
            local: LocalServers {
                ollama,
                lm_studio,
                vllm,
                llama_cpp,
                timeout: Duration::from_secs(5),
            },
            clients: Arc::default(),
            _nobody: nobody,
            _directory: directory,
        }
    }

    fn resolve_context(&self) -> ResolveContext<'_> {
        ResolveContext {
            local: self.local.clone(),
            clients: Arc::clone(&self.clients),
            ..ResolveContext::new(&self.home, &self.settings)
        }
    }

    async fn resolve(&self, wanted: &ModelOverrides) -> Result<Selection, ResolveError> {
        resolve_model(&self.resolve_context(), wanted).await
    }

    async fn configured(&self) -> Result<Selection, ResolveError> {
        self.resolve(&ModelOverrides::default()).await
    }
}

fn error<T>(result: Result<T, ResolveError>) -> ResolveError {
    match result {
        Ok(_) => panic!("there is a model"),
        Err(error) => error,
    }
}

fn echo() -> ModelServer {
    ModelServer::start(ModelScript::echo())
}

// What is known about a model before it is used: why it was chosen, and whether it sees images.

#[tokio::test]
async fn every_part_of_the_choice_is_explained_also_where_the_key_is_missing() {
    let setup = ModelFixture::new("model: {default: gpt-5}\n", &[]);
    let told = explain_model(&setup.resolve_context(), &ModelOverrides::default()).await;
    let part = |part: Option<ExplainedValue>| part.map(|part| (part.value, part.source)).unwrap();
    assert_eq!(
        part(told.model),
        ("gpt-5".into(), "`model` in `config.yaml`".into())
    );
    assert_eq!(
        part(told.provider),
        ("openai".into(), "the model's name".into())
    );
    assert_eq!(
        part(told.base_url),
        ("https://api.openai.com/v1".into(), "built in".into())
    );
    assert!(matches!(told.key, Some(KeyState::Missing { .. })));
    assert!(matches!(told.problem, Some(ResolveError::NoKey { .. })));
}

#[tokio::test]
async fn whether_a_model_sees_is_written_or_known_by_its_name() {
    for (config, sees) in [
        ("model: {default: gpt-5, provider: openai}\n", true),
        ("model: {default: gpt-3.5-turbo, provider: openai}\n", false),
        (
            "model: {default: gpt-5, provider: openai, vision: false}\n",
            false,
        ),
        (
            "model: {default: m, provider: openai, supports_vision: 'true'}\n",
            true,
        ),
    ] {
        let selection = ModelFixture::new(config, &KEYS).configured().await.unwrap();
        assert_eq!(selection.endpoint.supports_images, sees, "{config}");
        assert_eq!(selection.model.supports_images(), sees, "{config}");
    }
}
