//! Lists as files: what an operation replies with in another format, streamed with a name.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::{Map, Value};

use super::{
    pages::{self, audit_filter, usage_filter},
    request::{CallOptions, PageRequest},
};
use crate::{Problem, service::call::ReplyBody};

/// The audit log, one JSON document a line.
pub(super) async fn export_audit(request: PageRequest) -> Response {
    let filter = audit_filter(&request);
    send_file(&request, "list_audit", filter, "ndjson", "audit.ndjson").await
}

/// Usage, as comma-separated values.
pub(super) async fn export_usage(request: PageRequest) -> Response {
    let filter = usage_filter(&request);
    send_file(&request, "get_usage", filter, "csv", "usage.csv").await
}

async fn send_file(
    request: &PageRequest,
    operation: &str,
    mut arguments: Map<String, Value>,
    format: &str,
    name: &'static str,
) -> Response {
    if !request.may(operation) {
        let problem = Problem::not_found("there is no such page").with_reason("no_page");
        return pages::full_problem_page(request, &problem);
    }
    arguments.insert("format".to_owned(), format.into());
    let reply = request
        .call(operation, arguments.into(), CallOptions::default())
        .await;
    match reply.map(|reply| reply.body) {
        Ok(ReplyBody::Bytes(mut headers, body)) => {
            let disposition = format!("attachment; filename=\"{name}\"");
            if let Ok(disposition) = HeaderValue::from_str(&disposition) {
                headers.insert(header::CONTENT_DISPOSITION, disposition);
            }
            (headers, body).into_response()
        }
        Ok(_) => {
            let problem = Problem::internal(&"the reply is not a file");
            pages::full_problem_page(request, &problem)
        }
        Err(problem) => pages::full_problem_page(request, &problem),
    }
}
