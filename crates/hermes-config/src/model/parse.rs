//! Reading the sections about models.

use serde_json::Value;

use super::{
    AgentSettings, ApiMode, AuxiliaryModel, AuxiliarySettings, AuxiliaryTask, CompressionSettings,
    LoopGuard, ModelChoice, ModelSettings, ProviderSettings,
};
use crate::{fields::Fields, reference::ReferenceTemplate};

/// `model`: a name, or a mapping.
pub(crate) fn parse_model(root: &Fields) -> ModelSettings {
    if root.get("model").is_some_and(Value::is_string) {
        return ModelSettings {
            choice: ModelChoice {
                name: filled_text(root, "model"),
                ..ModelChoice::default()
            },
            ..ModelSettings::default()
        };
    }
    let section = root.section("model");
    let mut choice = choice(&section);
    choice.name = filled_text(&section, "default").or(choice.name);
    section.warn_mistyped(&[
        "default",
        "model",
        "provider",
        "base_url",
        "key_env",
        "api_key",
        "api_mode",
        "context_length",
        "vision",
        "supports_vision",
        "extra_body",
        "autodetect",
    ]);
    ModelSettings {
        choice,
        autodetect: section.flag("autodetect", true),
    }
}

/// A text that is not empty, with `${VAR}` filled in.
fn filled_text(section: &Fields, key: &str) -> Option<String> {
    section
        .filled_text(key)
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// A key as it is written; a variable without a value is a warning.
fn parse_key_template(section: &Fields) -> Option<ReferenceTemplate> {
    let text = section.text("api_key").filter(|text| !text.is_empty())?;
    let template = ReferenceTemplate::new(text);
    for variable in template.unset_variables(section.variables()) {
        section.warn(
            "api_key",
            format!(
                "names the variable `{variable}`, which is not set; set it in the home's `.env`"
            ),
        );
    }
    Some(template)
}

fn choice(section: &Fields) -> ModelChoice {
    let address = ["base_url", "api", "url"]
        .into_iter()
        .find_map(|key| filled_text(section, key));
    ModelChoice {
        name: filled_text(section, "model"),
        provider: filled_text(section, "provider")
            .filter(|name| !name.eq_ignore_ascii_case("auto")),
        base_url: address,
        key_env: filled_text(section, "key_env").or_else(|| filled_text(section, "api_key_env")),
        api_key: parse_key_template(section),
        api_mode: section.choice(
            "api_mode",
            &[
                ("chat_completions", Some(ApiMode::ChatCompletions)),
                ("anthropic_messages", Some(ApiMode::AnthropicMessages)),
                ("auto", None),
            ],
            None,
        ),
        context_length: section.optional_integer("context_length", 1),
        // The second name is that of Hermes Agent 0.19.
        vision: ["vision", "supports_vision"]
            .into_iter()
            .find(|key| section.is_set(key))
            .map(|key| section.flag(key, false)),
        extra_body: section.members("extra_body"),
    }
}

/// `providers` and `custom_providers`: mappings by name, or lists of entries that have one. The first of a name wins.
pub(crate) fn parse_providers(root: &Fields) -> Vec<ProviderSettings> {
    let mut providers: Vec<ProviderSettings> = Vec::new();
    for key in ["providers", "custom_providers"] {
        for (name, entry) in named_entries(root, key) {
            let mut choice = choice(&entry);
            choice.name = choice.name.or_else(|| filled_text(&entry, "default_model"));
            if providers.iter().all(|known| known.name != name) {
                providers.push(ProviderSettings { name, choice });
            }
        }
    }
    providers
}

fn named_entries<'a>(root: &Fields<'a>, key: &str) -> Vec<(String, Fields<'a>)> {
    let mut named = Vec::new();
    if let Some(Value::Array(items)) = root.get(key) {
        for (index, item) in items.iter().enumerate() {
            let place = format!("{key}[{index}]");
            let entry = item.as_object().map(|map| root.mapping(&place, map));
            match entry.and_then(|entry| Some((filled_text(&entry, "name")?, entry))) {
                Some(found) => named.push(found),
                None => root.warn(&place, "must be a mapping with a `name`; it is ignored"),
            }
        }
        return named;
    }
    let section = root.section(key);
    for (name, entry) in section.entries() {
        match entry {
            Value::Object(map) => {
                named.push((name.trim().to_owned(), section.mapping(name, map)));
            }
            _ => section.warn(name, "must be a mapping; it is ignored"),
        }
    }
    named
}

/// `fallback_providers`: a list of mappings, or of names of providers.
pub(crate) fn parse_fallback_providers(root: &Fields) -> Vec<ModelChoice> {
    let key = "fallback_providers";
    let items = match root.get(key) {
        None => return Vec::new(),
        Some(Value::Array(items)) => items.as_slice(),
        Some(item) => std::slice::from_ref(item),
    };
    let mut choices = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("{key}[{index}]");
        match item {
            Value::String(name) if !name.trim().is_empty() => choices.push(ModelChoice {
                provider: Some(root.fill(name.trim())),
                ..ModelChoice::default()
            }),
            Value::Object(map) => choices.push(choice(&root.mapping(&place, map))),
            _ => root.warn(
                &place,
                "must be a provider's name, or a mapping with `provider` and `model`; it is ignored",
            ),
        }
    }
    choices
}

pub(crate) fn parse_auxiliary(root: &Fields) -> AuxiliarySettings {
    let section = root.section("auxiliary");
    let task = |task: AuxiliaryTask| parse_auxiliary_model(&section.section(task.key()), task);
    let default = AuxiliarySettings::default();
    AuxiliarySettings {
        compression: task(AuxiliaryTask::Compression),
        approval: task(AuxiliaryTask::Approval),
        mcp: task(AuxiliaryTask::Mcp),
        title_generation: task(AuxiliaryTask::TitleGeneration),
        vision: task(AuxiliaryTask::Vision),
        transient_retries: section.integer("transient_retries", default.transient_retries, 0),
    }
}

fn parse_auxiliary_model(section: &Fields, task: AuxiliaryTask) -> AuxiliaryModel {
    section.warn_unknown(&[
        "provider",
        "model",
        "base_url",
        "api_key",
        "timeout",
        "extra_body",
        "reasoning_effort",
    ]);
    AuxiliaryModel {
        provider: filled_text(section, "provider").unwrap_or_else(|| "auto".into()),
        model: filled_text(section, "model"),
        base_url: filled_text(section, "base_url"),
        api_key: parse_key_template(section),
        timeout: section.seconds("timeout", task.default_timeout()),
        extra_body: section.members("extra_body"),
        reasoning_effort: filled_text(section, "reasoning_effort"),
    }
}

pub(crate) fn parse_agent(root: &Fields) -> AgentSettings {
    let section = root.section("agent");
    let default = AgentSettings::default();
    let guards = [
        ("note", LoopGuard::Note),
        ("warn", LoopGuard::Note),
        ("stop", LoopGuard::Stop),
    ];
    section.warn_mistyped(&[
        "max_turns",
        "api_max_retries",
        "loop_guard",
        "reasoning_effort",
        "disabled_toolsets",
        "gateway_timeout",
        "gateway_timeout_warning",
        "restart_drain_timeout",
    ]);
    AgentSettings {
        max_turns: section.integer("max_turns", default.max_turns, 1),
        api_max_retries: section.integer("api_max_retries", default.api_max_retries, 0),
        loop_guard: section.choice("loop_guard", &guards, default.loop_guard),
        reasoning_effort: filled_text(&section, "reasoning_effort"),
        gateway_timeout: section.seconds_or_off("gateway_timeout", default.gateway_timeout),
        gateway_timeout_warning: section
            .seconds_or_off("gateway_timeout_warning", default.gateway_timeout_warning),
        restart_drain_timeout: section
            .seconds_or_off("restart_drain_timeout", None)
            .unwrap_or_default(),
    }
}

pub(crate) fn parse_compression(root: &Fields) -> CompressionSettings {
    let section = root.section("compression");
    let default = CompressionSettings::default();
    section.warn_mistyped(&[
        "enabled",
        "threshold",
        "target_ratio",
        "protect_first_n",
        "protect_last_n",
        "in_place",
    ]);
    if !section.flag("in_place", true) {
        section.warn(
            "in_place",
            "has no effect: a conversation stays in its session when it is made shorter; remove this line",
        );
    }
    CompressionSettings {
        enabled: section.flag("enabled", default.enabled),
        threshold: section.fraction("threshold", default.threshold),
        target_ratio: section.fraction("target_ratio", default.target_ratio),
        protect_first_n: section.integer("protect_first_n", default.protect_first_n, 0),
        protect_last_n: section.integer("protect_last_n", default.protect_last_n, 0),
    }
}
