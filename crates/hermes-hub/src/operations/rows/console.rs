//! Sessions in the console.

use super::super::{
    HttpMethod::{Delete, Get, Post},
    Operation,
};
use crate::service::console_sessions;

pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new(
            "create_sign_in_link",
            &[Post],
            "/v1/sign-in-links",
            console_sessions::make_link,
        )
        .docs(
            "Make a sign-in link",
            "Makes a link that signs in to the console once, within ten minutes, with the rights of your token.",
        )
        .command("hub login-link")
        .success(&[201])
        .returns::<console_sessions::SignInLink>(),
        Operation::new(
            "list_console_sessions",
            &[Get],
            "/v1/console-sessions",
            console_sessions::list,
        )
        .docs(
            "List console sessions",
            "Lists who is signed in to the console: everybody for those who manage tokens, otherwise your own sessions.",
        )
        .read_only()
        .extended_tool()
        .command("hub session list")
        .returns::<console_sessions::ConsoleSessionList>(),
        Operation::new(
            "end_console_session",
            &[Delete],
            "/v1/console-sessions/{session_id}",
            console_sessions::end,
        )
        .docs(
            "End a console session",
            "Signs a session out. Its next request is refused.",
        )
        .destructive()
        .idempotent()
        .extended_tool()
        .command("hub session end")
        .returns_nothing(),
    ]
}
