//! Verbs that ask something of servers: through a running process, and by a connection of their own.

mod built_in;
mod completion;
pub(crate) mod elicitation;
mod foreign_text;
mod forms;
mod near;
mod shown;
mod through_up;
mod unset;
