//! What an interactive chat shows and asks: text as it arrives, tool calls, the line that is typed, questions.
//!
//! The loop that uses these pieces is in `commands/chat`.

mod markdown;
mod strip;
mod style;
mod wrap;
