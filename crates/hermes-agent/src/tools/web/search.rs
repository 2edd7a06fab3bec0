//! `web_search`: queries a configured search engine.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{Secret, Variables};
use reqwest::{Client, RequestBuilder, redirect};
use serde_json::{Map, Value, json};
use url::Url;

use super::unreachable_error;
use crate::{
    model::ToolDefinition,
    policy::{AllowedNetworks, PolicyHandle, PublicResolver},
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const NAME: &str = "web_search";
const DEFAULT_LIMIT: usize = 5;
const MAX_RESULTS: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(20);
const BRAVE: &str = "https://api.search.brave.com";

#[derive(Debug, Clone)]
pub enum SearchEngine {
    /// A SearXNG server, which needs no account.
    SearXng { base: Url },
    /// Brave Search, with a key.
    Brave { base: Url, key: Secret<String> },
}

impl SearchEngine {
    /// From the home's variables: `SEARXNG_URL`, else `BRAVE_SEARCH_API_KEY`.
    pub fn from_variables(variables: &Variables) -> Option<Self> {
        let variable = |name| variables.get(name).filter(|value| !value.trim().is_empty());
        if let Some(base) = variable("SEARXNG_URL") {
            return Url::parse(base.trim())
                .inspect_err(|error| tracing::warn!(%error, "`SEARXNG_URL` is not a URL"))
                .ok()
                .map(|base| Self::SearXng { base });
        }
        let key = variable("BRAVE_SEARCH_API_KEY")?;
        let base = Url::parse(BRAVE).ok()?;
        let key = Secret::new(key.trim().to_owned());
        Some(Self::Brave { base, key })
    }

    fn request(&self, client: &Client, query: &str, limit: usize) -> Option<RequestBuilder> {
        let address = |base: &Url, path: &str| -> Option<Url> {
            let mut address = base.clone();
            let mut parts = address.path_segments_mut().ok()?;
            parts.pop_if_empty().extend(path.split('/'));
            drop(parts);
            address.query_pairs_mut().append_pair("q", query);
            Some(address)
        };
        match self {
            Self::SearXng { base } => {
                let mut address = address(base, "search")?;
                address.query_pairs_mut().append_pair("format", "json");
                Some(client.get(address))
            }
            Self::Brave { base, key } => {
                let mut address = address(base, "res/v1/web/search")?;
                let count = limit.to_string();
                address.query_pairs_mut().append_pair("count", &count);
                let request = client.get(address);
                Some(request.header("X-Subscription-Token", key.expose()))
            }
        }
    }

    /// The list of results in a reply, and the engine's key for descriptions.
    fn results<'a>(&self, answer: &'a Value) -> (Option<&'a Vec<Value>>, &'static str) {
        match self {
            Self::SearXng { .. } => (answer["results"].as_array(), "content"),
            Self::Brave { .. } => (answer["web"]["results"].as_array(), "description"),
        }
    }
}

pub struct WebSearchTool {
    engine: SearchEngine,
    policy: PolicyHandle,
}

impl WebSearchTool {
    pub fn new(engine: SearchEngine) -> Self {
        Self::with_policy(engine, PolicyHandle::default())
    }

    /// Applies the operator's policy.
    pub fn with_policy(engine: SearchEngine, policy: PolicyHandle) -> Self {
        Self { engine, policy }
    }

    async fn run_search(&self, arguments: &ToolArguments) -> Result<ToolOutput, ToolError> {
        let query = arguments.required_text("query")?;
        let limit = arguments.size("limit", DEFAULT_LIMIT, 1..=MAX_RESULTS)?;
        let failed = |error: reqwest::Error| ToolError::new(format!("the search failed: {error}"));
        let policy = self.policy.policy();
        let builder = match policy.egress().networks() {
            AllowedNetworks::All => Client::builder(),
            AllowedNetworks::Public => Client::builder()
                .no_proxy()
                .dns_resolver(Arc::new(PublicResolver)),
        };
        let client = builder
            .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")))
            // A key is for one host only.
            .redirect(redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(failed)?;
        let request = self.engine.request(&client, &query, limit);
        let request =
            request.ok_or_else(|| ToolError::new("the search engine's URL is invalid"))?;
        let request = request.build().map_err(failed)?;
        if let Err(reason) = policy.egress().check(request.url()) {
            return Err(ToolError::new(reason.to_string()));
        }
        let response = client.execute(request).await.map_err(|error| {
            let url = error.url().cloned();
            url.map_or_else(
                || ToolError::new("the search failed"),
                |url| unreachable_error(&url, error),
            )
        })?;
        let status = response.status();
        let body = response.bytes().await.map_err(failed)?;
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        let results = answer.as_ref().map(|answer| self.engine.results(answer));
        let Some((Some(results), description)) = results.filter(|_| status.is_success()) else {
            return Err(ToolError::new(format!(
                "the search engine's reply could not be parsed (HTTP {status}); a SearXNG server must allow the \
                 format `json`, Brave a valid `BRAVE_SEARCH_API_KEY`"
            )));
        };
        let results: Vec<Value> = results
            .iter()
            .take(limit)
            .enumerate()
            .map(|(at, result)| {
                json!({
                    "position": at + 1,
                    "title": result["title"],
                    "url": result["url"],
                    "description": result[description],
                })
            })
            .collect();
        let results = json!({"query": query, "results": results});
        Ok(ToolOutput::from_untrusted(NAME, results.to_string()))
    }
}

impl Tool for WebSearchTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            NAME,
            "Searches the web and returns titles, addresses and short descriptions. web_extract reads the pages.",
            json!({
                "query": {"type": "string", "description": "What to search for"},
                "limit": {"type": "integer", "description": "Number of results", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MAX_RESULTS},
            }),
            &["query"],
        )
    }

    fn toolset(&self) -> &'static str {
        "web"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { into_output(self.run_search(&ToolArguments::new(arguments)).await) })
    }
}
