//! What an interactive chat shows and asks: text as it arrives, tool calls, the line that is typed, questions.
//!
//! The loop that uses these pieces is in `commands/chat`.

pub(crate) mod ahead;
pub(crate) mod calls;
pub(crate) mod clarify;
pub(crate) mod consent;
pub(crate) mod editor;
pub(crate) mod floor;
pub(crate) mod forms;
pub(crate) mod length;
mod markdown;
pub(crate) mod screen;
pub(crate) mod strip;
pub(crate) mod style;
pub(crate) mod terminal;
mod todo;
mod wrap;
