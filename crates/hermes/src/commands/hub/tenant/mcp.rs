//! `hermes tenant mcp …`: the MCP servers of a tenant.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::tenant_call;
use crate::{
    cli::{TenantMcpAddArgs, TenantMcpArgs, TenantMcpCallArgs, TenantMcpCommand},
    commands::{
        hub::client::{Column, HubCall, HubClient, call, plain_text},
        mcp::insert_pairs,
    },
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("SERVER", "/name"),
    ("TRANSPORT", "/transport"),
    ("ENABLED", "/enabled"),
    ("STATUS", "/status"),
    ("TOOLS", "/tools"),
    ("ERROR", "/error"),
];
const TOOLS: &[Column] = &[
    ("TOOL", "/name"),
    ("REGISTERED AS", "/registeredName"),
    ("PIN", "/pin"),
    ("POLICY", "/policy"),
    ("DESCRIPTION", "/description"),
];

/// How much longer than the call itself its reply may take: the agent may have to be woken first.
const REPLY_GRACE: Duration = Duration::from_mins(1);
/// The longest wait for a server to connect, and for its agent.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(3);

pub(super) fn run(hub: &HubClient<'_>, args: TenantMcpArgs) -> Result<(), Failure> {
    let tenant = args.tenant.as_str();
    let about = |operation: &'static str, server: &str| {
        tenant_call(operation, tenant).with("server", server)
    };
    match args.command {
        TenantMcpCommand::List => {
            let answer = hub.call(&tenant_call("list_mcp_servers", tenant))?;
            hub.show_list(
                &answer,
                "mcpServers",
                COLUMNS,
                "There are no MCP servers. `hermes tenant mcp TENANT add` adds one.",
            );
        }
        TenantMcpCommand::Add(args) => {
            let call = about("put_mcp_server", &args.server);
            let call = call.with("config", Value::Object(entry(*args)?));
            let answer = hub.call(&call)?;
            hub.output()
                .note(format!("Saved `{}`.", printable(answer.text("/name"))));
            show_warnings(hub, &answer.value);
        }
        TenantMcpCommand::Get(args) => {
            let answer = hub.call(&about("get_mcp_server", &args.server))?;
            if !hub.output().is_json() {
                hub.show_members(&answer.value);
            }
        }
        TenantMcpCommand::Remove { server, sure } => {
            let question = format!("Remove `{server}` from `{tenant}`, with its login?");
            hub.confirm(sure.yes, &question)?;
            hub.call(&about("delete_mcp_server", &server))?;
            hub.output().note(format!("Removed `{server}`."));
        }
        TenantMcpCommand::Test(args) => {
            let call = about("test_mcp_server", &args.server).with_timeout(CONNECT_TIMEOUT);
            return test(hub, &call);
        }
        TenantMcpCommand::Tools(args) => {
            show_tools(hub, about("list_mcp_tools", &args.server))?;
        }
        TenantMcpCommand::Accept { server, tools } => {
            show_tools(hub, about("accept_mcp_tools", &server).with("tools", tools))?;
        }
        TenantMcpCommand::Call(args) => {
            let call = about("call_mcp_tool", &args.server);
            return call_tool(hub, call, &args);
        }
        TenantMcpCommand::Logs { server, lines } => {
            let call = about("get_mcp_server_log", &server).with_optional("lines", lines);
            let answer = hub.call(&call)?;
            let shown = answer.value["lines"].as_array().into_iter().flatten();
            for line in shown {
                hub.output().line(plain_text(line));
            }
        }
        TenantMcpCommand::Login { server, code } => {
            let call = about("log_in_to_mcp_server", &server).with_optional("address", code);
            log_in(hub, &call, tenant, &server)?;
        }
        TenantMcpCommand::Enable(args) => {
            hub.call(&about("enable_mcp_server", &args.server))?;
            hub.output().note(format!("`{}` is enabled.", args.server));
        }
        TenantMcpCommand::Disable(args) => {
            hub.call(&about("disable_mcp_server", &args.server))?;
            hub.output().note(format!("`{}` is disabled.", args.server));
        }
    }
    Ok(())
}

/// The entry that the arguments describe, over that of a file.
fn entry(args: TenantMcpAddArgs) -> Result<Map<String, Value>, Failure> {
    let mut entry = call::read_optional_object(args.from.as_deref())?;
    if let Some(url) = args.url {
        entry.insert("url".into(), url.into());
    }
    if let Some((program, arguments)) = args.program.split_first() {
        entry.insert("command".into(), program.as_str().into());
        entry.insert("args".into(), json!(arguments));
    }
    for (key, option, pairs) in [
        ("env", "--env", &args.env),
        ("headers", "--header", &args.header),
    ] {
        if pairs.is_empty() {
            continue;
        }
        let member = entry.entry(key).or_insert_with(|| json!({}));
        match member.as_object_mut() {
            Some(member) => member.extend(call::parse_pairs(option, pairs)?),
            None => {
                return Err(Failure::usage(format!(
                    "`{key}` in the file must be an object"
                )));
            }
        }
    }
    if let Some(auth) = args.auth {
        entry.insert("auth".into(), auth.into());
    }
    if args.disabled {
        entry.insert("enabled".into(), false.into());
    }
    if entry.is_empty() {
        return Err(Failure::usage("nothing says what the server is")
            .hint("give a URL, or `--` and the program of a local server"));
    }
    Ok(entry)
}

/// The tools of a server, as the reply of an operation has them.
fn show_tools(hub: &HubClient<'_>, call: HubCall) -> Result<(), Failure> {
    let answer = hub.call(&call.with_timeout(CONNECT_TIMEOUT))?;
    hub.show_list(&answer, "tools", TOOLS, "It has no tools.");
    show_warnings(hub, &answer.value);
    Ok(())
}

fn show_warnings(hub: &HubClient<'_>, value: &Value) {
    for warning in value["warnings"].as_array().into_iter().flatten() {
        hub.output().warning(plain_text(warning));
    }
}

fn test(hub: &HubClient<'_>, call: &HubCall) -> Result<(), Failure> {
    let answer = hub.call(call)?;
    let value = &answer.value;
    let server = plain_text(&value["server"]);
    show_warnings(hub, value);
    if value["ok"] != true {
        let status = plain_text(&value["status"]);
        let error = plain_text(&value["error"]);
        let failure = Failure::failed(format!("server `{server}` is {status}: {error}"));
        return Err(if hub.output().is_json() {
            failure.mark_printed()
        } else {
            failure
        });
    }
    if !hub.output().is_json() {
        let tools = value["tools"].as_array().map_or(0, Vec::len);
        hub.output().line(format!(
            "ready {server}: {}, protocol {}, {} ms",
            plain_text(&value["transport"]),
            plain_text(&value["protocolVersion"]),
            value["elapsedMs"]
        ));
        hub.output().line(format!(
            "{tools} tools, {} resources, {} prompts: {}",
            value["resources"],
            value["prompts"],
            plain_text(&value["tools"])
        ));
    }
    Ok(())
}

fn call_tool(hub: &HubClient<'_>, call: HubCall, args: &TenantMcpCallArgs) -> Result<(), Failure> {
    let arguments = parse_arguments(&args.arguments)?;
    let call = call
        .with("tool", args.tool.as_str())
        .with("arguments", arguments)
        .with("timeout_seconds", args.timeout)
        .with_timeout(Duration::from_secs(args.timeout) + REPLY_GRACE);
    let answer = hub.call(&call)?;
    let value = &answer.value;
    if !hub.output().is_json() {
        hub.output()
            .line(printable(value["text"].as_str().unwrap_or_default()));
        if value["truncated"] == true {
            hub.output().note("The result was too long and is cut.");
        }
    }
    if value["isError"] == true {
        let failure = Failure::failed(format!("`{}` says that it failed", args.tool));
        return Err(if hub.output().is_json() {
            failure.mark_printed()
        } else {
            failure
        });
    }
    Ok(())
}

fn parse_arguments(words: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut arguments = Map::new();
    for word in words {
        if word.starts_with('{') {
            match serde_json::from_str(word) {
                Ok(Value::Object(object)) => arguments.extend(object),
                _ => return Err(Failure::usage(format!("`{word}` is not a JSON object"))),
            }
        } else {
            insert_pairs(&mut arguments, std::iter::once(word.as_str()))?;
        }
    }
    Ok(arguments)
}

fn log_in(hub: &HubClient<'_>, call: &HubCall, tenant: &str, server: &str) -> Result<(), Failure> {
    let answer = hub.call(call)?;
    if hub.output().is_json() {
        return Ok(());
    }
    if answer.text("/status") == "done" {
        hub.output().note(format!("Logged in to `{server}`."));
        return Ok(());
    }
    hub.output()
        .note("Open this address in a browser, on any machine:");
    hub.output().line(printable(answer.text("/url")));
    hub.output().note(format!(
        "If the browser ends at an address that it cannot open, run `hermes tenant mcp {tenant} login {server} --code \
         'ADDRESS'` with it."
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> TenantMcpAddArgs {
        TenantMcpAddArgs {
            server: "x".into(),
            url: None,
            program: Vec::new(),
            env: Vec::new(),
            header: Vec::new(),
            auth: None,
            disabled: false,
            from: None,
        }
    }

    #[test]
    fn an_entry_comes_from_the_words_of_the_command() {
        let local = entry(TenantMcpAddArgs {
            program: vec!["uvx".into(), "server".into()],
            env: vec!["KEY=${NAME}".into()],
            disabled: true,
            ..args()
        });
        assert_eq!(
            Value::Object(local.unwrap()),
            json!({"command": "uvx", "args": ["server"], "env": {"KEY": "${NAME}"}, "enabled": false})
        );
        let remote = entry(TenantMcpAddArgs {
            url: Some("https://x".into()),
            header: vec!["Authorization=Bearer ${NAME}".into()],
            ..args()
        });
        assert_eq!(
            Value::Object(remote.unwrap()),
            json!({"url": "https://x", "headers": {"Authorization": "Bearer ${NAME}"}})
        );
        assert!(entry(args()).is_err());
    }

    #[test]
    fn arguments_are_pairs_or_an_object() {
        let words = ["a=1", "b:=[2]", "{\"c\": 3}"].map(str::to_owned);
        let parsed = Value::Object(parse_arguments(&words).unwrap());
        assert_eq!(parsed, json!({"a": "1", "b": [2], "c": 3}));
        assert!(parse_arguments(&["{".to_owned()]).is_err());
        assert!(parse_arguments(&["x".to_owned()]).is_err());
    }
}
