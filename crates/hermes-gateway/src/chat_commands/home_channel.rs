//! `/sethome`: the home channel in `.env`.

use std::io;

use hermes_config::{Home, remove_variable, write_variable};

use crate::platform::{Account, ChatAddress};

/// Makes a chat the home channel of an account. Other lines of `.env` stay as they are.
pub fn write_home_channel(home: &Home, account: &Account, chat: &ChatAddress) -> io::Result<()> {
    let suffix = match account.name.as_str() {
        "" => String::new(),
        name => format!("_{}", name.to_ascii_uppercase().replace('-', "_")),
    };
    let variable = |what: &str| format!("{}{suffix}", account.platform.variable(what));
    write_variable(home, &variable("HOME_CHANNEL"), &chat.id)?;
    // A name or topic of the former one would be wrong.
    for (what, value) in [
        ("HOME_CHANNEL_NAME", chat.name.as_deref()),
        ("HOME_CHANNEL_THREAD_ID", chat.thread_id.as_deref()),
    ] {
        match value {
            Some(value) => write_variable(home, &variable(what), value)?,
            None => remove_variable(home, &variable(what))?,
        }
    }
    Ok(())
}
