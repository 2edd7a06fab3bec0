//! What is asked of a server itself, in the tenant's own process: a test, its tools, a call. And what it has printed.

use std::time::Duration;

use hermes_protocol::{AgentReply, AgentRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ServerRef, check_feature, find_entry};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::redact_keys,
    service::{
        agent::{ask_agent, unexpected_reply},
        call::{Call, Reply},
        home_config::read_config,
    },
    storage::files::{HomeDirectory, run_blocking},
};

/// A connection may take as long as the server's `connect_timeout`, and somewhat longer to end.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);
const DEFAULT_CALL_SECONDS: u64 = 120;
const MAX_CALL_SECONDS: u64 = 600;
/// How much longer than the call its reply may take.
const CALL_GRACE: Duration = Duration::from_secs(10);
const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;
const MAX_TOOL_NAME_CHARS: usize = 256;
const MAX_ACCEPTED: usize = 1000;

const LOG_FILE: &str = "mcp-stderr.log";
/// How much of the end of the log is searched for lines of a server.
const LOG_TAIL_BYTES: u64 = 1024 * 1024;
const DEFAULT_LINES: usize = 100;
const MAX_LINES: usize = 1000;

/// A call of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallServerTool {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    server: String,
    /// The tool: the server's own name for it, or the registered one.
    tool: String,
    /// Its arguments.
    arguments: Option<Map<String, Value>>,
    /// How long it may take, 1 to 600 seconds; 120 if absent.
    timeout_seconds: Option<u64>,
}

/// Tools to accept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptServerTools {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    server: String,
    /// The tools, by the server's own names for them: 1 to 1000.
    tools: Vec<String>,
}

/// Which lines of the log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadServerLog {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The server's name.
    server: String,
    /// How many of the last lines, 1 to 1000; 100 if absent.
    lines: Option<usize>,
}

/// What a local server has printed on stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServerLog {
    /// The server's name.
    server: String,
    /// The last lines, oldest first, with their times.
    lines: Vec<String>,
}

pub(crate) async fn test(call: Call, input: ServerRef) -> Result<Reply, Problem> {
    prepare(&call, &input.server).await?;
    call.record_audit().await?;
    let request = AgentRequest::TestServer {
        server: input.server,
    };
    match ask_agent(&call.hub, call.tenant_id()?, &request, TEST_TIMEOUT).await? {
        AgentReply::ServerTested(report) => Reply::json(&report),
        _ => Err(unexpected_reply()),
    }
}

pub(crate) async fn tools(call: Call, input: ServerRef) -> Result<Reply, Problem> {
    prepare(&call, &input.server).await?;
    let request = AgentRequest::ListTools {
        server: input.server,
    };
    match ask_agent(&call.hub, call.tenant_id()?, &request, TEST_TIMEOUT).await? {
        AgentReply::Tools(tools) => Reply::json(&tools),
        _ => Err(unexpected_reply()),
    }
}

pub(crate) async fn accept_tools(
    mut call: Call,
    input: AcceptServerTools,
) -> Result<Reply, Problem> {
    let AcceptServerTools { server, tools, .. } = input;
    if !(1..=MAX_ACCEPTED).contains(&tools.len()) {
        return Err(
            Problem::invalid(format!("`tools` must name 1 to {MAX_ACCEPTED} tools"))
                .with_detail("tools", "number"),
        );
    }
    prepare(&call, &server).await?;
    let names: String = tools.join(", ").chars().take(MAX_TOOL_NAME_CHARS).collect();
    call.entry.target = Some(redact_keys(&format!("{server}:{names}")).into_owned());
    call.record_audit().await?;
    let request = AgentRequest::AcceptTools { server, tools };
    match ask_agent(&call.hub, call.tenant_id()?, &request, TEST_TIMEOUT).await? {
        AgentReply::Tools(tools) => Reply::json(&tools),
        _ => Err(unexpected_reply()),
    }
}

pub(crate) async fn call_tool(mut call: Call, input: CallServerTool) -> Result<Reply, Problem> {
    let CallServerTool {
        server,
        tool,
        arguments,
        timeout_seconds,
        ..
    } = input;
    let seconds = timeout_seconds.unwrap_or(DEFAULT_CALL_SECONDS);
    if !(1..=MAX_CALL_SECONDS).contains(&seconds) {
        return Err(
            Problem::invalid(format!("`timeoutSeconds` must be 1 to {MAX_CALL_SECONDS}"))
                .with_detail("timeoutSeconds", "out of range"),
        );
    }
    if tool.is_empty() || tool.chars().count() > MAX_TOOL_NAME_CHARS {
        return Err(
            Problem::invalid("`tool` must have 1 to 256 characters").with_detail("tool", "length")
        );
    }
    let arguments = arguments.unwrap_or_default();
    let size = serde_json::to_vec(&arguments).map_or(usize::MAX, |bytes| bytes.len());
    if size > MAX_ARGUMENT_BYTES {
        return Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            "the arguments of a call may have 1 MiB at most",
        ));
    }
    prepare(&call, &server).await?;
    // Before the call: it may have effects outside of the Hub.
    call.entry.target = Some(redact_keys(&format!("{server}:{tool}")).into_owned());
    call.entry.size = Some(size as u64);
    call.record_audit().await?;
    let request = AgentRequest::CallTool {
        server,
        tool,
        arguments,
        timeout_seconds: seconds,
    };
    let timeout = Duration::from_secs(seconds) + CALL_GRACE;
    match ask_agent(&call.hub, call.tenant_id()?, &request, timeout).await? {
        AgentReply::Called(report) => Reply::json(&report),
        _ => Err(unexpected_reply()),
    }
}

pub(crate) async fn logs(call: Call, input: ReadServerLog) -> Result<Reply, Problem> {
    let wanted = input.lines.unwrap_or(DEFAULT_LINES);
    if !(1..=MAX_LINES).contains(&wanted) {
        return Err(
            Problem::invalid(format!("`lines` must be 1 to {MAX_LINES}"))
                .with_detail("lines", "out of range"),
        );
    }
    let document = read_config(&call).await?;
    find_entry(&document, &input.server)?;
    let home = call.hub.home(call.tenant()?);
    let server = input.server;
    let name = server.clone();
    let lines = run_blocking(move || {
        let log = HomeDirectory::open(home.path(), "logs")
            .ok()
            .and_then(|logs| logs.read_tail(LOG_FILE, LOG_TAIL_BYTES).ok().flatten());
        Ok(server_lines(&log.unwrap_or_default(), &name, wanted))
    })
    .await?;
    Reply::json(&ServerLog { server, lines })
}

/// The last lines of one server. A line has a time and the server's name in brackets; a separator begins with dashes.
fn server_lines(log: &str, server: &str, wanted: usize) -> Vec<String> {
    let mark = format!("[{server}] ");
    let is_of_server = |line: &&str| {
        let line = line.strip_prefix("---- ").unwrap_or(line);
        let after_time = line
            .split_once(" [")
            .map(|(time, _)| &line[time.len() + 1..]);
        after_time.is_some_and(|rest| rest.starts_with(&mark))
    };
    let found: Vec<&str> = log.lines().filter(is_of_server).collect();
    let last = found.len().saturating_sub(wanted);
    found[last..]
        .iter()
        .map(|line| redact_keys(line).into_owned())
        .collect()
}

/// What is checked before an agent is woken for a server.
async fn prepare(call: &Call, server: &str) -> Result<(), Problem> {
    check_feature(call)?;
    let document = read_config(call).await?;
    find_entry(&document, server)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_server_itself_are_shown() {
        let log = "---- 2026-01-01T00:00:00Z [time] pid 1: uvx x ----\n\
                   2026-01-01T00:00:01Z [time] one\n\
                   2026-01-01T00:00:02Z [other] says [time] two\n\
                   2026-01-01T00:00:03Z [time] three\n";
        let lines = server_lines(log, "time", 2);
        assert_eq!(
            lines,
            [
                "2026-01-01T00:00:01Z [time] one",
                "2026-01-01T00:00:03Z [time] three"
            ]
        );
        assert_eq!(server_lines(log, "time", 100).len(), 3);
        assert_eq!(server_lines(log, "other", 100).len(), 1);
    }
}
