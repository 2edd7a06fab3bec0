//! Whole exchanges with rmcp's own server, in both eras.

use std::sync::Arc;

use axum::Router;
use rmcp::{
    ServerHandler,
    handler::server::wrapper::Parameters,
    model::{CallToolRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig},
    schemars,
    service::ClientLifecycleMode,
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};

use super::{connect, list_tools, server::Server, settings};

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i32,
    b: i32,
}

#[derive(Clone)]
struct Calculator;

#[tool_router]
impl Calculator {
    #[tool(description = "Adds two numbers")]
    fn sum(Parameters(Sum { a, b }): Parameters<Sum>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Calculator {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

async fn calculator() -> Server {
    let service = StreamableHttpService::new(
        || Ok(Calculator),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    Server::serving(Router::new().nest_service("/mcp", service)).await
}

async fn lists_and_calls(lifecycle: ClientLifecycleMode) -> Option<ProtocolVersion> {
    let server = calculator().await;
    let client = connect(&settings(&server.url("/mcp"), &[]), lifecycle)
        .await
        .unwrap();
    let tools = list_tools(&client).await.unwrap();
    assert_eq!(tools.len(), 1);
    let arguments = serde_json::json!({"a": 2, "b": 3});
    let call =
        CallToolRequestParams::new("sum").with_arguments(arguments.as_object().unwrap().clone());
    for _ in 0..3 {
        let result = client.call_tool(call.clone()).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, "5");
    }
    let version = client
        .peer_info()
        .map(|server| server.protocol_version.clone());
    client.cancel().await.unwrap();
    version
}

#[tokio::test]
async fn a_legacy_exchange_works() {
    let version = lists_and_calls(ClientLifecycleMode::Initialize).await;
    assert_eq!(version, Some(ProtocolVersion::LATEST_WITH_INITIALIZE));
}

#[tokio::test]
async fn a_stateless_exchange_works() {
    let version = lists_and_calls(ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::LATEST],
    })
    .await;
    assert_eq!(version, Some(ProtocolVersion::LATEST));
}
