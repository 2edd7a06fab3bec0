//! Handles requests of MCP servers: sampling through the [`Sampler`], elicitation through [`ElicitationRegistry`], and roots.

#![expect(
    deprecated,
    reason = "sampling and roots are still spoken by servers of every older revision"
)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::{
    Redactor, Server, ServerName,
    server::RootsPolicy,
    sync::{Mutex, MutexGuard},
};
use hermes_mcp::{
    Host, ServerRequestHandler,
    protocol::{
        CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, Root,
    },
    server_request::{
        ElicitationError, OfferedCapabilities, RequestOrigin, SamplingError, SamplingReply,
    },
};
use serde_json::Value;
use url::Url;

use crate::{
    printable::printable,
    server_requests::{
        elicitation::{
            ElicitationAnswer, ElicitationRegistry, ElicitationUi, Form, FormRequest, LinkRequest,
        },
        sampler::{Sampler, SamplingRefusal},
    },
};

pub mod elicitation;
pub mod sampler;

/// The longest message of a server that is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Handles the requests of servers for an agent.
pub struct AgentRequestHandler {
    sampler: Option<Sampler>,
    elicitation: Arc<ElicitationRegistry>,
    /// The root for servers with `roots: auto`.
    directory: Mutex<Option<PathBuf>>,
    servers: Mutex<HashMap<ServerName, KnownServer>>,
}

/// The relevant settings of a server.
#[derive(Debug, Clone)]
struct KnownServer {
    roots: RootsPolicy,
    allows_elicitation: bool,
    elicitation_timeout: Duration,
}

impl AgentRequestHandler {
    /// Without sampling.
    pub fn new(people: Arc<ElicitationRegistry>) -> Self {
        Self {
            sampler: None,
            elicitation: people,
            directory: Mutex::default(),
            servers: Mutex::default(),
        }
    }

    /// Asks models too.
    #[must_use]
    pub fn with_sampler(mut self, sampler: Sampler) -> Self {
        self.sampler = Some(sampler);
        self
    }

    /// Shares the working directory as a root: for an interactive command line.
    #[must_use]
    pub fn with_directory(self, directory: PathBuf) -> Self {
        *lock(&self.directory) = Some(directory);
        self
    }

    /// Replaces the redactor for model replies to servers.
    pub fn use_redactor(&self, redactor: Redactor) {
        if let Some(sampler) = &self.sampler {
            sampler.use_redactor(redactor);
        }
    }

    /// Changes the working directory and notifies the servers that their roots have changed.
    pub async fn change_directory(&self, directory: PathBuf, host: &Host) {
        let before = lock(&self.directory).replace(directory.clone());
        if before.as_ref() != Some(&directory) {
            host.notify_roots_changed().await;
        }
    }

    fn known_server(&self, server: &ServerName) -> Option<KnownServer> {
        lock(&self.servers).get(server).cloned()
    }

    fn list_roots(&self, policy: &RootsPolicy) -> Vec<Root> {
        list_roots(policy, lock(&self.directory).as_deref())
    }

    async fn elicit_answer(
        &self,
        origin: RequestOrigin,
        request: ElicitRequestParams,
    ) -> Result<ElicitationAnswer<Option<Value>>, ElicitationError> {
        let known = self.known_server(&origin.server);
        let known = known.filter(|known| known.allows_elicitation);
        let slot = self.elicitation.find_slot(origin.conversation.as_ref());
        let (Some(known), Some(slot)) = (known, slot) else {
            return Ok(ElicitationAnswer::Declined);
        };
        let asked = async {
            // The semaphore is never closed.
            let _turn = slot.question_permit.acquire().await;
            ask_person(&*slot.ui, origin.server, request, known.elicitation_timeout).await
        };
        tokio::select! {
            answer = asked => answer,
            () = slot.closed.cancelled() => Ok(ElicitationAnswer::Cancelled),
        }
    }
}

/// Puts a request to the person of a conversation, and checks the answers.
async fn ask_person(
    ui: &dyn ElicitationUi,
    server: ServerName,
    request: ElicitRequestParams,
    timeout: Duration,
) -> Result<ElicitationAnswer<Option<Value>>, ElicitationError> {
    match request {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => {
            let schema = serde_json::to_value(requested_schema).map_err(elicitation_failed)?;
            let form = Form::from_schema(&schema).map_err(elicitation_failed)?;
            let request = FormRequest {
                server,
                message: truncate_message(&message),
                form: form.clone(),
                timeout,
            };
            match ui.fill_form(request).await.map_err(elicitation_failed)? {
                ElicitationAnswer::Accepted(answers) => {
                    let answers = form.check(answers).map_err(|(field, invalid)| {
                        ElicitationError(format!("`{}` {invalid}", field.title))
                    })?;
                    Ok(ElicitationAnswer::Accepted(Some(Value::Object(answers))))
                }
                ElicitationAnswer::Declined => Ok(ElicitationAnswer::Declined),
                ElicitationAnswer::Cancelled => Ok(ElicitationAnswer::Cancelled),
            }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let request = link_request(server, &message, &url, timeout)?;
            Ok(
                match ui.confirm_link(request).await.map_err(elicitation_failed)? {
                    ElicitationAnswer::Accepted(()) => ElicitationAnswer::Accepted(None),
                    ElicitationAnswer::Declined => ElicitationAnswer::Declined,
                    ElicitationAnswer::Cancelled => ElicitationAnswer::Cancelled,
                },
            )
        }
        _ => Err(ElicitationError(
            "an elicitation request of an unknown kind".into(),
        )),
    }
}

impl ServerRequestHandler for AgentRequestHandler {
    fn offered_capabilities(&self, server: &Server) -> OfferedCapabilities {
        let known = KnownServer {
            roots: server.roots.clone(),
            allows_elicitation: server.elicitation.enabled,
            elicitation_timeout: server.elicitation.timeout,
        };
        let ways = self.elicitation.modes();
        let offers = OfferedCapabilities {
            sampling: self
                .sampler
                .as_ref()
                .and_then(|sampler| sampler.sampling_offer(server)),
            forms: known.allows_elicitation && ways.forms,
            urls: known.allows_elicitation && ways.links,
            roots: !self.list_roots(&known.roots).is_empty(),
        };
        lock(&self.servers).insert(server.name.clone(), known);
        offers
    }

    fn sample(
        &self,
        origin: RequestOrigin,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        Box::pin(async move {
            match &self.sampler {
                Some(sampler) => sampler.sample(&origin, request).await,
                None => Err(SamplingRefusal::NoModel("none is available here".into()).into()),
            }
        })
    }

    fn elicit(
        &self,
        origin: RequestOrigin,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        Box::pin(async move {
            Ok(match self.elicit_answer(origin, request).await? {
                ElicitationAnswer::Accepted(Some(content)) => {
                    ElicitResult::new(ElicitationAction::Accept).with_content(content)
                }
                ElicitationAnswer::Accepted(None) => ElicitResult::new(ElicitationAction::Accept),
                ElicitationAnswer::Declined => ElicitResult::new(ElicitationAction::Decline),
                ElicitationAnswer::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
            })
        })
    }

    fn roots(&self, origin: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        let policy = self.known_server(&origin.server).map(|known| known.roots);
        let roots = policy.map_or_else(Vec::new, |policy| self.list_roots(&policy));
        Box::pin(std::future::ready(roots))
    }
}

/// Only web pages: other URLs can start programs or read files.
fn link_request(
    server: ServerName,
    message: &str,
    url: &str,
    timeout: Duration,
) -> Result<LinkRequest, ElicitationError> {
    let address = url::Url::parse(url).map_err(elicitation_failed)?;
    match (address.scheme(), address.host_str()) {
        ("http" | "https", Some(host)) => Ok(LinkRequest {
            server,
            message: truncate_message(message),
            host: host.to_owned(),
            url: address.to_string(),
            timeout,
        }),
        _ => Err(ElicitationError(
            "the address is neither http nor https".into(),
        )),
    }
}

fn truncate_message(message: &str) -> String {
    let message = printable(message);
    let mut characters = message.char_indices();
    match characters.nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{} …", &message[..end]),
        None => message.into_owned(),
    }
}

fn elicitation_failed(error: impl std::fmt::Display) -> ElicitationError {
    ElicitationError(error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The roots of a server. A directory that cannot be written as a URL is omitted.
fn list_roots(policy: &RootsPolicy, directory: Option<&Path>) -> Vec<Root> {
    match policy {
        RootsPolicy::Auto => directory.and_then(directory_root).into_iter().collect(),
        RootsPolicy::Directories(texts) => texts
            .iter()
            .filter_map(|text| configured_root(text))
            .collect(),
    }
}

fn configured_root(text: &str) -> Option<Root> {
    if text.starts_with("file://") {
        return Some(Root::new(text));
    }
    let path = match text.strip_prefix("~/") {
        Some(rest) => std::env::home_dir()?.join(rest),
        None if text == "~" => std::env::home_dir()?,
        None => PathBuf::from(text),
    };
    directory_root(&std::path::absolute(path).ok()?)
}

fn directory_root(path: &Path) -> Option<Root> {
    let root = Root::new(Url::from_file_path(path).ok()?.to_string());
    Some(match path.file_name() {
        Some(name) => root.with_name(name.to_string_lossy()),
        None => root,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(policy: &RootsPolicy, directory: Option<&str>) -> Vec<(String, Option<String>)> {
        let roots = list_roots(policy, directory.map(Path::new));
        roots
            .into_iter()
            .map(|root| (root.uri, root.name))
            .collect()
    }

    #[test]
    fn auto_is_the_working_directory_where_there_is_one() {
        let expected = (
            "file:///srv/my%20project".to_owned(),
            Some("my project".to_owned()),
        );
        assert_eq!(
            shown(&RootsPolicy::Auto, Some("/srv/my project")),
            [expected]
        );
        assert_eq!(shown(&RootsPolicy::Auto, None), []);
    }

    #[test]
    fn a_list_is_told_as_it_is_whatever_the_working_directory() {
        let list = ["/srv/a", "file:///srv/b", "/"].map(str::to_owned).to_vec();
        let uris: Vec<String> = shown(&RootsPolicy::Directories(list), Some("/tmp"))
            .into_iter()
            .map(|(uri, _)| uri)
            .collect();
        assert_eq!(uris, ["file:///srv/a", "file:///srv/b", "file:///"]);
        assert_eq!(
            shown(&RootsPolicy::Directories(Vec::new()), Some("/tmp")),
            []
        );
    }
}
