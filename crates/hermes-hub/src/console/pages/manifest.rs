//! A tenant as one document, without secrets, as `hermes tenant apply` takes it.

use askama::Template;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    console::{conflict::digest_for, diff::plain_text, frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/manifest.html")]
struct ManifestPage {
    page: Frame,
    tenant: String,
    document: String,
    /// What can be written back. Variables are not in it: their values are not shown, and a reference would become the value.
    changeable: String,
    seen: String,
    may_apply: bool,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let named = json!({"tenant_id": tenant});
    let document: Value = request.read("get_manifest", named).await?;
    let mut changeable = document.clone();
    if let Some(members) = changeable.as_object_mut() {
        members.remove("env");
    }
    render(&ManifestPage {
        page: Frame::new(&request, request.texts.get("manifest.title")),
        may_apply: request.may("put_manifest"),
        seen: digest_for("put_manifest", &document),
        changeable: plain_text(&changeable),
        document: plain_text(&document),
        tenant,
    })
}
