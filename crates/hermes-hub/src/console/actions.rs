//! Forms: one address for every operation that changes something. A form's fields are the operation's arguments.
//!
//! `next` is where to go afterwards, `csrf` proves that the form is of this session, `once` makes a form that is sent
//! twice one change, `if_match` is the version that was shown and `seen` a digest where there is none ([`conflict`]). A field of an object or list holds JSON, or
//! one item a line; [`form_fields`] and [`super::form_content`] have the rest. `{name}` in `next` is a member of the reply, such as the id of what was
//! made; `each` is for several at once ([`super::several`]); `preview` shows what would change, before it does.

use axum::{
    Form,
    extract::{Path, rejection::FormRejection},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use serde_json::Value;

use super::{
    batch::call_for_each,
    conflict::{self, SentForm},
    form_content::add_form_content,
    form_fields::{Fields, find_field, read_arguments},
    pages,
    request::{CallOptions, PageRequest},
};
use crate::{
    Problem, ProblemCode,
    operations::{Effect, table},
    service::call::ReplyBody,
};

pub(super) async fn submit(
    request: PageRequest,
    Path(operation): Path<String>,
    form: Result<Form<Fields>, FormRejection>,
) -> Response {
    let done = match form {
        Ok(Form(fields)) => perform(&request, &operation, fields).await,
        Err(rejection) => Err(unreadable_form(&rejection)),
    };
    match done {
        Ok(response) => response,
        Err(problem) => pages::problem_in_place(&request, &problem),
    }
}

/// What browsers of people do not send, or more than a form may have.
fn unreadable_form(rejection: &FormRejection) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let message = "the form is larger than 2 MiB; send long texts as a file";
        return Problem::new(ProblemCode::PayloadTooLarge, message).with_reason("large_form");
    }
    Problem::invalid("the form cannot be read; load the page again and repeat it")
        .with_reason("unreadable_form")
}

async fn perform(
    request: &PageRequest,
    operation: &str,
    fields: Fields,
) -> Result<Response, Problem> {
    let field = |name: &str| find_field(&fields, name).map(str::to_owned);
    request.csrf.check(find_field(&fields, "csrf"))?;
    let row = table()
        .find(operation)
        .filter(|row| row.effect != Effect::Read)
        .ok_or_else(|| Problem::not_found("there is no such action").with_reason("no_action"))?;
    let next = field("next").filter(|next| is_local(next));
    let shows_reply = field("show").is_some();
    let options = CallOptions {
        if_match: field("if_match"),
        last_event_id: None,
        range: None,
        idempotency_key: field("once")
            .filter(|_| row.method() == crate::operations::HttpMethod::Post),
    };
    let next = next.unwrap_or_else(|| "/".to_owned());
    if let Some(each) = field("each") {
        let once = options.idempotency_key.as_deref();
        call_for_each(request, row, &fields, &each, once).await?;
        return Ok(go_to(&next, operation));
    }
    let mut arguments = read_arguments(row, &fields, request.texts)?;
    add_form_content(row, &fields, request.texts, &mut arguments)?;
    if let (Some(_), Some(current)) = (field("preview"), field("current")) {
        let sent = SentForm {
            operation: row,
            arguments: &arguments,
            fields: &fields,
            current: &current,
            next: &next,
        };
        return conflict::preview(request, sent, options.if_match.unwrap_or_default()).await;
    }
    if let (Some(seen), Some(current)) = (field("seen"), field("current")) {
        let sent = SentForm {
            operation: row,
            arguments: &arguments,
            fields: &fields,
            current: &current,
            next: &next,
        };
        if conflict::has_changed(request, &sent, &seen).await? {
            return conflict::show(request, sent).await;
        }
    }
    let sent = Value::Object(arguments.clone());
    let reply = match (
        request.call(operation, sent, options).await,
        field("current"),
    ) {
        (Err(problem), Some(current)) if problem.code == ProblemCode::PreconditionFailed => {
            let sent = SentForm {
                operation: row,
                arguments: &arguments,
                fields: &fields,
                current: &current,
                next: &next,
            };
            return conflict::show(request, sent).await;
        }
        (reply, _) => reply?,
    };
    if shows_reply && let ReplyBody::Json(document) = &reply.body {
        return pages::reply_page(request, row, document.get(), &next);
    }
    let next = match &reply.body {
        ReplyBody::Json(document) if next.contains('{') => fill_address(&next, document.get()),
        _ => next,
    };
    Ok(go_to(&next, operation))
}

fn go_to(next: &str, operation: &str) -> Response {
    let mark = if next.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{next}{mark}done={operation}")).into_response()
}

/// An address with `{name}` in it, which stands for a member of the reply.
fn fill_address(address: &str, reply: &str) -> String {
    let members: serde_json::Map<String, Value> = serde_json::from_str(reply).unwrap_or_default();
    let mut filled = address.to_owned();
    for (name, value) in &members {
        if let Some(text) = value.as_str() {
            let escaped: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
            filled = filled.replace(&format!("{{{name}}}"), &escaped);
        }
    }
    filled
}

/// Whether an address is one of this console.
pub(super) fn is_local(address: &str) -> bool {
    address.starts_with('/')
        && !address.starts_with("//")
        && !address.contains(['\\', '\r', '\n', '\t'])
}

/// A status for a problem.
pub(super) fn status_of(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_what_was_made() {
        let reply = r#"{"runId": "a/b&c", "attempt": 1}"#;
        assert_eq!(
            fill_address("/runs/{runId}?x={attempt}", reply),
            "/runs/a%2Fb%26c?x={attempt}"
        );
        assert_eq!(fill_address("/runs/{runId}", "[]"), "/runs/{runId}");
    }

    #[test]
    fn only_addresses_of_the_console_are_followed() {
        for address in ["/", "/tenants?x=1", "/tenants/a/runs"] {
            assert!(is_local(address), "{address}");
        }
        for address in [
            "",
            "x",
            "//evil",
            "https://evil",
            "/\\evil",
            "/\t/evil",
            "javascript:x",
        ] {
            assert!(!is_local(address), "{address}");
        }
    }
}
