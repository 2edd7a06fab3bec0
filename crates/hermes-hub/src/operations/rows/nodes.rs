//! The nodes of the Hub.

use super::super::{
    Gate,
    HttpMethod::{Get, Post},
    Operation,
};
use crate::{api_types::Scope, service::nodes};

pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("list_nodes", &[Get], "/v1/nodes", nodes::list)
            .docs("List nodes", "Lists the nodes of the Hub, what each does, and how many tenants it works for.")
            .scope(Scope::ConfigRead)
            .gate(Gate::WholeHub)
            .read_only()
            .extended_tool()
            .command("hub node list")
            .returns::<nodes::NodeList>(),
        Operation::new("drain_node", &[Post], "/v1/nodes/{node_id}/drain", nodes::drain)
            .docs(
                "Drain a node",
                "Has a node hand its tenants over to the others, each when its runs have ended, and take no new ones until it \
                 starts again. The reply does not wait for that.",
            )
            .scope(Scope::ConfigWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("hub node drain")
            .success(&[202])
            .errors(&[409])
            .returns::<nodes::HubNode>(),
    ]
}
