//! `vision_analyze`: asks a vision model about an image.

use std::{io::Read as _, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::detect_image_type;
use serde_json::{Map, Value, json};

use super::{
    ToolError, arguments::ToolArguments, into_output, run_blocking, tool_definition, web::WebClient,
};
use crate::{
    message::{Message, Part},
    model::{Model, ModelRequest, ToolChoice, ToolDefinition},
    tools::{
        files::{path_access, path_access::AccessPurpose},
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
    },
};

const NAME: &str = "vision_analyze";
/// Larger images are refused by providers.
const MAX_IMAGE_BYTES: usize = 10 << 20;

pub struct VisionAnalyzeTool {
    model: Arc<dyn Model>,
    web: Arc<WebClient>,
}

impl VisionAnalyzeTool {
    /// Uses the model for `auxiliary.vision`.
    pub fn new(model: Arc<dyn Model>, web: Arc<WebClient>) -> Self {
        Self { model, web }
    }

    async fn analyze_image(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let address = arguments.required_text("image_url")?;
        let question = arguments.required_text("question")?;
        let is_address = address.starts_with("http://") || address.starts_with("https://");
        let bytes = if is_address {
            let fetched = self.web.fetch(&address, MAX_IMAGE_BYTES).await?;
            if fetched.is_cut {
                return Err(too_large_error(&address));
            }
            fetched.bytes
        } else {
            read_image(&address, context).await?
        };
        let kind = detect_image_type(&bytes).ok_or_else(|| {
            ToolError::new(format!("{address} is not a PNG, JPEG, GIF or WebP image"))
        })?;
        let parts = vec![
            Part::from_text(question),
            Part::from_image_bytes(kind, &bytes),
        ];
        let messages = [Message::user(parts)];
        let request = ModelRequest {
            messages: &messages,
            tool_choice: ToolChoice::None,
            ..ModelRequest::default()
        };
        let mut ignore_events = |_| {};
        let completion = self.model.complete(&request, &mut ignore_events);
        let reply = tokio::select! {
            reply = completion => reply.map_err(|error| ToolError::new(format!(
                "the model `{}` could not analyse it: {error}. Set `auxiliary.vision` to a model that accepts images",
                self.model.name()
            )))?,
            () = context.cancel.cancelled() => return Err(ToolError::new("interrupted by the user")),
        };
        // Text in an image is untrusted.
        Ok(ToolOutput::from_untrusted(NAME, reply.text))
    }
}

/// Reads an image file, subject to the path rules.
async fn read_image(path: &str, context: &ToolContext) -> Result<Vec<u8>, ToolError> {
    // Tools refer to saved images like this.
    let path = path.strip_prefix("MEDIA:").unwrap_or(path).to_owned();
    let map = path_access::PathRules::from_context(context);
    let real = path_access::authorize_path(NAME, &path, AccessPurpose::Read, &map, context).await?;
    run_blocking(move || {
        let failed = |error: std::io::Error| ToolError::new(format!("{path}: {error}"));
        let file = map.open(&real).map_err(failed)?;
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_IMAGE_BYTES).unwrap_or(u64::MAX);
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() > MAX_IMAGE_BYTES {
            return Err(too_large_error(&path));
        }
        Ok(bytes)
    })
    .await
}

fn too_large_error(address: &str) -> ToolError {
    let most = MAX_IMAGE_BYTES >> 20;
    ToolError::new(format!(
        "{address} has more than {most} MiB; make it smaller first"
    ))
}

impl Tool for VisionAnalyzeTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            NAME,
            "Looks at an image and answers a question about it. Use it for every image you cannot see yourself, also \
             those that other tools saved (MEDIA: paths).",
            json!({
                "image_url": {"type": "string", "description": "A file, or an http or https address"},
                "question": {"type": "string", "description": "What you want to know"},
            }),
            &["image_url", "question"],
        )
    }

    fn toolset(&self) -> &'static str {
        "vision"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(
                self.analyze_image(&ToolArguments::new(arguments), context)
                    .await,
            )
        })
    }
}
