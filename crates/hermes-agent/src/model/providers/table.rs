//! The built-in providers, one row each.
//!
//! Names and variables are those of Hermes Agent 0.19, so that its homes keep working.

use hermes_config::Variables;
use url::Url;

use super::detect;
use crate::model::{Protocol, endpoint};

/// A provider that is known without configuration.
#[derive(Debug)]
pub(crate) struct ProviderRow {
    /// The value of `provider`.
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) protocol: Protocol,
    /// Variables that may hold the key; the first one that is set wins. Empty: no key is needed.
    pub(crate) keys: &'static [&'static str],
    pub(crate) needs_key: bool,
    /// Empty if every user has a different URL.
    pub(crate) base_url: &'static str,
    /// The variable that overrides the URL; empty if there is none.
    pub(crate) base_variable: &'static str,
    /// The domains that the key may be sent to, besides the address in `base_variable`.
    pub(crate) domains: &'static [&'static str],
    /// Whether its model names contain slashes, since it offers models of others.
    pub(crate) has_slashes: bool,
    /// Prefixes of model names that identify this provider.
    pub(crate) models: &'static [&'static str],
    /// Models whose names begin with the provider's own name: what follows the slash begins with one of these.
    own_prefix: &'static [&'static str],
}

const CHAT: Protocol = Protocol::ChatCompletions;

const DEFAULT_ROW: ProviderRow = ProviderRow {
    name: "",
    aliases: &[],
    protocol: CHAT,
    keys: &[],
    needs_key: true,
    base_url: "",
    base_variable: "",
    domains: &[],
    has_slashes: false,
    models: &[],
    own_prefix: &[],
};

/// In display order. `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL` are not read: other
/// programs set them for themselves.
pub(crate) const PROVIDERS: [ProviderRow; 27] = [
    ProviderRow {
        name: "openai",
        aliases: &["openai-api"],
        keys: &["OPENAI_API_KEY"],
        base_url: "https://api.openai.com/v1",
        domains: &["api.openai.com"],
        models: &["gpt-", "chatgpt-", "o1", "o3", "o4"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "openrouter",
        keys: &["OPENROUTER_API_KEY"],
        base_url: "https://openrouter.ai/api/v1",
        domains: &["openrouter.ai"],
        has_slashes: true,
        own_prefix: &[""],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "anthropic",
        aliases: &["claude", "claude-code"],
        protocol: Protocol::AnthropicMessages,
        keys: &["ANTHROPIC_API_KEY"],
        base_url: "https://api.anthropic.com",
        domains: &["api.anthropic.com"],
        models: &["claude"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "gemini",
        aliases: &["google", "google-gemini", "google-ai-studio"],
        keys: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
        base_variable: "GEMINI_BASE_URL",
        domains: &["generativelanguage.googleapis.com"],
        models: &["gemini-"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "deepseek",
        aliases: &["deep-seek"],
        keys: &["DEEPSEEK_API_KEY"],
        base_url: "https://api.deepseek.com/v1",
        base_variable: "DEEPSEEK_BASE_URL",
        domains: &["api.deepseek.com"],
        models: &["deepseek-chat", "deepseek-reasoner"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "xai",
        aliases: &["grok", "x-ai", "x.ai"],
        keys: &["XAI_API_KEY"],
        base_url: "https://api.x.ai/v1",
        base_variable: "XAI_BASE_URL",
        domains: &["api.x.ai"],
        models: &["grok-"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "zai",
        aliases: &["glm", "z-ai", "z.ai", "zhipu"],
        keys: &["GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"],
        base_url: "https://api.z.ai/api/paas/v4",
        base_variable: "GLM_BASE_URL",
        domains: &["api.z.ai", "open.bigmodel.cn"],
        models: &["glm-"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "kimi-coding",
        aliases: &["kimi", "moonshot", "kimi-for-coding"],
        keys: &["KIMI_API_KEY", "KIMI_CODING_API_KEY"],
        base_url: "https://api.moonshot.ai/v1",
        base_variable: "KIMI_BASE_URL",
        domains: &["api.moonshot.ai", "api.kimi.com"],
        models: &["kimi-", "moonshot-"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "minimax",
        protocol: Protocol::AnthropicMessages,
        keys: &["MINIMAX_API_KEY"],
        base_url: "https://api.minimax.io/anthropic",
        base_variable: "MINIMAX_BASE_URL",
        domains: &["api.minimax.io"],
        models: &["MiniMax-"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "alibaba",
        aliases: &["qwen", "dashscope", "aliyun", "alibaba-cloud"],
        keys: &["DASHSCOPE_API_KEY"],
        base_url: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        base_variable: "DASHSCOPE_BASE_URL",
        domains: &["dashscope-intl.aliyuncs.com", "dashscope.aliyuncs.com"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "mistral",
        aliases: &["mistralai"],
        keys: &["MISTRAL_API_KEY"],
        base_url: "https://api.mistral.ai/v1",
        domains: &["api.mistral.ai"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "groq",
        keys: &["GROQ_API_KEY"],
        base_url: "https://api.groq.com/openai/v1",
        domains: &["api.groq.com"],
        has_slashes: true,
        own_prefix: &["compound"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "together",
        aliases: &["togetherai", "together-ai"],
        keys: &["TOGETHER_API_KEY"],
        base_url: "https://api.together.xyz/v1",
        domains: &["api.together.xyz"],
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "fireworks",
        aliases: &["fireworks-ai", "fw"],
        keys: &["FIREWORKS_API_KEY"],
        base_url: "https://api.fireworks.ai/inference/v1",
        domains: &["api.fireworks.ai"],
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "cerebras",
        keys: &["CEREBRAS_API_KEY"],
        base_url: "https://api.cerebras.ai/v1",
        domains: &["api.cerebras.ai"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "nvidia",
        aliases: &["nim", "nvidia-nim", "build-nvidia"],
        keys: &["NVIDIA_API_KEY"],
        base_url: "https://integrate.api.nvidia.com/v1",
        base_variable: "NVIDIA_BASE_URL",
        domains: &["integrate.api.nvidia.com"],
        has_slashes: true,
        own_prefix: &[""],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "huggingface",
        aliases: &["hf", "hugging-face", "huggingface-hub"],
        keys: &["HF_TOKEN"],
        base_url: "https://router.huggingface.co/v1",
        base_variable: "HF_BASE_URL",
        domains: &["router.huggingface.co"],
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "arcee",
        aliases: &["arcee-ai", "arceeai"],
        keys: &["ARCEEAI_API_KEY"],
        base_url: "https://api.arcee.ai/api/v1",
        base_variable: "ARCEE_BASE_URL",
        domains: &["api.arcee.ai"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "opencode-zen",
        aliases: &["opencode", "zen"],
        keys: &["OPENCODE_ZEN_API_KEY"],
        base_url: "https://opencode.ai/zen/v1",
        base_variable: "OPENCODE_ZEN_BASE_URL",
        domains: &["opencode.ai"],
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "kilocode",
        aliases: &["kilo", "kilo-code", "kilo-gateway"],
        keys: &["KILOCODE_API_KEY"],
        base_url: "https://api.kilo.ai/api/gateway",
        base_variable: "KILOCODE_BASE_URL",
        domains: &["api.kilo.ai"],
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "nous",
        aliases: &["nous-portal", "nousresearch"],
        keys: &["NOUS_API_KEY"],
        base_url: "https://inference-api.nousresearch.com/v1",
        domains: &["inference-api.nousresearch.com"],
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "ollama",
        needs_key: false,
        base_url: "http://127.0.0.1:11434/v1",
        base_variable: detect::OLLAMA_VARIABLE,
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "ollama-cloud",
        aliases: &["ollama_cloud"],
        keys: &["OLLAMA_API_KEY"],
        base_url: "https://ollama.com/v1",
        base_variable: "OLLAMA_BASE_URL",
        domains: &["ollama.com"],
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "lmstudio",
        aliases: &["lm-studio", "lm_studio"],
        keys: &["LM_API_KEY"],
        needs_key: false,
        base_url: "http://127.0.0.1:1234/v1",
        base_variable: "LM_BASE_URL",
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "vllm",
        needs_key: false,
        base_url: "http://127.0.0.1:8000/v1",
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "llamacpp",
        aliases: &["llama.cpp", "llama-cpp"],
        needs_key: false,
        base_url: "http://127.0.0.1:8080/v1",
        has_slashes: true,
        ..DEFAULT_ROW
    },
    ProviderRow {
        name: "azure-foundry",
        aliases: &["azure"],
        keys: &["AZURE_FOUNDRY_API_KEY"],
        base_variable: "AZURE_FOUNDRY_BASE_URL",
        domains: &[
            "openai.azure.com",
            "services.ai.azure.com",
            "models.ai.azure.com",
            "cognitiveservices.azure.com",
        ],
        ..DEFAULT_ROW
    },
];

/// Providers of Hermes Agent 0.19 that are not supported yet: subscription logins, and clouds with signed requests.
const UNSUPPORTED: [(&str, &[&str]); 9] = [
    ("bedrock", &["aws", "aws-bedrock", "amazon-bedrock"]),
    ("vertex", &["vertex-ai", "google-vertex", "vertexai"]),
    ("copilot", &["github-copilot", "github-models", "github"]),
    ("copilot-acp", &["github-copilot-acp"]),
    ("openai-codex", &["codex"]),
    ("xai-oauth", &["grok-oauth", "x-ai-oauth"]),
    ("qwen-oauth", &["qwen-portal", "qwen-cli"]),
    ("minimax-oauth", &["minimax-portal", "minimax-global"]),
    ("google-gemini-cli", &["gemini-cli"]),
];

pub(crate) fn find_row(name: &str) -> Option<&'static ProviderRow> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    let named = PROVIDERS.iter().find(|row| is(row.name));
    named.or_else(|| {
        PROVIDERS
            .iter()
            .find(|row| row.aliases.iter().any(|known| is(known)))
    })
}

/// The row whose key belongs to this address.
pub(crate) fn row_for_url(url: &Url) -> Option<&'static ProviderRow> {
    PROVIDERS.iter().find(|row| row.owns_url(url))
}

/// The unsupported provider of that name.
pub(crate) fn unsupported_provider(name: &str) -> Option<&'static str> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    UNSUPPORTED
        .iter()
        .find(|(known, aliases)| is(known) || aliases.iter().any(|alias| is(alias)))
        .map(|(known, _)| *known)
}

/// Splits a model's name: the provider before the slash, and that provider's name for the model.
pub(crate) fn split_name(model: &str) -> Option<(&'static ProviderRow, &str)> {
    let (prefix, rest) = model.split_once('/')?;
    let row = find_row(prefix).filter(|_| !rest.is_empty())?;
    Some((row, row.own_name(model, rest)))
}

/// The provider of a model name without a provider prefix.
pub(crate) fn row_for_model(model: &str) -> Option<&'static ProviderRow> {
    // `gpt-oss:20b` and the like are names of local models.
    if model.contains([':', '/']) {
        return None;
    }
    let begins = |row: &&ProviderRow| row.models.iter().any(|start| model.starts_with(start));
    PROVIDERS.iter().find(begins)
}

impl ProviderRow {
    /// Whether an address is of its domains, so that its key may go there.
    pub(crate) fn owns_url(&self, url: &Url) -> bool {
        let is_of = |domain: &&str| endpoint::is_in_domain(url, domain);
        self.domains.iter().any(is_of)
    }

    /// Whether it runs on the user's own machine.
    pub(crate) fn is_local(&self) -> bool {
        !self.needs_key
    }

    /// The provider's own name for a model that was given with the provider's prefix.
    fn own_name<'m>(&self, model: &'m str, rest: &'m str) -> &'m str {
        let keeps = |start: &&str| rest.starts_with(start);
        let is_own = !rest.contains('/') && self.own_prefix.iter().any(keeps);
        if is_own { model } else { rest }
    }

    pub(crate) fn variable_address(&self, variables: &Variables) -> Option<String> {
        let text = variables.get(self.base_variable)?.trim();
        if text.is_empty() {
            return None;
        }
        if self.base_variable == detect::OLLAMA_VARIABLE {
            let root = detect::ollama_address(text)?;
            return root.join("v1").ok().map(String::from);
        }
        Some(text.to_owned())
    }

    /// Its variables, for people.
    pub(crate) fn format_keys(&self) -> String {
        let shown: Vec<_> = self.keys.iter().map(|key| format!("`{key}`")).collect();
        shown.join(" or ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_unique() {
        let rows = PROVIDERS
            .iter()
            .flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()));
        let later = UNSUPPORTED
            .iter()
            .flat_map(|(name, aliases)| std::iter::once(*name).chain(aliases.iter().copied()));
        let mut all: Vec<&str> = rows.chain(later).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_key_has_an_address_of_its_own_to_go_to() {
        for row in &PROVIDERS {
            assert_eq!(row.needs_key, !row.domains.is_empty(), "{}", row.name);
            if let Ok(url) = Url::parse(row.base_url) {
                assert!(row.is_local() || row.owns_url(&url), "{}", row.name);
                assert_eq!(row.is_local(), url.scheme() == "http", "{}", row.name);
            } else {
                assert!(!row.base_variable.is_empty(), "{}", row.name);
            }
        }
    }

    #[test]
    fn a_prefix_is_taken_off_unless_it_is_part_of_the_name() {
        for (model, provider, name) in [
            ("openai/gpt-5", "openai", "gpt-5"),
            ("google/gemini-3", "gemini", "gemini-3"),
            ("openrouter/auto", "openrouter", "openrouter/auto"),
            ("openrouter/qwen/qwen3", "openrouter", "qwen/qwen3"),
            ("nvidia/nemotron-9b", "nvidia", "nvidia/nemotron-9b"),
            ("nvidia/meta/llama-4", "nvidia", "meta/llama-4"),
            ("groq/compound-mini", "groq", "groq/compound-mini"),
            ("groq/llama-4", "groq", "llama-4"),
            ("ollama/qwen3:8b", "ollama", "qwen3:8b"),
        ] {
            let (row, rest) = split_name(model).unwrap();
            assert_eq!((row.name, rest), (provider, name));
        }
        for model in ["meta-llama/llama-4", "gpt-5", "openai/"] {
            assert!(split_name(model).is_none(), "{model}");
        }
    }
}
