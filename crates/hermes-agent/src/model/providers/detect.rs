//! Detects model servers on this machine. Only loopback addresses are probed.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::Variables;
use serde_json::Value;
use url::Url;

use crate::model::{HttpClients, endpoint};

/// The variable with Ollama's address.
pub(crate) const OLLAMA_VARIABLE: &str = "OLLAMA_HOST";

/// How long to wait for the model list of a configured server.
const NAMED_SERVER_TIMEOUT: Duration = Duration::from_secs(2);

/// The ports to probe, and the timeout for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServers {
    /// Ollama's port, unless `OLLAMA_HOST` names another.
    pub ollama: u16,
    pub lm_studio: u16,
    pub vllm: u16,
    pub llama_cpp: u16,
    /// For each server; all are probed at once.
    pub timeout: Duration,
}

impl Default for LocalServers {
    fn default() -> Self {
        Self {
            ollama: 11434,
            lm_studio: 1234,
            vllm: 8000,
            llama_cpp: 8080,
            timeout: Duration::from_millis(300),
        }
    }
}

/// A model that a server on this machine offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// The kind of server, such as `ollama`.
    pub server: &'static str,
    pub base_url: Url,
    pub model: String,
    /// Where the server reports it.
    pub context_length: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedModel {
    name: String,
    context_length: Option<u32>,
}

impl LocalServers {
    /// The probed servers in order of preference, for messages.
    pub(crate) fn describe_places(&self) -> String {
        format!(
            "Ollama on port {}, LM Studio on {}, vLLM on {}, llama.cpp on {}",
            self.ollama, self.lm_studio, self.vllm, self.llama_cpp
        )
    }

    /// The first server that has a usable model, or the model of that name.
    pub(crate) async fn find(
        &self,
        clients: &HttpClients,
        variables: &Variables,
        wanted: Option<&str>,
    ) -> Option<LocalModel> {
        let all = self.find_all(clients, variables, wanted).await;
        all.into_iter().next()
    }

    /// Every such server, in order of preference.
    pub(crate) async fn find_all(
        &self,
        clients: &HttpClients,
        variables: &Variables,
        wanted: Option<&str>,
    ) -> Vec<LocalModel> {
        let named = variables.get(OLLAMA_VARIABLE).and_then(ollama_address);
        let timeout = match named {
            Some(_) => self.timeout.max(NAMED_SERVER_TIMEOUT),
            None => self.timeout,
        };
        let ollama = named.or_else(|| loopback(self.ollama));
        let others = [
            ("lmstudio", self.lm_studio),
            ("vllm", self.vllm),
            ("llama.cpp", self.llama_cpp),
        ];
        let mut probes: Vec<BoxFuture<'_, Option<LocalModel>>> = Vec::new();
        if let Some(address) = ollama {
            probes.push(with_timeout(
                timeout,
                probe_ollama(clients, address, wanted),
            ));
        }
        for (server, port) in others {
            if let Some(address) = loopback(port).and_then(|root| root.join("v1").ok()) {
                let probe = probe_openai_compatible(clients, server, address, wanted);
                probes.push(with_timeout(self.timeout, probe));
            }
        }
        let model = futures::future::join_all(probes).await;
        model.into_iter().flatten().collect()
    }
}

fn with_timeout<'a>(
    timeout: Duration,
    probe: impl Future<Output = Option<LocalModel>> + Send + 'a,
) -> BoxFuture<'a, Option<LocalModel>> {
    tokio::time::timeout(timeout, probe)
        .map(|model| model.ok().flatten())
        .boxed()
}

/// The model to use at a configured local server without a model name.
pub(crate) async fn detect_at(clients: &HttpClients, base_url: &Url) -> Option<LocalModel> {
    if !endpoint::is_loopback(base_url) {
        return None;
    }
    let detection = async {
        let mut root = base_url.clone();
        root.set_path("/");
        let (ollama, other) = tokio::join!(
            probe_ollama(clients, root, None),
            probe_openai_compatible(clients, "local", base_url.clone(), None),
        );
        let model = ollama.or(other)?;
        Some(LocalModel {
            base_url: base_url.clone(),
            ..model
        })
    };
    tokio::time::timeout(NAMED_SERVER_TIMEOUT, detection)
        .await
        .ok()?
}

fn loopback(port: u16) -> Option<Url> {
    Url::parse(&format!("http://127.0.0.1:{port}/")).ok()
}

/// The address in `OLLAMA_HOST`, in the forms that Ollama accepts, if it is this machine's own.
pub(crate) fn ollama_address(text: &str) -> Option<Url> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let text = match text.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let has_scheme = text.contains("://");
    let mut url = Url::parse(&if has_scheme {
        text
    } else {
        format!("http://{text}")
    })
    .ok()?;
    if url.port().is_none() && !has_scheme {
        url.set_port(Some(11434)).ok()?;
    }
    // A server that listens on all addresses is reached on loopback.
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    url.set_path("/");
    endpoint::is_loopback(&url).then_some(url)
}

/// Ollama: the model that is loaded, else the newest.
async fn probe_ollama(
    clients: &HttpClients,
    root: Url,
    wanted: Option<&str>,
) -> Option<LocalModel> {
    let (listed, loaded) = tokio::join!(
        fetch_json(clients, root.join("api/tags").ok()?),
        fetch_json(clients, root.join("api/ps").ok()?),
    );
    let mut listed: Vec<&Value> = listed_models(listed.as_ref()?, "models");
    listed.sort_by(|a, b| b["modified_at"].as_str().cmp(&a["modified_at"].as_str()));
    let loaded = loaded
        .as_ref()
        .map(|loaded| listed_models(loaded, "models"));
    let candidates = loaded.into_iter().flatten().chain(listed);
    let model = choose_model(candidates.filter_map(ollama_model), wanted)?;
    Some(LocalModel {
        server: "ollama",
        base_url: root.join("v1").ok()?,
        model: model.name,
        context_length: model.context_length,
    })
}

/// Servers with OpenAI's protocol: the first model listed.
async fn probe_openai_compatible(
    clients: &HttpClients,
    server: &'static str,
    base_url: Url,
    wanted: Option<&str>,
) -> Option<LocalModel> {
    let list = format!("{}/models", base_url.as_str().trim_end_matches('/'));
    let answer = fetch_json(clients, Url::parse(&list).ok()?).await?;
    let candidates = listed_models(&answer, "data")
        .into_iter()
        .filter_map(openai_model);
    let model = choose_model(candidates, wanted)?;
    Some(LocalModel {
        server,
        base_url,
        model: model.name,
        context_length: model.context_length,
    })
}

async fn fetch_json(clients: &HttpClients, url: Url) -> Option<Value> {
    let client = clients.client_for(&url).ok()?;
    let response = client.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    serde_json::from_slice(&response.bytes().await.ok()?).ok()
}

fn listed_models<'a>(answer: &'a Value, key: &str) -> Vec<&'a Value> {
    answer[key].as_array().into_iter().flatten().collect()
}

fn ollama_model(model: &Value) -> Option<ListedModel> {
    let name = model["name"].as_str().or(model["model"].as_str())?;
    let family = model["details"]["family"].as_str().unwrap_or_default();
    (!is_embedding(name) && !family.contains("bert")).then(|| ListedModel {
        name: name.to_owned(),
        context_length: number(&model["context_length"]),
    })
}

fn openai_model(model: &Value) -> Option<ListedModel> {
    let name = model["id"].as_str()?;
    let is_other = model["type"].as_str().is_some_and(is_embedding);
    (!is_embedding(name) && !is_other).then(|| ListedModel {
        name: name.to_owned(),
        context_length: number(&model["max_model_len"])
            .or_else(|| number(&model["meta"]["n_ctx"]))
            .or_else(|| number(&model["loaded_context_length"])),
    })
}

/// The name of a model in OpenAI's list format, unless it is an embedding model.
pub(crate) fn chat_model_name(model: &Value) -> Option<String> {
    openai_model(model).map(|model| model.name)
}

fn number(value: &Value) -> Option<u32> {
    let number = value.as_u64().filter(|number| *number > 0)?;
    u32::try_from(number).ok()
}

/// The model of that name, or the first.
fn choose_model(
    mut models: impl Iterator<Item = ListedModel>,
    wanted: Option<&str>,
) -> Option<ListedModel> {
    match wanted {
        None => models.next(),
        Some(wanted) => models.find(|model| {
            model.name == wanted || model.name.strip_suffix(":latest") == Some(wanted)
        }),
    }
}

fn is_embedding(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or(&name);
    ["embed", "rerank"].iter().any(|word| name.contains(word))
        || ["bge-", "all-minilm", "gte-", "e5-"]
            .iter()
            .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_host_is_used_only_on_this_machine() {
        let address = |text| ollama_address(text).map(String::from);
        for (text, expected) in [
            ("127.0.0.1:9999", "http://127.0.0.1:9999/"),
            ("localhost", "http://localhost:11434/"),
            (":9999", "http://127.0.0.1:9999/"),
            ("0.0.0.0:9999", "http://127.0.0.1:9999/"),
            ("http://localhost:9999/x", "http://localhost:9999/"),
        ] {
            assert_eq!(address(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "192.168.1.5:11434",
            "https://ollama.example.com",
            "ollama.example.com",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn models_that_do_not_talk_are_skipped() {
        for name in [
            "nomic-embed-text:latest",
            "text-embedding-3-small",
            "bge-m3",
            "BAAI/bge-large",
            "all-minilm:33m",
            "jina-reranker-v2",
        ] {
            assert!(is_embedding(name), "{name}");
        }
        for name in ["qwen3:8b", "gemma3", "meta-llama/Llama-3-8B"] {
            assert!(!is_embedding(name), "{name}");
        }
    }

    #[test]
    fn a_wanted_name_may_leave_out_the_usual_tag() {
        let listed = |name: &str| ListedModel {
            name: name.into(),
            context_length: None,
        };
        let models = || [listed("a:1b"), listed("b:latest")].into_iter();
        assert_eq!(choose_model(models(), None).unwrap().name, "a:1b");
        assert_eq!(choose_model(models(), Some("b")).unwrap().name, "b:latest");
        assert_eq!(choose_model(models(), Some("a")), None);
    }
}
