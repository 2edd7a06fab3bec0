//! The rows of the operation table, by family, in the order of all listings.

use super::Operation;

mod agents;
mod console;
mod cron;
mod documents;
mod events;
mod groups;
mod homes;
mod hub;
mod mcp_servers;
mod messaging;
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
        hub::node_rows(),
        console::rows(),
        tenants::others(),
        shares::files(),
        homes::workspace(),
        homes::character(),
        homes::skills(),
        homes::sessions(),
        homes::manifest(),
        agents::rows(),
        cron::others(),
        groups::rows(),
        documents::others(),
        messaging::rows(),
        events::rows(),
        mcp_servers::model_rows(),
        mcp_servers::rows(),
    ];
    tools.into_iter().chain(others).flatten().collect()
}
