//! What is known about a model before it is used: why it was chosen, and whether it sees images.

use hermes_agent::model::{ExplainedValue, KeyState, ModelOverrides, ResolveError, explain_model};

use super::{ModelFixture, resolve::KEYS};

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
