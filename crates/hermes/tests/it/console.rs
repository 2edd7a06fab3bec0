//! The web console of a whole Hub, in a real browser.

mod real_servers;
