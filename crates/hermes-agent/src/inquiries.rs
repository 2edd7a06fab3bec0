//! Handles requests of MCP servers: sampling through the [`Sampler`], elicitation through [`People`], and roots.

#![expect(
    deprecated,
    reason = "sampling and roots are still spoken by servers of every older revision"
)]

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::future::BoxFuture;
use hermes_config::{Redactor, Server, ServerName, server::RootsPolicy};
use hermes_mcp::{
    Host, Inquiries,
    inquiry::{Asker, ElicitationFailed, Offers, Sampled, SamplingRefused},
    protocol::{
        CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, Root,
    },
};
use serde_json::Value;

use crate::{
    elicitation::{Answer, Form, FormRequest, LinkRequest, People},
    printable::printable,
    sampler::{Refusal, Sampler},
};

mod roots;

/// The longest message of a server that is shown, in characters.
const LONGEST_MESSAGE: usize = 4_000;

/// Handles the requests of servers for an agent.
pub struct AgentInquiries {
    sampler: Option<Sampler>,
    people: Arc<People>,
    /// The root for servers with `roots: auto`.
    directory: Mutex<Option<PathBuf>>,
    servers: Mutex<HashMap<ServerName, Known>>,
}

/// The relevant settings of a server.
#[derive(Debug, Clone)]
struct Known {
    roots: RootsPolicy,
    may_ask_people: bool,
}

impl AgentInquiries {
    /// Without sampling.
    pub fn new(people: Arc<People>) -> Self {
        Self {
            sampler: None,
            people,
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
            host.roots_changed().await;
        }
    }

    fn known(&self, server: &ServerName) -> Option<Known> {
        lock(&self.servers).get(server).cloned()
    }

    fn roots_of(&self, policy: &RootsPolicy) -> Vec<Root> {
        roots::list(policy, lock(&self.directory).as_deref())
    }

    async fn ask(
        &self,
        asker: Asker,
        request: ElicitRequestParams,
    ) -> Result<Answer<Option<Value>>, ElicitationFailed> {
        let may_ask = self
            .known(&asker.server)
            .is_some_and(|known| known.may_ask_people);
        let seat = self.people.find(asker.conversation.as_ref());
        let Some(seat) = seat.filter(|_| may_ask) else {
            return Ok(Answer::Declined);
        };
        // The semaphore is never closed.
        let _turn = seat.turn.acquire().await;
        match request {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema = serde_json::to_value(requested_schema).map_err(failed)?;
                let form = Form::read(&schema).map_err(failed)?;
                let request = FormRequest {
                    server: asker.server,
                    message: shortened(&message),
                    form: form.clone(),
                };
                match seat.person.fill_in(request).await.map_err(failed)? {
                    Answer::Accepted(answers) => {
                        let answers = form.check(answers).map_err(|(field, invalid)| {
                            ElicitationFailed(format!("`{}` {invalid}", field.title))
                        })?;
                        Ok(Answer::Accepted(Some(Value::Object(answers))))
                    }
                    Answer::Declined => Ok(Answer::Declined),
                    Answer::Cancelled => Ok(Answer::Cancelled),
                }
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                let request = link(asker.server, &message, &url)?;
                Ok(match seat.person.visit(request).await.map_err(failed)? {
                    Answer::Accepted(()) => Answer::Accepted(None),
                    Answer::Declined => Answer::Declined,
                    Answer::Cancelled => Answer::Cancelled,
                })
            }
            _ => Err(ElicitationFailed("an elicitation request of an unknown kind".into())),
        }
    }
}

impl Inquiries for AgentInquiries {
    fn offers(&self, server: &Server) -> Offers {
        let known = Known {
            roots: server.roots.clone(),
            may_ask_people: server.elicitation.enabled,
        };
        let ways = self.people.ways();
        let offers = Offers {
            sampling: self
                .sampler
                .as_ref()
                .and_then(|sampler| sampler.offer(server)),
            forms: known.may_ask_people && ways.forms,
            urls: known.may_ask_people && ways.links,
            roots: !self.roots_of(&known.roots).is_empty(),
        };
        lock(&self.servers).insert(server.name.clone(), known);
        offers
    }

    fn sample(
        &self,
        asker: Asker,
        request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<Sampled, SamplingRefused>> {
        Box::pin(async move {
            match &self.sampler {
                Some(sampler) => sampler.sample(&asker, request).await,
                None => Err(Refusal::NoModel("none is available here".into()).into()),
            }
        })
    }

    fn elicit(
        &self,
        asker: Asker,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationFailed>> {
        Box::pin(async move {
            Ok(match self.ask(asker, request).await? {
                Answer::Accepted(Some(content)) => {
                    ElicitResult::new(ElicitationAction::Accept).with_content(content)
                }
                Answer::Accepted(None) => ElicitResult::new(ElicitationAction::Accept),
                Answer::Declined => ElicitResult::new(ElicitationAction::Decline),
                Answer::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
            })
        })
    }

    fn roots(&self, asker: Asker) -> BoxFuture<'_, Vec<Root>> {
        let policy = self.known(&asker.server).map(|known| known.roots);
        let roots = policy.map_or_else(Vec::new, |policy| self.roots_of(&policy));
        Box::pin(std::future::ready(roots))
    }
}

/// Only web pages: other URLs can start programs or read files.
fn link(server: ServerName, message: &str, url: &str) -> Result<LinkRequest, ElicitationFailed> {
    let address = url::Url::parse(url).map_err(failed)?;
    match (address.scheme(), address.host_str()) {
        ("http" | "https", Some(host)) => Ok(LinkRequest {
            server,
            message: shortened(message),
            host: host.to_owned(),
            url: address.to_string(),
        }),
        _ => Err(ElicitationFailed(
            "the address is neither http nor https".into(),
        )),
    }
}

fn shortened(message: &str) -> String {
    let message = printable(message);
    let mut characters = message.char_indices();
    match characters.nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{} …", &message[..end]),
        None => message.into_owned(),
    }
}

fn failed(error: impl std::fmt::Display) -> ElicitationFailed {
    ElicitationFailed(error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
