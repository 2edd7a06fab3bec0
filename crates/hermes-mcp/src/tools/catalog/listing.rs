//! Asks a server for its lists, page by page, and takes what is usable of them.

use std::{collections::HashSet, sync::Arc};

use rmcp::{
    RoleClient,
    model::{
        ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
        ListToolsRequest, PaginatedRequestParams, Prompt, Resource, ResourceTemplate,
        ServerCapabilities, ServerResult,
    },
    service::{Peer, ServiceError},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{ListBudget, NativeTool, trim_warnings};

/// Bounds a server that never ends its list.
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
pub(crate) struct ListedItems<T> {
    pub(crate) items: Vec<T>,
    pub(crate) warnings: Vec<String>,
}

struct ListPage<T> {
    items: Vec<T>,
    next: Option<String>,
    warnings: Vec<String>,
}

impl<T> ListedItems<T> {
    fn empty() -> Self {
        Self {
            items: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl<T> ListPage<T> {
    fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self {
            items,
            next,
            warnings: Vec::new(),
        }
    }
}

pub(crate) async fn list_tools(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<ListedItems<Arc<NativeTool>>, ListError> {
    if capabilities.tools.is_none() {
        return Ok(ListedItems::empty());
    }
    let mut list = fetch_pages("tools", |params| async move {
        let listed = peer.list_tools(params.clone()).await;
        let page = listed.map(|list| ListPage::new(list.tools, list.next_cursor));
        let request = ListToolsRequest {
            params,
            ..Default::default()
        };
        let again = ClientRequest::ListToolsRequest(request);
        or_parse_leniently(peer, page, again, "tools", repair_tool).await
    })
    .await?;
    let mut tools: Vec<Arc<NativeTool>> = Vec::with_capacity(list.items.len());
    let mut names = HashSet::with_capacity(list.items.len());
    for tool in list.items {
        let tool = NativeTool::new(tool);
        if !names.insert(tool.name.clone()) {
            list.warnings.push(format!(
                "tool `{}` is listed twice; the first one counts",
                tool.name
            ));
            continue;
        }
        tools.push(Arc::new(tool));
    }
    trim_warnings(&mut list.warnings);
    Ok(ListedItems {
        items: tools,
        warnings: list.warnings,
    })
}

pub(crate) async fn list_resources(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<ListedItems<Resource>, ListError> {
    if capabilities.resources.is_none() {
        return Ok(ListedItems::empty());
    }
    fetch_pages("resources", |params| async move {
        let listed = peer.list_resources(params.clone()).await;
        let page = listed.map(|list| ListPage::new(list.resources, list.next_cursor));
        let request = ListResourcesRequest {
            params,
            ..Default::default()
        };
        let again = ClientRequest::ListResourcesRequest(request);
        or_parse_leniently(peer, page, again, "resources", |_| None).await
    })
    .await
}

pub(crate) async fn list_templates(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<ListedItems<ResourceTemplate>, ListError> {
    if capabilities.resources.is_none() {
        return Ok(ListedItems::empty());
    }
    fetch_pages("resource templates", |params| async move {
        let page = match peer.list_resource_templates(params.clone()).await {
            // Not every server with resources knows templates.
            Err(ServiceError::McpError(error)) if error.code.0 == -32601 => {
                return Ok(ListPage::new(Vec::new(), None));
            }
            listed => listed.map(|list| ListPage::new(list.resource_templates, list.next_cursor)),
        };
        let request = ListResourceTemplatesRequest {
            params,
            ..Default::default()
        };
        let again = ClientRequest::ListResourceTemplatesRequest(request);
        or_parse_leniently(peer, page, again, "resourceTemplates", |_| None).await
    })
    .await
}

pub(crate) async fn list_prompts(
    peer: &Peer<RoleClient>,
    capabilities: &ServerCapabilities,
) -> Result<ListedItems<Prompt>, ListError> {
    if capabilities.prompts.is_none() {
        return Ok(ListedItems::empty());
    }
    fetch_pages("prompts", |params| async move {
        let listed = peer.list_prompts(params.clone()).await;
        let page = listed.map(|list| ListPage::new(list.prompts, list.next_cursor));
        let request = ListPromptsRequest {
            params,
            ..Default::default()
        };
        let again = ClientRequest::ListPromptsRequest(request);
        or_parse_leniently(peer, page, again, "prompts", |_| None).await
    })
    .await
}

/// The page. If one bad item makes the whole page unreadable, it is requested again and the usable items are taken.
async fn or_parse_leniently<T: DeserializeOwned>(
    peer: &Peer<RoleClient>,
    page: Result<ListPage<T>, ServiceError>,
    again: ClientRequest,
    key: &str,
    mend: impl Fn(&mut Value) -> Option<&'static str>,
) -> Result<ListPage<T>, ServiceError> {
    match page {
        Err(ServiceError::UnexpectedResponse) => {
            parse_leniently(&peer.send_request(again).await?, key, mend)
        }
        page => page,
    }
}

/// Follows `nextCursor` within the limits on pages, items and bytes.
async fn fetch_pages<T, F, Fetch>(what: &'static str, fetch: F) -> Result<ListedItems<T>, ListError>
where
    T: Serialize,
    F: Fn(Option<PaginatedRequestParams>) -> Fetch,
    Fetch: Future<Output = Result<ListPage<T>, ServiceError>>,
{
    let mut list = ListedItems::empty();
    let mut bounds = ListBudget::default();
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
        list.warnings.extend(page.warnings);
        trim_warnings(&mut list.warnings);
        for item in page.items {
            if let Err(broken) = bounds.count_item(&item) {
                list.warnings.push(broken.describe(what));
                return Ok(list);
            }
            list.items.push(item);
        }
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

/// Parses a list item by item, where the response as a whole has an unknown shape.
fn parse_leniently<T: DeserializeOwned>(
    result: &ServerResult,
    key: &str,
    mend: impl Fn(&mut Value) -> Option<&'static str>,
) -> Result<ListPage<T>, ServiceError> {
    let value = serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)?;
    let items = value
        .get(key)
        .and_then(Value::as_array)
        .ok_or(ServiceError::UnexpectedResponse)?;
    let next = value.get("nextCursor").and_then(Value::as_str);
    let mut page = ListPage::new(Vec::with_capacity(items.len()), next.map(str::to_owned));
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
                .push(format!("`{name}` in {key} cannot be used: {error}")),
        }
    }
    Ok(page)
}

/// Removes what is not a schema, so that the tool can still be called.
fn repair_tool(tool: &mut Value) -> Option<&'static str> {
    let tool = tool.as_object_mut()?;
    let mut problem = None;
    if tool
        .get("outputSchema")
        .is_some_and(|schema| !schema.is_object())
    {
        tool.remove("outputSchema");
        problem = Some("its `outputSchema` is not a schema and is ignored");
    }
    if !tool.get("inputSchema").is_some_and(Value::is_object) {
        let anything = serde_json::json!({"type": "object", "properties": {}});
        tool.insert("inputSchema".into(), anything);
        problem = Some("its `inputSchema` is not a schema; any arguments are accepted");
    }
    problem
}
