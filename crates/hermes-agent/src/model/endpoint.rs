//! One model at one address: URL, protocol and key; which addresses are loopback, local, or of a provider.

use hermes_config::{Redactor, Secret};
use reqwest::{RequestBuilder, header::HeaderValue};
use serde_json::{Map, Value};
use url::{Host, Url};

use super::{ModelError, ModelProblem};
use crate::model::providers::vision;

#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `openai`, `ollama`, or a configured name.
    pub provider: String,
    pub protocol: Protocol,
    /// What paths are appended to.
    pub base_url: Url,
    /// The key for exactly this address.
    pub key: ApiKey,
    pub model: String,
    pub context_length: Option<u32>,
    pub supports_images: bool,
    /// Members added to each request's body.
    pub extra_body: Map<String, Value>,
}

/// A key and where it comes from.
#[derive(Debug, Clone, Default)]
pub struct ApiKey {
    /// The key; some servers need none.
    pub value: Option<Secret<String>>,
    /// Where it is set, or could be, for messages: `` `OPENAI_API_KEY` ``.
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's chat completions, which most others support too.
    ChatCompletions,
    AnthropicMessages,
}

impl Endpoint {
    pub(super) fn url(&self) -> String {
        let base = self.base_url.as_str().trim_end_matches('/');
        match self.protocol {
            Protocol::ChatCompletions => format!("{base}/chat/completions"),
            Protocol::AnthropicMessages => {
                let base = base.strip_suffix("/v1").unwrap_or(base);
                format!("{base}/v1/messages")
            }
        }
    }

    /// Adds the headers for protocol and key. Fails if the key has invalid characters.
    pub(super) fn authorize(&self, request: RequestBuilder) -> Result<RequestBuilder, String> {
        let (name, prefix, request) = match self.protocol {
            Protocol::ChatCompletions => ("authorization", "Bearer ", request),
            Protocol::AnthropicMessages => {
                let request = request.header("anthropic-version", "2023-06-01");
                ("x-api-key", "", request)
            }
        };
        let Some(key) = &self.key.value else {
            return Ok(request);
        };
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()))
            .map_err(|_| format!("the key of {} has invalid characters", self.key.source))?;
        value.set_sensitive(true);
        Ok(request.header(name, value))
    }

    /// The same endpoint with another model.
    #[must_use]
    pub fn with_model(&self, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            supports_images: vision::has_vision(&model),
            model,
            context_length: None,
            ..self.clone()
        }
    }

    /// Host and port, as they are shown.
    pub fn address(&self) -> String {
        host_and_port(&self.base_url)
    }

    pub(super) fn is_local(&self) -> bool {
        is_local(&self.base_url)
    }

    /// Whether its host is in `domain`.
    pub(super) fn is_at(&self, domain: &str) -> bool {
        is_in_domain(&self.base_url, domain)
    }

    /// Truncates text from outside and removes credentials.
    pub(super) fn sanitize(&self, text: &str) -> String {
        const MAX_TEXT_CHARS: usize = 500;
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Redacting a very short key would remove ordinary words.
        let key = self.key.value.iter().filter(|key| key.expose().len() >= 6);
        let redacted = Redactor::new(key.cloned()).redact(&line).into_owned();
        match redacted.char_indices().nth(MAX_TEXT_CHARS) {
            Some((end, _)) => format!("{}…", &redacted[..end]),
            None => redacted,
        }
    }

    pub(super) fn error(&self, problem: ModelProblem) -> ModelError {
        ModelError {
            provider: self.provider.clone(),
            problem,
        }
    }
}

#[cfg(test)]
pub(super) fn for_tests(protocol: Protocol, base_url: &str, model: &str) -> Endpoint {
    Endpoint {
        provider: "test".into(),
        protocol,
        base_url: Url::parse(base_url).unwrap(),
        key: ApiKey {
            value: Some(Secret::new("k-0123456789".into())),
            source: "`TEST_KEY`".into(),
        },
        model: model.into(),
        context_length: None,
        supports_images: false,
        extra_body: Map::new(),
    }
}

/// Whether the address is this machine's own.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// Whether the address is of this machine or its local network, where slow hardware is to be expected.
pub(super) fn is_local(url: &Url) -> bool {
    is_loopback(url)
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_private() || address.is_link_local(),
            Some(Host::Ipv6(address)) => {
                address.is_unique_local() || address.is_unicast_link_local()
            }
            Some(Host::Domain(name)) => match name.rsplit_once('.') {
                Some((_, top)) => top == "local" || top == "lan",
                None => true,
            },
            None => false,
        }
}

/// Whether the address is `domain` or beneath it.
pub(super) fn is_in_domain(url: &Url, domain: &str) -> bool {
    url.host_str().is_some_and(|host| {
        host == domain
            || host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    })
}

/// Host and port, as they are shown.
pub(super) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_appended_once() {
        let url = |protocol, base| for_tests(protocol, base, "m").url();
        let chat = Protocol::ChatCompletions;
        assert_eq!(url(chat, "https://x/v1"), "https://x/v1/chat/completions");
        assert_eq!(url(chat, "https://x/v1/"), "https://x/v1/chat/completions");
        let messages = Protocol::AnthropicMessages;
        for base in ["https://x", "https://x/", "https://x/v1", "https://x/v1/"] {
            assert_eq!(url(messages, base), "https://x/v1/messages");
        }
        assert_eq!(
            url(messages, "https://x/anthropic"),
            "https://x/anthropic/v1/messages"
        );
    }

    #[test]
    fn outside_text_is_short_and_without_the_key() {
        let endpoint = for_tests(Protocol::ChatCompletions, "https://x/v1", "m");
        assert_eq!(
            endpoint.sanitize("wrong key\n  k-0123456789 here"),
            "wrong key [REDACTED] here"
        );
        assert_eq!(endpoint.sanitize(&"x".repeat(900)).chars().count(), 501);
        assert!(!format!("{endpoint:?}").contains("0123456789"));
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn loopback_is_told_by_name_and_number() {
        for text in [
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "http://localhost/",
            "http://a.localhost/",
        ] {
            assert!(is_loopback(&url(text)), "{text}");
            assert!(is_local(&url(text)), "{text}");
        }
        for text in [
            "http://10.0.0.1/",
            "http://localhost.example.com/",
            "https://api.openai.com/",
        ] {
            assert!(!is_loopback(&url(text)), "{text}");
        }
    }

    #[test]
    fn the_own_network_is_local_too() {
        for text in [
            "http://192.168.1.5:11434/v1",
            "http://10.0.0.1/",
            "http://box.local/",
            "http://box:8080/",
        ] {
            assert!(is_local(&url(text)), "{text}");
        }
        for text in ["https://api.openai.com/v1", "http://8.8.8.8/"] {
            assert!(!is_local(&url(text)), "{text}");
        }
    }

    #[test]
    fn a_domain_holds_its_subdomains_and_nothing_else() {
        let is = |text: &str| is_in_domain(&url(text), "api.openai.com");
        assert!(is("https://api.openai.com/v1"));
        assert!(is("https://eu.api.openai.com/v1"));
        assert!(!is("https://api.openai.com.evil.example/v1"));
        assert!(!is("https://evilapi.openai.com/v1"));
        assert!(!is("https://openai.com/"));
    }
}
