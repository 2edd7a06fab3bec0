//! What an interactive chat shows and asks: text as it arrives, tool calls, the line that is typed, questions.
//!
//! The loop that uses these pieces is in `commands/chat`.

pub(crate) mod approval;
pub(crate) mod calls;
pub(crate) mod clarify;
pub(crate) mod compaction;
pub(crate) mod editor;
pub(crate) mod forms;
mod markdown;
pub(crate) mod prompt_queue;
pub(crate) mod screen;
pub(crate) mod style;
pub(crate) mod terminal;
mod todo;
pub(crate) mod truncate;
pub(crate) mod type_ahead;
mod wrap;
