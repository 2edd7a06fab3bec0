//! `hermes hub node …`: the nodes of a Hub that share a database.

use crate::{
    cli::{HubNodeArgs, HubNodeCommand},
    commands::hub::client::{Column, HubCall, HubClient},
    context::Context,
    failure::Failure,
};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("TENANTS", "/tenants"),
    ("CAPACITY", "/capacity"),
    ("VERSION", "/version"),
    ("STARTED", "/startedAt"),
    ("SEEN", "/seenAt"),
];

pub(super) fn run(context: &Context, args: HubNodeArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        HubNodeCommand::List => {
            let answer = hub.call(&HubCall::new("list_nodes"))?;
            hub.show_list(&answer, "nodes", COLUMNS, "There are no nodes.");
            Ok(())
        }
        HubNodeCommand::Drain { node, sure } => {
            let question = format!(
                "Have `{node}` hand its tenants over? It takes no others until it starts again."
            );
            hub.confirm(sure.yes, &question)?;
            hub.call(&HubCall::new("drain_node").with("node_id", node.as_str()))?;
            hub.output()
                .note(format!("`{node}` hands its tenants over."));
            Ok(())
        }
    }
}
