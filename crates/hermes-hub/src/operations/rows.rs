//! The rows of the operation table, by family, in the order of all listings.

use super::Operation;

mod agents;
mod cron;
mod documents;
mod groups;
mod hub;
mod shares;
mod tenants;

pub(super) fn all_operations() -> Vec<Operation> {
    let tools = [
        tenants::tools(),
        shares::tools(),
        cron::tools(),
        documents::tools(),
        shares::sync(),
    ];
    let others = [
        hub::rows(),
        tenants::others(),
        agents::rows(),
        groups::rows(),
        documents::others(),
    ];
    tools.into_iter().chain(others).flatten().collect()
}
