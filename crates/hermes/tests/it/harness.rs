//! The program under test: in a home, on a pseudo-terminal, beside servers that others wrote.

pub(crate) mod chat_terminal;
pub(crate) mod json_server;
pub(crate) mod nasty_conversation;
pub(crate) mod program;
pub(crate) mod pty;
pub(crate) mod screen_terminal;
pub(crate) mod terminal;
pub(crate) mod test_home;
pub(crate) mod trace_receiver;
