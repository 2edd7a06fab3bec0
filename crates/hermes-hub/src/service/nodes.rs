//! The nodes of the Hub.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoInput;
use crate::{
    Problem,
    api_types::Time,
    service::call::{Call, Reply},
    storage::state::NodeRecord,
};

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeState {
    Active,
    /// It takes no more tenants and hands over those it has.
    Draining,
    /// It has not been heard of for longer than a lease lasts.
    Gone,
}

/// A node of the Hub.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubNode {
    id: String,
    state: NodeState,
    version: String,
    started_at: Time,
    /// When it was heard of last.
    seen_at: Time,
    /// How many tenants it takes by itself; no limit, if absent.
    capacity: Option<u64>,
    /// How many tenants it works for; all of them, if absent.
    tenants: Option<u64>,
    /// Whether it has answered this request.
    is_this_one: bool,
}

/// The nodes of the Hub.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NodeList {
    nodes: Vec<HubNode>,
}

/// Names a node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeRef {
    /// The node's id.
    node_id: String,
}

pub(crate) async fn list(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let nodes = all_nodes(&call).await?;
    Reply::json(&NodeList { nodes })
}

pub(crate) async fn drain(call: Call, input: NodeRef) -> Result<Reply, Problem> {
    if !call.hub.leases().is_shared() {
        let message = "this Hub is the only node, and has no other to hand its tenants to; to stop it, end its process";
        return Err(Problem::precondition(message).with_reason("only_node"));
    }
    let drained = call
        .hub
        .state()
        .drain_node(&input.node_id, call.entry.clone());
    drained.await?;
    let nodes = all_nodes(&call).await?;
    let node = nodes.into_iter().find(|node| node.id == input.node_id);
    let node = node.ok_or_else(|| Problem::not_found("there is no such node"))?;
    Ok(Reply::json(&node)?.status(202))
}

async fn all_nodes(call: &Call) -> Result<Vec<HubNode>, Problem> {
    let hub = &call.hub;
    if !hub.leases().is_shared() {
        return Ok(vec![HubNode {
            id: hub.node().to_owned(),
            state: NodeState::Active,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: hub.started_at(),
            seen_at: Time::now(),
            capacity: None,
            tenants: None,
            is_this_one: true,
        }]);
    }
    let gone_after = Duration::from_secs(hub.settings().lease_seconds);
    let nodes = hub.state().nodes().await?;
    let nodes = nodes
        .into_iter()
        .map(|node| show_node(node, gone_after, hub.node()));
    Ok(nodes.collect())
}

fn show_node(node: NodeRecord, gone_after: Duration, this: &str) -> HubNode {
    HubNode {
        state: match node.is_draining {
            _ if node.unseen_for > gone_after => NodeState::Gone,
            true => NodeState::Draining,
            false => NodeState::Active,
        },
        is_this_one: node.id == this,
        id: node.id,
        version: node.version,
        started_at: node.started_at,
        seen_at: node.seen_at,
        capacity: Some(node.capacity.into()),
        tenants: Some(node.tenants),
    }
}
