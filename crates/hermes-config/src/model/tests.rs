//! The sections about models, as users write them.

use serde_json::json;

use super::*;
use crate::{Settings, Variables};

fn parse(text: &str) -> Settings {
    Settings::parse(
        text,
        Variables::from_pairs([("KEY", "k-123"), ("HOST", "box")]),
    )
    .unwrap()
}

/// Reads a text that must be fine.
fn clean(text: &str) -> Settings {
    let settings = parse(text);
    assert_eq!(settings.warnings, [], "{text}");
    settings
}

fn warned(text: &str) -> Vec<String> {
    let warnings = parse(text).warnings;
    warnings
        .into_iter()
        .filter_map(|warning| warning.key)
        .collect()
}

#[test]
fn nothing_written_means_defaults() {
    let settings = clean("");
    assert_eq!(settings.model, ModelSettings::default());
    assert!(settings.model.autodetect);
    assert_eq!(settings.providers, []);
    assert_eq!(settings.fallback_providers, []);
    assert_eq!(settings.auxiliary, AuxiliarySettings::default());
    assert_eq!(settings.agent, AgentSettings::default());
    assert_eq!(settings.compression, CompressionSettings::default());
    assert_eq!(settings.agent.max_turns, 90);
    assert_eq!(settings.auxiliary.vision.timeout, Duration::from_mins(2));
}

#[test]
fn a_model_is_a_name_or_a_mapping() {
    let named = clean("model: gpt-5\n").model.choice;
    assert_eq!(named.name.as_deref(), Some("gpt-5"));

    let settings = clean(
        "model: {default: qwen, provider: Custom, base_url: 'http://${HOST}:8000/v1', api_key: '${KEY}', \
         api_mode: anthropic_messages, context_length: '32768', vision: 'yes', autodetect: off, extra_body: {a: 1}}\n",
    );
    assert!(!settings.model.autodetect);
    assert_eq!(
        settings.model.choice,
        ModelChoice {
            name: Some("qwen".into()),
            provider: Some("Custom".into()),
            base_url: Some("http://box:8000/v1".into()),
            key_env: None,
            api_key: Some(ReferenceTemplate::new("${KEY}")),
            api_mode: Some(ApiMode::AnthropicMessages),
            context_length: Some(32768),
            vision: Some(true),
            extra_body: [("a".to_owned(), json!(1))].into_iter().collect(),
        }
    );
    assert_eq!(
        clean("model: {model: a}\n").model.choice.name.as_deref(),
        Some("a")
    );
    assert_eq!(
        clean("model: {provider: auto}\n").model.choice.provider,
        None
    );
    assert_eq!(clean("model: ''\n").model, ModelSettings::default());
}

#[test]
fn providers_are_mappings_or_lists() {
    let settings = clean(
        "providers:\n  team: {api: 'https://a/v1', key_env: TEAM_KEY, default_model: m}\n\
         custom_providers:\n  - {name: home, url: 'http://b/v1', model: n}\n  - {name: team, base_url: 'https://c/v1'}\n",
    );
    let providers: Vec<_> = settings
        .providers
        .iter()
        .map(|provider| {
            let choice = &provider.choice;
            (
                provider.name.as_str(),
                choice.base_url.as_deref().unwrap(),
                choice.name.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        providers,
        [
            ("team", "https://a/v1", Some("m")),
            ("home", "http://b/v1", Some("n"))
        ]
    );
    assert_eq!(
        settings.providers[0].choice.key_env.as_deref(),
        Some("TEAM_KEY")
    );
}

#[test]
fn fallbacks_are_names_or_mappings() {
    let settings = clean("fallback_providers: [home, {provider: openai, model: gpt-5}]\n");
    assert_eq!(
        settings.fallback_providers,
        [
            ModelChoice {
                provider: Some("home".into()),
                ..ModelChoice::default()
            },
            ModelChoice {
                provider: Some("openai".into()),
                name: Some("gpt-5".into()),
                ..ModelChoice::default()
            },
        ]
    );
}

#[test]
fn each_auxiliary_task_has_its_own_settings() {
    let settings = clean(
        "auxiliary: {transient_retries: 0, compression: {model: small, timeout: 9}, mcp: {provider: openai}, web_extract: {x: 1}}\n",
    );
    let auxiliary = &settings.auxiliary;
    assert_eq!(auxiliary.transient_retries, 0);
    assert_eq!(auxiliary.compression.model.as_deref(), Some("small"));
    assert_eq!(auxiliary.compression.timeout, Duration::from_secs(9));
    assert_eq!(auxiliary.task(AuxiliaryTask::Mcp).provider, "openai");
    assert_eq!(settings.sampling_model, auxiliary.mcp);
}

#[test]
fn agent_and_compression_are_read() {
    let settings = clean(
        "agent: {max_turns: 5, api_max_retries: 0, loop_guard: stop, reasoning_effort: high, gateway_timeout: 0, restart_drain_timeout: 3, personality: x}\n\
         compression: {enabled: no, threshold: 0.8, target_ratio: '0.1', protect_first_n: 0, protect_last_n: 4, in_place: true}\n",
    );
    assert_eq!(
        settings.agent,
        AgentSettings {
            max_turns: 5,
            api_max_retries: 0,
            loop_guard: LoopGuard::Stop,
            reasoning_effort: Some("high".into()),
            gateway_timeout: None,
            restart_drain_timeout: Duration::from_secs(3),
            ..AgentSettings::default()
        }
    );
    assert_eq!(
        settings.compression,
        CompressionSettings {
            enabled: false,
            threshold: 0.8,
            target_ratio: 0.1,
            protect_first_n: 0,
            protect_last_n: 4,
        }
    );
}

#[test]
fn mistakes_are_warned_of_and_defaults_apply() {
    for (text, key) in [
        ("model: [a]\n", "model"),
        ("model: {base_ur: a}\n", "model.base_ur"),
        ("model: {api_mode: codex_responses}\n", "model.api_mode"),
        ("model: {context_length: big}\n", "model.context_length"),
        ("model: {context_length: 0}\n", "model.context_length"),
        ("model: {api_key: '${NOPE}'}\n", "model.api_key"),
        ("model: {default: '${NOPE}'}\n", "model.default"),
        ("providers: [{base_url: x}]\n", "providers[0]"),
        ("providers: {a: b}\n", "providers.a"),
        ("fallback_providers: [5]\n", "fallback_providers[0]"),
        ("agent: {max_turns: 0}\n", "agent.max_turns"),
        ("agent: {loop_guard: perhaps}\n", "agent.loop_guard"),
        ("compression: {threshold: 1.5}\n", "compression.threshold"),
        ("compression: {threshold: 0}\n", "compression.threshold"),
        ("compression: {in_place: no}\n", "compression.in_place"),
        (
            "auxiliary: {mcp: {extra_body: 5}}\n",
            "auxiliary.mcp.extra_body",
        ),
    ] {
        assert_eq!(warned(text), [key], "{text}");
    }
    assert_eq!(
        parse("compression: {threshold: 2}\n").compression,
        CompressionSettings::default()
    );
}

#[test]
fn debug_output_shows_no_key() {
    let settings =
        parse("model: {api_key: sk-plain}\nproviders: {a: {base_url: x, api_key: sk-plain}}\n");
    let shown = format!("{:?} {:?}", settings.model, settings.providers);
    assert!(!shown.contains("sk-plain"), "{shown}");
}
