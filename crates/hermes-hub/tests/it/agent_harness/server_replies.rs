//! What a scripted agent says when it is asked about its model, its MCP servers and its sessions.

use hermes_protocol::{
    AgentReply, AgentRequest, LoginAddress, LoginReport, ModelTestReport, ServerTestReport,
    ServerTool, ServerToolList, ToolCallReport,
};
use serde_json::json;

pub(super) fn usual_reply(request: &AgentRequest) -> AgentReply {
    match request {
        AgentRequest::TestModel => AgentReply::ModelTested(ModelTestReport {
            ok: true,
            model: Some("m".into()),
            provider: Some("p".into()),
            reply: Some("ready".into()),
            error: None,
            elapsed_ms: 1,
        }),
        AgentRequest::ListServers => AgentReply::Servers(Vec::new()),
        AgentRequest::TestServer { server } => {
            AgentReply::ServerTested(Box::new(ServerTestReport {
                server: server.clone(),
                ok: true,
                status: "ready".into(),
                error: None,
                transport: "stdio".into(),
                era: None,
                protocol_version: None,
                server_name: None,
                server_version: None,
                instructions: None,
                tools: vec!["now".into()],
                resources: 0,
                prompts: 0,
                elapsed_ms: 1,
                warnings: Vec::new(),
            }))
        }
        AgentRequest::ListTools { server } | AgentRequest::AcceptTools { server, .. } => {
            AgentReply::Tools(ServerToolList {
                server: server.clone(),
                tools: vec![ServerTool {
                    name: "now".into(),
                    registered_name: Some("mcp_demo_now".into()),
                    title: None,
                    description: "Tells the time.".into(),
                    input_schema: json!({"type": "object"}),
                    output_schema: None,
                    annotations: None,
                    pin: "pinned".into(),
                    withheld: false,
                    changes: Vec::new(),
                    policy: "allow".into(),
                }],
                resources: Vec::new(),
                prompts: Vec::new(),
                warnings: Vec::new(),
            })
        }
        AgentRequest::CallTool { server, tool, .. } => AgentReply::Called(ToolCallReport {
            server: server.clone(),
            tool: tool.clone(),
            is_error: false,
            text: "noon".into(),
            structured_content: None,
            media: Vec::new(),
            truncated: false,
            elapsed_ms: 1,
        }),
        AgentRequest::BeginLogin {
            state,
            redirect_uri,
            ..
        } => AgentReply::LoginBegun(LoginAddress {
            url: format!(
                "https://login.example/authorize?redirect_uri={redirect_uri}&state={state}"
            ),
        }),
        AgentRequest::FinishLogin { .. } => AgentReply::LoggedIn(LoginReport {
            issuer: "https://login.example".into(),
            scope: None,
            expires_at: Some(1_900_000_000),
            is_renewable: true,
        }),
        AgentRequest::ForgetServer { .. } => AgentReply::Forgotten,
        AgentRequest::RenameSession { title, .. } => AgentReply::SessionRenamed {
            title: Some(title.clone()).filter(|title| !title.is_empty()),
        },
        AgentRequest::DeleteSession { .. } => AgentReply::SessionDeleted,
    }
}
