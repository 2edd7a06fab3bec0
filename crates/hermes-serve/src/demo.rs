//! The built-in MCP server: something to connect to before anything else is installed.
//!
//! It shows one of each kind of thing a server can offer (text, structured output, progress, an image, a resource,
//! a prompt) and needs no network, key or file. Tools are in `tools`; resources and the prompt are here.

mod picture;
mod tools;

#[cfg(test)]
mod tests;

use futures::future::BoxFuture;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{
        GetPromptResult, Implementation, ListResourceTemplatesResult, ListResourcesResult,
        PaginatedRequestParams, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role, ServerCapabilities,
        ServerConfig,
    },
    prompt, prompt_handler, prompt_router,
    service::RequestContext,
    tool_handler,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::ServeError;

/// The name the server gives itself.
pub const NAME: &str = "hermes-demo";

const INSTRUCTIONS: &str = "A server to try things on. `echo` and `add` answer at once, `count` reports progress \
and can be cancelled, `picture` returns a PNG, `now` tells the time in UTC. Nothing here changes anything.";

const WELCOME_URI: &str = "hermes://demo/welcome";
const GREETING_PREFIX: &str = "hermes://demo/greeting/";
const WELCOME: &str = "Welcome to Hermes.\n\n\
This text is a resource of the built-in demo server. Add a server of your own with `hermes mcp add`, \
bring those of another program with `hermes mcp import`, or choose one from `hermes mcp catalog`.\n";

/// Serves on stdin and stdout until stdin closes. Nothing else may be written to stdout meanwhile.
pub fn serve_stdio() -> BoxFuture<'static, Result<(), ServeError>> {
    Box::pin(async move { crate::stdio::serve(Demo, CancellationToken::new()).await })
}

/// The server. It has no state: every answer follows from the request and the clock.
#[derive(Debug, Clone, Copy)]
pub struct Demo;

#[derive(Debug, Deserialize, JsonSchema)]
struct Introduce {
    /// Who the introduction is for
    name: String,
}

#[prompt_router]
impl Demo {
    #[prompt(
        name = "introduce",
        description = "Ask the model to introduce itself and its tools to someone"
    )]
    async fn introduce(
        &self,
        Parameters(Introduce { name }): Parameters<Introduce>,
    ) -> GetPromptResult {
        GetPromptResult::new(vec![PromptMessage::new_text(
            Role::User,
            format!("Introduce yourself to {name}: who you are, and which of your tools could help {name} today."),
        )])
        .with_description(format!("An introduction for {name}"))
    }
}

#[tool_handler]
#[prompt_handler]
impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new(NAME, env!("CARGO_PKG_VERSION")).with_title("Hermes demo"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            Resource::new(WELCOME_URI, "welcome")
                .with_title("Welcome")
                .with_description("What to do next")
                .with_mime_type("text/plain")
                .with_size(WELCOME.len() as u64),
        ]))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![
            ResourceTemplate::new(format!("{GREETING_PREFIX}{{name}}"), "greeting")
                .with_title("Greeting")
                .with_description("A greeting for the given name")
                .with_mime_type("text/plain"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let Some(text) = resource_text(&uri) else {
            return Err(ErrorData::resource_not_found(
                format!(
                    "no resource `{uri}`; there are `{WELCOME_URI}` and `{GREETING_PREFIX}{{name}}`"
                ),
                None,
            ));
        };
        let contents = ResourceContents::text(text, uri).with_mime_type("text/plain");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn resource_text(uri: &str) -> Option<String> {
    if uri == WELCOME_URI {
        return Some(WELCOME.to_owned());
    }
    let name = uri.strip_prefix(GREETING_PREFIX)?;
    // A template's variable may be percent-encoded and is one path segment.
    let name = percent_decoded(name)?;
    (!name.is_empty() && !name.contains('/')).then(|| format!("Hello, {name}!\n"))
}

/// `None` where the escapes are broken or the result is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
