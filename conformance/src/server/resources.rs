//! Resources: a text, a picture, and those of a template.

use rmcp::{
    ErrorData,
    model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use super::content::PNG;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub(super) fn list() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str, mime_type: &str| {
        Resource::new(uri, name)
            .with_description(description)
            .with_mime_type(mime_type)
    };
    vec![
        resource(TEXT, "static-text", "A text", "text/plain"),
        resource(BINARY, "static-binary", "A picture", "image/png"),
        resource(WATCHED, "watched-resource", "To subscribe to", "text/plain"),
    ]
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("test://template/{id}/data", "template")
            .with_description("What belongs to an id")
            .with_mime_type("application/json"),
    ]
}

pub(super) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text =
        |text: &str, mime_type: &str| ResourceContents::text(text, uri).with_mime_type(mime_type);
    let contents = match uri {
        TEXT => text(
            "This is the content of the static text resource.",
            "text/plain",
        ),
        BINARY => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        WATCHED => text("Nothing new.", "text/plain"),
        _ => {
            let id = template_id(uri).ok_or_else(|| not_found(uri))?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            text(&data.to_string(), "application/json")
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn template_id(uri: &str) -> Option<&str> {
    let id = uri
        .strip_prefix("test://template/")?
        .strip_suffix("/data")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))
}
