//! The model of tenants, and their MCP servers.

use hermes_protocol::{ModelTestReport, ServerTestReport, ServerToolList, ToolCallReport};

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post, Put},
    Operation,
};
use crate::{
    api_types::Scope,
    service::{
        mcp_servers::{self, live, login},
        model,
    },
};

const MODEL: &str = "/v1/tenants/{tenant_id}/model";
const SERVERS: &str = "/v1/tenants/{tenant_id}/mcp-servers";
const SERVER: &str = "/v1/tenants/{tenant_id}/mcp-servers/{server}";

pub(super) fn model_rows() -> Vec<Operation> {
    vec![
        Operation::new("get_tenant_model", &[Get], MODEL, model::get)
            .docs(
                "Get the model",
                "Shows the model of a tenant as its home configures it, and `agent.model`, which wins over it.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .extended_tool()
            .command("tenant model")
            .errors(&[409])
            .returns::<model::TenantModel>(),
        Operation::new("update_tenant_model", &[Patch], MODEL, model::update)
            .docs(
                "Change the model",
                "Changes the model in the configuration of a tenant's home. Only what is given is changed; `null` removes \
                 it. The agent uses it from its next run on. A name is refused while `agent.model` is set, which wins.",
            )
            .scope(Scope::TenantsWrite)
            .idempotent()
            .extended_tool()
            .errors(&[409, 422])
            .returns::<model::TenantModel>(),
        Operation::new(
            "test_tenant_model",
            &[Post],
            "/v1/tenants/{tenant_id}/model/test",
            model::test,
        )
        .docs(
            "Test the model",
            "Sends a short request to the model of a tenant, from the tenant's own process with its keys.",
        )
        .scope(Scope::RunsWrite)
        .gate(Gate::ActiveTenant)
        .open_world()
        .extended_tool()
        .untrusted()
        .errors(&[409, 422, 501, 504])
        .returns::<ModelTestReport>(),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("list_mcp_servers", &[Get], SERVERS, mcp_servers::list)
            .docs(
                "List MCP servers",
                "Lists the MCP servers of a tenant as its configuration has them, without secrets, and how they are while \
                 its agent runs.",
            )
            .scope(Scope::McpRead)
            .read_only()
            .extended_tool()
            .untrusted()
            .command("tenant mcp list")
            .errors(&[409])
            .returns::<mcp_servers::McpServerList>(),
        Operation::new("get_mcp_server", &[Get], SERVER, mcp_servers::get)
            .docs(
                "Get an MCP server",
                "Shows one MCP server of a tenant, without secrets.",
            )
            .scope(Scope::McpRead)
            .read_only()
            .versioned()
            .extended_tool()
            .untrusted()
            .command("tenant mcp get")
            .errors(&[409])
            .returns::<mcp_servers::McpServer>(),
        Operation::new("put_mcp_server", &[Put], SERVER, mcp_servers::put)
            .docs(
                "Add or replace an MCP server",
                "Writes an entry of `mcp_servers` in a tenant's configuration. Secrets belong in variables of the tenant, \
                 which an entry names as `${NAME}`. Entries that look like an attack are refused.",
            )
            .scope(Scope::McpWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .whole_body("config")
            .command("tenant mcp add")
            .success(&[200, 201])
            .errors(&[409, 412, 422, 507])
            .returns::<mcp_servers::McpServer>(),
        Operation::new("update_mcp_server", &[Patch], SERVER, mcp_servers::patch)
            .docs(
                "Change an MCP server",
                "Changes keys of an MCP server of a tenant; `null` removes a key.",
            )
            .scope(Scope::McpWrite)
            .idempotent()
            .extended_tool()
            .whole_body("patch")
            .errors(&[409, 422, 507])
            .returns::<mcp_servers::McpServer>(),
        Operation::new("delete_mcp_server", &[Delete], SERVER, mcp_servers::delete)
            .docs(
                "Remove an MCP server",
                "Removes an MCP server of a tenant, with its login.",
            )
            .scope(Scope::McpWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant mcp remove")
            .errors(&[409, 507])
            .returns_nothing(),
        Operation::new(
            "enable_mcp_server",
            &[Post],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/enable",
            mcp_servers::enable,
        )
        .docs(
            "Enable an MCP server",
            "Lets a tenant's agent connect to an MCP server.",
        )
        .scope(Scope::McpWrite)
        .idempotent()
        .extended_tool()
        .command("tenant mcp enable")
        .errors(&[409, 422, 507])
        .returns::<mcp_servers::McpServer>(),
        Operation::new(
            "disable_mcp_server",
            &[Post],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/disable",
            mcp_servers::disable,
        )
        .docs(
            "Disable an MCP server",
            "Keeps the entry of an MCP server, without connecting to it.",
        )
        .scope(Scope::McpWrite)
        .idempotent()
        .extended_tool()
        .command("tenant mcp disable")
        .errors(&[409, 507])
        .returns::<mcp_servers::McpServer>(),
        Operation::new(
            "test_mcp_server",
            &[Post],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/test",
            live::test,
        )
        .docs(
            "Test an MCP server",
            "Connects a tenant's agent to an MCP server, if it is not connected, and shows what the server offers. The \
             agent is woken for it.",
        )
        .scope(Scope::McpWrite)
        .gate(Gate::ActiveTenant)
        .open_world()
        .extended_tool()
        .untrusted()
        .command("tenant mcp test")
        .errors(&[409, 422, 501, 504])
        .returns::<ServerTestReport>(),
        Operation::new(
            "list_mcp_tools",
            &[Get],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/tools",
            live::tools,
        )
        .docs(
            "List tools of an MCP server",
            "Lists the tools of an MCP server with their schemas, whether they are what was accepted, and what the policy \
             says. The agent is woken for it.",
        )
        .scope(Scope::McpRead)
        .gate(Gate::ActiveTenant)
        .read_only()
        .extended_tool()
        .untrusted()
        .command("tenant mcp tools")
        .errors(&[409, 422, 501, 504])
        .returns::<ServerToolList>(),
        Operation::new(
            "accept_mcp_tools",
            &[Post],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/accept",
            live::accept_tools,
        )
        .docs(
            "Accept tools of an MCP server",
            "Accepts tools of an MCP server as they are now. A tool that was withheld because it had changed is offered \
             again. The agent is woken for it.",
        )
        .scope(Scope::McpWrite)
        .gate(Gate::ActiveTenant)
        .destructive()
        .idempotent()
        .open_world()
        .extended_tool()
        .untrusted()
        .command("tenant mcp accept")
        .errors(&[409, 422, 501, 504])
        .returns::<ServerToolList>(),
        Operation::new(
            "get_mcp_server_log",
            &[Get],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/logs",
            live::logs,
        )
        .docs(
            "Read the log of an MCP server",
            "Shows the last lines that a local MCP server of a tenant has printed on stderr.",
        )
        .scope(Scope::McpRead)
        .read_only()
        .extended_tool()
        .untrusted()
        .command("tenant mcp logs")
        .errors(&[409])
        .returns::<live::ServerLog>(),
        Operation::new(
            "call_mcp_tool",
            &[Post],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/call",
            live::call_tool,
        )
        .docs(
            "Call a tool of an MCP server",
            "Calls a tool in a tenant's own process, with its sandbox and its variables. The policy's `tools` apply. \
             Secrets of the tenant are taken out of the result, and a long one is cut.",
        )
        .scope(Scope::McpCall)
        .gate(Gate::ActiveTenant)
        .open_world()
        .extended_tool()
        .untrusted()
        .command("tenant mcp call")
        .errors(&[409, 422, 501, 504])
        .returns::<ToolCallReport>(),
        Operation::new(
            "log_in_to_mcp_server",
            &[Post],
            "/v1/tenants/{tenant_id}/mcp-servers/{server}/login",
            login::log_in,
        )
        .docs(
            "Log in to an MCP server",
            "Begins a login to a remote MCP server and shows the address to open in a browser, which ends at \
             `/oauth/callback` of the Hub. With `address`, ends a login whose browser could not reach the Hub. The tokens \
             stay in the tenant's home.",
        )
        .scope(Scope::McpWrite)
        .gate(Gate::ActiveTenant)
        .open_world()
        .extended_tool()
        .command("tenant mcp login")
        .errors(&[409, 422, 501, 504])
        .returns::<login::ServerLogin>(),
    ]
}
