//! The nodes of the Hub: which are there, and handing over the tenants of one.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::render;
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/nodes.html")]
struct NodesPage {
    page: Frame,
    nodes: Vec<NodeView>,
    may_drain: bool,
}

#[derive(Deserialize)]
struct NodesView {
    nodes: Vec<NodeView>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeView {
    id: String,
    state: String,
    version: String,
    started_at: Time,
    seen_at: Time,
    capacity: Option<u64>,
    tenants: Option<u64>,
    is_this_one: bool,
}

impl NodeView {
    fn is_active(&self) -> bool {
        self.state == "active"
    }

    fn is_gone(&self) -> bool {
        self.state == "gone"
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let list: NodesView = request.read("list_nodes", json!({})).await?;
    render(&NodesPage {
        page: Frame::new(&request, request.texts.get("nav.nodes")),
        // The only one has no other to hand its tenants to.
        may_drain: request.may("drain_node") && list.nodes.len() > 1,
        nodes: list.nodes,
    })
}
