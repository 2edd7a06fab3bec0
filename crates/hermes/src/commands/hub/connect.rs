//! `hermes hub connect`: what a program needs to connect to a Hub by MCP.

use hermes_hub::client_snippets::client_snippets;
use serde_json::{Value, json};

use crate::{
    cli::HubConnectArgs, commands::hub::client::HubClient, context::Context, failure::Failure,
};

pub(super) fn run(context: &Context, args: &HubConnectArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let snippets = client_snippets(&format!("{}/mcp", hub.address()));
    let output = hub.output();
    let Some(wanted) = &args.client else {
        let all = snippets.iter().map(
            |snippet| json!({"id": snippet.id, "name": snippet.name, "file": snippet.file, "text": snippet.text}),
        );
        output.json(json!({"clients": all.collect::<Vec<Value>>()}));
        for snippet in &snippets {
            output.line(format!("{}: {}", snippet.id, snippet.name));
        }
        output.note("`hermes hub connect CLIENT` prints what to write.");
        return Ok(());
    };
    let Some(snippet) = snippets.iter().find(|snippet| snippet.id == *wanted) else {
        let known: Vec<String> = snippets
            .iter()
            .map(|snippet| snippet.id.to_owned())
            .collect();
        return Err(
            Failure::usage(format!("there is no client `{wanted}`")).suggest_name(
                wanted,
                "known clients",
                &known,
            ),
        );
    };
    output.json(json!({
        "id": snippet.id, "name": snippet.name, "file": snippet.file, "text": snippet.text,
    }));
    output.line(&snippet.text);
    output.note(match snippet.file {
        Some(file) => format!("Add this to `{file}`, with a token in place of YOUR_TOKEN."),
        None => "Run this, with a token in place of YOUR_TOKEN.".to_owned(),
    });
    output.note("`hermes token create` makes one; give it only the rights that the program needs.");
    Ok(())
}
