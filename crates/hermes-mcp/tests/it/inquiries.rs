//! What servers ask during a call: a model's answer, a person's answer, the roots.

pub(crate) mod desk;
mod elicitation;
mod origin;
mod rounds;
mod sampling;
