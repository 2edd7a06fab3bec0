//! The files of a tenant's groups, asked of the Hub over its private routes.

use std::{path::Path, sync::Arc};

use hermes_agent::tools::files::teams::{
    FileLines, GrepMatch, GroupPath, MemberGroup, SearchResults, Shares, SharesError, SharesFuture,
    Teams, WriteOutcome,
};
use hermes_config::Secret;
use hermes_hub::{
    ProblemDocument,
    api_types::ShareList,
    storage::files::{EntryType, FileText, FindResult, GrepResult},
};
use reqwest::{Method, RequestBuilder, StatusCode, Url, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::private_routes::{PrivateRoutes, RuntimeKey};

/// Maximum number of search results from the Hub.
const MAX_RESULTS: u64 = 1000;

/// The shares of a Hub, as a tenant's agent sees them.
#[derive(Debug)]
pub(crate) struct HubShares(PrivateRoutes);

/// The files of the groups, if this process belongs to a Hub that has private routes.
pub(crate) fn from_environment(
    key: Option<&Secret<String>>,
    workspace: &Path,
) -> Option<Arc<Teams>> {
    let routes = PrivateRoutes::from_environment(key?)?;
    Some(teams(routes, workspace))
}

/// The files of the groups, by way of the Hub's private routes.
pub(crate) fn connect(socket: &Path, key: RuntimeKey, workspace: &Path) -> Option<Arc<Teams>> {
    match PrivateRoutes::connect(socket, key) {
        Ok(routes) => Some(teams(routes, workspace)),
        Err(error) => {
            tracing::warn!(%error, "cannot connect to the Hub for group files");
            None
        }
    }
}

fn teams(routes: PrivateRoutes, workspace: &Path) -> Arc<Teams> {
    Arc::new(Teams::new(Arc::new(HubShares(routes)), workspace))
}

impl HubShares {
    fn request(
        &self,
        method: Method,
        path: Option<&GroupPath>,
        route: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, SharesError> {
        let mut url = Url::parse("http://hub/internal/v1/shares").map_err(unexpected_reply)?;
        {
            let mut segments = url.path_segments_mut().map_err(unexpected_reply)?;
            segments.extend(path.map(|path| &path.group));
            segments.extend(route);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.0.request(method, url))
    }

    async fn get<T: for<'de> Deserialize<'de>>(
        &self,
        path: Option<&GroupPath>,
        route: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, SharesError> {
        let (_, body) = send_request(self.request(Method::GET, path, route, query)?).await?;
        serde_json::from_value(body).map_err(unexpected_reply)
    }
}

fn unexpected_reply(error: impl std::fmt::Debug) -> SharesError {
    tracing::warn!(?error, "unexpected reply from the Hub");
    SharesError("unexpected reply from the Hub".into())
}

/// Sends something, and tells the status and the document that came back.
async fn send_request(request: RequestBuilder) -> Result<(StatusCode, Value), SharesError> {
    let response = request.send().await.map_err(|error| {
        tracing::warn!(?error, "Hub request failed");
        SharesError("cannot reach the Hub that stores group files; try again".into())
    })?;
    let status = response.status();
    let text = response.bytes().await.map_err(unexpected_reply)?;
    let body: Value = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&text).map_err(unexpected_reply)?
    };
    if status.is_success() {
        return Ok((status, body));
    }
    let problem = serde_json::from_value::<ProblemDocument>(body);
    Err(SharesError(problem.map_or_else(
        |_| "the Hub refused it".to_owned(),
        |problem| problem.message,
    )))
}

impl Shares for HubShares {
    fn groups(&self) -> SharesFuture<'_, Vec<MemberGroup>> {
        Box::pin(async move {
            let list: ShareList = self.get(None, &[], &[]).await?;
            let groups = list.shares.into_iter().map(|share| MemberGroup {
                id: share.group_id.to_string(),
                access: share.access.as_str().to_owned(),
            });
            Ok(groups.collect())
        })
    }

    fn read<'a>(
        &'a self,
        path: &'a GroupPath,
        offset: usize,
        limit: usize,
    ) -> SharesFuture<'a, FileLines> {
        Box::pin(async move {
            let (offset, limit) = (offset.to_string(), limit.to_string());
            let query = [
                ("path", path.path.as_str()),
                ("offset", &offset),
                ("limit", &limit),
            ];
            let text: FileText = self.get(Some(path), &["files", "content"], &query).await?;
            let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            Ok(FileLines {
                content: text.content,
                total_lines: count(text.total_lines),
                next: text.next_offset.map(count),
                version: text.etag,
            })
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a GroupPath,
        content: String,
        version: Option<&'a str>,
    ) -> SharesFuture<'a, WriteOutcome> {
        Box::pin(async move {
            let mut request = self
                .request(Method::PUT, Some(path), &["files", "content"], &[])?
                .json(&json!({"path": path.path, "content": content}));
            if let Some(version) = version {
                request = request.header(header::IF_MATCH, version);
            }
            let (status, _) = send_request(request).await?;
            Ok(if status == StatusCode::CREATED {
                WriteOutcome::Created
            } else {
                WriteOutcome::Replaced
            })
        })
    }

    fn remove<'a>(&'a self, path: &'a GroupPath, version: &'a str) -> SharesFuture<'a, ()> {
        Box::pin(async move {
            let query = [("path", path.path.as_str())];
            let request = self.request(Method::DELETE, Some(path), &["files"], &query)?;
            send_request(request.header(header::IF_MATCH, version)).await?;
            Ok(())
        })
    }

    fn grep<'a>(
        &'a self,
        path: &'a GroupPath,
        pattern: &'a str,
    ) -> SharesFuture<'a, SearchResults<GrepMatch>> {
        Box::pin(async move {
            let request = self
                .request(Method::POST, Some(path), &["grep"], &[])?
                .json(&json!({"pattern": pattern, "path": path.path, "max": MAX_RESULTS}));
            let (_, body) = send_request(request).await?;
            let found: GrepResult = serde_json::from_value(body).map_err(unexpected_reply)?;
            let items = found.matches.into_iter().map(|one| GrepMatch {
                path: one.path,
                line: one.line,
                text: one.text,
            });
            Ok(SearchResults {
                items: items.collect(),
                is_cut: found.truncated,
            })
        })
    }

    fn find<'a>(
        &'a self,
        path: &'a GroupPath,
        name: &'a str,
    ) -> SharesFuture<'a, SearchResults<String>> {
        Box::pin(async move {
            let most = MAX_RESULTS.to_string();
            let query = [("path", path.path.as_str()), ("name", name), ("max", &most)];
            let found: FindResult = self.get(Some(path), &["find"], &query).await?;
            let items = found.paths.into_iter().map(|one| match one.entry_type {
                EntryType::Dir => format!("{}/", one.path),
                _ => one.path,
            });
            Ok(SearchResults {
                items: items.collect(),
                is_cut: found.truncated,
            })
        })
    }

    fn exists<'a>(&'a self, path: &'a GroupPath) -> SharesFuture<'a, bool> {
        Box::pin(async move {
            let query = [("path", path.path.as_str())];
            let request = self.request(Method::GET, Some(path), &["stat"], &query)?;
            let response = request.send().await.map_err(unexpected_reply)?;
            match response.status() {
                StatusCode::NOT_FOUND => Ok(false),
                status if status.is_success() => Ok(true),
                status => Err(SharesError(format!("{path}: the Hub answered {status}"))),
            }
        })
    }
}
