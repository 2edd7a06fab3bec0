//! A tenant as one document, without secrets, as `hermes tenant apply` takes it.

use askama::Template;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    console::{diff::plain_text, frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/manifest.html")]
struct ManifestPage {
    page: Frame,
    document: String,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let named = json!({"tenant_id": request.path_value("tenant_id")});
    let document: Value = request.read("get_manifest", named).await?;
    render(&ManifestPage {
        page: Frame::new(&request, request.texts.get("manifest.title")),
        document: plain_text(&document),
    })
}
