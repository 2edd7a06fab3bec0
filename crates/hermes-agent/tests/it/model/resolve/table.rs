//! Every row of the table of built-in providers.

use hermes_agent::model::Protocol;

use super::{expected, flags, found};
use crate::model::{ModelFixture, error};

/// Names, variables of the key, of which the first wins, and the address.
const REMOTE_PROVIDERS: &str = "\
openai | OPENAI_API_KEY | https://api.openai.com/v1
openrouter | OPENROUTER_API_KEY | https://openrouter.ai/api/v1
anthropic | ANTHROPIC_API_KEY | https://api.anthropic.com/
gemini google | GOOGLE_API_KEY GEMINI_API_KEY | https://generativelanguage.googleapis.com/v1beta/openai
deepseek | DEEPSEEK_API_KEY | https://api.deepseek.com/v1
xai grok | XAI_API_KEY | https://api.x.ai/v1
zai glm | GLM_API_KEY ZAI_API_KEY Z_AI_API_KEY | https://api.z.ai/api/paas/v4
kimi-coding kimi moonshot | KIMI_API_KEY KIMI_CODING_API_KEY | https://api.moonshot.ai/v1
minimax | MINIMAX_API_KEY | https://api.minimax.io/anthropic
alibaba qwen | DASHSCOPE_API_KEY | https://dashscope-intl.aliyuncs.com/compatible-mode/v1
mistral | MISTRAL_API_KEY | https://api.mistral.ai/v1
groq | GROQ_API_KEY | https://api.groq.com/openai/v1
together | TOGETHER_API_KEY | https://api.together.xyz/v1
fireworks | FIREWORKS_API_KEY | https://api.fireworks.ai/inference/v1
cerebras | CEREBRAS_API_KEY | https://api.cerebras.ai/v1
nvidia | NVIDIA_API_KEY | https://integrate.api.nvidia.com/v1
huggingface | HF_TOKEN | https://router.huggingface.co/v1
arcee | ARCEEAI_API_KEY | https://api.arcee.ai/api/v1
opencode-zen | OPENCODE_ZEN_API_KEY | https://opencode.ai/zen/v1
kilocode | KILOCODE_API_KEY | https://api.kilo.ai/api/gateway
nous | NOUS_API_KEY | https://inference-api.nousresearch.com/v1
ollama-cloud | OLLAMA_API_KEY | https://ollama.com/v1";

#[tokio::test]
async fn every_provider_of_the_table_needs_no_more_than_its_key() {
    for row in REMOTE_PROVIDERS.lines() {
        let columns: Vec<&str> = row.split(" | ").collect();
        let [names, variables, url] = columns[..] else {
            panic!("{row}")
        };
        let variables: Vec<&str> = variables.split(' ').collect();
        let provider = names.split(' ').next().unwrap();
        let protocol = match provider {
            "anthropic" | "minimax" => Protocol::AnthropicMessages,
            _ => Protocol::ChatCompletions,
        };
        for name in names.split(' ') {
            let mut keys: Vec<_> = variables.iter().map(|key| (*key, "key-1")).collect();
            while let Some((first, _)) = keys.first().copied() {
                let setup = ModelFixture::new("", &keys);
                let selection = setup.resolve(&flags("m", name)).await.unwrap();
                let endpoint = selection.endpoint;
                assert_eq!(endpoint.provider, provider, "{name}");
                assert_eq!(endpoint.base_url.as_str(), url, "{name}");
                assert_eq!(endpoint.protocol, protocol, "{name}");
                assert_eq!(endpoint.key.source, format!("`{first}`"));
                keys.remove(0);
            }
            let nothing = ModelFixture::new("", &[]);
            let keyless = error(nothing.resolve(&flags("m", name)).await).to_string();
            for variable in &variables {
                assert!(keyless.contains(variable), "{name}: {keyless}");
            }
        }
    }
}

#[tokio::test]
async fn local_providers_need_no_key_and_azure_an_address_of_its_own() {
    let setup = ModelFixture::new("", &[]);
    for (provider, port) in [
        ("ollama", 11_434),
        ("lmstudio", 1234),
        ("vllm", 8000),
        ("llamacpp", 8080),
    ] {
        let url = format!("http://127.0.0.1:{port}/v1");
        let lookup = found(&setup, &flags("m", provider)).await;
        assert_eq!(lookup, expected(provider, &url, "", "m"));
    }
    let azure = "https://own.openai.azure.com/openai/v1";
    let keys = [
        ("LM_API_KEY", "key-1"),
        ("AZURE_FOUNDRY_API_KEY", "key-2"),
        ("AZURE_FOUNDRY_BASE_URL", azure),
    ];
    let setup = ModelFixture::new("", &keys);
    assert_eq!(
        found(&setup, &flags("m", "lmstudio")).await,
        expected("lmstudio", "http://127.0.0.1:1234/v1", "key-1", "m")
    );
    assert_eq!(
        found(&setup, &flags("m", "azure-foundry")).await,
        expected("azure-foundry", azure, "key-2", "m")
    );
}
