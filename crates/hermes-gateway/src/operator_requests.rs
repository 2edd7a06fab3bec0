//! Requests of a Hub's operator about the model, the MCP servers and the sessions of this home. They are carried out here
//! because this process has the connections, the keys and the sandbox, and knows which sessions are in use.

mod login;
mod model_test;
mod result_media;
mod servers;
mod stored_sessions;
mod tool_call;

use hermes_config::{ServerName, Settings};
use hermes_mcp::{
    Host,
    oauth::{self, TokenFiles},
};
use hermes_protocol::{
    AgentReply, AgentRequest, Feature, RefusalReason, RequestRefusal, ServerState,
};

use crate::gateway::Gateway;

pub(crate) async fn execute(gateway: &Gateway, request: AgentRequest) -> AgentReply {
    let done = match request {
        AgentRequest::TestModel => {
            return AgentReply::ModelTested(model_test::test_model(gateway.agent()).await);
        }
        AgentRequest::ListServers => return AgentReply::Servers(list_servers(gateway)),
        AgentRequest::TestServer { server } => test_server(gateway, &server).await,
        AgentRequest::ListTools { server } => list_tools(gateway, &server).await,
        AgentRequest::AcceptTools { server, tools } => accept_tools(gateway, &server, &tools).await,
        AgentRequest::CallTool {
            server,
            tool,
            arguments,
            timeout_seconds,
        } => {
            let wanted = tool_call::WantedCall {
                tool,
                arguments,
                timeout_seconds,
            };
            call_tool(gateway, &server, wanted).await
        }
        AgentRequest::BeginLogin {
            server,
            redirect_uri,
            state,
        } => login::begin(gateway, &server, redirect_uri, state)
            .await
            .map(AgentReply::LoginBegun),
        AgentRequest::FinishLogin { server, address } => login::finish(gateway, &server, &address)
            .await
            .map(AgentReply::LoggedIn),
        AgentRequest::ForgetServer { server } => {
            login::forget(gateway, &server).map(|()| AgentReply::Forgotten)
        }
        AgentRequest::RenameSession { session, title } => {
            stored_sessions::rename(gateway, &session, &title).await
        }
        AgentRequest::DeleteSession { session } => stored_sessions::delete(gateway, &session).await,
    };
    done.unwrap_or_else(AgentReply::Refused)
}

async fn test_server(gateway: &Gateway, server: &str) -> Result<AgentReply, RequestRefusal> {
    let usable = UsableServer::find(gateway, server)?;
    let report = servers::test(gateway.agent(), &usable).await?;
    Ok(AgentReply::ServerTested(Box::new(report)))
}

async fn list_tools(gateway: &Gateway, server: &str) -> Result<AgentReply, RequestRefusal> {
    let usable = UsableServer::find(gateway, server)?;
    let tools = servers::list_tools(gateway.agent(), &usable).await?;
    Ok(AgentReply::Tools(tools))
}

/// Accepts tools as they are, has the host compare again, and says how they are then.
async fn accept_tools(
    gateway: &Gateway,
    server: &str,
    tools: &[String],
) -> Result<AgentReply, RequestRefusal> {
    let usable = UsableServer::find(gateway, server)?;
    servers::accept_tools(gateway.agent(), &usable, tools).await?;
    match gateway.load_settings() {
        Ok(settings) => drop(gateway.reload(settings).await),
        Err(error) => tracing::warn!(%error, "failed to read the configuration"),
    }
    list_tools(gateway, server).await
}

async fn call_tool(
    gateway: &Gateway,
    server: &str,
    wanted: tool_call::WantedCall,
) -> Result<AgentReply, RequestRefusal> {
    let usable = UsableServer::find(gateway, server)?;
    let report = tool_call::call(gateway.agent(), &usable, wanted).await?;
    Ok(AgentReply::Called(report))
}

fn list_servers(gateway: &Gateway) -> Vec<ServerState> {
    let agent = gateway.agent();
    let settings = agent.settings();
    let names = settings.server_names();
    let login_end = |name: &str| {
        let server = settings.server(name)?.server.as_ref().ok()?;
        let files = TokenFiles::new(agent.home(), &names, &server.name);
        oauth::ending_login(server, &files)
    };
    let statuses = agent.host().map(Host::status);
    statuses
        .into_iter()
        .flatten()
        .map(|status| ServerState {
            status: status.status.as_str().to_owned(),
            error: status.error,
            tools: status.tools as u64,
            era: status.era.map(|era| era.as_str().to_owned()),
            pid: status.pid,
            restarts: status.restarts,
            since: status.since,
            login_ends_at: login_end(&status.name),
            name: status.name,
        })
        .collect()
}

/// A server that has a connection in this process.
struct UsableServer<'a> {
    host: &'a Host,
    name: ServerName,
}

impl<'a> UsableServer<'a> {
    /// Says why a server cannot be used here: it is unknown, forbidden, disabled or invalid.
    fn find(gateway: &'a Gateway, name: &str) -> Result<Self, RequestRefusal> {
        let agent = gateway.agent();
        check_feature(gateway)?;
        let Some(host) = agent.host() else {
            return Err(refuse(
                RefusalReason::Unusable,
                "the agent runs without MCP servers",
            ));
        };
        let name = ServerName::new(name);
        if host.link(&name).is_some() {
            return Ok(Self { host, name });
        }
        Err(explain_missing(gateway, &name))
    }
}

fn check_feature(gateway: &Gateway) -> Result<(), RequestRefusal> {
    if gateway.agent().policy().has_feature(Feature::Mcp) {
        return Ok(());
    }
    Err(refuse(
        RefusalReason::Policy,
        "the policy turns MCP servers off; add `mcp` to `features.enabled`",
    ))
}

/// Why a server has no connection.
fn explain_missing(gateway: &Gateway, name: &ServerName) -> RequestRefusal {
    let written = gateway.load_settings().ok();
    let entry = written
        .as_ref()
        .and_then(|settings: &Settings| settings.server(name.as_str()));
    let Some(entry) = entry else {
        return unknown_server(name);
    };
    let server = match &entry.server {
        Err(error) => {
            let message = format!("server `{name}` cannot be used: {error}");
            return refuse(RefusalReason::Unusable, message);
        }
        Ok(server) => server,
    };
    if !server.enabled {
        let message = format!("server `{name}` is disabled; enable it first");
        return refuse(RefusalReason::Unusable, message);
    }
    if let Some(url) = servers::remote_url(server)
        && let Err(reason) = gateway.agent().policy().egress().check_url(url)
    {
        return refuse(RefusalReason::Policy, reason.to_string());
    }
    refuse(
        RefusalReason::Unusable,
        format!("server `{name}` is not started yet; try again in a moment"),
    )
}

fn unknown_server(name: &ServerName) -> RequestRefusal {
    refuse(
        RefusalReason::NotFound,
        format!("there is no MCP server `{name}`"),
    )
}

fn refuse(reason: RefusalReason, message: impl Into<String>) -> RequestRefusal {
    RequestRefusal {
        reason,
        message: message.into(),
    }
}
