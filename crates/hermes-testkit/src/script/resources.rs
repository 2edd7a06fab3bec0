//! Resources: a text, a blob, a template, and whatever a test adds.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{
    ServerScript, lock,
    request::{RequestOutcome, ScriptRequest},
};
use crate::wire::{self, RpcError};

pub(super) fn built_in() -> Vec<String> {
    vec!["test://text".to_owned(), "test://blob".to_owned()]
}

impl ServerScript {
    pub(super) fn list_resources(&self, request: &ScriptRequest) -> RequestOutcome {
        let resources = lock(&self.offer)
            .resources
            .iter()
            .map(|uri| {
                let name = uri.rsplit('/').next().unwrap_or(uri);
                json!({
                    "uri": uri,
                    "name": name,
                    "description": format!("The resource {name}."),
                    "mimeType": media_type(uri),
                })
            })
            .collect();
        self.page(request, "resources", resources)
    }

    pub(super) fn list_templates(&self, request: &ScriptRequest) -> RequestOutcome {
        let template = json!({
            "uriTemplate": "test://note/{name}",
            "name": "note",
            "description": "A note by its name.",
            "mimeType": "text/plain",
        });
        self.page(request, "resourceTemplates", vec![template])
    }

    pub(super) fn read_resource(
        &self,
        request: &ScriptRequest,
    ) -> Result<RequestOutcome, RpcError> {
        let uri = request.params["uri"].as_str().unwrap_or_default();
        let known = lock(&self.offer).resources.iter().any(|known| known == uri);
        let note = uri.strip_prefix("test://note/");
        if !known && note.is_none() {
            let code = if request.is_stateless() {
                wire::INVALID_PARAMS
            } else {
                wire::RESOURCE_NOT_FOUND
            };
            return Err(RpcError::new(code, "resource not found").with_data(json!({ "uri": uri })));
        }
        let mut contents = json!({ "uri": uri, "mimeType": media_type(uri) });
        if uri == "test://blob" {
            contents["blob"] = json!(STANDARD.encode([0_u8, 1, 2, 3]));
        } else {
            let changed = lock(&self.offer).texts.get(uri).cloned();
            let usual = || match note {
                Some(name) => format!("note {name}"),
                None => format!("contents of {uri}"),
            };
            contents["text"] = json!(changed.unwrap_or_else(usual));
        }
        Ok(RequestOutcome::Result(json!({ "contents": [contents] })))
    }
}

fn media_type(uri: &str) -> &'static str {
    if uri == "test://blob" {
        "application/octet-stream"
    } else {
        "text/plain"
    }
}
