//! Requests to a platform's API: allowed URLs, timeouts, and retries.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use hermes_agent::{
    policy::{Egress, PolicyHandle, PublicResolver},
    retry_after::parse_retry_after,
};
use hermes_config::{Platform, PlatformSettings, ProxyVariables, Redactor, Secret};
use reqwest::{
    Client, Method, NoProxy, Proxy, RequestBuilder, Response,
    header::{CONTENT_TYPE, HeaderMap},
    redirect,
};
use serde_json::Value;
use url::{Host, Url};

use super::{
    error::{PlatformFailure, SendError},
    multipart::UploadForm,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts per request.
const MAX_ATTEMPTS: u32 = 3;
/// A longer requested wait is an error.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// Uploads may take this many times longer than other requests.
const UPLOAD_FACTOR: u32 = 10;
const MAX_REPLY_BYTES: usize = 4 << 20;
/// Connections that are kept for the next requests.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// A platform's API with the token it wants.
pub(super) struct PlatformApi<'a> {
    pub(super) settings: &'a PlatformSettings,
    pub(super) addresses: ReachableAddresses,
    pub(super) token: &'a Secret<String>,
    pub(super) client: &'a Client,
    pub(super) timeout: Duration,
    pub(super) redactor: &'a Redactor,
}

pub(super) enum RequestBody<'b> {
    Nothing,
    Json(&'b Value),
    /// Names and values, as web forms send them.
    Fields(&'b [(&'b str, String)]),
    Upload(&'b UploadForm),
    Bytes(Bytes),
}

pub(super) struct PlatformReply {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) headers: HeaderMap,
    wait: Option<Duration>,
}

/// Builds the client of a platform. Done at first use, since loading the system's certificates takes time.
pub(crate) fn build_client(
    platform: Platform,
    settings: &PlatformSettings,
    egress: &Egress,
) -> Result<Client, SendError> {
    let bad = |reason: String| SendError::BadAddress { platform, reason };
    let address = check_url(&settings.base_url, settings.allow_http).map_err(bad)?;
    let mut builder = Client::builder()
        .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        // A burst of answers must not leave a connection each behind.
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        // The token must only be sent to one host.
        .redirect(redirect::Policy::none());
    if address.scheme() == "http" {
        // Plain HTTP needs no certificates, which not every system has.
        builder = builder.tls_certs_only([]);
    }
    if egress.is_public_only() {
        // A proxy would resolve names itself.
        builder = builder.no_proxy().dns_resolver(Arc::new(PublicResolver));
    } else if is_loopback(&address) {
        // No proxy can reach this machine's own servers.
        builder = builder.no_proxy();
    } else {
        for proxy in proxies(platform, settings).map_err(bad)? {
            builder = builder.proxy(proxy);
        }
    }
    builder
        .build()
        .map_err(|error| bad(root_cause(&error.without_url())))
}

/// The proxies of a platform: its own one, or those that variables name. The system's, if there are none.
fn proxies(platform: Platform, settings: &PlatformSettings) -> Result<Vec<Proxy>, String> {
    if let Some(own) = &settings.proxy {
        let variable = platform.variable("PROXY");
        let address = check_proxy(&variable, own)?;
        return Ok(Proxy::all(address).into_iter().collect());
    }
    let ProxyVariables {
        https,
        http,
        all,
        exceptions,
    } = &settings.proxies;
    let find = |variable: &'static str, own: &Option<Secret<String>>| {
        let named = own.as_ref().map(|address| (variable, address));
        let named = named.or(all.as_ref().map(|address| ("ALL_PROXY", address)));
        named
            .map(|(variable, address)| check_proxy(variable, address.expose()))
            .transpose()
    };
    let secure = find("HTTPS_PROXY", https)?.map(Proxy::https);
    // Nothing is sent in the clear elsewhere.
    let plain = if settings.allow_http {
        find("HTTP_PROXY", http)?.map(Proxy::http)
    } else {
        None
    };
    let except = |proxy: Proxy| {
        let exceptions = exceptions.as_deref().and_then(NoProxy::from_string);
        proxy.no_proxy(exceptions)
    };
    let proxies = [secure, plain].into_iter().flatten().flatten();
    Ok(proxies.map(except).collect())
}

/// The URL of an HTTP proxy. Any other one would be passed over without a word.
fn check_proxy(variable: &str, address: &str) -> Result<String, String> {
    let address = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    match Url::parse(&address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(address),
        _ => Err(format!("`{variable}` is not the URL of an HTTP proxy")),
    }
}

/// Parses a URL, if a token may be sent there.
pub(crate) fn check_url(address: &str, allow_http: bool) -> Result<Url, String> {
    let url = Url::parse(address).map_err(|error| format!("it is not a URL ({error})"))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if allow_http || is_loopback(&url) => Ok(url),
        "http" => Err(
            "plain http is only for this machine; use https, or set `extra.allow_http: true`"
                .into(),
        ),
        _ => Err("it is neither https nor http".into()),
    }
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

impl PlatformApi<'_> {
    /// Without a trailing slash.
    pub(super) fn base_url(&self) -> &str {
        self.settings.base_url.trim_end_matches('/')
    }

    /// Checks a URL that the platform returned.
    pub(super) fn check_url(&self, address: &str) -> Result<(), PlatformFailure> {
        match self.addresses.check(address) {
            Ok(_) => Ok(()),
            Err(reason) => Err(self.unreachable(&format!("it returned an unusable URL: {reason}"))),
        }
    }

    /// Sends a request. Retries if the platform is rate-limiting, or its status is in `again`.
    pub(super) async fn call(
        &self,
        method: Method,
        url: &str,
        headers: &HeaderMap,
        body: &RequestBody<'_>,
        again: &[u16],
    ) -> Result<PlatformReply, PlatformFailure> {
        let mut attempt = 1;
        loop {
            let answer = self.send_once(method.clone(), url, headers, body).await?;
            let is_limited = answer.status == 429;
            if !is_limited && !again.contains(&answer.status) {
                return Ok(answer);
            }
            let wait = match answer.wait {
                Some(wait) if is_limited => wait,
                _ => Duration::from_millis(500) * attempt,
            };
            if is_limited && (attempt == MAX_ATTEMPTS || wait > MAX_WAIT) {
                return Err(PlatformFailure::RateLimited { wait });
            }
            if attempt == MAX_ATTEMPTS {
                return Ok(answer);
            }
            attempt += 1;
            tokio::time::sleep(wait).await;
        }
    }

    async fn send_once(
        &self,
        method: Method,
        url: &str,
        headers: &HeaderMap,
        body: &RequestBody<'_>,
    ) -> Result<PlatformReply, PlatformFailure> {
        let timeout = match body {
            RequestBody::Upload(_) | RequestBody::Bytes(_) => self.timeout * UPLOAD_FACTOR,
            _ => self.timeout,
        };
        let request = self.client.request(method, url).headers(headers.clone());
        let read = async {
            let response = add_body(request, body)?.timeout(timeout).send().await?;
            let status = response.status().as_u16();
            let headers = response.headers().clone();
            let bytes = read_body(response).await?;
            Ok((status, headers, bytes))
        };
        let (status, headers, bytes) = read.await.map_err(|error: reqwest::Error| {
            // The URL contains Telegram's token.
            let error = error.without_url();
            match (error.is_timeout(), error.is_connect()) {
                (true, true) => self.unreachable("connecting timed out"),
                (true, false) => PlatformFailure::TimedOut { waited: timeout },
                _ => self.unreachable(&root_cause(&error)),
            }
        })?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let wait = parse_retry_after(&headers).or_else(|| {
            let description = body
                .pointer("/parameters/retry_after")
                .or(body.get("retry_after"));
            to_duration(description?.as_f64()?)
        });
        Ok(PlatformReply {
            status,
            body,
            headers,
            wait,
        })
    }

    fn unreachable(&self, reason: &str) -> PlatformFailure {
        let reason = self.redactor.redact(reason).into_owned();
        PlatformFailure::Unreachable { reason }
    }

    /// The failure of an error reply.
    pub(super) fn refusal(&self, answer: &PlatformReply, reason: Option<&str>) -> PlatformFailure {
        let status = answer.status;
        match reason {
            Some(reason) => PlatformFailure::Refused {
                status: Some(status),
                reason: self.redactor.redact(reason).into_owned(),
            },
            None if status >= 400 => PlatformFailure::Refused {
                status: Some(status),
                reason: "no reason given".into(),
            },
            None => PlatformFailure::InvalidReply { status },
        }
    }

    /// A refusal in the platform's own words, without a status.
    pub(super) fn refused(&self, reason: &str) -> PlatformFailure {
        PlatformFailure::Refused {
            status: None,
            reason: self.redactor.redact(reason).into_owned(),
        }
    }
}

impl PlatformReply {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

fn add_body(request: RequestBuilder, body: &RequestBody<'_>) -> reqwest::Result<RequestBuilder> {
    Ok(match body {
        RequestBody::Nothing => request,
        RequestBody::Json(value) => request
            .header(CONTENT_TYPE, "application/json")
            .body(value.to_string()),
        RequestBody::Fields(fields) => {
            let mut encoded = url::form_urlencoded::Serializer::new(String::new());
            encoded.extend_pairs(fields.iter());
            request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(encoded.finish())
        }
        RequestBody::Upload(form) => request.multipart(form.to_form()?),
        RequestBody::Bytes(bytes) => request
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(bytes.clone()),
    })
}

/// The body, up to the size limit.
async fn read_body(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_REPLY_BYTES {
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn to_duration(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// The innermost cause of an error.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    match text.split_once(CERTIFICATE_ERROR) {
        Some((_, reason)) => explain_certificate(reason),
        None => text,
    }
}

/// How the TLS library begins its complaint.
const CERTIFICATE_ERROR: &str = "invalid peer certificate: ";

fn explain_certificate(reason: &str) -> String {
    let words = reason.to_lowercase();
    let cause = if words.contains("unknownissuer") || words.contains("badsignature") {
        "is not from an authority that this machine trusts; an authority of your own goes into the system's store, \
         or into a file that SSL_CERT_FILE names"
    } else if words.contains("expired") || words.contains("not valid yet") {
        "is not valid now; is the clock of this machine right?"
    } else if words.contains("not valid for name") || words.contains("notvalidforname") {
        "is for another name; is the address right, and is nobody in between?"
    } else {
        "cannot be used"
    };
    format!("the server's certificate {cause} ({reason})")
}

/// The addresses that an account may reach: https, or http where that is allowed, and what the operator's policy lets
/// through at the moment.
#[derive(Debug, Clone)]
pub(crate) struct ReachableAddresses {
    allow_http: bool,
    policy: PolicyHandle,
}

impl ReachableAddresses {
    pub(crate) fn new(settings: &PlatformSettings, policy: &PolicyHandle) -> Self {
        Self {
            allow_http: settings.allow_http,
            policy: policy.clone(),
        }
    }

    /// The URL, if it may be reached; else why not.
    pub(crate) fn check(&self, address: &str) -> Result<Url, String> {
        let url = check_url(address, self.allow_http)?;
        let reached = self.policy.policy().egress().check(&url);
        reached.map_err(|denied| denied.to_string())?;
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use hermes_agent::policy::AgentPolicy;
    use hermes_protocol::{Directives, Policy};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_proxy_is_one_for_http_and_its_password_is_not_told() {
        for proxy in ["http://proxy:3128", "https://user:pass@proxy", "proxy:3128"] {
            assert!(check_proxy("X", proxy).is_ok(), "{proxy}");
        }
        for other in ["socks5://user:pass@proxy", "ftp://proxy", "http://", ""] {
            let refused = check_proxy("X", other).unwrap_err();
            assert!(refused.contains("`X`") && !refused.contains("pass"));
        }
        // A proxy of another kind that nothing would use is not a mistake.
        let mut settings = PlatformSettings::default_of(Platform::Telegram);
        let proxy = |address: &str| Some(Secret::new(address.to_owned()));
        settings.proxies.all = proxy("socks5://proxy");
        assert!(proxies(Platform::Telegram, &settings).is_err());
        settings.proxies.https = proxy("http://proxy:3128");
        assert_eq!(proxies(Platform::Telegram, &settings).unwrap().len(), 1);
    }

    #[test]
    fn a_certificate_that_is_refused_is_explained() {
        for (reason, cause) in [
            ("UnknownIssuer", "SSL_CERT_FILE"),
            ("Expired", "clock"),
            (
                "certificate not valid for name \"a.test\"; certificate is only valid for b.test",
                "another name",
            ),
            ("BadSignature", "SSL_CERT_FILE"),
            ("BadEncoding", "cannot be used"),
        ] {
            let error = Error::other(format!("invalid peer certificate: {reason}"));
            let told = root_cause(&error);
            assert!(told.contains(cause) && told.contains(reason), "{told}");
        }
        assert_eq!(root_cause(&Error::other("no route")), "no route");
    }

    fn rules(egress: &serde_json::Value) -> (ReachableAddresses, PolicyHandle) {
        let policy = Policy::resolve(&json!({"egress": egress}), &Policy::unrestricted()).unwrap();
        let handle = PolicyHandle::new(AgentPolicy::from(Directives::new(policy)));
        let settings = PlatformSettings::default_of(Platform::Discord);
        (ReachableAddresses::new(&settings, &handle), handle)
    }

    #[test]
    fn what_a_platform_names_is_held_to_the_policy_as_its_own_address_is() {
        let (rules, handle) = rules(&json!({"allowHosts": ["discord.com", "cdn.discordapp.com"]}));
        assert!(rules.check("https://cdn.discordapp.com/a.png").is_ok());
        let denied = rules.check("https://media.example/a.png").unwrap_err();
        assert!(denied.contains("media.example"), "{denied}");
        assert!(denied.contains("egress.allowHosts"), "{denied}");
        assert!(rules.check("http://cdn.discordapp.com/a.png").is_err());
        // From the next use on.
        handle.set(AgentPolicy::default());
        assert!(rules.check("https://media.example/a.png").is_ok());
    }

    #[test]
    fn private_networks_are_out_of_reach_where_the_policy_says_so() {
        let (rules, _) = rules(&json!({"denyPrivateNetworks": true}));
        let denied = rules.check("https://10.0.0.5/a.png").unwrap_err();
        assert!(denied.contains("denyPrivateNetworks"), "{denied}");
        assert!(rules.check("https://files.slack.com/a").is_ok());
    }
}
