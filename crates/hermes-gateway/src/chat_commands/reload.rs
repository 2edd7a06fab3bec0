//! `/reload-mcp`: asks first, because the provider's cache of the conversation is lost.

use hermes_mcp::ReloadReport;

use super::{
    context::{ChatCommandContext, CommandError},
    execute::{CommandReply, command_button, usage_of},
    table::CommandName,
    texts,
};

pub(super) async fn run(
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    match arguments.to_lowercase().as_str() {
        "" => {
            let (plan, is_asked) = context.plan_mcp_reload().await?;
            if is_asked && !plan.is_noop() {
                return Ok(ask(&plan));
            }
            reload(false, context).await
        }
        "once" => reload(false, context).await,
        "always" => reload(true, context).await,
        "cancel" => Ok(CommandReply::text("Nothing was reloaded.")),
        _ => Err(usage_of(CommandName::ReloadMcp)),
    }
}

fn ask(plan: &ReloadReport) -> CommandReply {
    let button = |label, choice| command_button(label, "reload-mcp", choice);
    CommandReply {
        text: format!(
            "{}\n\nThe model's tools change, so the provider's cache of this conversation is lost. Reload? `/reload-mcp once`, `always` (without asking) or `cancel`.",
            describe(plan)
        ),
        buttons: vec![vec![
            button("Once", "once"),
            button("Always", "always"),
            button("Cancel", "cancel"),
        ]],
    }
}

async fn reload(
    is_remembered: bool,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    let report = context.reload_mcp(is_remembered).await?;
    let servers = context.mcp_servers().await?;
    Ok(CommandReply::text(format!(
        "{}\nnow: {}",
        describe(&report),
        texts::servers_by_state(&servers)
    )))
}

/// One line for each kind of change.
fn describe(report: &ReloadReport) -> String {
    let kinds = [
        ("added", &report.added),
        ("removed", &report.removed),
        ("restarted", &report.restarted),
        ("retried", &report.retried),
        ("unchanged", &report.unchanged),
    ];
    let lines: Vec<String> = kinds
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| format!("{kind}: {}", names.join(", ")))
        .collect();
    if lines.is_empty() {
        return "No MCP server is configured.".to_owned();
    }
    lines.join("\n")
}
