//! Asks a server for its lists, page by page, and takes what is usable of them.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    model::{
        ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
        ListToolsRequest, PaginatedRequestParams, Prompt, Resource, ResourceTemplate,
        ServerCapabilities, ServerResult,
    },
    service::{Peer, ServiceError},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::NativeTool;

/// A server that goes on and on is cut here.
const MAX_PAGES: usize = 50;

/// Why a listing failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("listing {what} failed: {error}")]
    Service {
        what: &'static str,
        error: ServiceError,
    },
    #[error("the answer to {what} has no list in it")]
    NotAList { what: &'static str },
}

/// Items of one list, and what was odd about it.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    pub(crate) warnings: Vec<String>,
}

struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
    warnings: Vec<String>,
}

pub(crate) async fn list_tools(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<Listed<Arc<NativeTool>>, ListError> {
    if capabilities.tools.is_none() {
        return Ok(Listed {
            items: Vec::new(),
            warnings: Vec::new(),
        });
    }
    let mut list = pages("tools", |params| async move {
        let result = match peer.list_tools(params.clone()).await {
            Ok(result) => {
                return Ok(Page {
                    items: result.tools,
                    next: result.next_cursor,
                    warnings: Vec::new(),
                });
            }
            // A list with one bad tool in it is of no known shape: take what can be taken.
            Err(ServiceError::UnexpectedResponse) => {
                let request = ListToolsRequest {
                    params,
                    ..Default::default()
                };
                peer.send_request(ClientRequest::ListToolsRequest(request))
                    .await?
            }
            Err(error) => return Err(error),
        };
        by_hand(&result, "tools", mend_tool)
    })
    .await?;
    let mut tools: Vec<Arc<NativeTool>> = Vec::with_capacity(list.items.len());
    for tool in list.items {
        let tool = NativeTool::new(tool);
        if tools.iter().any(|known| known.name == tool.name) {
            list.warnings.push(format!(
                "tool `{}` is listed twice; the first one counts",
                tool.name
            ));
            continue;
        }
        tools.push(Arc::new(tool));
    }
    Ok(Listed {
        items: tools,
        warnings: list.warnings,
    })
}

pub(crate) async fn list_resources(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<Listed<Resource>, ListError> {
    if capabilities.resources.is_none() {
        return Ok(Listed {
            items: Vec::new(),
            warnings: Vec::new(),
        });
    }
    pages("resources", |params| async move {
        match peer.list_resources(params.clone()).await {
            Ok(result) => Ok(Page {
                items: result.resources,
                next: result.next_cursor,
                warnings: Vec::new(),
            }),
            Err(ServiceError::UnexpectedResponse) => {
                let request = ListResourcesRequest {
                    params,
                    ..Default::default()
                };
                let result = peer
                    .send_request(ClientRequest::ListResourcesRequest(request))
                    .await?;
                by_hand(&result, "resources", |_| None)
            }
            Err(error) => Err(error),
        }
    })
    .await
}

pub(crate) async fn list_templates(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<Listed<ResourceTemplate>, ListError> {
    if capabilities.resources.is_none() {
        return Ok(Listed {
            items: Vec::new(),
            warnings: Vec::new(),
        });
    }
    pages("resource templates", |params| async move {
        match peer.list_resource_templates(params.clone()).await {
            Ok(result) => Ok(Page {
                items: result.resource_templates,
                next: result.next_cursor,
                warnings: Vec::new(),
            }),
            // Not every server with resources knows templates.
            Err(ServiceError::McpError(error)) if error.code.0 == -32601 => Ok(Page {
                items: Vec::new(),
                next: None,
                warnings: Vec::new(),
            }),
            Err(ServiceError::UnexpectedResponse) => {
                let request = ListResourceTemplatesRequest {
                    params,
                    ..Default::default()
                };
                let result = peer
                    .send_request(ClientRequest::ListResourceTemplatesRequest(request))
                    .await?;
                by_hand(&result, "resourceTemplates", |_| None)
            }
            Err(error) => Err(error),
        }
    })
    .await
}

pub(crate) async fn list_prompts(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<Listed<Prompt>, ListError> {
    if capabilities.prompts.is_none() {
        return Ok(Listed {
            items: Vec::new(),
            warnings: Vec::new(),
        });
    }
    pages("prompts", |params| async move {
        match peer.list_prompts(params.clone()).await {
            Ok(result) => Ok(Page {
                items: result.prompts,
                next: result.next_cursor,
                warnings: Vec::new(),
            }),
            Err(ServiceError::UnexpectedResponse) => {
                let request = ListPromptsRequest {
                    params,
                    ..Default::default()
                };
                let result = peer
                    .send_request(ClientRequest::ListPromptsRequest(request))
                    .await?;
                by_hand(&result, "prompts", |_| None)
            }
            Err(error) => Err(error),
        }
    })
    .await
}

/// Follows `nextCursor`, but not for ever.
async fn pages<T, F, Fetch>(what: &'static str, fetch: F) -> Result<Listed<T>, ListError>
where
    F: Fn(Option<PaginatedRequestParams>) -> Fetch,
    Fetch: Future<Output = Result<Page<T>, ServiceError>>,
{
    let mut list = Listed {
        items: Vec::new(),
        warnings: Vec::new(),
    };
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor
            .clone()
            .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let page = match Box::pin(fetch(params)).await {
            Ok(page) => page,
            Err(ServiceError::UnexpectedResponse) => return Err(ListError::NotAList { what }),
            Err(error) => return Err(ListError::Service { what, error }),
        };
        list.items.extend(page.items);
        list.warnings.extend(page.warnings);
        match page.next {
            None => return Ok(list),
            Some(next) if cursor.as_ref() == Some(&next) => {
                list.warnings.push(format!(
                    "the server repeats a page of its {what}; the list ends there"
                ));
                return Ok(list);
            }
            Some(next) => cursor = Some(next),
        }
    }
    list.warnings.push(format!(
        "the server has more than {MAX_PAGES} pages of {what}; the rest is left out"
    ));
    Ok(list)
}

/// Reads a list whose answer as a whole has no known shape, item by item.
fn by_hand<T: DeserializeOwned>(
    result: &ServerResult,
    key: &str,
    mend: impl Fn(&mut Value) -> Option<&'static str>,
) -> Result<Page<T>, ServiceError> {
    let value = serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)?;
    let items = value
        .get(key)
        .and_then(Value::as_array)
        .ok_or(ServiceError::UnexpectedResponse)?;
    let mut page = Page {
        items: Vec::with_capacity(items.len()),
        next: value
            .get("nextCursor")
            .and_then(Value::as_str)
            .map(str::to_owned),
        warnings: Vec::new(),
    };
    for mut item in items.iter().cloned() {
        let name = item
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("without a name")
            .to_owned();
        if let Some(problem) = mend(&mut item) {
            page.warnings.push(format!("`{name}` in {key}: {problem}"));
        }
        match serde_json::from_value(item) {
            Ok(item) => page.items.push(item),
            Err(error) => page
                .warnings
                .push(format!("`{name}` in {key} can not be used: {error}")),
        }
    }
    Ok(page)
}

/// Takes away what is no schema, so that the tool can still be called.
fn mend_tool(tool: &mut Value) -> Option<&'static str> {
    let tool = tool.as_object_mut()?;
    let mut problem = None;
    if tool
        .get("outputSchema")
        .is_some_and(|schema| !schema.is_object())
    {
        tool.remove("outputSchema");
        problem = Some("its `outputSchema` is no schema and is left out");
    }
    if !tool.get("inputSchema").is_some_and(Value::is_object) {
        let anything = serde_json::json!({"type": "object", "properties": {}});
        tool.insert("inputSchema".into(), anything);
        problem = Some("its `inputSchema` is no schema; it counts as one that takes anything");
    }
    problem
}
