//! The variables of a tenant's environment. Their values go in and are never shown.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::EnvVariable,
    console::{conflict::digest_rows, frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/env.html")]
struct EnvPage {
    page: Frame,
    tenant: String,
    variables: Vec<EnvVariable>,
    /// What the form was made from.
    seen: String,
    may_set: bool,
    may_remove: bool,
}

#[derive(Deserialize)]
struct VariablesView {
    env: Vec<Value>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let list: VariablesView = request
        .read("list_env", json!({"tenant_id": tenant}))
        .await?;
    let seen = digest_rows(&list.env);
    let variables = list.env.into_iter().map(serde_json::from_value);
    let variables: Result<Vec<EnvVariable>, serde_json::Error> = variables.collect();
    render(&EnvPage {
        page: Frame::new(&request, request.texts.get("tabs.env")),
        tenant,
        variables: variables.map_err(|error| Problem::internal(&error))?,
        seen,
        may_set: request.may("set_env"),
        may_remove: request.may("unset_env"),
    })
}
