//! `/sethome`: the home channel in `.env`.

use std::io;

use hermes_config::{Home, remove_variable, write_variable};

use crate::platform::{Account, ChatAddress};

/// Makes a chat the home channel of an account. Other lines of `.env` stay as they are.
pub fn write_home_channel(home: &Home, account: &Account, chat: &ChatAddress) -> io::Result<()> {
    write_variable(home, &account.variable("HOME_CHANNEL"), &chat.id)?;
    // A name or topic of the former one would be wrong.
    for (what, value) in [
        ("HOME_CHANNEL_NAME", chat.name.as_deref()),
        ("HOME_CHANNEL_THREAD_ID", chat.thread_id.as_deref()),
    ] {
        match value {
            Some(value) => write_variable(home, &account.variable(what), value)?,
            None => remove_variable(home, &account.variable(what))?,
        }
    }
    Ok(())
}
