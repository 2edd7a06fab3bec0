//! A bare rmcp server over Streamable HTTP with one tool that echoes: what any server of this protocol costs.

use std::{io::Write, process::ExitCode, sync::Arc};

use anyhow::Result;
use axum::serve::ListenerExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities,
        ServerConfig,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};

/// What starts it.
pub(crate) const MODE: &str = "echo-mcp";

struct EchoHandler;

impl ServerHandler for EchoHandler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments
            .get("text")
            .and_then(|text| text.as_str())
            .unwrap_or_default();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// The hidden mode: serves until stdin closes. The first line on stdout is the port.
pub(crate) fn serve() -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Answers as the Hub gives them: JSON where the era allows it.
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let service = StreamableHttpService::new(
            || Ok(EchoHandler),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
        // Without it every event of a session waits for an acknowledgement, and the Hub would win by that alone.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let router = axum::Router::new().route_service("/mcp", service);
        let ended = tokio::task::spawn_blocking(|| {
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        });
        tokio::select! {
            served = async { axum::serve(listener, router).await } => served?,
            _ = ended => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}
