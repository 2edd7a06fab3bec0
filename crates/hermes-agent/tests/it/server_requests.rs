//! What servers ask of the agent.

pub(crate) mod elicitation;
pub(crate) mod sampler;
