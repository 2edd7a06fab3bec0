//! Requests to a Hub over REST, its replies, and its problems as failures of a command.

use std::time::Duration;

use hermes_config::Secret;
use hermes_hub::operations::HttpMethod;
use reqwest::{Client, Method, RequestBuilder, Response, header};
use serde_json::{Map, Value};
use url::Url;

use super::{HubCall, call::HubRequest, token};
use crate::{
    cli::{HubArgs, PageArgs},
    context::Context,
    failure::{Failure, FailureKind},
    output::{Output, printable},
    question::{DefaultAnswer, Questions},
};

/// The default address of a Hub.
const DEFAULT_URL: &str = "http://127.0.0.1:7878";
/// The variable with the address of a Hub.
const URL_VARIABLE: &str = "HERMES_HUB_URL";
/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Read timeout. Streams send a keepalive every fifteen seconds.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// After this time a person is told that the reply is still waited for.
const PROGRESS_AFTER: Duration = Duration::from_secs(5);

/// Among how many tenants a name is looked for that was mistyped.
const MAX_NAMES: u32 = 500;
/// Timeout for that list.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// A Hub, and whoever asks it.
pub(crate) struct HubClient<'c> {
    context: &'c Context,
    http: Client,
    base: Url,
    token: Option<Secret<String>>,
}

/// What a Hub answered.
#[derive(Debug)]
pub(crate) struct HubReply {
    /// The JSON; nothing, if there was no body.
    pub(crate) value: Value,
}

impl<'c> HubClient<'c> {
    /// The Hub that the arguments, the environment or nobody names. Nothing is connected yet.
    pub(crate) fn new(context: &'c Context, args: &HubArgs) -> Result<Self, Failure> {
        let named = std::env::var(URL_VARIABLE)
            .ok()
            .filter(|url| !url.is_empty());
        let text = args
            .hub
            .clone()
            .or(named)
            .unwrap_or_else(|| DEFAULT_URL.into());
        let base = parse_url(&text)?;
        let token = token::find_token(&base, args.token_file.as_deref(), &context.home)?;
        Ok(Self {
            context,
            http: build_client(&base, READ_TIMEOUT)?,
            base,
            token,
        })
    }

    /// Where to print.
    pub(crate) fn output(&self) -> Output {
        self.context.output
    }

    /// Whether it is on this machine.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        token::is_this_machine(&self.base)
    }

    /// How it is called.
    pub(crate) fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// What surrounds the command.
    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    /// Calls an operation. With `--json` its answer is printed as it came.
    pub(crate) fn call(&self, call: &HubCall) -> Result<HubReply, Failure> {
        let body = self.fetch(call)?;
        if self.output().is_json() {
            print_body(self.output(), &body);
        }
        parse_reply(&body)
    }

    /// Calls an operation without printing its reply.
    pub(crate) fn call_quietly(&self, call: &HubCall) -> Result<HubReply, Failure> {
        parse_reply(&self.fetch(call)?)
    }

    /// Calls an operation that lists in pages: for people all of them, with `--json` the one that was asked for.
    pub(crate) fn call_list(
        &self,
        call: HubCall,
        list: &str,
        page: &PageRequest,
    ) -> Result<HubReply, Failure> {
        let call = call
            .with_optional("limit", page.limit)
            .with_optional("cursor", page.cursor.clone());
        let mut answer = self.call(&call)?;
        if self.output().is_json() || page.limit.is_some() {
            return Ok(answer);
        }
        while let Some(next) = answer.value.get("nextCursor").and_then(Value::as_str) {
            let mut more = self.call(&call.clone().with("cursor", next))?;
            let cursor = more.value["nextCursor"].take();
            let items = more
                .value
                .get_mut(list)
                .and_then(Value::as_array_mut)
                .map(std::mem::take);
            if let Some(known) = answer.value.get_mut(list).and_then(Value::as_array_mut) {
                known.extend(items.unwrap_or_default());
            }
            answer.value["nextCursor"] = cursor;
        }
        Ok(answer)
    }

    /// Calls an operation and takes its answer as text.
    pub(crate) fn call_text(&self, call: &HubCall) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&self.fetch(call)?).into_owned())
    }

    fn fetch(&self, call: &HubCall) -> Result<Vec<u8>, Failure> {
        let fetched = self.fetch_once(call);
        match (fetched, call.tenant()) {
            (Err(failure), Some(tenant))
                if failure.kind == FailureKind::NotFound && !failure.is_printed =>
            {
                let known = self.list_tenant_ids(NAMES_TIMEOUT);
                if known.iter().any(|name| name == tenant) {
                    return Err(failure);
                }
                Err(failure.suggest_nearest(tenant, known.into_iter()))
            }
            (fetched, _) => fetched,
        }
    }

    /// The ids of the tenants, as far as they are to be had.
    pub(crate) fn list_tenant_ids(&self, limit: Duration) -> Vec<String> {
        let Ok(request) = HubCall::new("list_tenants")
            .with("limit", MAX_NAMES)
            .to_request()
        else {
            return Vec::new();
        };
        let list = self.context.block_on(async {
            let fetch = async { Ok::<_, Failure>(self.send(&request).await?.bytes().await.ok()) };
            match tokio::time::timeout(limit, fetch).await {
                Ok(Ok(Some(body))) => parse_reply(&body),
                _ => Err(Failure::failed("there is no list")),
            }
        });
        let Ok(list) = list else {
            return Vec::new();
        };
        let tenants = list.value["tenants"].as_array().into_iter().flatten();
        tenants
            .filter_map(|tenant| tenant["id"].as_str())
            .map(str::to_owned)
            .collect()
    }

    fn fetch_once(&self, call: &HubCall) -> Result<Vec<u8>, Failure> {
        let request = call.to_request()?;
        let fetch = async {
            let response = self.send(&request).await?;
            let body = response
                .bytes()
                .await
                .map_err(|error| self.unreachable_failure(&error))?;
            Ok(body.to_vec())
        };
        self.context.block_on(async {
            tokio::pin!(fetch);
            tokio::select! {
                fetched = &mut fetch => return fetched,
                () = tokio::time::sleep(PROGRESS_AFTER), if request.timeout.is_some() => {}
            }
            let most = request.timeout.unwrap_or_default().as_secs();
            self.output()
                .note(format!("Waiting for the reply, up to {most} s …"));
            fetch.await
        })
    }

    /// Sends a request; an answer that tells of a problem is a failure.
    pub(super) async fn send(&self, request: &HubRequest) -> Result<Response, Failure> {
        let own_client = match request.timeout {
            Some(timeout) => Some(build_client(&self.base, timeout)?),
            None => None,
        };
        let http = own_client.as_ref().unwrap_or(&self.http);
        let mut builder = self.build_request(http, request.verb, &request.path);
        if let Some(version) = &request.if_match {
            builder = builder.header(header::IF_MATCH, version);
        }
        if let Some(body) = &request.body {
            builder = builder
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        if let Some((media_type, bytes)) = &request.bytes {
            builder = builder
                .header(header::CONTENT_TYPE, *media_type)
                .body(bytes.clone());
        }
        self.send_checked(builder).await
    }

    /// The bytes of an operation that gives no JSON, piece by piece.
    pub(crate) fn download(
        &self,
        call: &HubCall,
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let request = call.to_request()?;
        self.context.block_on(async {
            let mut response = self.send(&request).await?;
            loop {
                match response.chunk().await {
                    Ok(Some(piece)) => take(&piece)?,
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(self.unreachable_failure(&error)),
                }
            }
        })
    }

    fn build_request(&self, http: &Client, verb: HttpMethod, path: &str) -> RequestBuilder {
        let method = match verb {
            HttpMethod::Get => Method::GET,
            HttpMethod::Put => Method::PUT,
            HttpMethod::Post => Method::POST,
            HttpMethod::Patch => Method::PATCH,
            HttpMethod::Delete => Method::DELETE,
        };
        let url = format!("{}{path}", self.address());
        let builder = http.request(method, url);
        match &self.token {
            Some(token) => builder.bearer_auth(token.expose()),
            None => builder,
        }
    }

    pub(super) async fn send_checked(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable_failure(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response
            .bytes()
            .await
            .map_err(|error| self.unreachable_failure(&error))?;
        let document = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let failure = problem_failure(status.as_u16(), &document, self.token.is_some());
        // The document is the JSON of this route, too.
        if self.output().is_json() && document.is_object() {
            print_body(self.output(), &body);
            return Err(failure.mark_printed());
        }
        Err(failure)
    }

    pub(super) fn unreachable_failure(&self, error: &reqwest::Error) -> Failure {
        let base = self.address();
        let reason = root_cause(error);
        let failure = Failure::new(
            FailureKind::Unavailable,
            format!("the Hub at `{base}` does not answer: {reason}"),
        );
        if token::is_this_machine(&self.base) {
            return failure
                .hint("`hermes up` or `hermes hub serve` starts one; `--hub` names another");
        }
        failure.hint("`--hub` or `HERMES_HUB_URL` says where the Hub is")
    }

    /// Goes on only if the user wants it. Asked before anything is sent.
    pub(crate) fn confirm(&self, is_sure: bool, question: &str) -> Result<(), Failure> {
        if is_sure {
            return Ok(());
        }
        if Questions::new(false).confirm(
            question,
            DefaultAnswer::No,
            "`--yes` does it without asking",
        )? {
            return Ok(());
        }
        Err(Failure::failed("nothing was changed"))
    }
}

/// A client that waits so long for the next byte.
fn build_client(base: &Url, read_timeout: Duration) -> Result<Client, Failure> {
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(read_timeout)
        .redirect(reqwest::redirect::Policy::none())
        // Each request has a runtime of its own, and connections do not outlive one.
        .pool_max_idle_per_host(0);
    if token::is_this_machine(base) {
        builder = builder.no_proxy();
    }
    if base.scheme() == "http" {
        // The system's roots take milliseconds to read.
        builder = builder.tls_certs_only([]);
    }
    builder
        .build()
        .map_err(|error| Failure::failed(format!("no HTTP client: {error}")))
}

/// Which piece of a list.
#[derive(Debug, Default)]
pub(crate) struct PageRequest {
    pub(crate) limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

impl From<PageArgs> for PageRequest {
    fn from(args: PageArgs) -> Self {
        Self {
            limit: args.limit,
            cursor: args.cursor,
        }
    }
}

impl HubReply {
    /// A text in the answer, or nothing.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// The body as it came. What has none says that it worked, as the tools do.
fn print_body(output: Output, body: &[u8]) {
    match body {
        [] => output.raw("{\"ok\": true}\n"),
        body => output.raw(&format!("{}\n", String::from_utf8_lossy(body))),
    }
}

fn parse_reply(body: &[u8]) -> Result<HubReply, Failure> {
    if body.is_empty() {
        return Ok(HubReply {
            value: Value::Object(Map::new()),
        });
    }
    let value = serde_json::from_slice(body)
        .map_err(|error| Failure::failed(format!("the Hub's reply is not JSON: {error}")))?;
    Ok(HubReply { value })
}

fn parse_url(text: &str) -> Result<Url, Failure> {
    let wrong = |reason: &str| {
        Failure::usage(format!("`{text}` is not the address of a Hub: {reason}"))
            .hint("it looks like `http://127.0.0.1:7878`")
    };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("it must begin with `http://` or `https://`"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(wrong("it holds more than host, port and path"));
    }
    Ok(url)
}

/// What is at the bottom of an error: reqwest's own words name the address again and again.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The kind of failure that a status is.
fn failure_kind(status: u16) -> FailureKind {
    match status {
        400 | 405 => FailureKind::Usage,
        401 | 403 => FailureKind::Denied,
        404 => FailureKind::NotFound,
        502..=504 => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    }
}

/// The failure that a problem document tells. `has_token` says whether a token was presented.
pub(super) fn problem_failure(status: u16, document: &Value, has_token: bool) -> Failure {
    let message = match document.get("message").and_then(Value::as_str) {
        Some(message) => printable(message).into_owned(),
        None => status_message(status, document),
    };
    let mut failure = Failure::new(failure_kind(status), message);
    let place = document.pointer("/details/0/field").and_then(Value::as_str);
    failure.member = place.map(Into::into);
    let failure = match (status, has_token) {
        (401, false) => failure.hint(
            "set `HERMES_HUB_TOKEN`, or name a file with `--token-file`; a Hub of this machine keeps its first one in \
             `admin.token`",
        ),
        (401, true) => failure.hint("`hermes token whoami` tells whose token it is; it may have been revoked"),
        _ => failure,
    };
    match document.get("retryAfterMs").and_then(Value::as_u64) {
        Some(wait) => failure.hint(format!("try again in {} s", wait.div_ceil(1000).max(1))),
        None => failure,
    }
}

/// What an answer without a message tells: that of the route for readiness lists what is not.
fn status_message(status: u16, document: &Value) -> String {
    let lacks = document.as_object().into_iter().flatten();
    let lacks: Vec<&str> = lacks
        .filter(|(_, is_ready)| **is_ready == false)
        .map(|(name, _)| name.as_str())
        .collect();
    match lacks.as_slice() {
        [] => format!("the Hub answered with status {status}"),
        lacks => format!("the Hub is not ready: {}", lacks.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_refused_and_not_repeated_to_the_hub() {
        for text in [
            "http://me:pw@127.0.0.1",
            "ftp://127.0.0.1",
            "127.0.0.1:7878",
            "http://h/?token=x",
        ] {
            assert_eq!(parse_url(text).unwrap_err().exit_code(), 2, "{text}");
        }
        assert!(parse_url("https://hub.example.com/behind/a/proxy").is_ok());
    }

    use serde_json::json;

    #[test]
    fn a_status_decides_the_exit_code() {
        let codes = [400, 401, 403, 404, 409, 412, 422, 429, 500, 503, 504]
            .map(|status| problem_failure(status, &json!({"message": "x"}), true).exit_code());
        assert_eq!(codes, [2, 4, 4, 3, 1, 1, 1, 1, 1, 6, 6]);
    }

    #[test]
    fn what_is_not_a_document_is_told_by_its_status() {
        let failure = problem_failure(502, &Value::Null, true);
        assert_eq!(failure.message, "the Hub answered with status 502");
        assert_eq!(failure.exit_code(), 6);
        let document = json!({"status": "not ready", "database": false, "disk": true});
        let failure = super::problem_failure(503, &document, false);
        assert_eq!(failure.message, "the Hub is not ready: database");
    }
}
