//! What servers ask during a call: a model's answer, a person's answer, the roots.

mod elicitation;
mod origin;
mod rounds;
mod sampling;
pub(crate) mod scripted_handler;
