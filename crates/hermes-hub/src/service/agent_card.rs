//! The card of a tenant's agent: who it is and what it can do, in the form of the A2A protocol (version 0.3.0). There is no
//! A2A endpoint: the card leads to the runs of the Hub's own API.

use hermes_protocol::Feature;
use schemars::JsonSchema;
use serde::Serialize;

use super::{TenantRef, skills::scan_skills};
use crate::{
    Problem,
    service::call::{Call, Reply},
};

const PROTOCOL_VERSION: &str = "0.3.0";
/// A2A leaves the name of a transport open. This one is the Hub's REST API.
const TRANSPORT: &str = "HERMES-RUNS";
const TEXT: &str = "text/plain";
const SCHEME: &str = "bearer";

/// An A2A agent card.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentCard {
    protocol_version: &'static str,
    /// The tenant's display name.
    name: String,
    description: String,
    /// Where runs are started.
    url: String,
    preferred_transport: &'static str,
    /// The version of hermes.
    version: &'static str,
    capabilities: AgentCapabilities,
    default_input_modes: [&'static str; 1],
    default_output_modes: [&'static str; 1],
    /// The skills that are switched on.
    skills: Vec<AgentSkill>,
    security_schemes: SecuritySchemes,
    security: [SecurityRequirement; 1],
}

/// What the agent's endpoint can do.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AgentCapabilities {
    /// The events of a run can be followed.
    streaming: bool,
    push_notifications: bool,
}

/// A skill of the agent.
#[derive(Debug, Serialize, JsonSchema)]
struct AgentSkill {
    id: String,
    name: String,
    description: String,
    /// Its category.
    tags: Vec<String>,
}

/// How callers authenticate.
#[derive(Debug, Serialize, JsonSchema)]
struct SecuritySchemes {
    bearer: BearerScheme,
}

/// A token of the Hub.
#[derive(Debug, Serialize, JsonSchema)]
struct BearerScheme {
    #[serde(rename = "type")]
    kind: &'static str,
    scheme: &'static str,
}

/// The scheme that is needed.
#[derive(Debug, Serialize, JsonSchema)]
struct SecurityRequirement {
    bearer: [String; 0],
}

pub(crate) async fn get(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    let documents = call.hub.effective_documents();
    if !documents.policy().features.has(Feature::A2a) {
        return Err(Problem::not_found(
            "agents have no cards here; the policy's `features.enabled` lacks `a2a`",
        ));
    }
    let record = call.tenant()?;
    let skills = scan_skills(&call.hub, record).await?;
    let skills = skills.into_iter().filter(|skill| skill.summary.enabled);
    let settings = call.hub.settings();
    let base = settings.public_url.trim_end_matches('/');
    Reply::json(&AgentCard {
        protocol_version: PROTOCOL_VERSION,
        name: record.display_name.clone(),
        description: format!("The agent of {} on this Hub.", record.display_name),
        url: format!("{base}/v1/tenants/{}/runs", record.id),
        preferred_transport: TRANSPORT,
        version: env!("CARGO_PKG_VERSION"),
        capabilities: AgentCapabilities {
            streaming: true,
            push_notifications: false,
        },
        default_input_modes: [TEXT],
        default_output_modes: [TEXT],
        skills: skills
            .map(|skill| AgentSkill {
                id: skill.summary.name.clone(),
                name: skill.summary.name,
                description: skill.summary.description,
                tags: vec![skill.category],
            })
            .collect(),
        security_schemes: SecuritySchemes {
            bearer: BearerScheme {
                kind: "http",
                scheme: SCHEME,
            },
        },
        security: [SecurityRequirement { bearer: [] }],
    })
}
