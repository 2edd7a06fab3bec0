//! `vision_analyze`: asks a vision model about an image.

use std::{io::Read as _, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{
    Problem,
    arguments::Arguments,
    blocking, definition, finish,
    place::{self, Purpose},
    web::Web,
};
use crate::{
    message::{Message, Part, image_type},
    model::{Model, ModelRequest, ToolChoice, ToolDefinition},
    tool::{Company, Tool, ToolContext, ToolOutput},
};

const NAME: &str = "vision_analyze";
/// Larger images are refused by providers.
const MOST_BYTES: usize = 10 << 20;

pub struct VisionAnalyze {
    model: Arc<dyn Model>,
    web: Arc<Web>,
}

impl VisionAnalyze {
    /// Uses the model for `auxiliary.vision`.
    pub fn new(model: Arc<dyn Model>, web: Arc<Web>) -> Self {
        Self { model, web }
    }

    async fn look(
        &self,
        arguments: &Arguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, Problem> {
        let place = arguments.required_text("image_url")?;
        let question = arguments.required_text("question")?;
        let is_address = place.starts_with("http://") || place.starts_with("https://");
        let bytes = if is_address {
            let fetched = self.web.fetch(&place, MOST_BYTES).await?;
            if fetched.is_cut {
                return Err(too_large(&place));
            }
            fetched.bytes
        } else {
            read(&place, context).await?
        };
        let kind = image_type(&bytes)
            .ok_or_else(|| Problem::new(format!("{place} is not a PNG, JPEG, GIF or WebP image")))?;
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
        let mut nobody_listens = |_| {};
        let asked = self.model.complete(&request, &mut nobody_listens);
        let reply = tokio::select! {
            reply = asked => reply.map_err(|error| Problem::new(format!(
                "the model `{}` could not analyse it: {error}. Set `auxiliary.vision` to a model that accepts images",
                self.model.name()
            )))?,
            () = context.cancel.cancelled() => return Err(Problem::new("interrupted by the user")),
        };
        // Text in an image is untrusted.
        Ok(ToolOutput::from_outside(NAME, reply.text))
    }
}

/// Reads an image file, subject to the path rules.
async fn read(path: &str, context: &ToolContext) -> Result<Vec<u8>, Problem> {
    // Tools refer to saved images like this.
    let path = path.strip_prefix("MEDIA:").unwrap_or(path).to_owned();
    let map = place::Map::of(context);
    let real = place::enter(NAME, &path, Purpose::Read, &map, context).await?;
    blocking(move || {
        let failed = |error: std::io::Error| Problem::new(format!("{path}: {error}"));
        let file = map.open(&real).map_err(failed)?;
        let mut bytes = Vec::new();
        let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() > MOST_BYTES {
            return Err(too_large(&path));
        }
        Ok(bytes)
    })
    .await
}

fn too_large(place: &str) -> Problem {
    let most = MOST_BYTES >> 20;
    Problem::new(format!(
        "{place} has more than {most} MiB; make it smaller first"
    ))
}

impl Tool for VisionAnalyze {
    fn definition(&self) -> ToolDefinition {
        definition(
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

    fn company(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Company {
        Company::Any
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { finish(self.look(&Arguments::new(arguments), context).await) })
    }
}
