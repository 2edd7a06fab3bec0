//! Runs of a tenant's chats: its agent asks the Hub before each, and tells what it used.

use std::{path::Path, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::Secret;
use hermes_gateway::runs::{MeterError, RunMeter};
use hermes_hub::ProblemDocument;
use hermes_protocol::{ChatRunRefusal, ChatRunUse, OpenChatRuns};
use reqwest::{Method, RequestBuilder, Response, Url};

use crate::private_routes::{PrivateRoutes, RuntimeKey};

/// Runs are counted by the Hub.
pub(crate) struct HubMeter(PrivateRoutes);

impl HubMeter {
    /// That of the Hub that this process belongs to.
    pub(crate) fn from_environment(key: &Secret<String>) -> Option<Arc<dyn RunMeter>> {
        let routes = PrivateRoutes::from_environment(key)?;
        Some(Arc::new(Self(routes)))
    }

    /// By way of the Hub's private routes.
    pub(crate) fn connect(socket: &Path, key: RuntimeKey) -> Option<Arc<dyn RunMeter>> {
        match PrivateRoutes::connect(socket, key) {
            Ok(routes) => Some(Arc::new(Self(routes))),
            Err(error) => {
                tracing::warn!(%error, "cannot connect to the Hub to count runs of chats");
                None
            }
        }
    }

    fn request(&self, method: Method, run: Option<&str>) -> Result<RequestBuilder, MeterError> {
        let mut address = "http://hub/internal/v1/chat-runs".to_owned();
        if let Some(run) = run {
            address.push('/');
            address.push_str(run);
        }
        let url = Url::parse(&address).map_err(|error| unavailable(error.to_string()))?;
        Ok(self.0.request(method, url))
    }
}

fn unavailable(reason: impl Into<String>) -> MeterError {
    MeterError::Unavailable {
        reason: reason.into(),
    }
}

async fn send_request(request: RequestBuilder) -> Result<Response, MeterError> {
    let sent = request.send().await;
    let reply = sent.map_err(|error| unavailable(error.without_url().to_string()))?;
    let status = reply.status();
    if status.is_success() {
        return Ok(reply);
    }
    let is_refusal = |problem: &ProblemDocument| {
        let reason = problem.reason.as_deref();
        reason.and_then(ChatRunRefusal::from_word).is_some()
    };
    match reply.json::<ProblemDocument>().await {
        Ok(problem) if is_refusal(&problem) => Err(MeterError::Refused {
            message: problem.message,
        }),
        _ => Err(unavailable(format!("the Hub answered {status}"))),
    }
}

impl RunMeter for HubMeter {
    fn begin<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), MeterError>> {
        async move {
            let request = self.request(Method::POST, Some(run))?;
            send_request(request).await.map(drop)
        }
        .boxed()
    }

    fn open_runs(&self) -> BoxFuture<'_, Result<Vec<String>, MeterError>> {
        async move {
            if !self.0.has_key() {
                // It is asked at the start of the process, too.
                return Ok(Vec::new());
            }
            let reply = send_request(self.request(Method::GET, None)?).await?;
            let open: OpenChatRuns = reply
                .json()
                .await
                .map_err(|error| unavailable(error.without_url().to_string()))?;
            Ok(open.runs)
        }
        .boxed()
    }

    fn end<'a>(
        &'a self,
        run: &'a str,
        used: &'a ChatRunUse,
    ) -> BoxFuture<'a, Result<(), MeterError>> {
        async move {
            let request = self.request(Method::PUT, Some(run))?.json(used);
            send_request(request).await.map(drop)
        }
        .boxed()
    }
}
