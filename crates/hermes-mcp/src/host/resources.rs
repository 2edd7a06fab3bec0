//! Resources and prompts: for the utility tools, and typed for the surfaces that show them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::{Redactor, ServerName};
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, Prompt, ReadResourceRequestParams, ReadResourceResult,
    Resource, ResourceTemplate, ServerResult,
};
use serde_json::{Map, Value};

use super::{Host, calls::read_leniently};
use crate::{
    call,
    call::{
        CallError, CallOptions, CallRequest,
        outcome::{CallFailure, Outcome},
    },
    connection::{
        handle::ServerHandle,
        link::{Link, LinkStatus},
        session::McpSession,
    },
    tools::{
        catalog,
        catalog::{Catalog, ListError},
        names::{Naming, RegisteredName},
        registry::UtilityTool,
    },
};

type ResourceLists = (Vec<Resource>, Vec<ResourceTemplate>);

impl Host {
    pub fn read_resource<'a>(
        &'a self,
        server: &'a ServerName,
        uri: &'a str,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Result<ReadResourceResult, CallError>> {
        Box::pin(async move {
            let handle = self.require_handle(server)?;
            let request = CallRequest::Resource(ReadResourceRequestParams::new(uri));
            match self.send_request(&handle, request, true, options).await? {
                ServerResult::ReadResourceResult(result) => Ok(result),
                other => read_leniently(other),
            }
        })
    }

    pub fn get_prompt<'a>(
        &'a self,
        server: &'a ServerName,
        name: &'a str,
        arguments: Map<String, Value>,
        options: &'a CallOptions,
    ) -> BoxFuture<'a, Result<GetPromptResult, CallError>> {
        Box::pin(async move {
            let handle = self.require_handle(server)?;
            let params = GetPromptRequestParams::new(name).with_arguments(arguments);
            match self
                .send_request(&handle, CallRequest::Prompt(params), true, options)
                .await?
            {
                ServerResult::GetPromptResult(result) => Ok(result),
                other => read_leniently(other),
            }
        })
    }

    /// Why a request to a server failed, without its secrets.
    pub fn describe_error(&self, server: &ServerName, error: &CallError) -> String {
        let text = error.to_string();
        match self.handle(server) {
            Some(handle) => handle.redact(&text),
            None => Redactor::default().redact(&text).into_owned(),
        }
    }

    /// The resources and templates a server has now.
    pub fn resources<'a>(
        &'a self,
        server: &'a ServerName,
    ) -> BoxFuture<'a, Result<ResourceLists, CallError>> {
        Box::pin(async move { self.list_resources(server, &CallOptions::default()).await })
    }

    pub fn prompts<'a>(
        &'a self,
        server: &'a ServerName,
    ) -> BoxFuture<'a, Result<Vec<Prompt>, CallError>> {
        Box::pin(async move { self.list_prompts(server, &CallOptions::default()).await })
    }

    pub(super) async fn list_resources(
        &self,
        server: &ServerName,
        options: &CallOptions,
    ) -> Result<(Vec<Resource>, Vec<ResourceTemplate>), CallError> {
        self.list_with_session(server, options, async |session| {
            let capabilities = &session.info.capabilities;
            let (resources, templates) = tokio::join!(
                catalog::list_resources(&session.peer, capabilities),
                catalog::list_templates(&session.peer, capabilities)
            );
            let templates = templates.map(|list| list.items).unwrap_or_default();
            Ok((resources?.items, templates))
        })
        .await
    }

    pub(super) async fn list_prompts(
        &self,
        server: &ServerName,
        options: &CallOptions,
    ) -> Result<Vec<Prompt>, CallError> {
        self.list_with_session(server, options, async |session| {
            let list = catalog::list_prompts(&session.peer, &session.info.capabilities).await?;
            Ok(list.items)
        })
        .await
    }

    /// Lists something within the time of a call. Listings do not queue behind calls.
    async fn list_with_session<T>(
        &self,
        server: &ServerName,
        options: &CallOptions,
        list: impl AsyncFnOnce(&McpSession) -> Result<T, ListError>,
    ) -> Result<T, CallError> {
        let handle = self.require_handle(server)?;
        let work = async {
            let session = call::acquire_session(&handle).await?;
            let limit = options
                .timeout
                .unwrap_or_else(|| handle.server.load().timeout);
            match tokio::time::timeout(limit, list(&session)).await {
                Ok(listed) => {
                    listed.map_err(|error| CallError::UnexpectedResponse(error.to_string()))
                }
                Err(_) => Err(CallError::TimedOut {
                    elapsed: limit,
                    allowed: limit,
                }),
            }
        };
        tokio::select! {
            done = work => done,
            () = options.cancel.cancelled() => Err(CallError::Interrupted),
        }
    }

    /// Asks for news of one resource, over reconnects too, until the returned guard is dropped. They come through
    /// [`Host::resource_updates`]. `None`: there is no such server.
    pub fn watch_resource(&self, server: &ServerName, uri: &str) -> Option<ResourceWatch> {
        let handle = self.handle(server)?;
        handle.resource_subscriptions.send_if_modified(|wanted| {
            let watchers = wanted.entry(uri.to_owned()).or_default();
            *watchers += 1;
            *watchers == 1
        });
        Some(ResourceWatch {
            handle: Arc::downgrade(&handle),
            uri: uri.to_owned(),
        })
    }

    pub(super) async fn call_utility(
        &self,
        handle: &Arc<ServerHandle>,
        utility: UtilityTool,
        arguments: &Map<String, Value>,
        options: &CallOptions,
    ) -> Outcome {
        let outcome = self
            .run_utility(&handle.name, utility, arguments, options)
            .await;
        outcome.unwrap_or_else(|error| error.into_failure(handle).into())
    }

    async fn run_utility(
        &self,
        server: &ServerName,
        utility: UtilityTool,
        arguments: &Map<String, Value>,
        options: &CallOptions,
    ) -> Result<Outcome, CallError> {
        let required = |name: &str| {
            arguments
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let missing = |name: &'static str| Ok(CallFailure::MissingParameter(name).into());
        Ok(match utility {
            UtilityTool::ListResources => {
                let (resources, templates) = self.list_resources(server, options).await?;
                Outcome::from_resources(&resources, &templates)
            }
            UtilityTool::ReadResource => {
                let Some(uri) = required("uri") else {
                    return missing("uri");
                };
                let result = self.read_resource(server, uri, options).await?;
                Outcome::from_resource(result, &self.state.media).await
            }
            UtilityTool::ListPrompts => {
                let prompts = self.list_prompts(server, options).await?;
                Outcome::from_prompts(&prompts)
            }
            UtilityTool::GetPrompt => {
                let Some(name) = required("name") else {
                    return missing("name");
                };
                let filled = match arguments.get("arguments") {
                    Some(Value::Object(filled)) => filled.clone(),
                    _ => Map::new(),
                };
                let result = self.get_prompt(server, name, filled, options).await?;
                let link_tool = self.read_resource_name(server);
                Outcome::from_prompt(result, &self.state.media, link_tool.as_ref()).await
            }
        })
    }

    /// The name of the tool that reads a server's resources, where it is offered.
    pub(super) fn read_resource_name(&self, server: &ServerName) -> Option<RegisteredName> {
        let registry = self.registry();
        registry
            .find_original(server, UtilityTool::ReadResource.as_str())
            .map(|tool| tool.name.clone())
    }

    fn require_handle(&self, server: &ServerName) -> Result<Arc<ServerHandle>, CallError> {
        self.handle(server).ok_or_else(|| CallError::NotConnected {
            server: server.clone(),
            status: crate::connection::link::LinkStatus::Stopped,
            detail: Some("no such server is connected".into()),
        })
    }
}

/// Somebody's wish to hear of changes of a resource. The server is told of the first one's and of the last one's end.
#[must_use = "it ends when dropped"]
pub struct ResourceWatch {
    /// Whoever connected the server, if it has not been replaced since.
    handle: Weak<ServerHandle>,
    uri: String,
}

impl Drop for ResourceWatch {
    fn drop(&mut self) {
        let Some(handle) = self.handle.upgrade() else {
            return;
        };
        handle.resource_subscriptions.send_if_modified(|wanted| {
            let Some(watchers) = wanted.get_mut(&self.uri) else {
                return false;
            };
            *watchers -= 1;
            let is_last = *watchers == 0;
            if is_last {
                wanted.remove(&self.uri);
            }
            is_last
        });
    }
}

impl Host {
    /// How names of tools and commands are put together.
    pub fn naming(&self) -> Naming {
        **self.state.naming.load()
    }

    /// Every server that has a connection, in the order of the configuration.
    pub fn servers(&self) -> Vec<ServerName> {
        let handles = self.handles();
        handles.iter().map(|handle| handle.name.clone()).collect()
    }

    /// The prompts of all servers, without those of servers that say `tools.prompts: false`.
    pub fn offered_prompts(&self) -> Vec<(ServerName, Prompt)> {
        let mut offered = Vec::new();
        for handle in self.handles() {
            if !handle.settings().tools.prompts {
                continue;
            }
            if let Some(catalog) = handle.link.borrow().offered_catalog() {
                let prompts = catalog.prompts.iter().cloned();
                offered.extend(prompts.map(|prompt| (handle.name.clone(), prompt)));
            }
        }
        offered
    }

    /// The lists of every server that is there, with its resources and templates.
    pub fn offered_catalogs(&self) -> Vec<(ServerName, Arc<Catalog>)> {
        let catalog = |link: &Link| link.offered_catalog().cloned();
        let handles = self.handles().into_iter();
        handles
            .filter_map(|handle| Some((handle.name.clone(), catalog(&handle.link.borrow())?)))
            .collect()
    }

    /// Waits until each server has listed all it has or has failed once, or the time is up.
    pub fn wait_until_listed(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let is_done = |link: &Link| {
                let is_whole = link
                    .catalog
                    .as_ref()
                    .is_some_and(|catalog| catalog.is_complete);
                match link.status {
                    LinkStatus::Connecting => link.attempts_ended > 0,
                    LinkStatus::Ready => is_whole,
                    _ => true,
                }
            };
            let handles = self.handles();
            let waits = handles.iter().map(async |handle| {
                let mut link = handle.link.clone();
                let _ = link.wait_for(is_done).await;
            });
            let _ = tokio::time::timeout(limit, futures::future::join_all(waits)).await;
        })
    }
}
