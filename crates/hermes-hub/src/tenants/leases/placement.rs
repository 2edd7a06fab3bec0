//! Which node tries first to take a free lease. All nodes compute the same order without talking to each other; when
//! nodes come or go, only the tenants of those nodes get another one. Who tries first has a head start, and the
//! database decides who wins.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::NodeTime;
use crate::TenantId;

/// The head start of a node over the next one.
const HEAD_START: Duration = Duration::from_millis(700);

/// The place of a node in the order for a tenant: 0 tries first.
fn rank(node: &str, nodes: &[String], tenant: &TenantId) -> u32 {
    let own = score(node, tenant);
    let before = nodes
        .iter()
        .filter(|other| *other != node && score(other, tenant) > own);
    u32::try_from(before.count()).unwrap_or(u32::MAX)
}

/// The node that tries first.
pub(super) fn first_node(nodes: &[String], tenant: &TenantId) -> Option<String> {
    nodes.iter().max_by_key(|node| score(node, tenant)).cloned()
}

fn score(node: &str, tenant: &TenantId) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(node);
    hash.update([0]);
    hash.update(tenant.as_str());
    hash.finalize().into()
}

/// The tenants that wait for a node, and since when this node knows it.
#[derive(Debug, Default)]
pub(super) struct WaitingTenants(HashMap<TenantId, NodeTime>);

impl WaitingTenants {
    /// Those of the waiting tenants that this node should try to take now.
    pub(super) fn choose(
        &mut self,
        node: &str,
        nodes: &[String],
        waiting: Vec<TenantId>,
        now: NodeTime,
    ) -> Vec<TenantId> {
        let still: HashSet<&TenantId> = waiting.iter().collect();
        self.0.retain(|tenant, _| still.contains(tenant));
        let mut chosen = Vec::new();
        for tenant in waiting {
            let since = *self.0.entry(tenant.clone()).or_insert(now);
            if now.saturating_sub(since) >= HEAD_START * rank(node, nodes, &tenant) {
                chosen.push(tenant);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> Vec<TenantId> {
        let tenants = (0..300).map(|number| TenantId::parse(&format!("t{number}")).unwrap());
        tenants.collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn first(nodes: &[String], tenant: &TenantId) -> String {
        let first = nodes.iter().find(|node| rank(node, nodes, tenant) == 0);
        first.unwrap().clone()
    }

    #[test]
    fn each_node_is_first_for_its_part_of_the_tenants() {
        let nodes = names(&["n1", "n2", "n3"]);
        for node in &nodes {
            let tenants = tenants();
            let own = tenants.iter().filter(|one| first(&nodes, one) == *node);
            let count = own.count();
            assert!((60..140).contains(&count), "{node} is first for {count}");
        }
    }

    #[test]
    fn only_the_tenants_of_a_node_that_goes_get_another_one() {
        let (before, after) = (names(&["n1", "n2", "n3"]), names(&["n1", "n3"]));
        for tenant in tenants() {
            let was = first(&before, &tenant);
            if was != "n2" {
                assert_eq!(first(&after, &tenant), was);
            }
        }
    }

    #[test]
    fn the_others_try_when_the_first_has_not_taken_it() {
        let nodes = names(&["n1", "n2"]);
        let tenant = tenants().remove(0);
        let first = first(&nodes, &tenant);
        let second = nodes.iter().find(|node| **node != first).unwrap();
        let mut waiting = WaitingTenants::default();
        let mut choose =
            |node: &str, at: Duration| waiting.choose(node, &nodes, vec![tenant.clone()], at).len();
        assert_eq!(choose(second, Duration::ZERO), 0);
        assert_eq!(choose(&first, Duration::ZERO), 1);
        assert_eq!(choose(second, HEAD_START), 1);
    }

    #[test]
    fn a_tenant_that_waits_again_waits_from_the_beginning() {
        let nodes = names(&["n1", "n2"]);
        let tenant = tenants().remove(0);
        let first = first(&nodes, &tenant);
        let second = nodes.iter().find(|node| **node != first).unwrap();
        let mut waiting = WaitingTenants::default();
        waiting.choose(second, &nodes, vec![tenant.clone()], Duration::ZERO);
        waiting.choose(second, &nodes, Vec::new(), HEAD_START);
        let chosen = waiting.choose(second, &nodes, vec![tenant], HEAD_START * 2);
        assert!(chosen.is_empty());
    }
}
