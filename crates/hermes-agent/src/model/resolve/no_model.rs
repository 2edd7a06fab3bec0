//! The error message without a model.

use std::{fmt, path::PathBuf};

use super::ResolveContext;
use crate::model::providers::table::PROVIDERS;

/// No model: where it was looked for, and what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoModel {
    /// The provider that is configured without a model.
    pub provider: Option<String>,
    /// The file in which `model` was looked for.
    pub config_file: PathBuf,
    /// The probed local servers; `None` if detection is off.
    pub local_servers: Option<String>,
    /// Variables with an unused key, each with its provider.
    pub keys: Vec<(&'static str, &'static str)>,
}

impl NoModel {
    pub(super) fn new(context: &ResolveContext<'_>, provider: Option<String>) -> Self {
        let settings = context.settings;
        let is_set = |name: &&&str| {
            let key = settings.variables.get(name);
            key.is_some_and(|key| !key.trim().is_empty())
        };
        let used = PROVIDERS.iter().filter(|row| row.needs_key);
        Self {
            provider,
            config_file: context.home.config_file(),
            local_servers: settings
                .model
                .autodetect
                .then(|| context.local.describe_places()),
            keys: used
                .filter_map(|row| Some((*row.keys.iter().find(is_set)?, row.name)))
                .collect(),
        }
    }
}

impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider {
            Some(provider) => writeln!(
                f,
                "No model is chosen: the provider `{provider}` is configured without one.\n"
            )?,
            None => writeln!(f, "No model is chosen.\n")?,
        }
        writeln!(f, "Looked for:")?;
        writeln!(f, "  `model` in {}", self.config_file.display())?;
        match (&self.provider, &self.local_servers) {
            (Some(_), _) => {}
            (None, Some(addresses)) => {
                writeln!(f, "  a local server with a model ({addresses}): none found")?;
            }
            (None, None) => writeln!(f, "  no local server, since `model.autodetect` is off")?,
        }
        match self.keys.as_slice() {
            [] => writeln!(f, "No provider's key is set.")?,
            keys => {
                let names: Vec<_> = keys.iter().map(|(name, _)| format!("`{name}`")).collect();
                writeln!(f, "Keys without a model name: {}", names.join(", "))?;
            }
        }
        let provider = self.provider.as_deref();
        let provider = provider.or(self.keys.first().map(|(_, provider)| *provider));
        let flag = provider.map_or_else(String::new, |name| format!(" --provider {name}"));
        write!(
            f,
            "\nAny of these helps:\n  \
             `hermes model` asks for a model and writes it to the configuration\n  \
             `hermes chat{flag} -m MODEL` names one for this run\n  \
             a local server, such as `ollama run qwen3`, is detected"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_model() -> NoModel {
        NoModel {
            provider: None,
            config_file: "/home/me/.hermes/config.yaml".into(),
            local_servers: Some("Ollama on port 11434".into()),
            keys: vec![],
        }
    }

    #[test]
    fn the_text_says_what_was_looked_for_and_three_ways_out() {
        let text = no_model().to_string();
        for part in [
            "/home/me/.hermes/config.yaml",
            "Ollama on port 11434",
            "No provider's key is set",
            "`hermes model`",
            "`hermes chat -m MODEL`",
            "`ollama run qwen3`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_key_without_a_model_is_named_and_used_in_the_advice() {
        let text = NoModel {
            keys: vec![("ANTHROPIC_API_KEY", "anthropic")],
            local_servers: None,
            ..no_model()
        }
        .to_string();
        for part in [
            "Keys without a model name: `ANTHROPIC_API_KEY`",
            "`hermes chat --provider anthropic -m MODEL`",
            "`model.autodetect` is off",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_provider_without_a_model_is_named() {
        let text = NoModel {
            provider: Some("team".into()),
            ..no_model()
        }
        .to_string();
        assert!(text.contains("the provider `team`"), "{text}");
        assert!(!text.contains("local server with"), "{text}");
    }
}
