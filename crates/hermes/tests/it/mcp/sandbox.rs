//! Local servers in a sandbox, as somebody sees them who uses the commands.

mod real_servers;
