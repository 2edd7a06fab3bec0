//! A form that was sent over a version which somebody else has changed since: both are shown, and what was sent can be
//! saved over the other.
//!
//! A form takes part with `if_match` and `current`: the operation that reads what the form changes, and after a colon the
//! JSON pointer of the object whose members the form's arguments are (`get_soul`, `get_tenant_cron:/job`).

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use serde_json::{Map, Value};

use super::{
    concerned::{ConcernedTenants, find_concerned, try_change},
    diff::{DiffLine, diff_lines, plain_text},
    form_fields::Fields,
    frame::Frame,
    pages::render,
    request::PageRequest,
};
use crate::{
    Problem,
    operations::{ArgumentLocation, Effect, Gate, HttpMethod, Operation, table},
};

#[derive(Template)]
#[template(path = "conflict.html")]
struct ConflictPage<'a> {
    page: Frame,
    operation: &'a str,
    members: Vec<ConflictMember>,
    /// The form again, with the version that is there now.
    fields: Vec<(&'a str, &'a str)>,
    version: String,
    next: &'a str,
    /// Nothing has gone wrong: it is a look at what would change.
    is_preview: bool,
    /// The tenants that this concerns, if it does.
    concerned: Option<ConcernedTenants>,
}

/// What differs in an argument.
struct ConflictMember {
    name: String,
    lines: Vec<DiffLine>,
}

/// What the form has sent.
#[derive(Clone, Copy)]
pub(super) struct SentForm<'a> {
    pub(super) operation: &'a Operation,
    pub(super) arguments: &'a Map<String, Value>,
    pub(super) fields: &'a Fields,
    /// As in the field `current`.
    pub(super) current: &'a str,
    pub(super) next: &'a str,
}

pub(super) async fn show(request: &PageRequest, sent: SentForm<'_>) -> Result<Response, Problem> {
    let page = compare_page(request, sent, None).await?;
    Ok((StatusCode::PRECONDITION_FAILED, Html(render(&page)?)).into_response())
}

/// What a form would change, with the version that its page has shown. What could not be saved is refused now; nothing is
/// changed yet.
pub(super) async fn preview(
    request: &PageRequest,
    sent: SentForm<'_>,
    version: String,
) -> Result<Response, Problem> {
    let tried = try_change(request, sent.operation, sent.arguments).await?;
    let mut page = compare_page(request, sent, Some(version)).await?;
    if sent.operation.gate == Gate::WholeHub {
        let tried = tried.unwrap_or_default();
        page.concerned = find_concerned(request, sent.arguments, &tried).await;
    }
    Ok(Html(render(&page)?).into_response())
}

async fn compare_page<'a>(
    request: &PageRequest,
    sent: SentForm<'a>,
    shown: Option<String>,
) -> Result<ConflictPage<'a>, Problem> {
    let (reader, place) = sent.current.split_once(':').unwrap_or((sent.current, ""));
    let row = table()
        .find(reader)
        .filter(|row| row.effect == Effect::Read)
        .ok_or_else(|| Problem::not_found("there is no such operation"))?;
    let wanted = row.input.arguments.iter().filter_map(|argument| {
        let value = sent.arguments.get(&argument.name)?;
        Some((argument.name.clone(), value.clone()))
    });
    let wanted: Map<String, Value> = wanted.collect();
    let (found, version) = request
        .read_versioned::<Value>(reader, Value::Object(wanted))
        .await?;
    let found = found.pointer(place).cloned().unwrap_or_default();
    let members = compare(&sent, &found);
    let fields = sent.fields.iter();
    let fields = fields
        .filter(|(name, _)| !matches!(name.as_str(), "if_match" | "csrf" | "once" | "preview"));
    let mut frame = Frame::new(
        request,
        request.texts.get(match shown {
            Some(_) => "preview.title",
            None => "conflict.title",
        }),
    );
    // It is not read again: it is the answer to a form.
    frame.live = None;
    Ok(ConflictPage {
        is_preview: shown.is_some(),
        concerned: None,
        page: frame,
        operation: sent.operation.name,
        members,
        fields: fields
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
        version: shown.or(version).unwrap_or_default(),
        next: sent.next,
    })
}

/// Each argument that differs from what is there now.
fn compare(sent: &SentForm<'_>, found: &Value) -> Vec<ConflictMember> {
    let input = &sent.operation.input;
    let is_patch = sent.operation.method() == HttpMethod::Patch;
    let mut members = Vec::new();
    for argument in &input.arguments {
        let Some(mine) = sent.arguments.get(&argument.name) else {
            continue;
        };
        if argument.location == ArgumentLocation::Path {
            continue;
        }
        let is_whole = input.whole_body == Some(argument.name.as_str());
        let theirs = match found.get(&argument.rest_name) {
            _ if is_whole => Some(found),
            theirs => theirs.or_else(|| found.get(&argument.name)),
        };
        let theirs = theirs.cloned().unwrap_or_default();
        let theirs = if is_patch {
            named_in(mine, &theirs)
        } else {
            theirs
        };
        match (mine, &theirs) {
            // Members of a patch are told apart.
            (Value::Object(parts), Value::Object(others)) if is_patch => {
                for (name, mine) in parts {
                    let theirs = others.get(name).unwrap_or(&Value::Null);
                    add_member(&mut members, name, mine, theirs);
                }
            }
            _ => add_member(&mut members, &argument.rest_name, mine, &theirs),
        }
    }
    members
}

fn add_member(members: &mut Vec<ConflictMember>, name: &str, mine: &Value, theirs: &Value) {
    let lines = diff_lines(&ended(&plain_text(theirs)), &ended(&plain_text(mine)));
    if !lines.is_empty() {
        members.push(ConflictMember {
            name: name.to_owned(),
            lines,
        });
    }
}

/// A last line without an end is not another line.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

/// The members that a patch names. A schedule is shown as it is written.
fn named_in(patch: &Value, found: &Value) -> Value {
    match (patch, found) {
        (Value::Object(patch), Value::Object(found)) => {
            let members = patch.iter().map(|(name, value)| {
                let found = found.get(name).unwrap_or(&Value::Null);
                (name.clone(), named_in(value, found))
            });
            Value::Object(members.collect())
        }
        (Value::String(_), Value::Object(found)) => found
            .get("display")
            .cloned()
            .unwrap_or_else(|| Value::Object(found.clone())),
        _ => found.clone(),
    }
}
