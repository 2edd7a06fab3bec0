//! The Hub itself, and its nodes.

use super::super::{
    Gate,
    HttpMethod::{Get, Post},
    Operation,
};
use crate::{
    api_types::Scope,
    operations::document,
    service::{hub, nodes, overview},
};

pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("healthz", &[Get], "/v1/healthz", hub::healthz)
            .docs("Health", "Reports that the Hub runs.")
            .public()
            .read_only()
            .returns::<hub::Health>(),
        Operation::new("readyz", &[Get], "/v1/readyz", hub::readyz)
            .docs(
                "Readiness",
                "Reports whether database, objects and disk are usable.",
            )
            .public()
            .read_only()
            .command("hub status")
            .success(&[200, 503])
            .returns::<hub::Readiness>(),
        Operation::new(
            "openapi",
            &[Get],
            "/v1/openapi.json",
            document::serve_openapi,
        )
        .docs("OpenAPI", "This interface as an OpenAPI 3.1 document.")
        .public()
        .read_only()
        .command("hub openapi")
        .returns_bytes(&["application/json"]),
        Operation::new("version", &[Get], "/v1/version", hub::version)
            .docs(
                "Version",
                "Shows the Hub's version, the protocols it supports and its features.",
            )
            .extended_tool()
            .read_only()
            .returns::<hub::HubVersion>(),
        Operation::new("get_overview", &[Get], "/v1/overview", overview::get)
            .docs(
                "Get an overview",
                "Shows how many tenants are in each state, which of them need attention, and the runs of the last day.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .extended_tool()
            .command("hub overview")
            .returns::<overview::HubOverview>(),
        Operation::new("whoami", &[Get], "/v1/whoami", hub::whoami)
            .docs(
                "Who am I",
                "Shows what your token may do, for which tenants, and until when.",
            )
            .read_only()
            .extended_tool()
            .command("token whoami")
            .returns::<hub::WhoAmI>(),
    ]
}

pub(super) fn node_rows() -> Vec<Operation> {
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
