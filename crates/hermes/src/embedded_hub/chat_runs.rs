//! Runs of a tenant's chats: its agent asks the Hub before each, and tells what it used.

use std::{path::Path, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use hermes_config::Secret;
use hermes_gateway::runs::{MeterError, RunMeter};
use hermes_protocol::{ChatRunUse, OpenChatRuns};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde_json::Value;

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
    let problem: Value = reply.json().await.unwrap_or_default();
    let message = problem["message"].as_str();
    let is_refusal = matches!(
        problem["reason"].as_str(),
        Some("daily_limit" | "tenant_blocked")
    );
    match message {
        Some(message) if is_refusal => Err(MeterError::Refused {
            message: message.to_owned(),
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
