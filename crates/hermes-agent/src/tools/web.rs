//! Shared by the web tools: which addresses they may reach, and how a page is fetched.

pub mod extract;
mod html;
pub mod search;

use std::{
    error::Error,
    sync::{Arc, OnceLock},
    time::Duration,
};

use hermes_config::public_address::is_public_host;
use reqwest::{Client, Response, StatusCode, header, redirect};
use serde_json::Value;
use url::Url;

use super::ToolError;
use crate::policy::{AllowedNetworks, PolicyHandle, PublicResolver};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For one URL, redirects included.
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressScope {
    /// Only public addresses: a page must not lead the agent into its user's own network.
    #[default]
    Public,
    /// Any: `security.allow_private_urls`.
    Any,
}

impl AddressScope {
    pub fn from_document(document: &Value) -> Self {
        let is_allowed = match &document["security"]["allow_private_urls"] {
            Value::Bool(flag) => *flag,
            Value::Number(number) => number.as_u64() == Some(1),
            Value::String(word) => {
                ["true", "yes", "on", "1"].contains(&word.trim().to_ascii_lowercase().as_str())
            }
            _ => false,
        };
        if is_allowed { Self::Any } else { Self::Public }
    }
}

#[derive(Debug, Default)]
pub struct WebClient {
    scope: AddressScope,
    policy: PolicyHandle,
    /// For public addresses. Created at first use, since loading the system's certificates takes time.
    public: OnceLock<Client>,
    any: OnceLock<Client>,
}

#[derive(Debug)]
pub(super) struct FetchedPage {
    pub(super) url: Url,
    /// Such as `text/html`, in lower case.
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
    /// Whether the content was longer than the limit.
    pub(super) is_cut: bool,
}

impl WebClient {
    pub fn new(reach: AddressScope) -> Arc<Self> {
        Self::with_policy(reach, PolicyHandle::default())
    }

    /// Also applies the operator's policy.
    pub fn with_policy(reach: AddressScope, policy: PolicyHandle) -> Arc<Self> {
        Arc::new(Self {
            scope: reach,
            policy,
            ..Self::default()
        })
    }

    /// The current scope.
    fn scope(&self) -> AddressScope {
        match self.policy.policy().egress().networks() {
            AllowedNetworks::Public => AddressScope::Public,
            AllowedNetworks::All => self.scope,
        }
    }

    /// Fetches at most `limit` bytes of a URL.
    pub(super) async fn fetch(&self, url: &str, limit: usize) -> Result<FetchedPage, ToolError> {
        let fetched = tokio::time::timeout(TIMEOUT, self.fetch_with_redirects(url, limit)).await;
        fetched.unwrap_or_else(|_| {
            let seconds = TIMEOUT.as_secs();
            Err(ToolError::new(format!(
                "{url}: timed out after {seconds} s"
            )))
        })
    }

    async fn fetch_with_redirects(
        &self,
        url: &str,
        limit: usize,
    ) -> Result<FetchedPage, ToolError> {
        let mut address = Url::parse(url)
            .map_err(|error| ToolError::new(format!("`{url}` is not a URL: {error}")))?;
        for _ in 0..=MAX_REDIRECTS {
            self.check_url(&address)?;
            let request = self.client()?.get(address.clone());
            let response = request
                .header(header::ACCEPT, "text/html, text/*;q=0.9, */*;q=0.5")
                .send()
                .await
                .map_err(|error| unreachable_error(&address, error))?;
            match redirect_target(&response)? {
                Some(next) => address = next,
                None => return read_body(response, limit).await,
            }
        }
        Err(ToolError::new(format!(
            "{url} redirects more than {MAX_REDIRECTS} times"
        )))
    }

    /// Checks a URL by its host. Host names are checked again when they are resolved.
    fn check_url(&self, address: &Url) -> Result<(), ToolError> {
        if !matches!(address.scheme(), "http" | "https") {
            return Err(ToolError::new(format!(
                "{address}: only http and https addresses can be fetched"
            )));
        }
        let policy = self.policy.policy();
        if let Err(reason) = policy.egress().check(address) {
            return Err(ToolError::new(format!("{address}: {reason}")));
        }
        match address.host() {
            Some(host) if self.scope() == AddressScope::Any || is_public_host(&host) => Ok(()),
            Some(_) => Err(ToolError::new(format!(
                "{address} is in a private network; it cannot be reached unless the user sets \
                 `security.allow_private_urls: true`"
            ))),
            None => Err(ToolError::new(format!("{address} names no host"))),
        }
    }

    fn client(&self) -> Result<&Client, ToolError> {
        let reach = self.scope();
        let cell = match reach {
            AddressScope::Public => &self.public,
            AddressScope::Any => &self.any,
        };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        // Redirects are followed by hand, since each URL has to be checked.
        let builder = Client::builder()
            .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none());
        let builder = match reach {
            AddressScope::Any => builder,
            // A proxy would resolve names itself.
            AddressScope::Public => builder.no_proxy().dns_resolver(Arc::new(PublicResolver)),
        };
        let client = builder.build().map_err(|error| {
            ToolError::new(format!("the HTTP client cannot be created: {error}"))
        })?;
        Ok(cell.get_or_init(|| client))
    }
}

fn redirect_target(response: &Response) -> Result<Option<Url>, ToolError> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(header::LOCATION);
    let Some(location) = location.filter(|_| is_redirect) else {
        return Ok(None);
    };
    let next = location.to_str().ok();
    let next = next.and_then(|location| response.url().join(location).ok());
    next.map(Some)
        .ok_or_else(|| ToolError::new(format!("{} redirects to an invalid URL", response.url())))
}

async fn read_body(mut response: Response, limit: usize) -> Result<FetchedPage, ToolError> {
    let url = response.url().clone();
    let status = response.status();
    if status != StatusCode::OK {
        return Err(ToolError::new(format!("{url}: HTTP {status}")));
    }
    let media_type = response.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.and_then(|kind| kind.to_str().ok());
    let media_type = media_type.and_then(|kind| kind.split(';').next());
    let media_type = media_type.unwrap_or_default().trim().to_ascii_lowercase();
    let mut bytes = Vec::new();
    let mut is_cut = false;
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| unreachable_error(&url, error))?
    {
        let room = limit - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(FetchedPage {
        url,
        media_type,
        bytes,
        is_cut,
    })
}

/// Describes why a URL could not be reached, by the innermost cause.
fn unreachable_error(address: &Url, error: reqwest::Error) -> ToolError {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    ToolError::new(format!("{address}: {cause}"))
}
