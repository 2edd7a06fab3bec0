//! `hermes mcp demo`: the built-in MCP server on stdin and stdout.

use crate::{context::Context, failure::Failure};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    context.block_on(async {
        hermes_mcp::demo::serve_stdio()
            .await
            .map_err(|error| Failure::failed(error.to_string()))
    })
}
