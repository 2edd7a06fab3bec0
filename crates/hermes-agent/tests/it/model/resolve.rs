//! Which model is used, where it is, and which key goes there.

mod table;

use hermes_agent::model::{ModelOverrides, Protocol, ResolveError, SelectionOrigin, StoredModel};
use hermes_config::{Secret, SecretStore};

use super::{ModelFixture, echo, error, send_prompt};

pub(super) const KEYS: [(&str, &str); 3] = [
    ("OPENAI_API_KEY", "key-openai"),
    ("OPENROUTER_API_KEY", "key-openrouter"),
    ("ANTHROPIC_API_KEY", "key-anthropic"),
];

fn flags(model: &str, provider: &str) -> ModelOverrides {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ModelOverrides {
        model: text(model),
        provider: text(provider),
        ..ModelOverrides::default()
    }
}

/// Provider, address, key and model of a configuration.
async fn found(
    setup: &ModelFixture,
    overrides: &ModelOverrides,
) -> (String, String, Option<String>, String) {
    let endpoint = setup
        .resolve(overrides)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
        .endpoint;
    (
        endpoint.provider,
        endpoint.base_url.to_string(),
        endpoint.key.value.map(|key| key.expose().clone()),
        endpoint.model,
    )
}

fn expected(
    provider: &str,
    url: &str,
    key: &str,
    model: &str,
) -> (String, String, Option<String>, String) {
    let key = Some(key.to_owned()).filter(|key| !key.is_empty());
    (provider.into(), url.into(), key, model.into())
}

#[tokio::test]
async fn built_in_providers_are_known_by_name() {
    let setup = ModelFixture::new("", &KEYS);
    for (provider, url, key) in [
        ("openai", "https://api.openai.com/v1", "key-openai"),
        (
            "OpenRouter",
            "https://openrouter.ai/api/v1",
            "key-openrouter",
        ),
        ("anthropic", "https://api.anthropic.com/", "key-anthropic"),
    ] {
        let lookup = found(&setup, &flags("m", provider)).await;
        assert_eq!(lookup, expected(&provider.to_lowercase(), url, key, "m"));
    }
    let selection = setup.resolve(&flags("m", "anthropic")).await.unwrap();
    assert_eq!(selection.endpoint.protocol, Protocol::AnthropicMessages);
    assert_eq!(selection.origin, SelectionOrigin::Flag);
}

#[tokio::test]
async fn a_name_may_say_whose_model_it_is() {
    let setup = ModelFixture::new("", &KEYS);
    for (model, provider) in [
        ("gpt-5", "openai"),
        ("o3-mini", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("qwen/qwen3-coder", "openrouter"),
    ] {
        assert_eq!(
            found(&setup, &flags(model, "")).await.0,
            provider,
            "{model}"
        );
    }
    let unclear = error(setup.resolve(&flags("mystery", "")).await);
    assert!(
        matches!(unclear, ResolveError::UnclearProvider { .. }),
        "{unclear}"
    );
    let keyless = error(
        ModelFixture::new("", &[])
            .resolve(&flags("gpt-5", ""))
            .await,
    );
    assert!(
        keyless.to_string().contains("`OPENAI_API_KEY`"),
        "{keyless}"
    );
}

#[tokio::test]
async fn a_prefix_names_the_provider_if_its_key_is_set_and_openrouter_stands_in() {
    let setup = ModelFixture::new("", &KEYS);
    let chosen = found(&setup, &flags("openai/gpt-5", "")).await;
    assert_eq!((chosen.0.as_str(), chosen.3.as_str()), ("openai", "gpt-5"));
    let setup = ModelFixture::new("", &[("OPENROUTER_API_KEY", "key-openrouter")]);
    for model in ["openai/gpt-5", "meta-llama/llama-4", "amazon/nova-pro"] {
        let chosen = found(&setup, &flags(model, "")).await;
        assert_eq!(
            (chosen.0.as_str(), chosen.3.as_str()),
            ("openrouter", model)
        );
    }
    let neither = error(
        ModelFixture::new("", &[])
            .resolve(&flags("openai/gpt-5", ""))
            .await,
    );
    let text = neither.to_string();
    for part in ["`OPENAI_API_KEY`", "`OPENROUTER_API_KEY`", "`.env`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_prefix_wins_over_a_configured_provider_that_has_no_such_names() {
    let setup = ModelFixture::new("model: {default: claude-x, provider: anthropic}\n", &KEYS);
    let chosen = found(&setup, &flags("openai/gpt-5", "")).await;
    assert_eq!((chosen.0.as_str(), chosen.3.as_str()), ("openai", "gpt-5"));
    let chosen = found(&setup, &flags("anthropic/claude-y", "")).await;
    assert_eq!(
        (chosen.0.as_str(), chosen.3.as_str()),
        ("anthropic", "claude-y")
    );
    // Somebody who offers models of many is asked for them by their whole names.
    for config in [
        "model: {default: x, provider: openrouter}\n",
        "model: {default: x, base_url: 'https://proxy.example/v1'}\n",
    ] {
        let setup = ModelFixture::new(config, &KEYS);
        let chosen = found(&setup, &flags("openai/gpt-5", "")).await;
        assert_ne!(chosen.0, "openai", "{config}");
        assert_eq!(chosen.3, "openai/gpt-5");
    }
}

#[tokio::test]
async fn a_base_variable_moves_its_provider_and_its_key_goes_along() {
    let setup = ModelFixture::new(
        "",
        &[
            ("DEEPSEEK_API_KEY", "key-1"),
            ("DEEPSEEK_BASE_URL", "http://127.0.0.1:9/v1"),
            ("AZURE_FOUNDRY_API_KEY", "key-2"),
        ],
    );
    assert_eq!(
        found(&setup, &flags("m", "deepseek")).await,
        expected("deepseek", "http://127.0.0.1:9/v1", "key-1", "m")
    );
    let nowhere = error(setup.resolve(&flags("m", "azure-foundry")).await);
    assert!(
        nowhere.to_string().contains("`AZURE_FOUNDRY_BASE_URL`"),
        "{nowhere}"
    );
    // Not in the clear.
    let setup = ModelFixture::new(
        "",
        &[
            ("DEEPSEEK_API_KEY", "key-1"),
            ("DEEPSEEK_BASE_URL", "http://far.example/v1"),
        ],
    );
    assert_eq!(found(&setup, &flags("m", "deepseek")).await.2, None);
}

#[tokio::test]
async fn a_provider_that_comes_later_is_told_so() {
    let setup = ModelFixture::new("", &[]);
    for (model, provider) in [
        ("m", "bedrock"),
        ("m", "vertex"),
        ("m", "github-copilot"),
        ("m", "openai-codex"),
        ("bedrock/m", ""),
    ] {
        let error = error(setup.resolve(&flags(model, provider)).await);
        assert!(matches!(error, ResolveError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("not supported yet"), "{error}");
    }
}

#[tokio::test]
async fn a_key_may_be_a_kept_secret_under_the_variables_name() {
    let setup = ModelFixture::new("", &[]);
    SecretStore::file_only(&setup.home)
        .set("MISTRAL_API_KEY", &Secret::new("key-kept".into()))
        .unwrap();
    let chosen = found(&setup, &flags("mistral/large", "")).await;
    assert_eq!(
        chosen,
        expected("mistral", "https://api.mistral.ai/v1", "key-kept", "large")
    );
}

#[tokio::test]
async fn a_key_goes_only_to_its_own_host() {
    for config in [
        "model: {default: m, provider: openai, base_url: 'https://evil.example/v1'}\n",
        "model: {default: m, provider: custom, base_url: 'https://evil.example/v1'}\n",
        "model: {default: m, base_url: 'https://api.openai.com.evil.example/v1'}\n",
        "model: {default: m, base_url: 'http://api.openai.com.evil.example/v1'}\n",
        "model: {default: m, provider: team, base_url: 'https://evil.example/v1'}\nproviders: {team: {base_url: 'https://team.example/v1', key_env: ANTHROPIC_API_KEY}}\n",
    ] {
        let setup = ModelFixture::new(config, &KEYS);
        assert_eq!(
            found(&setup, &ModelOverrides::default()).await.2,
            None,
            "{config}"
        );
    }
    // Not in the clear, either.
    let setup = ModelFixture::new(
        "model: {default: m, base_url: 'http://api.openai.com/v1'}\n",
        &KEYS,
    );
    assert_eq!(found(&setup, &ModelOverrides::default()).await.2, None);
    let setup = ModelFixture::new(
        "model: {default: m, base_url: 'https://eu.api.openai.com/v1'}\n",
        &KEYS,
    );
    assert_eq!(
        found(&setup, &ModelOverrides::default()).await.2.as_deref(),
        Some("key-openai")
    );
}

#[tokio::test]
async fn the_address_in_the_environment_is_not_read() {
    let setup = ModelFixture::new(
        "model: {default: m, provider: openai}\n",
        &[
            ("OPENAI_API_KEY", "k-1"),
            ("OPENAI_BASE_URL", "https://evil.example/v1"),
        ],
    );
    assert_eq!(
        found(&setup, &ModelOverrides::default()).await.1,
        "https://api.openai.com/v1"
    );
}

#[tokio::test]
async fn configured_providers_are_used_by_either_name() {
    let config = "providers: {Team: {base_url: 'https://team.example/v1', key_env: TEAM_KEY, api_key: other, model: house, context_length: 9000}}\n";
    let setup = ModelFixture::new(config, &[("TEAM_KEY", "key-team")]);
    for name in ["team", "custom:team", "Team"] {
        let (_, url, key, model) = found(&setup, &flags("", name)).await;
        assert_eq!(
            (url.as_str(), key.as_deref(), model.as_str()),
            ("https://team.example/v1", Some("key-team"), "house")
        );
    }
    let lengths = [("", Some(9000)), ("house", Some(9000)), ("other", None)];
    for (model, length) in lengths {
        let selection = setup.resolve(&flags(model, "team")).await.unwrap();
        assert_eq!(selection.endpoint.context_length, length);
    }
    // Without the variable the written key is used.
    let setup = ModelFixture::new(config, &[]);
    assert_eq!(
        found(&setup, &flags("", "team")).await.2.as_deref(),
        Some("other")
    );
}

#[tokio::test]
async fn keys_may_be_references() {
    let config = "model: {default: m, provider: custom, base_url: 'https://x.example/v1', api_key: '${file:key.txt}'}\n";
    let setup = ModelFixture::new(config, &[]);
    std::fs::write(setup.home.path().join("key.txt"), "key-from-file\n").unwrap();
    assert_eq!(
        found(&setup, &ModelOverrides::default()).await.2.as_deref(),
        Some("key-from-file")
    );
    std::fs::remove_file(setup.home.path().join("key.txt")).unwrap();
    let error = error(setup.configured().await);
    assert!(error.to_string().contains("${file:key.txt}"), "{error}");
}

#[tokio::test]
async fn a_missing_key_is_named_before_anything_is_sent() {
    let server = echo();
    let config = format!(
        "model: {{default: m, base_url: '{}', api_key: '${{NOPE}}'}}\n",
        server.base_url()
    );
    let error = error(ModelFixture::new(&config, &[]).configured().await);
    assert!(matches!(error, ResolveError::NoKey { .. }), "{error}");
    assert_eq!(server.paths().len(), 0);
}

#[tokio::test]
async fn flag_wins_over_session_and_session_over_configuration() {
    let setup = ModelFixture::new(
        "model: {default: c, provider: openai, context_length: 7}\n",
        &KEYS,
    );
    let mut overrides = ModelOverrides::default();
    let selection = setup.resolve(&overrides).await.unwrap();
    assert_eq!(selection.endpoint.model, "c");
    assert_eq!(selection.endpoint.context_length, Some(7));
    assert_eq!(selection.origin, SelectionOrigin::Configuration);

    overrides.stored = Some(StoredModel {
        model: "s".into(),
        provider: Some("anthropic".into()),
        base_url: Some("https://api.anthropic.com/".into()),
    });
    let selection = setup.resolve(&overrides).await.unwrap();
    assert_eq!(selection.endpoint.model, "s");
    assert_eq!(selection.endpoint.provider, "anthropic");
    assert_eq!(selection.origin, SelectionOrigin::Session);
    assert_eq!(Some(selection.stored()), overrides.stored);

    overrides.model = Some("f".into());
    let selection = setup.resolve(&overrides).await.unwrap();
    assert_eq!(selection.endpoint.model, "f");
    assert_eq!(selection.endpoint.provider, "openai");
    assert_eq!(selection.endpoint.context_length, None);
    assert_eq!(selection.origin, SelectionOrigin::Flag);
}

#[tokio::test]
async fn an_address_of_this_run_gets_no_key_of_another_place() {
    let config = "model: {default: c, base_url: 'https://llm.example.com/v1', api_key: key-mine}\n";
    let setup = ModelFixture::new(config, &KEYS);
    let at = |address: &str| ModelOverrides {
        base_url: Some(address.to_owned()),
        ..flags("other", "")
    };
    let elsewhere = found(&setup, &at("http://10.0.0.9:8000/v1")).await;
    assert_eq!(elsewhere.1, "http://10.0.0.9:8000/v1");
    assert_eq!((elsewhere.2, elsewhere.3.as_str()), (None, "other"));
    let (_, address, key, model) = found(&setup, &at("https://llm.example.com/v1/")).await;
    assert_eq!(address, "https://llm.example.com/v1");
    assert_eq!(
        (key.as_deref(), model.as_str()),
        (Some("key-mine"), "other")
    );
}

#[tokio::test]
async fn a_session_that_knows_only_a_name_uses_the_configured_provider() {
    let setup = ModelFixture::new("model: {default: c, provider: openrouter}\n", &KEYS);
    let overrides = ModelOverrides {
        stored: Some(StoredModel {
            model: "s".into(),
            ..StoredModel::default()
        }),
        ..ModelOverrides::default()
    };
    let (provider, _, key, model) = found(&setup, &overrides).await;
    assert_eq!(
        (provider.as_str(), key.as_deref(), model.as_str()),
        ("openrouter", Some("key-openrouter"), "s")
    );
}

#[tokio::test]
async fn mistakes_say_what_to_do() {
    for (config, part) in [
        (
            "model: {default: m, provider: nobody}\n",
            "`openai`, `openrouter`, `anthropic`, `gemini`",
        ),
        ("model: {default: m, provider: custom}\n", "`base_url`"),
        ("model: {default: m, base_url: 'ftp://x'}\n", "`http://`"),
        (
            "model: {default: m, provider: openai}\n",
            "`OPENAI_API_KEY`",
        ),
        (
            "model: {provider: team}\n",
            "the provider `team` is configured without one",
        ),
    ] {
        let config =
            format!("{config}providers: {{team: {{base_url: 'https://team.example/v1'}}}}\n");
        let text = error(ModelFixture::new(&config, &[]).configured().await).to_string();
        assert!(text.contains(part), "{config}: {text}");
    }
}

#[tokio::test]
async fn a_configured_server_is_really_asked() {
    let server = echo();
    for (config, path) in [
        (
            format!("model: {{default: m, base_url: '{}'}}\n", server.base_url()),
            "/v1/chat/completions",
        ),
        (
            format!(
                "model: {{default: m, provider: anthropic, base_url: '{}', api_key: k-123456, extra_body: {{top_k: 3}}}}\n",
                server.origin()
            ),
            "/v1/messages",
        ),
        (
            format!(
                "model: {{default: m, base_url: '{}', api_mode: anthropic_messages}}\n",
                server.origin()
            ),
            "/v1/messages",
        ),
    ] {
        let selection = ModelFixture::new(&config, &KEYS)
            .configured()
            .await
            .unwrap();
        let (reply, _) = send_prompt(&*selection.model, "hello").await;
        assert_eq!(reply.unwrap().text, "hello");
        assert_eq!(server.requests().last().unwrap().path, path);
    }
    assert_eq!(server.requests()[1].header("x-api-key"), Some("k-123456"));
    assert_eq!(server.requests()[1].body["top_k"], 3);
    assert_eq!(server.requests()[2].header("x-api-key"), None);
}
